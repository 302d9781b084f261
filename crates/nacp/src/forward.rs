//! Being a Gateway. What this module keeps true: it looks at `to` alone, changes nothing, and sends nothing back to where
//! it came from (GW-1, GW-5); a request for nobody is answered (GW-6); what waits for one destination is bounded and
//! costs no other destination its room; and before anything is lost for want of room, its source is held.

use bytes::Bytes;

use crate::arena::Key;
use crate::event::{Event, PeerId};
use crate::link::Reach;
use crate::message::{Encoded, Envelope, MessageId, Meta};
use crate::outbox::Class;
use crate::send::{Body, Draft};
use crate::serving::Answer;
use crate::timers::Subject;
use crate::{Instant, Nacp, SendError};

impl Nacp {
    /// Whether each forwarded message is reported as `nacp:internal:gateway:success`. Default off: it costs an event.
    pub fn observe_forwarded(&mut self, observed: bool) {
        self.forwarded_observed = observed;
    }

    /// A message for another App came over `peer` from `source`.
    pub(crate) fn forward(
        &mut self,
        now: Instant,
        peer: PeerId,
        source: Key,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) {
        let encoded = Encoded::from(bytes.clone());
        let registered =
            |key: &Key| self.links[*key].reach == Reach::Direct && !self.links[*key].leaving;
        let target = self.links.find(&envelope.to).filter(registered);
        let Some(target) = target.filter(|_| self.config.is_gateway) else {
            return self.undeliverable(now, source, envelope, encoded, "no-route");
        };
        if self.links[target].peer() == Some(peer) {
            return self.report(
                "nacp:internal:gateway:error",
                "dropped",
                Some(target),
                Some(encoded),
            );
        }
        let notify = matches!(envelope.meta, Meta::Notify { .. });
        let id = MessageId::from(&*envelope.id);
        let draft = Draft {
            body: Body::Forwarded {
                id,
                encoded,
                source,
            },
            class: Class::Forwarded { notify },
            tracked: false,
        };
        match self.enqueue(now, target, draft, |_, _, _| {}) {
            Ok(_) => {
                self.bound_forwarded(target);
                self.hold_if_behind(now, peer, target);
                if self.forwarded_observed {
                    self.report(
                        "nacp:internal:gateway:success",
                        "forwarded",
                        Some(target),
                        None,
                    );
                }
            }
            // Larger than what may wait here: it would be sent again and again, and never pass.
            Err(error @ SendError::TooLarge { .. }) => {
                let encoded = Encoded::from(bytes.clone());
                self.undeliverable(now, source, envelope, encoded, error.reason());
            }
            // A refused notify was reported at the door.
            Err(_) => {}
        }
    }

    /// Nobody here is called `to`, or it cannot be had through us. A request is answered, so that its caller does not
    /// wait (GW-6).
    fn undeliverable(
        &mut self,
        now: Instant,
        source: Key,
        envelope: &Envelope<'_>,
        encoded: Encoded,
        why: &'static str,
    ) {
        if !self.config.is_gateway {
            let name = "nacp:internal:route:error";
            return self.report(name, "no-route", Some(source), Some(encoded));
        }
        if let Meta::Request { kind, .. } = envelope.meta {
            let parent = MessageId::from(&*envelope.id);
            self.answer_at_once(now, source, &parent, Some(kind), Answer::not_ok(why));
        }
        let name = "nacp:internal:gateway:error";
        self.report(name, "dropped", Some(source), Some(encoded));
    }

    /// A notify that finds no room with its destination is refused; anything else pushes an older one out.
    pub(crate) fn admit_forwarded(
        &mut self,
        notify: bool,
        encoded: &Encoded,
        target: Key,
    ) -> Result<(), SendError> {
        let (bytes, limit) = (encoded.len() as u64, self.config.forward_bytes_max);
        if bytes > limit {
            return Err(SendError::TooLarge { bytes, limit });
        }
        let waiting = self.links[target].forwarded;
        let full =
            waiting.messages >= self.config.forward_count_max || waiting.bytes + bytes > limit;
        if notify && full {
            return Err(self.refuse_notify(target, encoded));
        }
        Ok(())
    }

    /// CAP-2 for what waits for one destination: the oldest notify goes first, then the oldest message.
    fn bound_forwarded(&mut self, target: Key) {
        loop {
            let waiting = self.links[target].forwarded;
            let over = waiting.messages > self.config.forward_count_max
                || waiting.bytes > self.config.forward_bytes_max;
            let backlog = &self.links[target].queues.backlog;
            let forwarded = |notify: bool| {
                self.outbox
                    .find(backlog, backlog.len(), |outgoing| match outgoing.class {
                        Class::Forwarded { notify: is_notify } => is_notify || !notify,
                        _ => false,
                    })
            };
            let Some(key) = over
                .then(|| forwarded(true).or_else(|| forwarded(false)))
                .flatten()
            else {
                return;
            };
            let outgoing = self.outbox.record(key);
            let seq = outgoing.seq;
            let reason = if outgoing.class.is_notify() {
                "notify-evicted"
            } else {
                "fifo-evicted"
            };
            let encoded = outgoing.encoded.clone();
            self.discard(seq);
            self.report(
                "nacp:internal:backlog:warning",
                reason,
                Some(target),
                Some(encoded),
            );
        }
    }

    /// Back pressure: when `target`, which is online, is behind, nothing more is read from `peer` until it has caught
    /// up, or for [`Config::forward_hold`](crate::Config::forward_hold). Then loss begins (CAP-2), for a source that
    /// is not read at all would look dead to itself.
    fn hold_if_behind(&mut self, now: Instant, peer: PeerId, target: Key) {
        let waiting = self.links[target].forwarded;
        let high = waiting.messages >= self.config.forward_count_max / 2
            || waiting.bytes >= self.config.forward_bytes_max / 2;
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if !high
            || !self.links[target].is_online()
            || state.held_for.is_some()
            || now < state.hold_again
        {
            return;
        }
        state.held_for = Some(target);
        state.hold_again = now + self.config.forward_hold * 2;
        self.links[target].holds.push(peer);
        self.timers
            .arm(Subject::Hold(peer), now + self.config.forward_hold);
        self.events.push_back(Event::Hold { peer });
    }

    /// After something left the queue of `target`, or `target` left.
    pub(crate) fn release_if_caught_up(&mut self, target: Key) {
        let link = &self.links[target];
        let low = link.forwarded.messages <= self.config.forward_count_max / 8
            && link.forwarded.bytes <= self.config.forward_bytes_max / 8;
        if link.holds.is_empty() || (link.is_online() && !low) {
            return;
        }
        for peer in std::mem::take(&mut self.links[target].holds) {
            if self
                .peers
                .get(peer)
                .is_some_and(|state| state.held_for == Some(target))
            {
                if let Some(state) = self.peers.get_mut(peer) {
                    state.hold_again = Instant::EPOCH;
                }
                self.release(peer);
            }
        }
    }

    pub(crate) fn release(&mut self, peer: PeerId) {
        self.timers.disarm(Subject::Hold(peer));
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if let Some(target) = state.held_for.take() {
            if self.links.contains(target) {
                self.links[target].holds.retain(|&held| held != peer);
            }
            self.events.push_back(Event::Release { peer });
        }
    }
}
