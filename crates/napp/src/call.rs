//! Calls, from the caller's side. What this module keeps true: a call ends with exactly one result (WAIT-4); a call
//! future that is dropped cancels its own wait and nothing else; what was not sent fails at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nacp::{
    AppId, CallId, Instant, MessageId, Outcome, Payload, RequestKind, SendError, SignalKind,
};
use tokio::sync::oneshot;

use crate::driver::{Shared, Visit, Waiting};
use crate::error::CallError;
use crate::metrics::Metrics;
use crate::serving::Full;

/// How one call differs from the default.
///
/// ```
/// use napp::CallOptions;
/// use std::time::Duration;
/// let options = CallOptions::default().deadline(Duration::from_secs(5));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    deadline: Option<Duration>,
}

impl CallOptions {
    /// Ends the call with [`CallError::Timeout`] when it has had no response for this long, counted from its first
    /// poll, time offline included. Default: none; a call waits as long as the remote App is known (WAIT-2).
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

/// How a stream or a subscription ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    By(Outcome),
    Overflow,
}

impl Ended {
    pub(crate) fn result(self) -> Result<Payload, CallError> {
        match self {
            Self::By(outcome) => CallError::of(outcome),
            Self::Overflow => Err(CallError::StreamOverflow),
        }
    }
}

/// A request to be made.
pub(crate) struct Asking<'a> {
    pub(crate) to: &'a str,
    pub(crate) kind: RequestKind,
    pub(crate) name: &'a str,
    pub(crate) payload: &'a Payload,
    pub(crate) options: CallOptions,
}

/// Where the driver leaves how a call ended, and where its caller looks for it.
#[derive(Debug, Default)]
pub(crate) struct CallSlot {
    waker: Option<Waker>,
    outcome: Option<Outcome>,
    /// When a plain call was made: it is timed.
    since: Option<Instant>,
}

impl CallSlot {
    fn waking(waker: Option<Waker>, since: Option<Instant>) -> Self {
        Self {
            waker,
            outcome: None,
            since,
        }
    }

    /// Leaves the outcome. What it gives back is to be woken once the lock is free.
    pub(crate) fn end(
        &mut self,
        now: Instant,
        metrics: &Metrics,
        outcome: Outcome,
    ) -> Option<Waker> {
        if let Some(since) = self.since {
            metrics.call_seconds.record((now - since).as_secs_f64());
        }
        self.outcome = Some(outcome);
        self.waker.take()
    }
}

/// The end of a call; dropped, it cancels the wait.
struct Answered<'a> {
    guard: CancelOnDrop<'a>,
    /// The driver has the waker of this very poll already.
    registered: bool,
}

impl Future for Answered<'_> {
    type Output = Result<Outcome, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if std::mem::take(&mut this.registered) {
            return Poll::Pending;
        }
        let Some(call) = this.guard.call else {
            return Poll::Ready(Err(CallError::Terminated));
        };
        // Whatever is taken out is dropped without the lock: a waker belongs to the caller's executor.
        let mut stale = None;
        let taken = this.guard.shared.look_mut(|state| {
            let slot = match state.calls.get_mut(&call.as_u64()) {
                Some(Waiting::Call(slot)) => slot,
                _ => return Some(None),
            };
            if slot.outcome.is_none() {
                let is_known = |waker: &Waker| waker.will_wake(cx.waker());
                if !slot.waker.as_ref().is_some_and(is_known) {
                    stale = slot.waker.replace(cx.waker().clone());
                }
                return None;
            }
            Some(state.calls.remove(&call.as_u64()))
        });
        drop(stale);
        let Some(ended) = taken else {
            return Poll::Pending;
        };
        let outcome = match ended {
            Some(Waiting::Call(slot)) => slot.outcome,
            _ => None,
        };
        this.guard.call = None;
        Poll::Ready(outcome.ok_or(CallError::Terminated))
    }
}

/// Takes the wait back when it is dropped.
pub(crate) struct CancelOnDrop<'a> {
    shared: &'a Arc<Shared>,
    call: Option<CallId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            // What waited is dropped without the lock.
            let _waited = self.shared.visit(|visit| {
                let waited = visit.state.calls.remove(&call.as_u64());
                let hits = visit.state.subscriptions.remove(&call.as_u64());
                let now = visit.now;
                if !visit.nacp().cancel(now, call) {
                    // It may be a subscribe that succeeded in this very moment.
                    visit.nacp().unsubscribe(now, call);
                }
                (waited, hits)
            });
        }
    }
}

impl Visit<'_> {
    fn check_alive(&self) -> Result<(), CallError> {
        if self.state.terminated {
            Err(CallError::Terminated)
        } else {
            Ok(())
        }
    }
}

/// Tells "no room" from every other result.
pub(crate) fn unless_full<T>(sent: Result<T, SendError>) -> Result<Result<T, CallError>, Full> {
    match sent {
        Ok(sent) => Ok(Ok(sent)),
        Err(SendError::Full) => Err(Full),
        Err(error) => Ok(Err(error.into())),
    }
}

/// The attempt to make one request.
struct Attempt<'a> {
    asking: &'a Asking<'a>,
    deadline: Option<Instant>,
}

impl Attempt<'_> {
    /// `waiting` makes what is to wait for the end of the call.
    fn make(
        &mut self,
        visit: &mut Visit<'_>,
        waiting: impl FnOnce(&Visit<'_>, CallId) -> Waiting,
    ) -> Result<Result<CallId, CallError>, Full> {
        if let Err(error) = visit.check_alive() {
            return Ok(Err(error));
        }
        let (now, asking) = (visit.now, self.asking);
        let deadline = asking.options.deadline;
        if self.deadline.is_none() {
            self.deadline = deadline.map(|limit| now + limit);
        }
        let to = match visit.state.nacp.known_app(asking.to) {
            Some(known) => known.clone(),
            None => match AppId::new(asking.to) {
                Ok(app) => app,
                Err(error) => return Ok(Err(error.into())),
            },
        };
        let sent = visit.nacp().request(
            now,
            &to,
            asking.kind,
            asking.name,
            asking.payload,
            self.deadline,
        );
        if let Ok(call) = &sent {
            visit.shared.metrics.calls_made.increment(1);
            let waiting = waiting(visit, *call);
            visit.state.calls.insert(call.as_u64(), waiting);
        }
        unless_full(sent)
    }
}

impl Shared {
    pub(crate) async fn call(self: &Arc<Self>, asking: Asking<'_>) -> Result<Payload, CallError> {
        let mut attempt = Attempt {
            asking: &asking,
            deadline: None,
        };
        let first = poll_fn(|cx| {
            Poll::Ready(self.visit(|visit| {
                attempt.make(visit, |visit, _| {
                    let waker = Some(cx.waker().clone());
                    Waiting::Call(CallSlot::waking(waker, Some(visit.now)))
                })
            }))
        });
        let outcome = match first.await {
            // Nothing has been awaited since: the next poll is this poll.
            Ok(call) => self.answered(call?, true).await?,
            Err(Full) => {
                let since = Some(self.now());
                let call = self
                    .ask_patiently(attempt, |_, _| Waiting::Call(CallSlot::waking(None, since)))
                    .await?;
                self.outcome(call).await?
            }
        };
        CallError::of(outcome)
    }

    /// Waits for the end of a call; dropped, it cancels the wait.
    pub(crate) async fn outcome(self: &Arc<Self>, call: CallId) -> Result<Outcome, CallError> {
        self.answered(call, false).await
    }

    fn answered(self: &Arc<Self>, call: CallId, registered: bool) -> Answered<'_> {
        let guard = CancelOnDrop {
            shared: self,
            call: Some(call),
        };
        Answered { guard, registered }
    }

    /// Sends a request, as soon as there is room for it (CAP-6).
    pub(crate) async fn ask(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        waiting: impl FnMut(&Visit<'_>, CallId) -> Waiting,
    ) -> Result<CallId, CallError> {
        let attempt = Attempt {
            asking,
            deadline: None,
        };
        self.ask_patiently(attempt, waiting).await
    }

    async fn ask_patiently(
        self: &Arc<Self>,
        mut attempt: Attempt<'_>,
        mut waiting: impl FnMut(&Visit<'_>, CallId) -> Waiting,
    ) -> Result<CallId, CallError> {
        if let Ok(sent) = self.visit(|visit| attempt.make(visit, &mut waiting)) {
            return sent;
        }
        let deadline = attempt.deadline;
        let mut sending = pin!(self.retry(|visit| attempt.make(visit, &mut waiting)));
        match deadline.and_then(|deadline| self.tokio_time(deadline)) {
            None => sending.await,
            Some(deadline) => tokio::select! {
                biased;
                sent = &mut sending => sent,
                () = tokio::time::sleep_until(deadline) => Err(CallError::Timeout),
            },
        }
    }

    /// Sends a signal; resolves when the remote has it (true), or when it never will (false).
    pub(crate) async fn signal(
        self: &Arc<Self>,
        send: impl Fn(&mut Visit<'_>) -> Result<nacp::SendId, SendError>,
    ) -> Result<bool, CallError> {
        let delivered = self
            .retry(|visit| {
                if let Err(error) = visit.check_alive() {
                    return Ok(Err(error));
                }
                let sent = send(visit).map(|id| {
                    let (waiter, delivered) = oneshot::channel();
                    visit.state.sends.insert(id, waiter);
                    delivered
                });
                unless_full(sent)
            })
            .await?;
        Ok(delivered.await.unwrap_or(false))
    }

    pub(crate) async fn signal_to(
        self: &Arc<Self>,
        to: &AppId,
        request: &MessageId,
        kind: SignalKind,
        payload: Option<&Payload>,
    ) -> Result<bool, CallError> {
        self.signal(|visit| {
            let now = visit.now;
            visit.nacp().signal_to(now, to, request, kind, payload)
        })
        .await
    }
}
