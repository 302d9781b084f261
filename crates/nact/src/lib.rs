//! NACT: whole messages over a physical connection.
//!
//! This crate moves opaque bytes and knows nothing of what they mean. A [`Channel`] is a [`Sender`] and a [`Receiver`]
//! of messages of 0 to 4 GiB; [`Transports`] makes channels by URL. The contract, and how to write a transport of your
//! own, is in [`channel`].
//!
//! What holds on every transport:
//! - A message arrives whole or not at all, once, and in push order among small ones; a large one never holds up small
//!   ones that come later ([`SendQueue`]).
//! - A message is *accepted* when the transport took its last byte, not when it was pushed.
//! - A transport that does not take more shows it ([`Sender::wants_more`]); nothing is buffered without a bound.
//! - Dropping any future loses nothing and tears no frame. A dropped channel leaves no state for the next one.
//! - What the remote claims allocates nothing, and what it does wrong has a name ([`FrameError`]).

mod accept_pause;
mod error;
mod identity;
mod options;
mod reassembly;
mod reassembly_timer;
mod refusal_limit;
mod send_queue;
mod transports;
mod url;
mod write_batch;

pub mod channel;
pub mod frame;
pub mod memory;
pub mod stream;
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(unix)]
pub mod unix;
#[cfg(feature = "web")]
pub mod web;
#[cfg(feature = "web")]
pub mod websocket;

pub use channel::{BoxFuture, Channel, Listener, Outbound, Provider, Receiver, Sender};
pub use error::{AcceptError, DialError, ListenError, ReceiveError, SendError, TransportFailure};
pub use frame::FrameError;
pub use identity::Identity;
pub use options::Options;
pub use reassembly::Reassembly;
pub use reassembly_timer::ReassemblyTimer;
pub use refusal_limit::{Origin, RefusalLimit};
pub use send_queue::{Piece, SendQueue};
pub use transports::Transports;
pub use url::{Url, UrlError};
