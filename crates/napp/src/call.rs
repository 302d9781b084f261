//! Calls, from the caller's side. What this module keeps true: a call ends with exactly one result (WAIT-4); a call
//! future that is dropped cancels its own wait and nothing else; what was not sent fails at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use nacp::{
    AppId, CallId, Instant, MessageId, Outcome, Payload, RequestKind, SendError, SignalKind,
};
use tokio::sync::oneshot;

use crate::driver::{Shared, Visit, Waiting};
use crate::error::CallError;
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
    pub(crate) to: AppId,
    pub(crate) kind: RequestKind,
    pub(crate) name: &'a str,
    pub(crate) payload: &'a Payload,
    pub(crate) options: CallOptions,
}

/// Takes the wait back when it is dropped.
pub(crate) struct CancelOnDrop<'a> {
    shared: &'a Arc<Shared>,
    call: Option<CallId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.shared.visit(|visit| {
                visit.state.calls.remove(&call.as_u64());
                visit.state.subscriptions.remove(&call.as_u64());
                let now = visit.now;
                if !visit.nacp().cancel(now, call) {
                    // It may be a subscribe that succeeded in this very moment.
                    visit.nacp().unsubscribe(now, call);
                }
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

impl Shared {
    pub(crate) async fn call(self: &Arc<Self>, asking: Asking<'_>) -> Result<Payload, CallError> {
        let (waiter, answer) = oneshot::channel();
        let started = self.now();
        let mut waiter = Some(waiter);
        let call = self
            .ask(&asking, started, |_| {
                Waiting::Call(waiter.take().expect("a request is made once"))
            })
            .await?;
        let outcome = self.outcome(call, answer).await?;
        self.metrics
            .call_seconds
            .record((self.now() - started).as_secs_f64());
        CallError::of(outcome)
    }

    /// Waits for the end of a call; dropped, it cancels the wait.
    pub(crate) async fn outcome(
        self: &Arc<Self>,
        call: CallId,
        answer: oneshot::Receiver<Outcome>,
    ) -> Result<Outcome, CallError> {
        let mut guard = CancelOnDrop {
            shared: self,
            call: Some(call),
        };
        let outcome = answer.await;
        guard.call = None;
        outcome.map_err(|_| CallError::Terminated)
    }

    /// Sends a request, as soon as there is room for it (CAP-6).
    pub(crate) async fn ask(
        self: &Arc<Self>,
        asking: &Asking<'_>,
        started: Instant,
        mut waiting: impl FnMut(&MessageId) -> Waiting,
    ) -> Result<CallId, CallError> {
        let deadline = asking.options.deadline.map(|limit| started + limit);
        let attempt = |visit: &mut Visit<'_>| {
            if let Err(error) = visit.check_alive() {
                return Ok(Err(error));
            }
            let now = visit.now;
            let sent = visit.nacp().request(
                now,
                &asking.to,
                asking.kind,
                asking.name,
                asking.payload,
                deadline,
            );
            if let Ok(call) = &sent {
                visit.shared.metrics.calls_made.increment(1);
                // An overflowing Backlog may have taken it already; then its end is on the way.
                let waiting = match visit.state.nacp.call_message_id(*call) {
                    Some(id) => waiting(id),
                    None => waiting(&MessageId::from("")),
                };
                visit.state.calls.insert(call.as_u64(), waiting);
            }
            unless_full(sent)
        };
        let mut sending = pin!(self.retry(attempt));
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
