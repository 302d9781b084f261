//! Deadlines: which is next and why, and what happens at it. Early and repeated calls are no-ops.

use crate::arena::Key;
use crate::event::{CloseReason, OfflineCause, PeerId};
use crate::link::Reach;
use crate::outbox::Class;
use crate::peers::Phase;
use crate::timers::{Subject, Timer};
use crate::{Instant, Nacp};

impl Nacp {
    /// When [`handle_timeout`](Self::handle_timeout) must be called next, and why. May change with every other call.
    pub fn poll_timeout(&self) -> Option<(Instant, Timer)> {
        let ack = self
            .outbox
            .oldest_unacked()
            .map(|(since, _)| (since + self.config.ack_timeout, Timer::AckTimeout));
        let timer = self
            .timers
            .next()
            .map(|(at, subject)| (at, subject.timer()));
        [ack, timer].into_iter().flatten().min_by_key(|&(at, _)| at)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.judge_acks(now);
        // Each subject fires at most once per call and arms itself only later than `now`, so this ends.
        while let Some(subject) = self.timers.pop_due(now) {
            match subject {
                Subject::Grace(key) => self.on_grace_end(now, key),
                Subject::Heartbeat(key) => self.on_heartbeat_due(now, key),
                Subject::Probe(key) => self.on_probe_due(now, key),
                Subject::Hold(peer) => self.release(peer),
                Subject::Peer(peer) => self.on_peer_timeout(now, peer),
                Subject::Call(seq) => self.on_call_timeout(now, seq),
            }
        }
    }

    /// LINK-4b.
    fn judge_acks(&mut self, now: Instant) {
        while let Some((since, outgoing)) = self.outbox.oldest_unacked() {
            if since + self.config.ack_timeout > now {
                return;
            }
            let (seq, key, encoded) = (outgoing.seq, outgoing.link, outgoing.encoded.clone());
            let is_control = matches!(outgoing.class, Class::Control);
            let Some(peer) = self.links[key].peer() else {
                if is_control {
                    // A heartbeat as a probe: it is in no Backlog, and must not come up here for ever.
                    self.withdraw(seq);
                    continue;
                }
                // A probe that nobody answered; the next one is scheduled (LINK-16).
                self.outbox.requeue(&mut self.links[key].queues);
                self.enforce_backlog_caps();
                continue;
            };
            if self.may_be_behind_a_large_message(peer, key, since) {
                self.outbox.restart_ack_clock(seq, now);
                continue;
            }
            self.report(
                "nacp:internal:ack:warning",
                "timeout",
                Some(key),
                Some(encoded),
            );
            self.go_offline(now, key, OfflineCause::AckTimeout);
        }
    }

    /// Whether an ACK that is due since `since` can stand behind a large message that is coming in (HB-7). Whoever we are
    /// connected to answers in the end, since he lives. What a Gateway was to forward may be lost: there only a message
    /// that has been coming all the time counts, not the bytes of whatever else passes (LINK-16).
    fn may_be_behind_a_large_message(&self, peer: PeerId, key: Key, since: Instant) -> bool {
        let is_direct = self.links[key].reach == Reach::Direct;
        self.peers
            .get(peer)
            .is_some_and(|peer| peer.progress > since && (is_direct || peer.completed <= since))
    }

    fn on_peer_timeout(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get(peer) else {
            return;
        };
        match &state.phase {
            Phase::Registering { .. } => self.close_peer(peer, CloseReason::ResponseTimeout),
            Phase::Unregistered => self.close_peer(peer, CloseReason::NeverRegistered),
            Phase::Challenging(claim) => {
                let app = claim.app.clone();
                self.on_challenge_timeout(now, peer, &app);
            }
            Phase::Closing { .. } => self.end_goodbye(now, peer),
            Phase::Bound => {}
        }
    }
}
