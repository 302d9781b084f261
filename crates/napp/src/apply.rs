//! What the core reports, applied: waiters settle, streams fill, links are told of. Runs under the lock; what must run
//! outside of it is noted in `Acts`.

use std::sync::Arc;

use nacp::{Answer, CallId, Event, NotifyTarget, Outcome, Payload, SendError, SignalKind};

use crate::admission::Asked;
use crate::call::Ended;
use crate::driver::{Visit, Waiting};
use crate::link::LinkStatus;
use crate::serving::{Arrival, ServingCell, Signal, Start, finish};
use crate::subscription::Hit;

impl Visit<'_> {
    pub(crate) fn apply(&mut self, event: Event) {
        match event {
            Event::Online {
                app,
                peer,
                is_gateway,
                resumed,
                restarted,
            } => {
                let status = LinkStatus::Online {
                    is_gateway,
                    resumed,
                    restarted,
                };
                self.peer_online(peer, &app);
                self.link_changed(&app, status);
            }
            Event::Offline { app, cause, until } => {
                let until = self.shared.tokio_time(until).map(Into::into);
                self.link_changed(&app, LinkStatus::Offline { cause, until });
            }
            Event::Dropped { app, cause } => {
                self.link_changed(&app, LinkStatus::Dropped { cause });
            }
            Event::RegisterAsked {
                app, registration, ..
            } => self.acts.asked = Some(Asked { app, registration }),
            Event::ClosePeer { peer, reason } => self.close_peer(peer, reason),
            Event::Hold { peer } => self.hold_peer(peer, true),
            Event::Release { peer } => self.hold_peer(peer, false),
            Event::Request { .. }
            | Event::Signal { .. }
            | Event::RequesterGone { .. }
            | Event::StreamWritable { .. } => self.apply_to_served(event),
            Event::Notify {
                target,
                hit_sub_name,
                payload,
                reliable,
            } => self.take_notify(target, hit_sub_name, payload, reliable),
            Event::Done { call, outcome } => self.call_done(call, outcome),
            Event::SubscriptionEnded { call, outcome } => {
                if let Some(feed) = self.state.subscriptions.remove(&call.as_u64()) {
                    feed.end(Ended::By(outcome));
                }
            }
            Event::Settled { send, delivered } => {
                if let Some(waiter) = self.state.sends.remove(&send) {
                    // Whoever asked may have lost interest.
                    let _ = waiter.send(delivered);
                }
            }
            Event::Room => {
                self.shared.room.notify_one();
                self.shared.chunk_room.notify_waiters();
            }
            Event::Report(report) => self.report(report),
        }
    }

    /// Of requests that others made here.
    fn apply_to_served(&mut self, event: Event) {
        match event {
            Event::Request {
                serving,
                from,
                id,
                kind,
                target,
                payload,
                lossless,
            } => {
                let arrival = Arrival {
                    serving,
                    from,
                    id,
                    kind,
                    name: target.unwrap_or_default(),
                    lossless,
                };
                self.take_request(arrival, payload);
            }
            Event::Signal {
                serving,
                from,
                kind,
                payload,
            } => {
                let signal = Signal {
                    from,
                    kind,
                    payload,
                };
                self.take_signal(serving.as_u64(), signal);
            }
            Event::RequesterGone { serving } => {
                if let Some(cell) = self.state.serving.get(&serving.as_u64()) {
                    cell.requester_gone();
                }
            }
            Event::StreamWritable { serving } => {
                if let Some(cell) = self.state.serving.get(&serving.as_u64()) {
                    cell.writable.notify_waiters();
                }
            }
            _ => {}
        }
    }

    fn take_request(&mut self, arrival: Arrival, payload: Payload) {
        self.shared.metrics.requests_received.increment(1);
        let found = self.shared.handlers.find(arrival.kind, &arrival.name);
        let Some(handler) = found.cloned() else {
            let answer = format!("no {} '{}'", arrival.kind.as_str(), &*arrival.name);
            return self.refuse_request(arrival, "no-processor", answer);
        };
        if self.state.handlers >= self.shared.settings.handlers_max {
            return self.refuse_request(arrival, "overloaded", "overloaded".to_owned());
        }
        self.state.handlers += 1;
        // One that knows nothing of its request needs no place where it can be steered, unless it has to wait.
        let start = if handler.run.is_plain() {
            Start::Plain {
                arrival,
                handler,
                payload,
            }
        } else {
            let detached = handler.detached;
            let cell = Arc::new(ServingCell::new(self.shared, arrival, detached));
            let serving = cell.serving.as_u64();
            self.state.serving.insert(serving, Arc::clone(&cell));
            Start::Steered {
                cell,
                handler,
                payload,
            }
        };
        self.acts.starts.push(start);
    }

    fn refuse_request(&mut self, arrival: Arrival, reason: &'static str, answer: String) {
        self.report_request(&arrival, reason);
        let now = self.now;
        let answer = Answer::not_ok(answer);
        if self.nacp().respond(now, arrival.serving, &answer, false) == Err(SendError::Full) {
            // It waits its turn (CAP-6).
            self.state.handlers += 1;
            let shared = Arc::clone(self.shared);
            self.shared.spawn(finish(shared, arrival, Some(answer)));
        }
    }

    fn take_signal(&mut self, serving: u64, signal: Signal) {
        let Some(cell) = self.state.serving.get(&serving).cloned() else {
            return;
        };
        self.announce_signal(&cell.arrival, &signal);
        cell.signal(signal);
    }

    fn take_notify(
        &mut self,
        target: NotifyTarget,
        hit_sub_name: String,
        payload: Payload,
        reliable: bool,
    ) {
        match target {
            NotifyTarget::Call(call) => self.take_chunk(call, hit_sub_name, payload, reliable),
            NotifyTarget::Subscription(call) => {
                let Some(feed) = self.state.subscriptions.get(&call.as_u64()).cloned() else {
                    return;
                };
                let hit = Hit {
                    name: hit_sub_name,
                    payload,
                };
                if !reliable {
                    if let Some(dropped) = feed.push(hit) {
                        self.announce_overflow(&feed.app, &feed.id, &feed.pattern, dropped);
                    }
                } else if !feed.push_reliable(hit) {
                    // Lossless means: never silently less. The subscription ends with its reason.
                    self.state.subscriptions.remove(&call.as_u64());
                    feed.end(Ended::Overflow);
                    let now = self.now;
                    self.nacp().unsubscribe(now, call);
                }
            }
        }
    }

    fn take_chunk(&mut self, call: CallId, name: String, payload: Payload, reliable: bool) {
        match self.state.calls.get_mut(&call.as_u64()) {
            Some(Waiting::Stream(cell)) => {
                let cell = Arc::clone(cell);
                if !reliable {
                    if let Some(dropped) = cell.push(payload) {
                        self.announce_overflow(&cell.app, &cell.id, &name, dropped);
                    }
                } else if !cell.push_reliable(payload) {
                    self.state.calls.remove(&call.as_u64());
                    cell.end(Ended::Overflow);
                    let now = self.now;
                    // The remote breaks its promise; it may have gone already.
                    let _ = self.nacp().signal(now, call, SignalKind::Abort, None);
                    self.nacp().cancel(now, call);
                }
            }
            Some(Waiting::Detached { taken }) => {
                *taken += 1;
                let taken = *taken;
                self.nacp().taken(call, taken);
            }
            Some(Waiting::Call(_)) | None => {}
        }
    }

    fn call_done(&mut self, call: CallId, outcome: Outcome) {
        if !matches!(&outcome, Outcome::Response { is_ok: true, .. }) {
            self.shared.metrics.calls_failed.increment(1);
            if let Some(feed) = self.state.subscriptions.remove(&call.as_u64()) {
                feed.end(Ended::By(outcome.clone()));
            }
        }
        if let Some(Waiting::Call(slot)) = self.state.calls.get_mut(&call.as_u64()) {
            let waker = slot.end(self.now, &self.shared.metrics, outcome);
            self.acts.callers.extend(waker);
            return;
        }
        match self.state.calls.remove(&call.as_u64()) {
            Some(Waiting::Stream(cell)) => cell.end(Ended::By(outcome)),
            Some(Waiting::Call(_) | Waiting::Detached { .. }) | None => {}
        }
    }
}
