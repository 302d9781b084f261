//! What comes in. The order is that of MSG-4: who may speak here, ACK, dedup, process. What this module keeps true:
//! no message of an App is handed on twice while its id is remembered; nothing that a remote sends panics; and what is
//! dropped is reported.

use bytes::Bytes;

use crate::arena::Key;
use crate::calls::Asked;
use crate::event::{
    CallId, CloseReason, DropCause, Event, NotifyTarget, Outcome, PeerId, ServingId,
};
use crate::identity::seq_of;
use crate::link::{LinkState, Reach};
use crate::message::ack::{further_numbers, parts_of};
use crate::message::{Encoded, Envelope, MessageId, Meta, Payload, SignalKind, decode};
use crate::outbox::Class;
use crate::peers::{Phase, Urgent};
use crate::{Instant, Nacp, PeerViolation};

impl Nacp {
    /// A whole message came over `peer`.
    ///
    /// # Errors
    /// [`PeerViolation`] = the remote's fault, for the driver to report; the message was dropped. Whether the
    /// connection must be closed for it comes as [`Event::ClosePeer`], as always.
    pub fn handle_message(
        &mut self,
        now: Instant,
        peer: PeerId,
        bytes: &Bytes,
    ) -> Result<(), PeerViolation> {
        let result = self.take_in(now, peer, bytes);
        if let Err(violation) = &result
            && self
                .peers
                .get(peer)
                .is_some_and(|state| matches!(state.phase, Phase::Unregistered))
        {
            self.close_for(now, peer, violation);
        }
        result
    }

    /// Bytes of a message that is not complete yet came over `peer`: proof of life, so that a large message under way
    /// is never mistaken for silence (HB-7).
    pub fn handle_progress(&mut self, now: Instant, peer: PeerId) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.progress = now;
        }
    }

    fn take_in(&mut self, now: Instant, peer: PeerId, bytes: &Bytes) -> Result<(), PeerViolation> {
        let state = self.peers.get_mut(peer).ok_or(PeerViolation::UnknownPeer)?;
        let envelope = decode(bytes)?;
        state.completed = now;
        match &state.phase {
            Phase::Closing { awaiting, .. } => {
                let awaited = matches!((&envelope.meta, awaiting), (Meta::Response { parent_id, .. }, Some(id))
                    if parent_id.as_bytes() == id.as_bytes());
                if awaited {
                    self.end_goodbye(now, peer);
                }
                return Ok(());
            }
            Phase::Registering { .. } => {
                return self.on_handshake_message(now, peer, &envelope, bytes);
            }
            Phase::Challenging(_) => return Ok(()),
            Phase::Unregistered | Phase::Bound => {}
        }
        if matches!(envelope.meta, Meta::Register) {
            return self.on_register(now, peer, &envelope, bytes);
        }
        let link = self.sender(now, peer, &envelope)?;
        if envelope.to != self.config.app.as_str() {
            self.forward(now, peer, link, &envelope, bytes);
            return Ok(());
        }
        self.came_to_life(now, link);
        self.dispatch(now, peer, link, &envelope, bytes)
    }

    /// GW-4: the link of `from`, if it may speak over `peer`.
    fn sender(
        &mut self,
        now: Instant,
        peer: PeerId,
        envelope: &Envelope<'_>,
    ) -> Result<Key, PeerViolation> {
        let from = &*envelope.from;
        let state = self.peers.get(peer).expect("looked up by the caller");
        if let Some(&key) = state
            .bound
            .iter()
            .find(|&&key| self.links[key].app.as_str() == from)
        {
            return Ok(key);
        }
        let through_gateway = self
            .gateway
            .is_some_and(|gateway| state.bound.contains(&gateway));
        if through_gateway && from != self.config.app.as_str() {
            if let Some(key) = self.links.find(from) {
                return Ok(key);
            }
            let app = crate::AppId::new(from).expect("the decoder checked its length");
            if let Some(key) = self.link_behind_gateway(now, &app) {
                return Ok(key);
            }
        }
        Err(PeerViolation::FromMismatch {
            from: from.to_owned(),
        })
    }

    fn dispatch(
        &mut self,
        now: Instant,
        peer: PeerId,
        link: Key,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) -> Result<(), PeerViolation> {
        let reliable = match &envelope.meta {
            Meta::AckMany { parent_id, also } => {
                self.on_ack_many(now, link, parent_id, also, bytes);
                return Ok(());
            }
            Meta::Ack { parent_id, taken } => {
                self.on_ack(now, link, parent_id, *taken, bytes);
                return Ok(());
            }
            Meta::Notify { reliable, .. } => *reliable,
            _ => true,
        };
        if reliable {
            self.acknowledge(now, peer, link, envelope)?;
            let window = self.config.dedup_window();
            if !self.links[link]
                .dedup
                .insert(&self.hasher, window, &envelope.id)
            {
                return Ok(());
            }
        }
        match &envelope.meta {
            Meta::Request { kind, target } => {
                self.on_request(now, link, envelope, *kind, target.as_deref(), bytes)
            }
            Meta::Response { .. } => self.on_response(now, link, envelope, bytes),
            Meta::Notify { .. } => self.on_notify(link, envelope, bytes),
            Meta::Signal { parent_id, kind } => {
                self.on_signal(link, parent_id, *kind, envelope, bytes)
            }
            Meta::Subscribe => self.on_subscribe(now, link, envelope, bytes),
            Meta::Unsubscribe => self.on_unsubscribe(now, link, envelope, bytes),
            Meta::Unregister => self.on_unregister(now, peer, link, envelope),
            Meta::Register | Meta::Ack { .. } | Meta::AckMany { .. } => {}
        }
        Ok(())
    }

    /// MSG-4: the ACK goes out before anything else is done, also for what came already.
    fn acknowledge(
        &mut self,
        now: Instant,
        peer: PeerId,
        link: Key,
        envelope: &Envelope<'_>,
    ) -> Result<(), PeerViolation> {
        let waiting = self.peers.get(peer).map_or(0, |peer| peer.acks);
        if waiting >= self.config.acks_waiting_max {
            let violation = PeerViolation::NotReading { waiting };
            self.close_for(now, peer, &violation);
            return Err(violation);
        }
        let record = &self.links[link];
        self.peers.push_ack(
            peer,
            &record.app,
            &envelope.id,
            record.features.batched_acks,
        );
        Ok(())
    }

    fn on_ack(&mut self, now: Instant, link: Key, parent: &str, taken: Option<u64>, bytes: &Bytes) {
        if let Some(taken) = taken {
            return self.on_taken(link, parent, taken);
        }
        let seq = seq_of(parent);
        let known = seq.and_then(|seq| self.outbox.get(seq));
        if let Some(outgoing) =
            known.filter(|out| out.link == link && out.id.as_bytes() == parent.as_bytes())
        {
            let seq = outgoing.seq;
            self.acked(now, link, seq);
            return;
        }
        // A request may have left AckPending before its ACK came (CAP-3).
        if let Some(waiter) = self
            .waiter_of(parent)
            .and_then(|seq| self.waiters.get_mut(seq))
            && waiter.link == link
        {
            waiter.acked = true;
            return;
        }
        if seq.is_some_and(|seq| self.links[link].unsure.remove(&seq).is_some()) {
            self.mark_ready(link);
            return;
        }
        if seq.is_some_and(|seq| self.links[link].unsure_chunks.remove(&seq).is_some()) {
            return;
        }
        self.report(
            "nacp:internal:ack:error",
            "has-no-consumer",
            Some(link),
            Some(Encoded::from(bytes.clone())),
        );
    }

    /// Feature `batched-acks`.
    fn on_ack_many(&mut self, now: Instant, link: Key, first: &str, also: &[u8], bytes: &Bytes) {
        self.on_ack(now, link, first, None, bytes);
        let Some((prefix, number)) = parts_of(first.as_bytes()) else {
            return;
        };
        for seq in further_numbers(number, also) {
            let known = self.outbox.get(seq).filter(|out| out.link == link);
            if known.is_some_and(|out| parts_of(out.id.as_bytes()) == Some((prefix, seq))) {
                self.acked(now, link, seq);
            } else {
                self.on_ack(
                    now,
                    link,
                    &format!("{}{seq:x}", &first[..prefix.len()]),
                    None,
                    bytes,
                );
            }
        }
    }

    fn acked(&mut self, now: Instant, link: Key, seq: u64) {
        let outgoing = self.take(seq);
        self.settle_send(&outgoing, true);
        if let Some(waiter) = self.waiters.get_mut(seq) {
            waiter.acked = true;
        }
        let record = &mut self.links[link];
        // The remote has all of it, whatever the transport has told so far.
        record.large.retain(|&(large, _)| large != seq);
        // A remote that dies of a message ACKs its handshake each time before: only what it handled counts (MSG-9).
        let handled = !matches!(outgoing.class, Class::Control);
        record.acked |= handled;
        if handled {
            record.cautious = false;
        }
        record.unsure.remove(&seq);
        let probed = record
            .challenge
            .as_ref()
            .is_some_and(|challenge| challenge.probe == outgoing.id);
        self.mark_ready(link);
        if probed {
            self.incumbent_answered(now, link);
        }
    }

    fn on_response(&mut self, now: Instant, link: Key, envelope: &Envelope<'_>, bytes: &Bytes) {
        let Meta::Response {
            parent_id,
            is_ok,
            why_not_ok,
            ..
        } = &envelope.meta
        else {
            return;
        };
        let is = |id: &Option<MessageId>| {
            id.as_ref()
                .is_some_and(|id| id.as_bytes() == parent_id.as_bytes())
        };
        let record = &mut self.links[link];
        let probe = record
            .challenge
            .as_ref()
            .map(|challenge| challenge.probe.clone());
        if is(&record.heartbeat) {
            record.heartbeat = None;
            if !is(&probe) {
                return;
            }
        }
        if is(&probe) {
            return self.incumbent_answered(now, link);
        }
        let Some(seq) = self
            .waiter_of(parent_id)
            .filter(|&seq| self.may_answer(link, self.waiters[seq].link))
        else {
            self.links[link].abandoned.remove(parent_id.as_bytes());
            let encoded = Some(Encoded::from(bytes.clone()));
            return self.report(
                "nacp:internal:response:error",
                "has-no-consumer",
                Some(link),
                encoded,
            );
        };
        let outcome = Outcome::Response {
            is_ok: *is_ok,
            why_not_ok: why_not_ok.as_deref().map(str::to_owned),
            payload: envelope.payload_of(bytes),
        };
        // An answer proves receipt: its request need not be sent again, ACK or not.
        if self.outbox.get(seq).is_some() {
            self.acked(now, self.waiters[seq].link, seq);
        }
        // Whether it subscribed us is lost with the answer: it must not go on for nobody.
        let asked = &self.waiters[seq];
        let stray = (asked.asked == Asked::Subscribe
            && why_not_ok.as_deref() == Some("response-evicted"))
        .then(|| (asked.link, asked.id.clone()));
        self.settle_call(seq, outcome);
        if let Some((link, id)) = stray {
            self.send_unsubscribe(now, link, &id, false);
        }
    }

    /// GW-6: the App that was asked, or the Gateway through which it was asked.
    fn may_answer(&self, from: Key, asked: Key) -> bool {
        from == asked || (Some(from) == self.gateway && self.links[asked].reach == Reach::Gateway)
    }

    fn on_notify(&mut self, link: Key, envelope: &Envelope<'_>, bytes: &Bytes) {
        let Meta::Notify {
            parent_id,
            hit_sub_name,
            reliable,
            ..
        } = &envelope.meta
        else {
            return;
        };
        let Some(target) = self.notify_target(link, parent_id) else {
            let stream = hit_sub_name.strip_prefix("nacp:event:");
            let stream = stream.and_then(|name| name.strip_suffix(":process"));
            if *reliable && stream == Some(&**parent_id) {
                self.abandon_stream(link, MessageId::from(&**parent_id));
            }
            let encoded = Some(Encoded::from(bytes.clone()));
            return self.report(
                "nacp:internal:notify:error",
                "has-no-consumer",
                Some(link),
                encoded,
            );
        };
        if let NotifyTarget::Call(CallId(seq)) = target
            && let Some(waiter) = self.waiters.get_mut(seq)
        {
            waiter.came += u64::from(*reliable);
        }
        let payload = envelope.payload_of(bytes);
        self.events.push_back(Event::Notify {
            target,
            hit_sub_name: hit_sub_name.to_string(),
            payload,
            reliable: *reliable,
        });
    }

    fn on_signal(
        &mut self,
        link: Key,
        parent: &str,
        kind: SignalKind,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) {
        let id = MessageId::from(parent);
        let own = self.serving_events.get(&(link, id.clone()));
        let Some(&serving) = own.or_else(|| self.steered.get(&id)) else {
            let encoded = Some(Encoded::from(bytes.clone()));
            return self.report(
                "nacp:internal:signal:error",
                "no-event-processor",
                Some(link),
                encoded,
            );
        };
        let payload = match kind {
            SignalKind::Normal => envelope.payload_of(bytes),
            SignalKind::Pause | SignalKind::Resume | SignalKind::Abort => Payload::default(),
        };
        let from = self.links[link].app.clone();
        self.events.push_back(Event::Signal {
            serving: ServingId(serving),
            from,
            kind,
            payload,
        });
    }

    fn on_unregister(&mut self, now: Instant, peer: PeerId, link: Key, envelope: &Envelope<'_>) {
        let meta = Meta::Response {
            parent_id: envelope.id.clone(),
            is_ok: true,
            why_not_ok: None,
            kind: None,
        };
        let (token, _, encoded) = self.raw(now, &envelope.from, meta, None);
        self.peers.push_urgent(peer, Urgent::Raw { token, encoded });
        let alone = self
            .peers
            .get(peer)
            .is_some_and(|state| state.bound == [link]);
        if alone && self.links[link].reach == Reach::Direct {
            self.links[link].leaving = true;
            self.say_goodbye(now, peer, token, CloseReason::Unregistered);
        } else {
            self.drop_link(now, link, DropCause::Unregistered);
        }
    }

    /// Any message from an App behind the Gateway, and any ACK, shows that it is there again (LINK-16).
    fn came_to_life(&mut self, now: Instant, link: Key) {
        let record = &mut self.links[link];
        if record.reach == Reach::Gateway {
            record.used = true;
            if matches!(record.state, LinkState::Offline { .. }) {
                self.online_behind_gateway(now, link);
            }
        }
    }
}
