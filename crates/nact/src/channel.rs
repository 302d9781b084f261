//! The contract between a transport and its user: a [`Channel`] is a sender and a receiver of whole messages.
//!
//! Everything polls, nothing blocks, and all state lives in the two halves, never in a future: dropping a future that
//! was built on them loses nothing and tears no frame.
//!
//! # How a driver uses the sending half
//! 1. While [`Sender::wants_more`], pull a message from its own queue and [`push`](Sender::push) it. When only
//!    [`Sender::wants_small`] is left, pull only what is at most [`Sender::small_size_max`] bytes (acks, heartbeats).
//! 2. [`poll_send`](Sender::poll_send); report the accepted tokens. `Ready` means: go to 1. `Pending`: the transport is
//!    full. Messages that are not pushed stay where a cut cannot lose them.
//! 3. Stop when nothing is left to pull and [`Sender::is_idle`].
//!
//! # Writing a transport
//! A transport over a byte stream needs only a connection: [`stream::channel`](crate::stream::channel) makes the channel
//! of any `AsyncRead` and `AsyncWrite`. One that carries messages of its own uses [`SendQueue`](crate::SendQueue) and
//! [`Reassembly`](crate::Reassembly). Either way [`Provider`] is the door, and `tests/contract` the judge.
//!
//! ```
//! use nact::{BoxFuture, Channel, DialError, ListenError, Listener, Options, Outbound, Provider, Transports, Url, stream};
//!
//! /// Whatever is sent comes back.
//! struct Echo;
//!
//! impl Provider for Echo {
//!     fn schemes(&self) -> &[&str] {
//!         &["echo"]
//!     }
//!     fn dial<'a>(&'a self, url: &'a Url, options: &'a Options) -> BoxFuture<'a, Result<Channel, DialError>> {
//!         Box::pin(async move {
//!             let (near, far) = tokio::io::duplex(1024);
//!             let (far_read, near_write) = (tokio::io::split(far).0, tokio::io::split(near).1);
//!             Ok(stream::channel(far_read, near_write, url.to_string(), options))
//!         })
//!     }
//!     fn listen<'a>(&'a self, url: &'a Url, _: &'a Options) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
//!         let source = std::io::Error::other("an echo cannot be listened for");
//!         Box::pin(async move { Err(ListenError::Io { url: url.to_string(), source }) })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut transports = Transports::default();
//! transports.register(Echo);
//! let mut channel = transports.dial("echo://anywhere").await?;
//! channel.sender.push(Outbound { token: 1, head: "hello ".into(), body: "there".into() });
//! assert_eq!(channel.sender.flush().await?, [1]);
//! let mut messages = Vec::new();
//! channel.receiver.receive(&mut messages).await?;
//! assert_eq!(messages, ["hello there"]);
//! # Ok(()) }
//! ```

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use crate::error::{AcceptError, DialError, ListenError, ReceiveError, SendError};
use crate::identity::Identity;
use crate::options::Options;
use crate::url::Url;

/// A future that owns its place and may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One message to send. On the wire its bytes are `head ++ body`; two segments, so that a large body that the caller
/// shares is never copied to put something before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// Names the message when it is accepted; the caller's own choice.
    pub token: u64,
    /// First bytes of the message.
    pub head: Bytes,
    /// The rest of the message.
    pub body: Bytes,
}

impl Outbound {
    /// Bytes of the whole message.
    pub fn size(&self) -> usize {
        self.head.len().saturating_add(self.body.len())
    }
}

/// The sending half of a channel.
///
/// After the first error every further poll gives [`SendError::Closed`]. Dropping a sender drops what was not written
/// and ends the channel's outgoing direction.
pub trait Sender: Send {
    /// Takes a message into the send window; [`poll_send`](Sender::poll_send) writes its frames. Never blocks, never
    /// fails: after an error the message is dropped, and a message over `message_size_max` shows as the error of the
    /// next poll.
    fn push(&mut self, message: Outbound);

    /// True while the driver should pull more: there is room for a message of any size. Memory for messages that a
    /// stalled transport does not take is bounded because a driver pushes only then.
    fn wants_more(&self) -> bool;

    /// True while there is room for small messages (at most [`small_size_max`](Sender::small_size_max) bytes), though
    /// perhaps not for another large one: acks can pass while large messages crowd the channel. Implied by
    /// `wants_more`.
    fn wants_small(&self) -> bool {
        self.wants_more()
    }

    /// Bytes of a message at most that travels in one frame and may pass the chunks of larger ones.
    fn small_size_max(&self) -> usize;

    /// True when every pushed message was taken by the transport to its last byte, and nothing waits to be flushed.
    fn is_idle(&self) -> bool;

    /// Writes what it can, about one gathered write per call, and appends the tokens of the messages whose last byte
    /// the transport took. `Ready(Ok)` after progress or when idle, so call again until [`is_idle`](Sender::is_idle);
    /// `Pending` when the transport is full: the task is woken when it is not. Tokens are appended in every case.
    ///
    /// Cancel safe: all state is in `self`.
    ///
    /// # Errors
    /// The channel is over. Tokens not given out belong to messages that may or may not have arrived.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>>;

    /// Writes what was pushed, appending accepted tokens, then ends the channel's outgoing direction in an orderly way.
    /// `Ready(Ok)` when done, and again ever after.
    ///
    /// Cancel safe: all state is in `self`.
    ///
    /// # Errors
    /// As [`poll_send`](Sender::poll_send).
    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>>;
}

impl dyn Sender + '_ {
    /// Writes everything that was pushed; returns the tokens accepted meanwhile, in order of acceptance.
    ///
    /// Not for a driver that must know every token: when dropped midway, nothing is torn or lost on the wire, but the
    /// tokens of messages accepted meanwhile are not told.
    ///
    /// # Errors
    /// As [`Sender::poll_send`].
    pub async fn flush(&mut self) -> Result<Vec<u64>, SendError> {
        let mut accepted = Vec::new();
        while !self.is_idle() {
            poll_fn(|cx| self.poll_send(cx, &mut accepted)).await?;
        }
        Ok(accepted)
    }

    /// [`Sender::poll_close`] as a future. As cancel safe as `flush`.
    ///
    /// # Errors
    /// As [`Sender::poll_close`].
    pub async fn close(&mut self) -> Result<Vec<u64>, SendError> {
        let mut accepted = Vec::new();
        poll_fn(|cx| self.poll_close(cx, &mut accepted)).await?;
        Ok(accepted)
    }
}

/// The receiving half of a channel.
///
/// Needs a tokio runtime with time enabled: an unfinished message has a deadline. Dropping a receiver throws away what
/// it holds; no state survives into another channel.
pub trait Receiver: Send {
    /// Appends the complete messages that are already here, in the order in which they were completed; waits only if
    /// there is none. The work of one call is bounded, so that one busy remote does not starve others.
    ///
    /// Cancel safe: all state is in `self`, and messages are appended only together with `Ready(Ok)`.
    ///
    /// # Errors
    /// The channel is over: [`ReceiveError::Closed`] after an orderly end, another error once and `Closed` ever after.
    /// Messages that were complete before the failure are always given out first.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>>;

    /// Bytes that have come in so far, parts of unfinished messages included. A driver that sees it grow while no
    /// message is completed knows that the remote lives. 0 for ever where a transport does not count.
    fn bytes_received(&self) -> u64 {
        0
    }
}

impl dyn Receiver + '_ {
    /// [`Receiver::poll_receive`] as a future. Cancel safe.
    ///
    /// # Errors
    /// As [`Receiver::poll_receive`].
    pub async fn receive(&mut self, messages: &mut Vec<Bytes>) -> Result<(), ReceiveError> {
        poll_fn(|cx| self.poll_receive(cx, messages)).await
    }
}

/// A connection that moves whole messages both ways. The halves may live in different tasks.
///
/// Dropping a channel is a cut: the remote may lose what it has not read yet. To end in order, close the sender and
/// receive until [`ReceiveError::Closed`].
#[non_exhaustive]
pub struct Channel {
    /// Sends.
    pub sender: Box<dyn Sender>,
    /// Receives.
    pub receiver: Box<dyn Receiver>,
    /// Describes the remote for people: an address, a path, a name. Nothing to compare or parse; never a credential.
    pub remote: String,
    /// The remote's address, where the transport has one; always so on the accepting side of a network transport, for
    /// whoever counts or limits. Behind a proxy, the proxy's.
    pub address: Option<SocketAddr>,
    /// Who the remote proved to be: by its verified certificate, or to the authorisation hook. For whoever binds remotes
    /// to what they may do. On the dialling side `None`: the name that was dialled is what the server proved.
    pub identity: Option<Identity>,
}

impl Channel {
    /// A channel of its two halves.
    pub fn new(
        sender: Box<dyn Sender>,
        receiver: Box<dyn Receiver>,
        remote: impl Into<String>,
    ) -> Self {
        Self {
            sender,
            receiver,
            remote: remote.into(),
            address: None,
            identity: None,
        }
    }

    /// The same channel with another address.
    pub fn with_address(mut self, address: Option<SocketAddr>) -> Self {
        self.address = address;
        self
    }

    /// The same channel with another identity.
    pub fn with_identity(mut self, identity: Option<Identity>) -> Self {
        self.identity = identity;
        self
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("remote", &self.remote)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

/// Accepts channels at one address until dropped.
pub trait Listener: Send {
    /// Waits for the next channel, handshakes included. A connection that fails on the way is logged and skipped; a
    /// shortage (no file descriptors left) is waited out.
    ///
    /// Cancel safe: all state is in `self`.
    ///
    /// # Errors
    /// The listener is over.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>>;

    /// Where it listens, as a URL that can be dialled: port 0 has become the real port.
    fn local_url(&self) -> Url;
}

impl dyn Listener + '_ {
    /// [`Listener::poll_accept`] as a future. Cancel safe.
    ///
    /// # Errors
    /// As [`Listener::poll_accept`].
    pub async fn accept(&mut self) -> Result<Channel, AcceptError> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }
}

impl fmt::Debug for dyn Listener + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.local_url())
    }
}

/// A transport: makes channels for the URLs of its schemes. Configuration beyond [`Options`] (certificates, paths,
/// hooks) belongs in the provider value itself.
pub trait Provider: Send + Sync {
    /// The schemes it serves, in lower case, without the colon.
    fn schemes(&self) -> &[&str];

    /// Connects, handshakes included, within `connect_timeout`. Dropping the future gives the attempt up.
    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>>;

    /// Starts to listen. When the future is done, dialling works.
    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>>;

    /// True when this provider lets in only those whom a hook or a certificate vouches for. By default false.
    fn authorises(&self) -> bool {
        false
    }
}
