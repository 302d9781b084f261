//! Our calls and subscriptions. What this module keeps true: each call ends exactly once (WAIT-4), with the Response or
//! with the reason why none will come; and a call that ended leaves nothing behind, neither a timer nor a queued
//! message (WAIT-6).

use crate::arena::Key;
use crate::event::{CallId, Event, NotifyTarget, Outcome};
use crate::identity::seq_of;
use crate::message::{MessageId, RequestKind};
use crate::timers::Subject;
use crate::{Instant, Nacp};

/// What waits for a Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Request(RequestKind),
    Subscribe,
    Unsubscribe,
}

/// A call without its Response.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) link: Key,
    pub(crate) id: MessageId,
    pub(crate) asked: Asked,
    /// Whether the remote has it (WAIT-1).
    pub(crate) acked: bool,
    /// Whether it was found, once, to have left the queues without an ACK.
    pub(crate) doubted: bool,
    /// Lossless chunks of it that came.
    pub(crate) came: u64,
    /// Chunks of its lossless stream that were taken, and how many of them the remote knows of.
    pub(crate) taken: u64,
    pub(crate) taken_told: u64,
}

/// A subscription of ours, from its subscribe call on.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) link: Key,
    pub(crate) id: MessageId,
    pub(crate) pattern: String,
    pub(crate) lossless: bool,
    pub(crate) established: bool,
    /// A renewal that has not been answered (LINK-15).
    pub(crate) renewing: bool,
}

impl Nacp {
    /// The waiter that the Response to `parent` belongs to.
    pub(crate) fn waiter_of(&self, parent: &str) -> Option<u64> {
        let seq = seq_of(parent)?;
        self.waiters
            .get(&seq)
            .filter(|waiter| waiter.id.as_bytes() == parent.as_bytes())
            .map(|_| seq)
    }

    /// Whose notify this is: `parent` must name an event call or subscription of ours on `link`.
    pub(crate) fn notify_target(&self, link: Key, parent: &str) -> Option<NotifyTarget> {
        let seq = seq_of(parent)?;
        let is_it = |id: &MessageId, on: Key| on == link && id.as_bytes() == parent.as_bytes();
        if let Some(waiter) = self.waiters.get(&seq) {
            let event = waiter.asked == Asked::Request(RequestKind::Event);
            if event && is_it(&waiter.id, waiter.link) {
                return Some(NotifyTarget::Call(CallId(seq)));
            }
        }
        let subscription = self.subscriptions.get(&seq)?;
        is_it(&subscription.id, subscription.link)
            .then_some(NotifyTarget::Subscription(CallId(seq)))
    }

    pub(crate) fn await_response(
        &mut self,
        seq: u64,
        link: Key,
        id: MessageId,
        asked: Asked,
        until: Option<Instant>,
    ) {
        let waiter = Waiter {
            link,
            id,
            asked,
            acked: false,
            came: 0,
            doubted: false,
            taken: 0,
            taken_told: 0,
        };
        self.waiters.insert(seq, waiter);
        self.links[link].waiters.insert(seq);
        if let Some(until) = until {
            self.timers.arm(Subject::Call(seq), until);
        }
    }

    /// Ends a call. The message, if it still waits in a queue, goes too.
    pub(crate) fn settle_call(&mut self, seq: u64, outcome: Outcome) {
        let Some(waiter) = self.waiters.remove(&seq) else {
            return;
        };
        self.links[waiter.link].waiters.remove(seq);
        self.timers.disarm(Subject::Call(seq));
        if !matches!(outcome, Outcome::Response { .. }) {
            self.withdraw(seq);
        }
        if waiter.came > 0 && outcome == Outcome::Timeout {
            self.abandon_stream(waiter.link, waiter.id.clone());
        }
        if waiter.asked == Asked::Subscribe && self.settle_subscribe(seq, &outcome) {
            return;
        }
        self.events.push_back(Event::Done {
            call: CallId(seq),
            outcome,
        });
    }

    /// True when it was a renewal, which is not the caller's call any more.
    fn settle_subscribe(&mut self, seq: u64, outcome: &Outcome) -> bool {
        let Some(subscription) = self.subscriptions.get_mut(&seq) else {
            return false;
        };
        let renewal = std::mem::replace(&mut subscription.renewing, false);
        if matches!(outcome, Outcome::Response { is_ok: true, .. }) {
            subscription.established = true;
        } else {
            self.forget_subscription(seq);
            if renewal {
                self.events.push_back(Event::SubscriptionEnded {
                    call: CallId(seq),
                    outcome: outcome.clone(),
                });
            }
        }
        renewal
    }

    pub(crate) fn forget_subscription(&mut self, seq: u64) -> Option<Subscription> {
        let subscription = self.subscriptions.remove(&seq)?;
        self.links[subscription.link].subscriptions.remove(&seq);
        Some(subscription)
    }

    /// A call's time is up.
    pub(crate) fn on_call_timeout(&mut self, now: Instant, seq: u64) {
        let Some(waiter) = self.waiters.get(&seq) else {
            return;
        };
        let (asked, link) = (waiter.asked, waiter.link);
        // The remote may have subscribed us all the same: tell it to stop.
        let stray = (asked == Asked::Subscribe).then(|| waiter.id.clone());
        let left = self.outbox.get(seq).is_none_or(|outgoing| outgoing.left);
        self.settle_call(seq, Outcome::Timeout);
        if let Some(id) = stray.filter(|_| left) {
            self.send_unsubscribe(now, link, &id, false);
        }
    }

    /// Whether the message of an open call still waits to be submitted for the first time: the remote cannot have it.
    pub fn is_queued(&self, call: CallId) -> bool {
        self.outbox.get(call.0).is_some_and(|out| !out.left)
    }

    /// The caller has lost interest: nothing more is reported of this call. Its request is withdrawn if it has not left
    /// yet; if it has, the Response will find no consumer. False if it had ended already.
    pub fn cancel(&mut self, now: Instant, call: CallId) -> bool {
        let Some(waiter) = self.waiters.remove(&call.0) else {
            return false;
        };
        self.links[waiter.link].waiters.remove(call.0);
        self.timers.disarm(Subject::Call(call.0));
        let left = !self.is_queued(call);
        let queued = self
            .outbox
            .get(call.0)
            .is_some_and(|out| out.place == crate::outbox::Place::Backlog);
        // Nobody withdraws an unsubscribe: its subscription has ended, and the remote must hear of it.
        if queued && waiter.asked != Asked::Unsubscribe {
            self.withdraw(call.0);
        }
        if waiter.came > 0 {
            self.abandon_stream(waiter.link, waiter.id.clone());
        }
        if waiter.asked == Asked::Subscribe {
            self.forget_subscription(call.0);
            if left {
                self.send_unsubscribe(now, waiter.link, &waiter.id, false);
            }
        }
        true
    }
}
