//! A network that fails on command: a [`Proxy`] in front of a TCP or Unix socket, for tests and demonstrations.
//!
//! What this crate keeps true: it never changes or reorders a byte that it passes on; what it takes away, it takes away
//! where it was told to, and counts, so that a test waits for what happens and not for time to pass.
//!
//! | what fails | how |
//! |---|---|
//! | everything, now or at a byte | [`Proxy::cut`], [`Proxy::cut_after`] |
//! | nothing passes, nobody is told | [`Condition::BlackHole`] |
//! | bytes are late, slow, in small pieces | [`Condition::Late`], [`Condition::Slow`], [`Condition::Split`] |
//! | a frame is lost, or torn in its middle | [`Proxy::judge`], a [`Fate`] for each [`Frame`] |
//!
//! Each direction has its own [`Condition`]. The first three rows work on bytes and know nothing of what passes; frames
//! can be judged where the bytes are NACT frames: TCP and Unix sockets without TLS.
//!
//! ```
//! use nact_rig::{Condition, Direction, Fate, Place, Proxy};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let server = TcpListener::bind(("127.0.0.1", 0)).await?;
//! let proxy = Proxy::start(server.local_addr()?).await?;
//! let Place::Tcp(address) = proxy.local() else {
//!     unreachable!("it was started on TCP")
//! };
//! let mut client = TcpStream::connect(address).await?;
//! let (mut accepted, _) = server.accept().await?;
//!
//! // What is sent now waits in the proxy.
//! proxy.set(Direction::ToTarget, Condition::BlackHole);
//! client.write_all(b"hello").await?;
//! proxy.until(Direction::ToTarget, |progress| progress.held == 5).await;
//!
//! // It goes on, but only as far as the third byte; there everything is reset.
//! proxy.cut_after(Direction::ToTarget, 3);
//! proxy.set(Direction::ToTarget, Condition::Open);
//! proxy.cuts(1).await;
//! assert_eq!(proxy.progress(Direction::ToTarget).forwarded, 3);
//! assert!(client.read(&mut [0; 8]).await.is_err());
//!
//! // Of the connections that come now, no message of more than a thousand bytes arrives.
//! proxy.judge(Direction::ToTarget, |frame| {
//!     if frame.header.total > 1_000 { Fate::Lost } else { Fate::Passes }
//! });
//! # drop(accepted);
//! # Ok(())
//! # }
//! ```

mod frames;
mod proxy;
mod socket;

pub use frames::{Fate, Frame};
pub use proxy::{Condition, Direction, Progress, Proxy};
pub use socket::Place;
