//! Event calls: a stream of chunks, signals, and a response. What this module keeps true: every chunk that was delivered
//! before the response is seen before it (SUB-3); a plain stream that is not read loses its oldest chunks and says so,
//! a lossless one makes its writer wait; letting a call go tells its handler to stop, unless it is detached.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use nacp::message::PayloadError;
use nacp::{AppId, CallId, MessageId, Payload, SignalKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{Asking, Ended};
use crate::driver::{Shared, Waiting};
use crate::error::CallError;
use crate::feed::Feed;
use crate::handler::{decode, encode_payload};

/// How many windows of ours a lossless writer may be ahead: its own window may be larger than ours.
const WINDOWS_MAX: usize = 4;

/// What the driver and the reader of an event call share.
#[derive(Debug)]
pub(crate) struct StreamCell {
    pub(crate) app: AppId,
    pub(crate) id: MessageId,
    chunks: Feed<(Payload, bool), Ended>,
    lossless_max: usize,
}

impl StreamCell {
    /// Gives how many chunks were lost so far, if one was lost now.
    pub(crate) fn push(&self, chunk: Payload) -> Option<u64> {
        self.chunks.push_or_drop_oldest((chunk, false))
    }

    /// False when the writer does not keep to its window.
    pub(crate) fn push_reliable(&self, chunk: Payload) -> bool {
        self.chunks.push_within((chunk, true), self.lossless_max)
    }

    pub(crate) fn end(&self, ended: Ended) {
        self.chunks.end(ended);
    }
}

/// An event call: a `Stream` of its chunks, then its [`response`](Self::response).
///
/// A plain stream holds at most `queue_count_max` unread chunks: beyond that the oldest go, counted by
/// [`dropped`](Self::dropped) and announced as `napp:internal:notify:warning`. A lossless one (between two Apps that
/// both know how, MSG-11) never loses any: its writer waits.
///
/// Dropping it before its response sends `abort` to the handler; [`detach`](Self::detach) lets it run.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, EventContext};
/// let world = App::builder("world").listen("mem://event-call")?
///     .event("countdown", |ctx: EventContext, from: u32| async move {
///         for n in (1..=from).rev() { ctx.emit(&n).await?; }
///         Ok("lift-off")
///     })
///     .start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://event-call").await?;
/// let mut run = hello.event("world", "countdown", &3u32).await?;
/// let mut seen = Vec::new();
/// while let Some(chunk) = run.next_as::<u32>().await { seen.push(chunk?); }
/// assert_eq!((seen, run.response::<String>().await?.as_str()), (vec![3, 2, 1], "lift-off"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct EventCall {
    shared: Arc<Shared>,
    cell: Arc<StreamCell>,
    call: CallId,
    taken: u64,
    told: u64,
    /// The handler was told to stop, or is let go.
    is_left: bool,
}

impl Shared {
    pub(crate) async fn event(
        self: &Arc<Self>,
        asking: Asking<'_>,
    ) -> Result<EventCall, CallError> {
        let (app, slot) = (AppId::new(asking.to)?, OnceLock::new());
        let window = usize::try_from(self.settings.stream_window).unwrap_or(usize::MAX);
        let make = |id: &MessageId| {
            Arc::new(StreamCell {
                app: app.clone(),
                id: id.clone(),
                chunks: Feed::new(self.settings.queue_count_max),
                lossless_max: window.max(1).saturating_mul(WINDOWS_MAX),
            })
        };
        let call = self
            .ask(&asking, |visit, call| {
                let nacp = &visit.state.nacp;
                let cell = slot.get_or_init(|| match nacp.call_message_id(call) {
                    Some(id) => make(id),
                    // An overflowing Backlog has taken it already; then its end is on the way.
                    None => make(&MessageId::from("")),
                });
                Waiting::Stream(Arc::clone(cell))
            })
            .await?;
        let cell = slot.into_inner().expect("made with the request");
        Ok(EventCall {
            shared: Arc::clone(self),
            cell,
            call,
            taken: 0,
            told: 0,
            is_left: false,
        })
    }
}

impl EventCall {
    /// The request's message id: under it the stream and the signals go.
    pub fn id(&self) -> &MessageId {
        &self.cell.id
    }

    /// The App that was asked.
    pub fn app(&self) -> &AppId {
        &self.cell.app
    }

    /// The next chunk; `None` when the response, or whatever else ended the call, is next. Cancel safe.
    pub async fn next(&mut self) -> Option<Payload> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// As [`next`](Self::next), as a type. A chunk that is not of that type is an error and does not end the stream.
    pub async fn next_as<T: DeserializeOwned + 'static>(
        &mut self,
    ) -> Option<Result<T, PayloadError>> {
        Some(decode(self.next().await?))
    }

    /// Waits for the response; chunks that were not read are thrown away, so that the handler is never held up.
    ///
    /// Cancel safe, and may be asked again.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn response<R: DeserializeOwned + 'static>(&mut self) -> Result<R, CallError> {
        let payload = poll_fn(|cx| self.poll_end(cx)).await.result()?;
        decode(payload).map_err(CallError::Decode)
    }

    /// How many chunks were lost because nobody read them in time.
    pub fn dropped(&self) -> u64 {
        self.cell.chunks.dropped()
    }

    /// Sends the application's own signal. Resolves when the remote has it: true; false if it never will, because the
    /// App was dropped. Sent at the first poll; dropping the future after that takes nothing back.
    ///
    /// # Errors
    /// [`CallError::Send`] with [`SendError::Gone`](nacp::SendError::Gone) when the call has ended.
    pub async fn signal<T: Serialize + ?Sized>(&self, payload: &T) -> Result<bool, CallError> {
        let payload = encode_payload(payload).map_err(CallError::Encode)?;
        self.send(SignalKind::Normal, Some(&payload)).await
    }

    /// Holds the handler at its next chunk or checkpoint, unless it reads signals itself. Resolves and fails as
    /// [`signal`](Self::signal) does.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub async fn pause(&self) -> Result<bool, CallError> {
        self.send(SignalKind::Pause, None).await
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub async fn resume(&self) -> Result<bool, CallError> {
        self.send(SignalKind::Resume, None).await
    }

    /// Stops the handler, unless it reads signals itself: the response will be not ok `aborted`.
    ///
    /// # Errors
    /// As [`signal`](Self::signal).
    pub async fn abort(&self) -> Result<bool, CallError> {
        self.send(SignalKind::Abort, None).await
    }

    /// Lets the handler run on without a reader: its chunks and its response are thrown away.
    pub fn detach(mut self) {
        self.is_left = true;
        let taken = self.taken;
        self.shared.visit(|visit| {
            let Some(waiting) = visit.state.calls.get_mut(&self.call.as_u64()) else {
                return;
            };
            let mut skipped = 0;
            let _ = self.cell.chunks.poll_end(
                &mut Context::from_waker(std::task::Waker::noop()),
                &mut skipped,
            );
            let taken = taken + skipped;
            *waiting = Waiting::Detached { taken };
            visit.nacp().taken(self.call, taken);
        });
    }

    async fn send(&self, kind: SignalKind, payload: Option<&Payload>) -> Result<bool, CallError> {
        let call = self.call;
        self.shared
            .signal(|visit| {
                let now = visit.now;
                visit.nacp().signal(now, call, kind, payload)
            })
            .await
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Payload>> {
        let Some((chunk, reliable)) = ready!(self.cell.chunks.poll_next(cx)) else {
            return Poll::Ready(None);
        };
        if reliable {
            self.count_taken(1);
        }
        Poll::Ready(Some(chunk))
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let mut skipped = 0;
        let end = self.cell.chunks.poll_end(cx, &mut skipped);
        self.count_taken(skipped);
        end
    }

    /// The writer of a lossless stream learns in steps how far its reader is, and when nothing is left; more often would
    /// cost a visit per chunk.
    fn count_taken(&mut self, count: u64) {
        self.taken += count;
        let step = (self.shared.settings.stream_window / 4).max(1);
        let behind = self.taken - self.told;
        if behind >= step || (behind > 0 && self.cell.chunks.is_empty()) {
            self.told = self.taken;
            let (call, taken) = (self.call, self.taken);
            self.shared.visit(|visit| visit.nacp().taken(call, taken));
        }
    }
}

impl Stream for EventCall {
    type Item = Payload;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Payload>> {
        self.poll_chunk(cx)
    }
}

impl Drop for EventCall {
    fn drop(&mut self) {
        if self.is_left || self.cell.chunks.ended().is_some() {
            return;
        }
        let call = self.call;
        self.shared.visit(|visit| {
            visit.state.calls.remove(&call.as_u64());
            let now = visit.now;
            // A request that has not left is simply taken back.
            if !visit.nacp().is_queued(call) {
                // It may have ended just now; then there is nobody to stop.
                let _ = visit.nacp().signal(now, call, SignalKind::Abort, None);
            }
            visit.nacp().cancel(now, call);
        });
    }
}
