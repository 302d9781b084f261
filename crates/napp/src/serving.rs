//! Requests that are being served. What this module keeps true: every request that reached a handler is answered once,
//! unless nobody waits any more; a handler that panics harms nobody (B59); losing the link never cancels one (WAIT-7);
//! handlers of one peer start in the order of arrival.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nacp::{Answer, AppId, MessageId, Payload, RequestKind, SendError, ServingId, SignalKind};
use nact::BoxFuture;
use tokio::sync::Notify;

use crate::driver::{Acts, Shared, Visit};
use crate::feed::{Feed, register};
use crate::handler::{Registered, Reply};

/// Signals that nobody has read yet; beyond that the oldest go.
const SIGNALS_MAX: usize = 256;

/// A signal that came for a running event handler.
///
/// For an example see [`Signals`](crate::Signals).
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Who sent it.
    pub from: AppId,
    /// What it says.
    pub kind: SignalKind,
    /// With [`SignalKind::Normal`] only; else empty.
    pub payload: Payload,
}

/// Why a handler must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancel {
    /// The requester said so and waits for the answer.
    Aborted,
    /// Nobody waits any more.
    Gone,
}

/// What the driver, the handler's task and the handler's context share.
#[derive(Debug)]
pub(crate) struct ServingCell {
    pub(crate) shared: Arc<Shared>,
    pub(crate) serving: ServingId,
    pub(crate) from: AppId,
    pub(crate) id: MessageId,
    pub(crate) kind: RequestKind,
    pub(crate) name: String,
    pub(crate) lossless: bool,
    detached: bool,
    steering: Mutex<Steering>,
    pub(crate) signals: Feed<Signal, ()>,
    pub(crate) resumed: Notify,
    pub(crate) writable: Notify,
    span: tracing::Span,
}

#[derive(Debug, Default)]
struct Steering {
    paused: bool,
    /// The handler reads the signals itself.
    takes_signals: bool,
    cancel: Option<Cancel>,
    task: Option<Waker>,
}

/// A request whose handler is to be started once the lock is free.
pub(crate) struct Start {
    pub(crate) cell: Arc<ServingCell>,
    pub(crate) handler: Arc<Registered>,
    pub(crate) payload: Payload,
}

/// What came in with a request, beside its payload.
pub(crate) struct Arrival {
    pub(crate) serving: ServingId,
    pub(crate) from: AppId,
    pub(crate) id: MessageId,
    pub(crate) kind: RequestKind,
    pub(crate) name: String,
    pub(crate) lossless: bool,
}

impl ServingCell {
    pub(crate) fn new(shared: Arc<Shared>, arrival: Arrival, detached: bool) -> Self {
        let span = tracing::debug_span!(
            "serve",
            kind = arrival.kind.as_str(),
            name = arrival.name,
            from = %arrival.from,
            id = %arrival.id
        );
        Self {
            span,
            shared,
            serving: arrival.serving,
            from: arrival.from,
            id: arrival.id,
            kind: arrival.kind,
            name: arrival.name,
            lossless: arrival.lossless,
            detached,
            steering: Mutex::default(),
            signals: Feed::new(SIGNALS_MAX),
            resumed: Notify::new(),
            writable: Notify::new(),
        }
    }

    // No code that can panic runs under this lock.
    fn steering(&self) -> MutexGuard<'_, Steering> {
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let kind = signal.kind;
        self.signals.push_or_drop_oldest(signal);
        let mut steering = self.steering();
        if steering.takes_signals {
            return;
        }
        match kind {
            SignalKind::Normal => {}
            SignalKind::Pause => steering.paused = true,
            SignalKind::Resume => {
                steering.paused = false;
                drop(steering);
                self.resumed.notify_waiters();
            }
            SignalKind::Abort => {
                drop(steering);
                self.cancel(Cancel::Aborted);
            }
        }
    }

    fn cancel(&self, why: Cancel) {
        let mut steering = self.steering();
        steering.cancel = Some(why);
        let task = steering.task.take();
        drop(steering);
        task.into_iter().for_each(Waker::wake);
    }

    /// WAIT-7: dropping the requester cancels the handler, unless it is declared detached.
    pub(crate) fn requester_gone(&self) {
        self.writable.notify_waiters();
        if !self.detached {
            self.cancel(Cancel::Gone);
        }
    }

    /// This App ends: detached or not.
    pub(crate) fn terminated(&self) {
        self.cancel(Cancel::Gone);
    }

    /// From here on the handler is the one who acts on signals; whatever held it lets go.
    pub(crate) fn take_signals(&self, taken: bool) {
        let mut steering = self.steering();
        steering.takes_signals = taken;
        steering.paused = false;
        drop(steering);
        self.resumed.notify_waiters();
    }

    fn is_cancelled(&self) -> bool {
        self.steering().cancel.is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.steering().paused
    }

    fn poll_cancel(&self, cx: &Context<'_>) -> Option<Cancel> {
        let mut steering = self.steering();
        if steering.cancel.is_none() {
            register(&mut steering.task, cx);
        }
        steering.cancel
    }
}

/// A handler in progress.
struct Running {
    cell: Arc<ServingCell>,
    future: Option<BoxFuture<'static, Reply>>,
}

impl Running {
    /// The answer, or `None` when nobody waits for one.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let cell = Arc::clone(&self.cell);
        let _entered = cell.span.enter();
        if let Some(why) = self.cell.poll_cancel(cx) {
            self.discard();
            return Poll::Ready(match why {
                Cancel::Aborted => Some(Answer::not_ok("aborted")),
                Cancel::Gone => None,
            });
        }
        let Some(future) = &mut self.future else {
            return Poll::Ready(None);
        };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        let answer = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(payload))) => Answer::ok(payload),
            Ok(Poll::Ready(Err(error))) => Answer::not_ok(error.why()),
            Err(_) => self.cell.panicked(),
        };
        self.discard();
        Poll::Ready(Some(answer))
    }

    /// A destructor of the user's may panic as well.
    fn discard(&mut self) {
        let future = self.future.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    }
}

impl ServingCell {
    fn panicked(&self) -> Answer {
        tracing::error!(from = %self.from, id = %self.id, "a handler panicked; its requester is told");
        self.shared.metrics.handlers_panicked.increment(1);
        self.shared
            .visit(|visit| visit.report_request(self, "handler-panicked"));
        Answer::not_ok("handler-panicked")
    }
}

/// Starts the handlers of one batch, in order. Each is polled once on the spot: one that is ready at once needs no task,
/// and the answers of a batch go out in one go.
pub(crate) fn run_starts(shared: &Arc<Shared>, acts: &mut Acts) {
    let mut answers = Vec::new();
    for start in acts.starts.drain(..) {
        let Start {
            cell,
            handler,
            payload,
        } = start;
        let _entered = cell.span.enter();
        let made = catch_unwind(AssertUnwindSafe(|| {
            // It may have been cancelled within its own batch.
            (!cell.is_cancelled()).then(|| (handler.run)(Arc::clone(&cell), payload))
        }));
        let mut running = match made {
            Ok(future) => Running {
                cell: Arc::clone(&cell),
                future,
            },
            Err(_) => {
                let answer = cell.panicked();
                answers.push((Arc::clone(&cell), Some(answer)));
                continue;
            }
        };
        match running.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answers.push((Arc::clone(&cell), answer)),
            Poll::Pending => shared.spawn(async move {
                let answer = poll_fn(|cx| running.poll(cx)).await;
                finish(running.cell, answer).await;
            }),
        }
    }
    if answers.is_empty() {
        return;
    }
    let full = shared.visit_into(acts, |visit| {
        answers.retain(|(cell, answer)| visit.answer(cell, answer.as_ref()).is_err());
        answers
    });
    for (cell, answer) in full {
        shared.spawn(finish(cell, answer));
    }
}

/// Answers, and waits for room if there is none (CAP-6).
pub(crate) async fn finish(cell: Arc<ServingCell>, answer: Option<Answer>) {
    let shared = &cell.shared;
    shared
        .retry(|visit| visit.answer(&cell, answer.as_ref()))
        .await;
}

impl Visit<'_> {
    /// Ends a served request. `Err` = there is no room; the request stays open.
    fn answer(&mut self, cell: &ServingCell, answer: Option<&Answer>) -> Result<(), Full> {
        let now = self.now;
        if let Some(answer) = answer {
            match self.nacp().respond(now, cell.serving, answer, false) {
                Ok(_) => self.announce_answer(cell, answer),
                Err(SendError::Full) => return Err(Full),
                Err(SendError::Gone) => {}
                Err(error) => {
                    tracing::warn!(from = %cell.from, id = %cell.id, %error, "a response cannot be sent");
                    let answer = Answer::not_ok(format!("response {}: {error}", error.reason()));
                    if self.nacp().respond(now, cell.serving, &answer, false)
                        == Err(SendError::Full)
                    {
                        return Err(Full);
                    }
                }
            }
        }
        cell.signals.end(());
        self.state.serving.remove(&cell.serving.as_u64());
        Ok(())
    }
}

/// There was no room in the queues (CAP-6).
#[derive(Debug)]
pub(crate) struct Full;

impl Shared {
    /// Tries until there is room, in turn with others who wait. Cancel safe: nothing is taken before it succeeds.
    pub(crate) async fn retry<R>(
        self: &Arc<Self>,
        mut attempt: impl FnMut(&mut Visit<'_>) -> Result<R, Full>,
    ) -> R {
        if let Ok(result) = self.visit(&mut attempt) {
            return result;
        }
        let mut room = pin!(self.room.notified());
        loop {
            // Registered before the attempt, so that room made in between is not missed.
            room.as_mut().enable();
            if let Ok(result) = self.visit(&mut attempt) {
                // There may be room for another.
                self.room.notify_one();
                return result;
            }
            room.as_mut().await;
            room.set(self.room.notified());
        }
    }
}

impl ServingCell {
    /// Waits until the stream may have room: its reader caught up, or the queues emptied.
    pub(crate) async fn until_writable<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> R {
        let mut writable = pin!(self.writable.notified());
        let mut room = pin!(self.shared.chunk_room.notified());
        loop {
            writable.as_mut().enable();
            room.as_mut().enable();
            if let Some(result) = attempt() {
                return result;
            }
            tokio::select! {
                () = writable.as_mut() => {}
                () = room.as_mut() => {}
            }
            writable.set(self.writable.notified());
            room.set(self.shared.chunk_room.notified());
        }
    }
}
