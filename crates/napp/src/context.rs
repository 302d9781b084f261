//! What a handler knows of the request that it serves, and how it streams. What this module keeps true: a chunk is sent
//! whole or not at all, whatever future is dropped; a paused handler holds at its next chunk or checkpoint; a lossless
//! stream waits for its reader.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use nacp::{AppId, MessageId, Payload, SendError};
use serde::Serialize;

use crate::app::App;
use crate::error::EmitError;
use crate::handler::encode_payload;
use crate::serving::{ServingCell, Signal};

/// What an ability handler may ask about its request; see [`Builder::ability_with`](crate::Builder::ability_with).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{AbilityContext, App};
/// let world = App::builder("world").listen("mem://ability-context")?
///     .ability_with("who", |ctx: AbilityContext, (): ()| async move { Ok(ctx.from().to_string()) })
///     .start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://ability-context").await?;
/// assert_eq!(hello.call::<_, String>("world", "who", &()).await?, "hello");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct AbilityContext {
    cell: Arc<ServingCell>,
}

impl AbilityContext {
    pub(crate) fn new(cell: Arc<ServingCell>) -> Self {
        Self { cell }
    }

    /// Who asks.
    pub fn from(&self) -> &AppId {
        &self.cell.from
    }

    /// The request's message id.
    pub fn id(&self) -> &MessageId {
        &self.cell.id
    }

    /// The App that serves, for calls of its own; `None` when it is being dropped. A handler that holds it for ever
    /// keeps it from being dropped.
    pub fn app(&self) -> Option<App> {
        App::of(&self.cell.shared)
    }
}

/// An event handler's end of its stream; see [`Builder::event`](crate::Builder::event). Clones are the same stream.
///
/// Unless the handler takes the [`signals`](Self::signals) itself, `abort` cancels its future and answers not ok
/// `aborted`; `pause` holds it at its next [`emit`](Self::emit) or [`checkpoint`](Self::checkpoint) until `resume`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, CallError, EventContext};
/// let world = App::builder("world").listen("mem://event-context")?
///     .event("tick", |ctx: EventContext, (): ()| async move {
///         for n in 0u32.. {
///             ctx.emit(&n).await?;
///             tokio::time::sleep(std::time::Duration::from_millis(1)).await;
///         }
///         Ok(())
///     })
///     .start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://event-context").await?;
/// let mut ticks = hello.event("world", "tick", &()).await?;
/// assert_eq!(ticks.next_as::<u32>().await.unwrap()?, 0);
/// ticks.abort().await?;
/// assert!(matches!(ticks.response::<()>().await, Err(CallError::NotOk { why, .. }) if why == "aborted"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct EventContext {
    cell: Arc<ServingCell>,
}

impl EventContext {
    pub(crate) fn new(cell: Arc<ServingCell>) -> Self {
        Self { cell }
    }

    /// Who asks.
    pub fn from(&self) -> &AppId {
        &self.cell.from
    }

    /// The request's message id.
    pub fn id(&self) -> &MessageId {
        &self.cell.id
    }

    /// Whether the stream is lossless (MSG-11): both Apps know how.
    pub fn is_lossless(&self) -> bool {
        self.cell.lossless
    }

    /// The App that serves, for calls of its own; `None` when it is being dropped.
    pub fn app(&self) -> Option<App> {
        App::of(&self.cell.shared)
    }

    /// Sends a chunk. On a lossless stream it waits until the reader has room, and gives true: the chunk will arrive.
    /// On a plain one it never waits: true = queued, false = refused because the Backlog is full (CAP-2).
    ///
    /// While the handler is paused it waits. Cancel safe: a dropped future has sent the chunk or has not.
    ///
    /// # Errors
    /// [`EmitError::Gone`] when nobody waits for the stream any more; `?` ends the handler then.
    pub async fn emit<T: Serialize + ?Sized>(&self, chunk: &T) -> Result<bool, EmitError> {
        self.emit_payload(&encode_payload(chunk)?).await
    }

    /// As [`emit`](Self::emit), of what is encoded already.
    ///
    /// # Errors
    /// As [`emit`](Self::emit).
    pub async fn emit_payload(&self, chunk: &Payload) -> Result<bool, EmitError> {
        self.checkpoint().await;
        // A loop that only emits must let the connection's task run.
        tokio::task::coop::consume_budget().await;
        match self.try_emit(chunk) {
            Some(result) => result,
            None => self.cell.until_writable(|| self.try_emit(chunk)).await,
        }
    }

    /// `None` = no room.
    fn try_emit(&self, chunk: &Payload) -> Option<Result<bool, EmitError>> {
        let cell = &self.cell;
        cell.shared.visit(|visit| {
            let now = visit.now;
            let sent = visit.nacp().emit(now, cell.serving, chunk, false);
            if sent == Err(SendError::Full) {
                return None;
            }
            visit.announce_chunk(cell, chunk);
            Some(match sent {
                Ok(_) => Ok(true),
                Err(SendError::NotifyRefused) => Ok(false),
                Err(error) => Err(error.into()),
            })
        })
    }

    /// Holds while the handler is paused. Cancel safe.
    pub async fn checkpoint(&self) {
        if !self.cell.is_paused() {
            return;
        }
        let mut resumed = pin!(self.cell.resumed.notified());
        loop {
            resumed.as_mut().enable();
            if !self.cell.is_paused() {
                return;
            }
            resumed.as_mut().await;
            resumed.set(self.cell.resumed.notified());
        }
    }

    /// The signals for this handler, those that came already included. From here on it acts on them itself: `pause`,
    /// `resume` and `abort` do nothing by themselves until the stream is dropped.
    pub fn signals(&self) -> Signals {
        self.cell.take_signals(true);
        Signals {
            cell: Arc::clone(&self.cell),
        }
    }
}

/// The signals for a running event handler: a `Stream`, bounded to the last 256 unread ones. Ends with the request.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, EventContext};
/// let world = App::builder("world").listen("mem://signals")?
///     .event("adder", |ctx: EventContext, (): ()| async move {
///         let (mut signals, mut sum) = (ctx.signals(), 0);
///         while let Some(signal) = signals.next().await {
///             match signal.kind {
///                 napp::SignalKind::Normal => sum += signal.payload.decode::<u32>()?,
///                 _ => break,
///             }
///         }
///         Ok(sum)
///     })
///     .start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://signals").await?;
/// let mut adder = hello.event("world", "adder", &()).await?;
/// for n in [1u32, 2, 3] { adder.signal(&n).await?; }
/// adder.abort().await?;
/// assert_eq!(adder.response::<u32>().await?, 6);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Signals {
    cell: Arc<ServingCell>,
}

impl Signals {
    /// The next signal. Cancel safe.
    pub async fn next(&mut self) -> Option<Signal> {
        std::future::poll_fn(|cx| self.cell.signals.poll_next(cx)).await
    }
}

impl Stream for Signals {
    type Item = Signal;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Signal>> {
        self.cell.signals.poll_next(cx)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.cell.take_signals(false);
    }
}
