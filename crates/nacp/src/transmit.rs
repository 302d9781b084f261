//! What leaves, and when. The transport pulls: a message is handed out only for a connection that can take it, so
//! unsent work stays in the Backlog, where a cut cannot lose it (MSG-10).
//!
//! What this module keeps true: the urgent lane goes first (HB-7); a link's Backlog leaves in send order, except that
//! while a large message of one pair of Apps is being written, messages of other pairs may pass it (MSG-7); several
//! links over one connection take turns.

use crate::arena::Key;
use crate::config::Overflow;
use crate::event::{CloseReason, Event, PeerId};
use crate::link::{Debt, Link};
use crate::message::{AppId, Encoded, Head, Meta};
use crate::outbox::{Class, Outgoing, Place};
use crate::peers::{Phase, Urgent};
use crate::{Instant, Nacp};

/// A message for the transport. Its bytes are `message`; when the transport has taken the last of them, the driver
/// says so with [`Nacp::handle_accepted`].
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The name under which it is accepted; 0 = nobody needs to know.
    pub token: u64,
    /// The bytes.
    pub message: Encoded,
}

/// How many messages behind a blocked one are looked at for one of another pair.
const LOOKAHEAD: usize = 64;
/// Large messages of different pairs that one link has in the transport's hands.
const LARGE_MAX: usize = 4;
/// Replacements of evicted Responses that are out at a time.
const DEBTS_OUT_MAX: usize = 16;

impl Nacp {
    /// The next message for `peer`, which must be able to take it. `None` = nothing until [`poll_wake`](Self::poll_wake)
    /// names it again. The only poll that moves state.
    pub fn poll_transmit(&mut self, now: Instant, peer: PeerId) -> Option<Transmit> {
        loop {
            let state = self.peers.get_mut(peer)?;
            if state.opening.is_some() {
                state.woken = false;
                return None;
            }
            if !state.urgent.is_empty() {
                if let Some(transmit) = self.poll_urgent(now, peer) {
                    return Some(transmit);
                }
                continue;
            }
            let Some(link) = state.ready.pop_front() else {
                state.woken = false;
                return None;
            };
            if let Some(transmit) = self.transmit_from(now, peer, link) {
                return Some(transmit);
            }
        }
    }

    /// As [`poll_transmit`](Self::poll_transmit), from the urgent lane only (acks, heartbeats, handshakes): for a
    /// connection that is full of large messages and can take no more than small ones.
    pub fn poll_urgent(&mut self, now: Instant, peer: PeerId) -> Option<Transmit> {
        loop {
            let state = self.peers.get_mut(peer)?;
            if state.opening.is_some() {
                return None;
            }
            let urgent = state.urgent.pop_front()?;
            if let Some(transmit) = self.transmit_urgent(now, peer, urgent) {
                return Some(transmit);
            }
        }
    }

    fn transmit_urgent(&mut self, now: Instant, peer: PeerId, urgent: Urgent) -> Option<Transmit> {
        match urgent {
            Urgent::Raw { token, encoded } => Some(Transmit {
                token,
                message: encoded,
            }),
            Urgent::Ack { to, parent, taken } => {
                let meta = Meta::Ack {
                    parent_id: parent.as_str().into(),
                    taken,
                };
                Some(self.ack(now, peer, &to, meta, 1))
            }
            Urgent::Acks { to, batch } => {
                let parent_id = batch.first.as_str().into();
                let meta = match &batch.also[..] {
                    [] => Meta::Ack {
                        parent_id,
                        taken: None,
                    },
                    also => Meta::AckMany {
                        parent_id,
                        also: also.into(),
                    },
                };
                Some(self.ack(now, peer, &to, meta, batch.count))
            }
            Urgent::Control { link, seq } => {
                // Its link may have gone offline since.
                let key = self.outbox.locate(seq)?;
                if self.outbox.record(key).link != link {
                    return None;
                }
                let outgoing = self.outbox.submit(&mut self.links[link].queues, key);
                // Of the control messages only the answer to a register, with all that we declare, can be large.
                if outgoing.bytes > self.config.large_message_bytes as u64
                    && let Some(state) = self.peers.get_mut(peer)
                {
                    state.opening = Some(seq);
                }
                Some(Transmit {
                    token: seq,
                    message: outgoing.encoded.clone(),
                })
            }
        }
    }

    fn ack(
        &mut self,
        now: Instant,
        peer: PeerId,
        to: &AppId,
        meta: Meta<'_>,
        count: usize,
    ) -> Transmit {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.acks -= count;
        }
        let (_, id) = self.identity.next();
        let from = self.config.app.as_str();
        let t_ms = self.wall_ms(now);
        let head = Head {
            id: id.as_str(),
            from,
            to: to.as_str(),
            t_ms,
            meta,
        };
        Transmit {
            token: 0,
            message: self.encoder.encode(&head, None),
        }
    }

    fn transmit_from(&mut self, now: Instant, peer: PeerId, key: Key) -> Option<Transmit> {
        if !self.links.contains(key)
            || !self.links[key].ready
            || self.links[key].leaving
            || !self.may_use(key, peer)
        {
            return None;
        }
        self.links[key].ready = false;
        self.pay_debts(now, key);
        let next = self.next_of(key)?;
        if !self.pending_has_room_for(next) {
            self.starved.insert(key);
            return None;
        }
        let link = &mut self.links[key];
        link.probe_due = false;
        let outgoing = self.outbox.submit(&mut link.queues, next);
        let transmit = Transmit {
            token: outgoing.seq,
            message: outgoing.encoded.clone(),
        };
        if outgoing.bytes > self.config.large_message_bytes as u64 {
            link.large.push((outgoing.seq, outgoing.source));
        }
        self.tell_room();
        self.mark_ready(key);
        Some(transmit)
    }

    /// Whether `peer` is how this link is reached now.
    fn may_use(&self, key: Key, peer: PeerId) -> bool {
        self.peer_of(key) == Some(peer)
    }

    /// The connection for what is sent to this link: its own, or for a probe of an offline App the Gateway's.
    pub(crate) fn peer_of(&self, key: Key) -> Option<PeerId> {
        let link = &self.links[key];
        link.peer().or_else(|| {
            let gateway = self.gateway.filter(|_| link.probe_due)?;
            self.links[gateway].peer()
        })
    }

    /// The first message of the Backlog that may leave now.
    fn next_of(&self, key: Key) -> Option<Key> {
        let link = &self.links[key];
        let in_flight = link.queues.submitted.len() + link.queues.pending.len();
        if (link.cautious || link.probe_due) && in_flight > 0 {
            return None;
        }
        let next = link.queues.backlog.first()?;
        let first = self.outbox.record(next);
        if link.probe_due && !first.class.needs_ack() {
            return None; // a heartbeat is the probe
        }
        if link.large.is_empty() {
            return Some(next);
        }
        let free = |outgoing: &Outgoing| may_pass(link, outgoing, self.config.large_message_bytes);
        if link.forwarded.messages == 0 {
            // All of one pair: nothing can pass.
            return free(first).then_some(next);
        }
        self.outbox.find(&link.queues.backlog, LOOKAHEAD, free)
    }

    /// CAP-6: what is submitted will need its place in AckPending. A message alone always fits.
    fn pending_has_room_for(&self, next: Key) -> bool {
        let outgoing = self.outbox.record(next);
        if self.config.overflow == Overflow::Evict || !outgoing.class.needs_ack() {
            return true;
        }
        let (pending, submitted) = (self.outbox.pending(), self.outbox.submitted());
        pending.messages + submitted.messages < self.config.queue_count_max
            && pending.bytes + submitted.bytes + outgoing.bytes <= self.config.queue_bytes_max
    }

    /// After something left AckPending: the links that waited for that (CAP-6).
    pub(crate) fn wake_starved(&mut self) {
        if !self.starved.is_empty() {
            for key in std::mem::take(&mut self.starved) {
                if self.links.contains(key) {
                    self.mark_ready(key);
                }
            }
        }
    }

    /// Puts the link into its connection's turn if it has something that may leave.
    pub(crate) fn mark_ready(&mut self, key: Key) {
        let link = &self.links[key];
        let idle = link.queues.backlog.is_empty()
            && (link.owed.is_empty() || link.unsure.len() >= DEBTS_OUT_MAX);
        if link.ready || idle {
            return;
        }
        let Some(peer) = self.peer_of(key) else {
            return;
        };
        if let Some(state) = self.peers.get_mut(peer) {
            state.ready.push_back(key);
            self.links[key].ready = true;
            self.peers.wake(peer);
        }
    }

    /// Sends, in place of Responses that were evicted, small ones that say so (WAIT-5).
    fn pay_debts(&mut self, now: Instant, key: Key) {
        while self.links[key].unsure.len() < DEBTS_OUT_MAX && self.links[key].is_online() {
            let Some((_, debt)) = self.links[key].owed.pop_first() else {
                return;
            };
            let meta = Meta::Response {
                parent_id: debt.parent.as_str().into(),
                is_ok: false,
                why_not_ok: Some("response-evicted".into()),
                kind: debt.kind,
            };
            let seq = self.push_control(now, key, meta, None);
            let debt = Debt {
                parent: debt.parent.clone(),
                kind: debt.kind,
            };
            self.links[key].unsure.insert(seq, debt);
        }
    }

    /// Queues a control message: urgent, tracked, and gone with the connection.
    pub(crate) fn push_control(
        &mut self,
        now: Instant,
        key: Key,
        meta: Meta<'_>,
        payload: Option<&crate::Payload>,
    ) -> u64 {
        let (seq, id) = self.identity.next();
        let encoded = self.encoded(now, key, &id, meta, payload);
        let outgoing = Outgoing::new(seq, id, key, Class::Control, encoded);
        self.outbox.insert(&mut self.links[key].queues, outgoing);
        if let Some(peer) = self.peer_of(key) {
            self.peers
                .push_urgent(peer, Urgent::Control { link: key, seq });
        }
        seq
    }

    /// The transport has taken the last byte of the message `token` over `peer`; from here its ACK clock runs (MSG-2).
    pub fn handle_accepted(&mut self, now: Instant, peer: PeerId, token: u64) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if state.opening == Some(token) {
            state.opening = None;
            self.peers.wake(peer);
        }
        self.withdrawn_is_out(peer, token);
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if state.close_on.is_some_and(|last| last == token) {
            return self.end_goodbye(now, peer);
        }
        let Some(record) = self.outbox.locate(token) else {
            return;
        };
        let outgoing = self.outbox.record(record);
        if outgoing.place != Place::Submitted {
            return;
        }
        let key = outgoing.link;
        if self.links[key].peer().is_some_and(|bound| bound != peer) {
            return;
        }
        let link = &mut self.links[key];
        if let Some(complete) = self.outbox.accept(&mut link.queues, record, now) {
            if complete.source.is_some() {
                link.forwarded.sub(complete.bytes);
            }
            let queues = &link.queues;
            if queues.backlog.is_empty() && queues.submitted.is_empty() && queues.pending.is_empty()
            {
                // Where nobody ACKs anything: all that there was to be careful with is out (MSG-9).
                link.cautious = false;
            }
            self.settle_send(&complete, true);
            self.tell_room();
        }
        // Its pair, or whoever goes one at a time, may go on.
        self.links[key].large.retain(|&(seq, _)| seq != token);
        self.mark_ready(key);
        self.release_if_caught_up(key);
        self.enforce_pending_caps();
    }

    fn withdrawn_is_out(&mut self, peer: PeerId, token: u64) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if let Some(index) = state.withdrawn.iter().position(|&(seq, _)| seq == token) {
            let (_, key) = state.withdrawn.swap_remove(index);
            if self.links.contains(key) {
                self.links[key].large.retain(|&(seq, _)| seq != token);
                self.mark_ready(key);
            }
        }
    }

    /// Our last word is out: the reply to an unregister (LINK-10), or the ack of a refusal.
    pub(crate) fn end_goodbye(&mut self, now: Instant, peer: PeerId) {
        let Some(state) = self.peers.get(peer) else {
            return;
        };
        let reason = match &state.phase {
            Phase::Closing { reason, .. } => reason.clone(),
            Phase::Unregistered => CloseReason::NeverRegistered,
            _ => CloseReason::ResponseTimeout,
        };
        for key in state.bound.clone() {
            self.go_offline(now, key, crate::OfflineCause::PeerDown);
        }
        self.close_peer(peer, reason);
    }

    /// Forgets the connection and has the driver close it. Its links must have left it already.
    pub(crate) fn close_peer(&mut self, peer: PeerId, reason: CloseReason) {
        if let Some(state) = self.forget_peer(peer) {
            debug_assert!(
                state.bound.is_empty(),
                "links leave their connection before it is closed"
            );
            if let Phase::Challenging(claim) = state.phase
                && let Some(link) = self.links.find(claim.app.as_str())
            {
                self.links[link].challenge = None;
            }
            self.events.push_back(Event::ClosePeer { peer, reason });
        }
    }
}

/// Whether `outgoing` may leave while the link's large messages are being written.
fn may_pass(link: &Link, outgoing: &Outgoing, large_bytes: usize) -> bool {
    let pair_is_free = link
        .large
        .iter()
        .all(|&(_, source)| source != outgoing.source);
    pair_is_free && (link.large.len() < LARGE_MAX || outgoing.bytes <= large_bytes as u64)
}
