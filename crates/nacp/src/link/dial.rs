//! Register, the dialling side. What this file keeps true: nothing of the application leaves before the handshake is done
//! (B08); every attempt names the same incarnation until we drop the remote (LINK-15); and of two connections that both
//! sides dialled at once, both keep the same one.

use bytes::Bytes;

use crate::arena::Key;
use crate::event::{CloseReason, Event, PeerId, Role};
use crate::link::{BATCHED_ACKS, RELIABLE_NOTIFY, Reach, STREAM_CREDIT};
use crate::message::{
    AppId, Encoded, Envelope, Head, MessageId, Meta, Payload, Registration, encode,
};
use crate::peers::{Peer, Phase, Urgent};
use crate::timers::Subject;
use crate::{Instant, Nacp, PeerViolation};

impl Nacp {
    /// A connection is up. A dialler's register is the first thing that [`poll_transmit`](Self::poll_transmit) gives
    /// for it.
    pub fn handle_peer_up(&mut self, now: Instant, peer: PeerId, role: Role) {
        let until = now + self.config.protocol_timeout;
        let Role::Dialer { expect } = role else {
            let up_at = self.identity.next_seq();
            self.peers
                .insert(peer, Peer::new(Phase::Unregistered, up_at, now));
            self.timers.arm(Subject::Peer(peer), until);
            return;
        };
        if expect == self.config.app {
            let reason = CloseReason::Refused("self-addressed".to_owned());
            self.events.push_back(Event::ClosePeer { peer, reason });
            return;
        }
        let instance = self.instance_towards(&expect);
        let payload = self.registration(Some(instance.clone()), self.own_features());
        let (token, id, encoded) = self.raw(now, expect.as_str(), Meta::Register, Some(&payload));
        let phase = Phase::Registering {
            expect,
            id,
            instance,
        };
        self.peers.insert(peer, Peer::new(phase, token, now));
        self.peers.push_urgent(peer, Urgent::Raw { token, encoded });
        self.timers.arm(Subject::Peer(peer), until);
    }

    /// Our incarnation towards `app`: the same at every attempt, until it is dropped.
    fn instance_towards(&mut self, app: &AppId) -> String {
        if let Some(link) = self.links.find(app.as_str()) {
            return self.links[link].our_instance.clone();
        }
        let identity = &mut self.identity;
        self.instances
            .entry(app.clone())
            .or_insert_with(|| identity.token())
            .clone()
    }

    /// What we announce.
    pub(crate) fn own_features(&self) -> Vec<String> {
        let lossless = self.config.lossless_streams;
        let ours = [
            (RELIABLE_NOTIFY, lossless),
            (STREAM_CREDIT, lossless),
            (BATCHED_ACKS, self.config.batched_acks),
        ];
        ours.into_iter()
            .filter(|(_, on)| *on)
            .map(|(name, _)| name.to_owned())
            .collect()
    }

    pub(crate) fn registration(&self, instance: Option<String>, features: Vec<String>) -> Payload {
        let registration = Registration {
            is_gateway: self.config.is_gateway,
            declaration: self.config.declaration.clone(),
            record: None,
            instance,
            features,
        };
        Payload::encode(&registration).expect("text and flags encode")
    }

    /// A message outside the queues: handshakes and farewells, which have no link yet or no more.
    pub(crate) fn raw(
        &mut self,
        now: Instant,
        to: &str,
        meta: Meta<'_>,
        payload: Option<&Payload>,
    ) -> (u64, MessageId, Encoded) {
        let (token, id) = self.identity.next();
        let from = self.config.app.as_str();
        let t_ms = self.wall_ms(now);
        let encoded = encode(
            &Head {
                id: id.as_str(),
                from,
                to,
                t_ms,
                meta,
            },
            payload,
        );
        (token, id, encoded)
    }

    /// A message on a connection that we dialled and whose register is open.
    pub(crate) fn on_handshake_message(
        &mut self,
        now: Instant,
        peer: PeerId,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) -> Result<(), PeerViolation> {
        let Some(Phase::Registering { expect, id, .. }) =
            self.peers.get(peer).map(|peer| &peer.phase)
        else {
            return Ok(());
        };
        let (expect, id) = (expect.clone(), id.clone());
        let answers = |parent: &str| parent.as_bytes() == id.as_bytes();
        match &envelope.meta {
            Meta::Ack { parent_id, .. } if answers(parent_id) => Ok(()),
            Meta::Response {
                parent_id,
                is_ok,
                why_not_ok,
                ..
            } if answers(parent_id) => {
                if envelope.from != expect.as_str() {
                    self.close_peer(peer, CloseReason::ExpectMismatch);
                    return Err(PeerViolation::ExpectMismatch {
                        expected: expect,
                        from: envelope.from.to_string(),
                    });
                }
                if *is_ok {
                    self.on_registered(now, peer, &expect, envelope, bytes)
                } else {
                    let reason = why_not_ok.as_deref().unwrap_or("refused").to_owned();
                    self.report_register(peer, Some(expect), "refused");
                    self.leave(now, peer, envelope, CloseReason::Refused(reason));
                    Ok(())
                }
            }
            _ => Err(PeerViolation::FromMismatch {
                from: envelope.from.to_string(),
            }),
        }
    }

    /// Our register was accepted.
    fn on_registered(
        &mut self,
        now: Instant,
        peer: PeerId,
        app: &AppId,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) -> Result<(), PeerViolation> {
        let registration: Registration = match envelope.payload_of(bytes).decode() {
            Ok(registration) => registration,
            Err(error) => {
                self.close_peer(peer, CloseReason::Violation("bad-payload"));
                return Err(PeerViolation::BadPayload {
                    what: "response to register",
                    why: error.to_string(),
                });
            }
        };
        let takes_slot = match self.gateway_slot(app, &registration) {
            Ok(takes_slot) => takes_slot,
            Err(reason) => {
                self.leave(now, peer, envelope, CloseReason::Refused(reason.to_owned()));
                return Ok(());
            }
        };
        if self.accepted_meanwhile(app, &registration) {
            // Both dialled at once, and both connections stand: both sides keep the one that the smaller App ID dialled.
            self.leave(now, peer, envelope, CloseReason::Superseded);
            return Ok(());
        }
        if self.later_attempt_stands(peer, app, &registration) {
            // The remote has registered that one after this one, so it has left this one already.
            self.leave(now, peer, envelope, CloseReason::Superseded);
            return Ok(());
        }
        if self.is_outdated(peer, app) {
            // Accepted as an incarnation of ours that ended meanwhile: the remote would believe that we still know of its
            // calls. It learns better from the next register.
            self.leave(now, peer, envelope, CloseReason::Superseded);
            return Ok(());
        }
        if let Some(key) = self.another_holds(app, &registration) {
            // Of two programs with one App ID the one that is there stays, if it lives (LINK-14); most likely this answer
            // is late, and of a program that is no more.
            self.send_heartbeat(now, key);
            self.leave(now, peer, envelope, CloseReason::Superseded);
            return Ok(());
        }
        let parent = MessageId::from(&*envelope.id);
        self.peers.push_urgent(
            peer,
            Urgent::Ack {
                to: app.clone(),
                parent,
                taken: None,
            },
        );
        let key = self.bind(now, peer, app, &registration, takes_slot);
        self.tell_taken_again(key);
        self.start_heartbeats(now, key, true);
        Ok(())
    }

    /// Whether `app` was dropped since we sent our register over `peer` (LINK-15).
    fn is_outdated(&self, peer: PeerId, app: &AppId) -> bool {
        let Some(Phase::Registering { instance, .. }) =
            self.peers.get(peer).map(|peer| &peer.phase)
        else {
            return false;
        };
        let now = match self.links.find(app.as_str()) {
            Some(link) => Some(&self.links[link].our_instance),
            None => self.instances.get(app),
        };
        now != Some(instance)
    }

    fn accepted_meanwhile(&self, app: &AppId, registration: &Registration) -> bool {
        let Some(key) = self.links.find(app.as_str()) else {
            return false;
        };
        let link = &self.links[key];
        let accepted = link
            .peer()
            .and_then(|peer| self.peers.get(peer))
            .is_some_and(|peer| peer.dialled.is_none());
        let same = registration.instance.is_some() && registration.instance == link.remote_instance;
        accepted && same && link.reach == Reach::Direct && self.config.app > *app
    }

    /// Whether `app` is online over a connection that we dialled after `peer`; or offline, and was online since we
    /// dialled `peer`: then this answer, and what stands behind it, may be older than what came meanwhile.
    fn later_attempt_stands(&self, peer: PeerId, app: &AppId, registration: &Registration) -> bool {
        let dialled = |peer: PeerId| self.peers.get(peer).and_then(|peer| peer.dialled);
        let Some(key) = self.links.find(app.as_str()) else {
            return false;
        };
        let link = &self.links[key];
        let same = registration.instance.is_some() && registration.instance == link.remote_instance;
        match link.peer() {
            _ if link.reach == Reach::Gateway => false,
            Some(stands) => same && dialled(stands) > dialled(peer),
            None => Some(link.bound_at) > dialled(peer),
        }
    }

    /// The link, if another incarnation of `app` is online than the one that answered.
    fn another_holds(&self, app: &AppId, registration: &Registration) -> Option<Key> {
        let key = self.links.find(app.as_str())?;
        let link = &self.links[key];
        let other =
            registration.instance.is_some() && registration.instance != link.remote_instance;
        (link.is_online() && link.reach == Reach::Direct && other).then_some(key)
    }

    /// ACKs `answer` and closes the connection when that is out.
    fn leave(&mut self, now: Instant, peer: PeerId, answer: &Envelope<'_>, reason: CloseReason) {
        let meta = Meta::Ack {
            parent_id: answer.id.clone(),
            taken: None,
        };
        let (token, _, encoded) = self.raw(now, &answer.from, meta, None);
        self.peers.push_urgent(peer, Urgent::Raw { token, encoded });
        self.say_goodbye(now, peer, token, reason);
    }

    /// Keeps the connection only until its message `token` is accepted.
    pub(crate) fn say_goodbye(
        &mut self,
        now: Instant,
        peer: PeerId,
        token: u64,
        reason: CloseReason,
    ) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.phase = Phase::Closing {
                reason,
                awaiting: None,
            };
            state.close_on = Some(token);
            self.timers
                .arm(Subject::Peer(peer), now + self.config.protocol_timeout);
        }
    }
}
