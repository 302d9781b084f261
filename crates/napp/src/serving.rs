//! Requests that are being served. What this module keeps true: every request that reached a handler is answered once,
//! unless nobody waits any more; a handler that panics harms nobody (B59); losing the link never cancels one (WAIT-7);
//! handlers of one peer start in the order of arrival.

use std::future::poll_fn;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nacp::{
    Answer, AppId, MessageId, Payload, RequestKind, SendError, ServingId, SignalKind, Target,
};
use nact::BoxFuture;
use tokio::sync::Notify;

use crate::driver::{Acts, Shared, Visit};
use crate::feed::{Feed, register};
use crate::handler::{Registered, Reply, Run};

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
    pub(crate) arrival: Arrival,
    detached: bool,
    steering: Mutex<Steering>,
    pub(crate) signals: Feed<Signal, ()>,
    pub(crate) resumed: Notify,
    pub(crate) writable: Notify,
    span: tracing::Span,
}

impl Deref for ServingCell {
    type Target = Arrival;
    fn deref(&self) -> &Arrival {
        &self.arrival
    }
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
pub(crate) enum Start {
    /// It needs no place of its own unless it has to wait.
    Plain {
        arrival: Arrival,
        handler: Arc<Registered>,
        payload: Payload,
    },
    Steered {
        cell: Arc<ServingCell>,
        handler: Arc<Registered>,
        payload: Payload,
    },
}

/// What came in with a request, beside its payload.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) serving: ServingId,
    pub(crate) from: AppId,
    pub(crate) id: MessageId,
    pub(crate) kind: RequestKind,
    pub(crate) name: Target,
    pub(crate) lossless: bool,
}

impl Arrival {
    fn span(&self) -> tracing::Span {
        tracing::debug_span!(
            "serve",
            kind = self.kind.as_str(),
            name = &*self.name,
            from = %self.from,
            id = %self.id
        )
    }
}

impl ServingCell {
    pub(crate) fn new(shared: &Arc<Shared>, arrival: Arrival, detached: bool) -> Self {
        Self {
            span: arrival.span(),
            shared: Arc::clone(shared),
            arrival,
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
    future: Handling,
}

/// The user's future, whose panics are caught; also those of its destructor.
struct Handling(Option<BoxFuture<'static, Reply>>);

impl Handling {
    /// `Err` = it panicked.
    fn start(make: impl FnOnce() -> Option<BoxFuture<'static, Reply>>) -> Result<Self, ()> {
        catch_unwind(AssertUnwindSafe(make)).map(Self).map_err(drop)
    }

    /// `Err` = it panicked; `None` = there is nothing to run.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Answer>, ()>> {
        let Some(future) = &mut self.0 else {
            return Poll::Ready(Ok(None));
        };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        let answer = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(payload))) => Ok(Some(Answer::ok(payload))),
            Ok(Poll::Ready(Err(error))) => Ok(Some(Answer::not_ok(error.why()))),
            Err(_) => Err(()),
        };
        self.discard();
        Poll::Ready(answer)
    }

    /// A destructor of the user's may panic as well.
    fn discard(&mut self) {
        let future = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
    }
}

impl Running {
    /// The answer, or `None` when nobody waits for one.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let _entered = self.cell.span.enter();
        if let Some(why) = self.cell.poll_cancel(cx) {
            self.future.discard();
            return Poll::Ready(match why {
                Cancel::Aborted => Some(Answer::not_ok("aborted")),
                Cancel::Gone => None,
            });
        }
        self.future.poll(cx).map(|answer| {
            answer.unwrap_or_else(|()| Some(self.cell.shared.panicked(&self.cell.arrival)))
        })
    }
}

impl Shared {
    fn panicked(self: &Arc<Self>, arrival: &Arrival) -> Answer {
        tracing::error!(from = %arrival.from, id = %arrival.id, "a handler panicked; its requester is told");
        self.metrics.handlers_panicked.increment(1);
        self.visit(|visit| visit.report_request(arrival, "handler-panicked"));
        Answer::not_ok("handler-panicked")
    }

    /// Runs a handler on the spot as far as it goes; `None` = it goes on in a task.
    fn run_plain(
        self: &Arc<Self>,
        arrival: &Arrival,
        handler: &Registered,
        payload: Payload,
    ) -> Option<Option<Answer>> {
        let span = arrival.span();
        let entered = span.enter();
        let Run::Plain(run) = &handler.run else {
            unreachable!("a plain start is of a plain handler");
        };
        let started = Handling::start(|| Some(run(payload)));
        let polled = started.map(|mut future| {
            let polled = future.poll(&mut Context::from_waker(Waker::noop()));
            (future, polled)
        });
        drop(entered);
        match polled {
            Err(()) | Ok((_, Poll::Ready(Err(())))) => Some(Some(self.panicked(arrival))),
            Ok((_, Poll::Ready(Ok(answer)))) => Some(answer),
            Ok((future, Poll::Pending)) => {
                self.go_on(arrival.clone(), handler.detached, future);
                None
            }
        }
    }

    /// The handler has to wait: from here on it can be cancelled.
    fn go_on(self: &Arc<Self>, arrival: Arrival, detached: bool, mut future: Handling) {
        let cell = Arc::new(ServingCell::new(self, arrival, detached));
        let is_wanted = self.visit(|visit| {
            let serving = cell.serving.as_u64();
            // Its requester may have gone while it ran.
            let is_wanted =
                !visit.state.terminated && (detached || visit.state.nacp.is_serving(cell.serving));
            if is_wanted {
                visit.state.serving.insert(serving, Arc::clone(&cell));
            } else {
                visit.state.handlers -= 1;
            }
            is_wanted
        });
        if is_wanted {
            self.spawn_running(Running { cell, future });
        } else {
            future.discard();
        }
    }

    fn spawn_running(self: &Arc<Self>, mut running: Running) {
        let shared = Arc::clone(self);
        self.spawn(async move {
            let answer = poll_fn(|cx| running.poll(cx)).await;
            running.cell.signals.end(());
            finish(shared, running.cell.arrival.clone(), answer).await;
        });
    }

    fn run_steered(
        self: &Arc<Self>,
        cell: Arc<ServingCell>,
        handler: &Registered,
        payload: Payload,
    ) -> Option<Option<Answer>> {
        let entered = cell.span.enter();
        let Run::Steered(run) = &handler.run else {
            unreachable!("a steered start is of a steered handler");
        };
        let started = Handling::start(|| {
            // It may have been cancelled within its own batch.
            (!cell.is_cancelled()).then(|| run(Arc::clone(&cell), payload))
        });
        drop(entered);
        let Ok(future) = started else {
            return Some(Some(self.panicked(&cell.arrival)));
        };
        let mut running = Running { cell, future };
        match running.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => {
                running.cell.signals.end(());
                Some(answer)
            }
            Poll::Pending => {
                self.spawn_running(running);
                None
            }
        }
    }
}

/// Starts the handlers of one batch, in order. Each is polled once on the spot: one that is ready at once needs no task,
/// and the answers of a batch go out in one go.
pub(crate) fn run_starts(shared: &Arc<Shared>, acts: &mut Acts) {
    let mut answers = std::mem::take(&mut acts.answers);
    for start in acts.starts.drain(..) {
        match start {
            Start::Plain {
                arrival,
                handler,
                payload,
            } => {
                let answer = shared.run_plain(&arrival, &handler, payload);
                answers.extend(answer.map(|answer| (arrival, answer)));
            }
            Start::Steered {
                cell,
                handler,
                payload,
            } => {
                let answer = shared.run_steered(Arc::clone(&cell), &handler, payload);
                answers.extend(answer.map(|answer| (cell.arrival.clone(), answer)));
            }
        }
    }
    if !answers.is_empty() {
        shared.visit_into(acts, |visit| {
            answers.retain(|(arrival, answer)| visit.answer(arrival, answer.as_ref()).is_err());
        });
    }
    for (arrival, answer) in answers.drain(..) {
        shared.spawn(finish(Arc::clone(shared), arrival, answer));
    }
    acts.answers = answers;
}

/// Answers, and waits for room if there is none (CAP-6).
pub(crate) async fn finish(shared: Arc<Shared>, arrival: Arrival, answer: Option<Answer>) {
    shared
        .retry(|visit| visit.answer(&arrival, answer.as_ref()))
        .await;
}

impl Visit<'_> {
    /// Ends a served request. `Err` = there is no room; the request stays open.
    fn answer(&mut self, arrival: &Arrival, answer: Option<&Answer>) -> Result<(), Full> {
        let now = self.now;
        if let Some(answer) = answer {
            match self.nacp().respond(now, arrival.serving, answer, false) {
                Ok(_) => self.announce_answer(arrival, answer),
                Err(SendError::Full) => return Err(Full),
                Err(SendError::Gone) => {}
                Err(error) => {
                    tracing::warn!(from = %arrival.from, id = %arrival.id, %error, "a response cannot be sent");
                    let answer = Answer::not_ok(format!("response {}: {error}", error.reason()));
                    if self.nacp().respond(now, arrival.serving, &answer, false)
                        == Err(SendError::Full)
                    {
                        return Err(Full);
                    }
                }
            }
        }
        self.state.handlers -= 1;
        self.state.serving.remove(&arrival.serving.as_u64());
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
