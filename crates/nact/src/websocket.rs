//! A channel over an established WebSocket connection: one binary message is one NACT frame (RFC 6455, no extensions).
//!
//! What it keeps true:
//! - Frames leave whole; pongs and the close frame leave between them, whoever drives the channel.
//! - A payload is read straight to where its message is put together; a header's claim allocates nothing.
//! - At most one pong waits to be sent: a flood of pings makes no flood of memory.
//! - Every way to break the protocol ends the channel with a close frame that says so, then with its reason: a text
//!   message `non-binary-frame`, a message that is not one frame `frame-size-mismatch`, a breach of RFC 6455
//!   `websocket-protocol-error`.
//! - The farewell is mutual: a close frame of either side ends both directions. A connection that ends without one is a
//!   cut.

mod mask;
mod read;
mod write;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::time::{Sleep, sleep};
use tungstenite::protocol::frame::coding::CloseCode;

use crate::channel::{Channel, Outbound, Receiver, Sender};
use crate::error::{ReceiveError, SendError};
use crate::frame::FrameError;
use crate::options::Options;
use crate::send_queue::SendQueue;
use crate::stream::StreamReceiver;
use read::FrameRead;
use write::Shared;

/// How long the last frame (a close frame) may take to leave. Then the channel ends without.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Which side of the WebSocket connection this is. A client masks what it sends, a server does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that asked for the upgrade.
    Client,
    /// The side that answered.
    Server,
}

/// A channel over a connection whose WebSocket handshake is done. `remote` describes the other side for people.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nact::{Options, Outbound, ReceiveError, websocket::{self, Role}};
/// let (here, there) = tokio::io::duplex(4096);
/// let mut here = websocket::channel(here, Role::Client, "there", &Options::default());
/// let mut there = websocket::channel(there, Role::Server, "here", &Options::default());
///
/// here.sender.push(Outbound { token: 7, body: "hello".into(), ..Outbound::default() });
/// assert_eq!(here.sender.close().await?, [7]);
/// let mut messages = Vec::new();
/// there.receiver.receive(&mut messages).await?;
/// assert_eq!(messages, ["hello"]);
/// assert!(matches!(there.receiver.receive(&mut messages).await, Err(ReceiveError::Closed)));
/// assert!(matches!(here.receiver.receive(&mut messages).await, Err(ReceiveError::Closed)));
/// # Ok(()) }
/// ```
pub fn channel<S>(io: S, role: Role, remote: impl Into<String>, options: &Options) -> Channel
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (read, write) = split(io);
    let shared = Arc::new(Shared::new(write, role, options));
    let sender = WebSocketSender {
        queue: SendQueue::new(options),
        shared: Arc::clone(&shared),
        state: SendState::Open,
    };
    let read = FrameRead::new(read, Arc::clone(&shared), role, options.frame_size_max);
    let receiver = WebSocketReceiver {
        inner: StreamReceiver::new(read, options),
        shared,
        ending: None,
    };
    Channel::new(Box::new(sender), Box::new(receiver), remote)
}

#[derive(Clone, Copy, PartialEq)]
enum SendState {
    Open,
    Closed,
    Failed,
}

struct WebSocketSender<S> {
    queue: SendQueue,
    shared: Arc<Shared<WriteHalf<S>>>,
    state: SendState,
}

impl<S: AsyncWrite> WebSocketSender<S> {
    fn fail(&mut self, error: SendError) -> SendError {
        self.state = SendState::Failed;
        self.queue.clear();
        self.shared.abandon();
        error
    }
}

impl<S: AsyncWrite + Send> Sender for WebSocketSender<S> {
    fn push(&mut self, message: Outbound) {
        if self.state == SendState::Open {
            self.queue.push(message);
        }
    }

    fn wants_more(&self) -> bool {
        self.state == SendState::Open && self.queue.wants_more()
    }

    fn wants_small(&self) -> bool {
        self.state == SendState::Open && self.queue.wants_small()
    }

    fn small_size_max(&self) -> usize {
        self.queue.small_size_max()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.queue.check().is_ok() && self.shared.is_idle()
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        if self.state != SendState::Open {
            return Poll::Ready(Err(SendError::Closed));
        }
        if let Err(error) = self.queue.check() {
            return Poll::Ready(Err(self.fail(error)));
        }
        self.shared
            .poll_send(cx, &mut self.queue, accepted)
            .map_err(|error| self.fail(error))
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        match self.state {
            SendState::Closed => return Poll::Ready(Ok(())),
            SendState::Failed => return Poll::Ready(Err(SendError::Closed)),
            SendState::Open => {}
        }
        while !self.is_idle() {
            ready!(self.poll_send(cx, accepted))?;
        }
        match ready!(self.shared.poll_close(cx)) {
            Ok(()) => self.state = SendState::Closed,
            Err(error) => return Poll::Ready(Err(self.fail(error))),
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Drop for WebSocketSender<S> {
    fn drop(&mut self) {
        if self.state == SendState::Open {
            self.shared.abandon();
        }
    }
}

struct WebSocketReceiver<S> {
    inner: StreamReceiver<FrameRead<ReadHalf<S>, WriteHalf<S>>>,
    shared: Arc<Shared<WriteHalf<S>>>,
    /// What is reported when the close frame has left or had its time.
    ending: Option<(ReceiveError, Pin<Box<Sleep>>)>,
}

/// What the close frame says to a remote that broke the rules.
fn close_code(error: &ReceiveError) -> CloseCode {
    match error {
        ReceiveError::Frame(FrameError::NonBinary) => CloseCode::Unsupported,
        ReceiveError::Frame(FrameError::TooLarge | FrameError::MessageTooLarge) => CloseCode::Size,
        ReceiveError::Frame(FrameError::ReassemblyOverflow | FrameError::ReassemblyTimeout) => {
            CloseCode::Policy
        }
        ReceiveError::Transport(_) | ReceiveError::Frame(_) => CloseCode::Protocol,
        _ => CloseCode::Normal,
    }
}

impl<S: AsyncRead + AsyncWrite + Send> Receiver for WebSocketReceiver<S> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        if self.ending.is_none() {
            match self.inner.poll_receive(cx, messages) {
                Poll::Ready(Err(error))
                    if error.is_violation() || matches!(error, ReceiveError::Closed) =>
                {
                    self.shared.start_close(close_code(&error));
                    self.ending = Some((error, Box::pin(sleep(FAREWELL_TIMEOUT))));
                }
                other => {
                    // Pending or done is the same here: its waker is registered.
                    let _ = self.shared.poll_control(cx);
                    return other;
                }
            }
        }
        if let Some((_, sleep)) = &mut self.ending
            && self.shared.poll_control(cx).is_pending()
        {
            ready!(sleep.as_mut().poll(cx));
        }
        let ending = self.ending.take();
        Poll::Ready(Err(ending.map_or(ReceiveError::Closed, |(error, _)| error)))
    }

    fn bytes_received(&self) -> u64 {
        self.inner.bytes_received()
    }
}
