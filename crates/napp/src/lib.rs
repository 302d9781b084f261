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
//!
//! # What is what
//! - An [`App`] has an ID, listens at URLs and connects to others: [`App::builder`], [`App::connect`]. Between two Apps
//!   there is one link, whoever made it; both may call over it.
//! - An *ability* is a plain call: [`App::call`] here, [`Builder::ability`] there.
//! - An *event* is a long-running call with a stream of chunks and signals: [`App::event`] gives an [`EventCall`],
//!   [`Builder::event`] takes a handler with an [`EventContext`].
//! - Each App has a bus of named events: [`App::emit`], [`App::listen`]; others [`subscribe`](App::subscribe) to it.
//!   The protocol itself reports on the bus what happens to connections, messages and links.
//!
//! # What holds when a connection breaks
//! The link goes offline, calls and streams wait, what is sent is kept, and the side that dialled connects again. Within
//! `reconnect_grace` (120 s) everything goes on where it was, in order, and nothing runs twice; handlers do not notice.
//! After that the App is dropped: its calls end with [`CallError::PeerGone`], its handlers here are cancelled unless
//! [`detached`](Builder::detached). An App that comes back without its memory ends the calls that it had received with
//! [`CallError::PeerRestarted`], gets those that it had not, and our subscriptions are made again. [`App::link`] watches
//! all this; nobody has to.
//!
//! # What holds when something is dropped
//! Every future of this crate may be dropped at any time: that ends its own wait, tears no message and loses nothing else.
//! Dropping an [`EventCall`] aborts its handler, dropping a [`Subscription`] ends it, dropping the last [`App`] ends all.
//!
//! # Who may come in
//! Everybody, as in the base protocol, until the App says otherwise; one that listens beyond its own machine in plaintext
//! and says nothing warns of that once, when it starts. What a connection proves (a client's certificate, a token of the
//! web transport's hook) is its [`Identity`]:
//! - [`Builder::identities`] says which identity may have which App IDs;
//! - [`Builder::authorize`] asks a hook about every [`Registration`];
//! - who is refused reads why in [`ConnectError::Refused`], nothing is kept of it, and who is refused too often is refused
//!   unheard ([`Builder::refusals_max`]).
//!
//! An App ID is bound to its connection: nobody else can send in its name, but our own Gateway, which speaks for all.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let made = rcgen::generate_simple_self_signed(["localhost".into()])?;
//! # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
//! # let roots = chain.clone();
//! use nact::tls::{Certificate, Tls, TlsConfig};
//! use napp::{App, Refusal, Transports};
//! let mut transports = Transports::default();
//! transports.register(Tls::new(
//!     TlsConfig::default()
//!         .with_certificate(Certificate::from_pem(&chain, &key)?)
//!         .with_client_roots_pem(&roots)?, // who has no certificate of these does not even connect
//! ));
//! let hub = App::builder("hub")
//!     .gateway(true)
//!     .transports(transports)
//!     .listen("tls://localhost:0")?
//!     .identities([("reports.example", ["reports"]), ("billing.example", ["billing"])])
//!     .authorize(|who| match who.identity() {
//!         Some(identity) if identity.has_name("retired.example") => Err(Refusal::new("retired")),
//!         _ => Ok(()),
//!     })
//!     .start().await?;
//! # drop(hub);
//! # Ok(()) }
//! ```
//!
//! # What is bounded
//! Everything: queues (CAP-1: 1,024 messages and 4 GiB in each of two tables), unread chunks and hits, handlers at a time,
//! connections without a register, the time that a shutdown takes. [`Builder`] has the limits and their defaults.
//! What falls to a limit is told to whom it concerns, and on the bus.
//!
//! # Untyped access
//! [`Payload`] is any payload, undecoded; it may stand wherever a type of yours may. [`Value`] is any payload as a tree.
//!
//! # Watching it run
//! `tracing` has a span per connection, call and served request; [`metrics`] lists the counters.

mod admission;
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

pub use admission::{Refusal, Registration};
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
pub use nact::{Identity, Options as TransportOptions, Transports};
