//! Going offline, coming back, being dropped. What this file keeps true: going offline loses nothing but control
//! messages (LINK-5, LINK-6); dropping leaves nothing (LINK-11).

use crate::arena::Key;
use crate::event::{
    CallId, CloseReason, DropCause, Event, OfflineCause, Outcome, PeerId, ServingId,
};
use crate::link::{LinkState, Reach};
use crate::message::Meta;
use crate::outbox::Class;
use crate::peers::{Peer, Phase, Urgent};
use crate::timers::Subject;
use crate::{AppId, Instant, Nacp, PeerViolation, SendError};

/// From this many breaks on, one message at a time is sent until something is ACKed, so that the message over which
/// the link breaks is told from its innocent followers (MSG-9).
const CAUTIOUS_FROM: u32 = 2;

impl Nacp {
    /// The connection has ended. Whatever the transport accepted before must have been reported before.
    pub fn handle_peer_down(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.forget_peer(peer) else {
            return;
        };
        if let Phase::Challenging(claim) = &state.phase
            && let Some(link) = self.links.find(claim.app.as_str())
        {
            self.links[link].challenge = None;
        }
        for key in state.bound {
            self.go_offline(now, key, OfflineCause::PeerDown);
        }
    }

    /// Takes a connection out, with its deadlines.
    pub(crate) fn forget_peer(&mut self, peer: PeerId) -> Option<Peer> {
        let state = self.peers.remove(peer)?;
        self.timers.disarm(Subject::Peer(peer));
        self.timers.disarm(Subject::Hold(peer));
        if let Some(target) = state.held_for.filter(|&target| self.links.contains(target)) {
            self.links[target].holds.retain(|&held| held != peer);
        }
        Some(state)
    }

    /// Leaves the connection that the link is bound to, and tells which it was.
    pub(crate) fn unbind(&mut self, key: Key) -> Option<PeerId> {
        let peer = self.links[key].peer()?;
        if self.links[key].reach == Reach::Direct
            && let Some(state) = self.peers.get_mut(peer)
        {
            state.bound.retain(|&bound| bound != key);
        }
        Some(peer)
    }

    /// It said goodbye: it is dropped, at the latest now, and the connection over which it said so is closed (LINK-10).
    pub(crate) fn finish_leaving(&mut self, now: Instant, key: Key) {
        let peer = self.unbind(key);
        self.drop_link(now, key, DropCause::Unregistered);
        if let Some(peer) = peer
            && self
                .peers
                .get(peer)
                .is_some_and(|state| state.bound.is_empty())
        {
            self.close_peer(peer, CloseReason::Unregistered);
        }
    }

    /// LINK-4 to LINK-7.
    pub(crate) fn go_offline(&mut self, now: Instant, key: Key, cause: OfflineCause) {
        if self.links[key].leaving {
            return self.finish_leaving(now, key);
        }
        let peer = self.unbind(key);
        let until = now + self.config.reconnect_grace;
        self.links[key].state = LinkState::Offline { until };
        self.timers.arm(Subject::Grace(key), until);
        let app = self.links[key].app.clone();
        self.events.push_back(Event::Offline { app, cause, until });
        self.withdraw_from_connection(key);
        self.enforce_backlog_caps();
        if self.links[key].reach == Reach::Gateway {
            self.schedule_probe(now, key);
        } else if let Some(peer) = peer {
            // (a) is the peer's own end; in all other cases we end it, so that the remote notices too.
            if let Some(state) = self.peers.get(peer)
                && state.bound.is_empty()
            {
                let reason = match &state.phase {
                    Phase::Closing { reason, .. } => reason.clone(),
                    _ => CloseReason::LinkOffline(cause),
                };
                self.close_peer(peer, reason);
            }
        }
        if self.gateway == Some(key) {
            self.gateway_offline(now);
        }
        if let Some(challenge) = self.links[key].challenge.take() {
            self.accept_challenger(now, challenge.newcomer);
        }
    }

    /// Closes a connection for the remote's fault; its links go offline.
    pub(crate) fn close_for(&mut self, now: Instant, peer: PeerId, violation: &PeerViolation) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let reason = CloseReason::Violation(violation.reason());
        state.phase = Phase::Closing {
            reason: reason.clone(),
            awaiting: None,
        };
        let bound = state.bound.clone();
        for key in bound {
            self.go_offline(now, key, OfflineCause::PeerDown);
        }
        self.close_peer(peer, reason);
    }

    /// Takes everything that was under way back into the Backlog; control messages end (HB-4).
    pub(crate) fn withdraw_from_connection(&mut self, key: Key) {
        let control = self.outbox.seqs(&self.links[key].queues.control);
        for seq in control {
            self.withdraw(seq);
        }
        self.count_break(key);
        let link = &mut self.links[key];
        self.outbox.requeue(&mut link.queues);
        link.large.clear();
        link.ready = false;
        link.probe_due = false;
        link.acked = false;
        link.heartbeat = None;
        let unsure = std::mem::take(&mut link.unsure);
        link.owed.extend(unsure);
        self.timers.disarm(Subject::Heartbeat(key));
        for (serving, parent) in std::mem::take(&mut self.links[key].unsure_chunks).into_values() {
            self.lose_chunk(key, serving, &parent);
        }
        self.reject_orphans(key);
        self.wake_starved();
        self.release_if_caught_up(key);
    }

    /// MSG-9: the oldest message under way is the one over which the link may have broken.
    fn count_break(&mut self, key: Key) {
        let link = &mut self.links[key];
        let oldest = [&link.queues.pending, &link.queues.submitted]
            .into_iter()
            .filter_map(|list| list.first())
            .map(|first| self.outbox.record(first).seq)
            .min();
        let Some(seq) = oldest.filter(|_| !link.acked) else {
            link.cautious = false;
            return;
        };
        let oldest = self.outbox.get_mut(seq).expect("listed just now");
        oldest.breaks += 1;
        let breaks = oldest.breaks;
        link.cautious = breaks >= CAUTIOUS_FROM;
        let limit = self.config.delivery_attempts_max;
        if limit > 0 && breaks >= limit {
            let encoded = oldest.encoded.clone();
            link.cautious = false;
            self.discard(seq);
            self.report(
                "nacp:internal:backlog:warning",
                "parked",
                Some(key),
                Some(encoded),
            );
        }
    }

    /// A request that was evicted from AckPending (CAP-3) and not ACKed is lost with the connection: nothing will
    /// answer it, so its caller must know (WAIT-5).
    fn reject_orphans(&mut self, key: Key) {
        let lost: Vec<u64> = self.links[key]
            .waiters
            .sorted()
            .into_iter()
            .filter(|seq| !self.waiters[seq].acked && self.outbox.get(*seq).is_none())
            .collect();
        for seq in lost {
            self.settle_call(seq, Outcome::Discarded);
        }
    }

    /// LINK-11.
    pub(crate) fn drop_link(&mut self, now: Instant, key: Key, cause: DropCause) {
        self.unbind(key);
        let queues = &self.links[key].queues;
        let lists = [
            &queues.control,
            &queues.pending,
            &queues.submitted,
            &queues.backlog,
        ];
        let messages: Vec<u64> = lists
            .into_iter()
            .flat_map(|list| self.outbox.seqs(list))
            .collect();
        for seq in messages {
            self.withdraw(seq);
        }
        for seq in self.links[key].waiters.drain_sorted() {
            self.settle_call(seq, Outcome::PeerGone);
        }
        for seq in std::mem::take(&mut self.links[key].subscriptions) {
            self.subscriptions.remove(&seq);
            self.events.push_back(Event::SubscriptionEnded {
                call: CallId(seq),
                outcome: Outcome::PeerGone,
            });
        }
        self.forget_requests_of(key);
        self.forget_listens_of(key);
        for subject in [
            Subject::Grace(key),
            Subject::Heartbeat(key),
            Subject::Probe(key),
        ] {
            self.timers.disarm(subject);
        }
        for peer in std::mem::take(&mut self.links[key].holds) {
            self.release(peer);
        }
        let challenge = self.links[key].challenge.take();
        let was_gateway = self.gateway == Some(key);
        self.starved.remove(&key);
        let app = self.links.remove(key).app;
        self.events.push_back(Event::Dropped { app, cause });
        if was_gateway {
            self.gateway = None;
            self.drop_links_behind_gateway(now, cause);
        }
        if let Some(challenge) = challenge {
            self.accept_challenger(now, challenge.newcomer);
        }
    }

    fn forget_requests_of(&mut self, key: Key) {
        for serving in self.links[key].serving.drain_sorted() {
            if let Some(request) = self.serving.remove(&serving) {
                self.forget_event(key, &request.id, serving);
                self.events.push_back(Event::RequesterGone {
                    serving: ServingId(serving),
                });
            }
        }
    }

    /// LINK-15: the remote has lost what it knew of us.
    pub(crate) fn forget_remote_memory(&mut self, now: Instant, key: Key) {
        let acked: Vec<u64> = self.links[key]
            .waiters
            .sorted()
            .into_iter()
            .filter(|seq| self.waiters[seq].acked)
            .collect();
        for seq in acked {
            // A subscribe is simply made again.
            if self.subscriptions.contains_key(&seq) {
                self.waiters.get_mut(&seq).expect("listed just now").acked = false;
            } else {
                self.settle_call(seq, Outcome::PeerRestarted);
            }
        }
        // Answers and chunks for questions that the new incarnation never asked.
        let queues = &self.links[key].queues;
        let stale: Vec<u64> = self
            .outbox
            .seqs(&queues.backlog)
            .into_iter()
            .filter(|&seq| {
                let class = &self.outbox.get(seq).expect("listed just now").class;
                matches!(
                    class,
                    Class::Response { .. } | Class::Chunk { .. } | Class::Hit | Class::Notify
                )
            })
            .collect();
        for seq in stale {
            self.withdraw(seq);
        }
        let link = &mut self.links[key];
        link.owed.clear();
        link.unsure.clear();
        link.abandoned.clear();
        link.dedup.clear();
        self.forget_requests_of(key);
        self.forget_listens_of(key);
        for seq in self.links[key].subscriptions.clone() {
            self.renew_subscription(now, seq);
        }
    }

    /// Our own departure from `app`: it is dropped at once and told so (LINK-12). False if it is unknown.
    pub fn disconnect(&mut self, now: Instant, app: &AppId) -> bool {
        let Some(key) = self.links.find(app.as_str()) else {
            return false;
        };
        let direct = self.links[key].reach == Reach::Direct;
        let peer = self.links[key].peer().filter(|_| direct);
        if let Some(peer) = peer {
            let (token, id, encoded) = self.raw(now, app.as_str(), Meta::Unregister, None);
            self.peers.push_urgent(peer, Urgent::Raw { token, encoded });
            let until = now + self.config.protocol_timeout;
            if let Some(state) = self.peers.get_mut(peer)
                && state.bound == [key]
            {
                state.phase = Phase::Closing {
                    reason: CloseReason::Unregistered,
                    awaiting: Some(id),
                };
                self.timers.arm(Subject::Peer(peer), until);
            }
        }
        self.drop_link(now, key, DropCause::Disconnected);
        true
    }

    /// Ends everything at once (TERM-1): every call is rejected, every send settles false, nothing is left. The
    /// connections are to be closed. The core can be used again after that, as a new one could.
    pub fn terminate(&mut self) {
        // What waits for the renewal of an established subscription is not the caller's call any more.
        let established = |seq: &u64| {
            self.subscriptions
                .get(seq)
                .is_some_and(|subscription| subscription.established)
        };
        let mut calls: Vec<u64> = self.waiters.keys().copied().collect();
        calls.retain(|seq| !established(seq));
        calls.sort_unstable();
        let mut ended: Vec<u64> = self.subscriptions.keys().copied().collect();
        ended.retain(established);
        ended.sort_unstable();
        let mut serving: Vec<u64> = self.serving.keys().copied().collect();
        serving.sort_unstable();
        let mut sends = Vec::new();
        for key in self.links.keys() {
            let queues = &self.links[key].queues;
            for list in [
                &queues.control,
                &queues.pending,
                &queues.submitted,
                &queues.backlog,
            ] {
                sends.extend(
                    self.outbox
                        .seqs(list)
                        .into_iter()
                        .filter(|&seq| self.outbox.get(seq).is_some_and(|out| out.tracked)),
                );
            }
        }
        sends.sort_unstable();
        let terminated = |seq| Event::Done {
            call: CallId(seq),
            outcome: Outcome::Terminated,
        };
        self.events.extend(calls.into_iter().map(terminated));
        let ends = |seq| Event::SubscriptionEnded {
            call: CallId(seq),
            outcome: Outcome::Terminated,
        };
        self.events.extend(ended.into_iter().map(ends));
        self.events
            .extend(serving.into_iter().map(|id| Event::RequesterGone {
                serving: ServingId(id),
            }));
        let settled = |seq| Event::Settled {
            send: crate::SendId(seq),
            delivered: false,
        };
        self.events.extend(sends.into_iter().map(settled));
        for peer in self.peers.ids() {
            self.events.push_back(Event::ClosePeer {
                peer,
                reason: CloseReason::Terminated,
            });
        }
        self.forget_everything();
    }

    /// Whether `app` may be sent to now without waiting, waits in its grace, or is unknown.
    pub fn link_state(&self, app: &AppId) -> Option<LinkState> {
        self.links
            .find(app.as_str())
            .map(|key| self.links[key].state)
    }

    /// How `app` is reached, if it is known.
    pub fn reach(&self, app: &AppId) -> Option<Reach> {
        self.links
            .find(app.as_str())
            .map(|key| self.links[key].reach)
    }

    /// Whether a send to `app` would find a way.
    ///
    /// # Errors
    /// [`SendError::NoRoute`] and [`SendError::SelfAddressed`], as the send would.
    pub fn check_route(&self, app: &AppId) -> Result<(), SendError> {
        if self.links.find(app.as_str()).is_some() {
            Ok(())
        } else if *app == self.config.app {
            Err(SendError::SelfAddressed(app.clone()))
        } else {
            self.gateway
                .map(|_| ())
                .ok_or_else(|| SendError::NoRoute(app.clone()))
        }
    }
}
