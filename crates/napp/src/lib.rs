//! Apps that call each other: abilities, events with streams, and subscriptions that survive broken connections.
//!
//! ```
//! use napp::{App, EventContext};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Greeting { text: String }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = App::builder("world").listen("tcp://127.0.0.1:0")?
//!     .ability("append_world", |req: Greeting| async move { Ok(format!("{}World!", req.text)) })
//!     .event("countdown", |ctx: EventContext, from: u32| async move { for n in (1..=from).rev() { ctx.emit(&n).await?; } Ok("lift-off") })
//!     .start().await?;
//! let hello = App::builder("hello").start().await?;
//! hello.connect("world", &world.local_urls()[0]).await?;
//! let text: String = hello.call("world", "append_world", &Greeting { text: "Hello, ".into() }).await?;
//! assert_eq!(text, "Hello, World!");
//! let mut run = hello.event("world", "countdown", &3u32).await?;   // a Stream of chunks, then .response()
//! while let Some(n) = run.next_as::<u32>().await { println!("{}", n?); }
//! assert_eq!(run.response::<String>().await?, "lift-off");
//! # Ok(()) }
//! ```

mod announce;
mod app;
mod apply;
mod builder;
mod bus;
mod call;
mod context;
mod dialer;
mod driver;
mod error;
mod event;
mod feed;
mod handler;
mod link;
mod listening;
pub mod metrics;
mod peer;
mod serving;
mod shutdown;
mod subscription;
mod timer;

pub use app::App;
pub use builder::Builder;
pub use bus::{BadName, BusEvent, Listener};
pub use call::CallOptions;
pub use context::{AbilityContext, EventContext, Signals};
pub use error::{BuildError, CallError, ConnectError, EmitError, StartError};
pub use event::EventCall;
pub use handler::HandlerError;
pub use link::{AppStatus, LinkStatus, LinkWatch};
pub use serving::Signal;
pub use shutdown::Shutdown;
pub use subscription::{Hit, SubscribeOptions, Subscription};

pub use nacp::message::PayloadError;
pub use nacp::{
    AppId, Declaration, Declared, DropCause, InvalidAppId, LinkSnapshot, MessageId, OfflineCause,
    Overflow, Payload, QueueSize, Reach, SendError, SignalKind, Snapshot, Undelivered, Value,
};
pub use nact::{Options as TransportOptions, Transports};
