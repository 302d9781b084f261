//! Register, both sides. What this file keeps true: nothing of the application leaves before the handshake is done
//! (B08); an App ID is bound to one connection at a time; and of two programs that claim one App ID, the one that is
//! there and alive keeps it (LINK-14).

use bytes::Bytes;

use crate::arena::Key;
use crate::event::{CloseReason, Event, OfflineCause, PeerId, Role};
use crate::link::{Challenge, FEATURES, Features, LinkState, Reach};
use crate::message::{
    AppId, Envelope, Head, MessageId, Meta, Payload, Registration, VERSION, encode,
};
use crate::peers::{Claim, Peer, Phase, Urgent};
use crate::timers::Subject;
use crate::{Instant, Nacp, PeerViolation};

impl Nacp {
    /// A connection is up. A dialler's register is the first thing that [`poll_transmit`](Self::poll_transmit) gives
    /// for it.
    pub fn handle_peer_up(&mut self, now: Instant, peer: PeerId, role: Role) {
        let until = now + self.config.protocol_timeout;
        let Role::Dialer { expect } = role else {
            self.peers
                .insert(peer, Peer::new(Phase::Unregistered, false, now));
            self.timers.arm(Subject::Peer(peer), until);
            return;
        };
        if expect == self.config.app {
            let reason = CloseReason::Refused("self-addressed".to_owned());
            self.events.push_back(Event::ClosePeer { peer, reason });
            return;
        }
        let (token, id) = self.identity.next();
        let instance = self.instance_towards(&expect);
        let payload = self.registration(Some(instance), self.own_features());
        let head = Head {
            id: id.as_str(),
            from: self.config.app.as_str(),
            to: expect.as_str(),
            t_ms: self.wall_ms(now),
            meta: Meta::Register,
        };
        let encoded = encode(&head, Some(&payload));
        self.peers.insert(
            peer,
            Peer::new(Phase::Registering { expect, id }, true, now),
        );
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

    fn own_features(&self) -> Vec<String> {
        let known = FEATURES.iter().filter(|_| self.config.lossless_streams);
        known.map(|&name| name.to_owned()).collect()
    }

    fn registration(&self, instance: Option<String>, features: Vec<String>) -> Payload {
        let registration = Registration {
            is_gateway: self.config.is_gateway,
            declaration: self.config.declaration.clone(),
            record: None,
            instance,
            features,
        };
        Payload::encode(&registration).expect("text and flags encode")
    }

    /// The order of checks is the base protocol's.
    pub(crate) fn on_register(
        &mut self,
        now: Instant,
        peer: PeerId,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) -> Result<(), PeerViolation> {
        if envelope.to != self.config.app.as_str() {
            self.report_register(peer, None, "wrong-app");
            return Err(PeerViolation::WrongApp {
                to: envelope.to.to_string(),
            });
        }
        let claimable = match self.peers.get(peer).map(|peer| &peer.phase) {
            Some(Phase::Unregistered | Phase::Bound) => true,
            Some(_) | None => false,
        };
        if !claimable {
            return Ok(());
        }
        let app = AppId::new(&envelope.from).expect("the decoder checked its length");
        let id = MessageId::from(&*envelope.id);
        let registration: Registration = match envelope.payload_of(bytes).decode() {
            Ok(registration) => registration,
            Err(error) => {
                self.refuse(now, peer, &app, &id, "bad-payload");
                return Err(PeerViolation::BadPayload {
                    what: "register",
                    why: error.to_string(),
                });
            }
        };
        if registration.is_gateway && self.config.is_gateway {
            self.refuse(now, peer, &app, &id, "dual-gateway");
        } else if envelope.version.major != VERSION.major {
            self.refuse(now, peer, &app, &id, "version-mismatch");
        } else if app == self.config.app {
            self.refuse(now, peer, &app, &id, "appId-in-use");
        } else {
            self.claim(
                now,
                peer,
                Claim {
                    app,
                    id,
                    registration,
                },
            );
        }
        Ok(())
    }

    /// LINK-14.
    fn claim(&mut self, now: Instant, peer: PeerId, claim: Claim) {
        let Some(key) = self.links.find(claim.app.as_str()) else {
            return self.accept_claim(now, peer, claim);
        };
        let link = &self.links[key];
        let incumbent = link
            .peer()
            .filter(|_| link.reach == Reach::Direct && !link.leaving);
        let same = claim.registration.instance.is_some()
            && claim.registration.instance == link.remote_instance;
        if incumbent.is_none() || incumbent == Some(peer) || same {
            return self.accept_claim(now, peer, claim);
        }
        if link.challenge.is_some()
            || self
                .peers
                .get(peer)
                .is_some_and(|peer| !peer.bound.is_empty())
        {
            return self.refuse(now, peer, &claim.app, &claim.id, "appId-in-use");
        }
        let probe = self.send_heartbeat(now, key);
        self.links[key].challenge = Some(Challenge {
            newcomer: peer,
            probe,
        });
        if let Some(state) = self.peers.get_mut(peer) {
            state.phase = Phase::Challenging(Box::new(claim));
        }
        self.timers
            .arm(Subject::Peer(peer), now + self.config.challenge_timeout);
    }

    /// The holder of the App ID lives: the newcomer is refused.
    pub(crate) fn incumbent_answered(&mut self, now: Instant, key: Key) {
        let Some(challenge) = self.links[key].challenge.take() else {
            return;
        };
        let Some(state) = self.peers.get_mut(challenge.newcomer) else {
            return;
        };
        if let Phase::Challenging(claim) = std::mem::replace(&mut state.phase, Phase::Unregistered)
        {
            self.refuse(
                now,
                challenge.newcomer,
                &claim.app,
                &claim.id,
                "appId-in-use",
            );
        }
    }

    /// The holder is silent, or gone: the newcomer takes its place.
    pub(crate) fn accept_challenger(&mut self, now: Instant, newcomer: PeerId) {
        let Some(state) = self.peers.get_mut(newcomer) else {
            return;
        };
        if let Phase::Challenging(claim) = std::mem::replace(&mut state.phase, Phase::Unregistered)
        {
            self.accept_claim(now, newcomer, *claim);
        }
    }

    pub(crate) fn on_challenge_timeout(&mut self, now: Instant, newcomer: PeerId, app: &AppId) {
        match self.links.find(app.as_str()) {
            // Going offline accepts the challenger.
            Some(key) if self.links[key].is_online() => {
                self.go_offline(now, key, OfflineCause::ChallengeLost)
            }
            Some(_) | None => self.accept_challenger(now, newcomer),
        }
    }

    fn accept_claim(&mut self, now: Instant, peer: PeerId, claim: Claim) {
        let known_gateway = self
            .gateway
            .filter(|&gateway| self.links[gateway].app != claim.app);
        let mut takes_slot = claim.registration.is_gateway;
        if let Some(kept) = known_gateway.filter(|_| takes_slot) {
            if !self.config.auto_multi_gateway_downgrade {
                return self.refuse(now, peer, &claim.app, &claim.id, "multi-gateway");
            }
            takes_slot = false;
            self.report(
                "nacp:internal:gateway:warning",
                "multi-gateway-downgraded",
                Some(kept),
                None,
            );
        }
        let key = self.bind(now, peer, &claim.app, &claim.registration, takes_slot);
        let to = claim.app.clone();
        self.peers.push_urgent(
            peer,
            Urgent::Ack {
                to,
                parent: claim.id.clone(),
                taken: None,
            },
        );
        let spoken =
            claim.registration.instance.is_some() || !claim.registration.features.is_empty();
        let instance = spoken.then(|| self.links[key].our_instance.clone());
        let features = if spoken {
            self.own_features()
        } else {
            Vec::new()
        };
        let payload = self.registration(instance, features);
        let meta = Meta::Response {
            parent_id: claim.id.as_str().into(),
            is_ok: true,
            why_not_ok: None,
            kind: None,
        };
        self.push_control(now, key, meta, Some(&payload));
        self.tell_taken_again(key);
        self.start_heartbeats(now, key, false);
    }

    /// Says no, straight down the connection, which is closed when the remote has had time to read it.
    pub(crate) fn refuse(
        &mut self,
        now: Instant,
        peer: PeerId,
        app: &AppId,
        id: &MessageId,
        reason: &'static str,
    ) {
        let (token, own_id) = self.identity.next();
        let meta = Meta::Response {
            parent_id: id.as_str().into(),
            is_ok: false,
            why_not_ok: Some(reason.into()),
            kind: None,
        };
        let head = Head {
            id: own_id.as_str(),
            from: self.config.app.as_str(),
            to: app.as_str(),
            t_ms: self.wall_ms(now),
            meta,
        };
        let encoded = encode(&head, None);
        self.peers.push_urgent(peer, Urgent::Raw { token, encoded });
        if let Some(state) = self.peers.get_mut(peer)
            && state.bound.is_empty()
        {
            state.phase = Phase::Closing {
                reason: CloseReason::RefusedRemote(reason),
                awaiting: None,
            };
            self.timers
                .arm(Subject::Peer(peer), now + self.config.protocol_timeout);
        }
        self.report_register(peer, Some(app.clone()), reason);
    }

    /// A message on a connection that we dialled and whose register is open.
    pub(crate) fn on_handshake_message(
        &mut self,
        now: Instant,
        peer: PeerId,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) -> Result<(), PeerViolation> {
        let Some(Phase::Registering { expect, id }) = self.peers.get(peer).map(|peer| &peer.phase)
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
        let mut takes_slot = registration.is_gateway;
        let other_gateway = self
            .gateway
            .filter(|&gateway| self.links[gateway].app != *app);
        if takes_slot && self.config.is_gateway {
            self.leave(
                now,
                peer,
                envelope,
                CloseReason::Refused("dual-gateway".to_owned()),
            );
            return Ok(());
        }
        if let Some(kept) = other_gateway.filter(|_| takes_slot) {
            if !self.config.auto_multi_gateway_downgrade {
                self.leave(
                    now,
                    peer,
                    envelope,
                    CloseReason::Refused("multi-gateway".to_owned()),
                );
                return Ok(());
            }
            takes_slot = false;
            self.report(
                "nacp:internal:gateway:warning",
                "multi-gateway-downgraded",
                Some(kept),
                None,
            );
        }
        if self.accepted_meanwhile(app, &registration) {
            // Both dialled at once, and both connections stand: both sides keep the one that the smaller App ID dialled.
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

    fn accepted_meanwhile(&self, app: &AppId, registration: &Registration) -> bool {
        let Some(key) = self.links.find(app.as_str()) else {
            return false;
        };
        let link = &self.links[key];
        let accepted = link
            .peer()
            .and_then(|peer| self.peers.get(peer))
            .is_some_and(|peer| !peer.dialled);
        let same = registration.instance.is_some() && registration.instance == link.remote_instance;
        accepted && same && link.reach == Reach::Direct && self.config.app > *app
    }

    /// ACKs `answer` and closes the connection when that is out.
    fn leave(&mut self, now: Instant, peer: PeerId, answer: &Envelope<'_>, reason: CloseReason) {
        let (token, id) = self.identity.next();
        let meta = Meta::Ack {
            parent_id: answer.id.clone(),
            taken: None,
        };
        let head = Head {
            id: id.as_str(),
            from: self.config.app.as_str(),
            to: &answer.from,
            t_ms: self.wall_ms(now),
            meta,
        };
        let encoded = encode(&head, None);
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

    /// LINK-2: App ID → connection. A known App comes back with all that it had (LINK-8), or, if its incarnation is
    /// another, with what is left of it (LINK-15).
    fn bind(
        &mut self,
        now: Instant,
        peer: PeerId,
        app: &AppId,
        registration: &Registration,
        takes_slot: bool,
    ) -> Key {
        let online = LinkState::Online { peer };
        let known = self.links.find(app.as_str());
        let mut restarted = false;
        let key = match known {
            Some(key) => {
                restarted = self.links[key].remote_instance != registration.instance
                    && self.links[key].reach == Reach::Direct;
                self.rebind(now, key, peer);
                key
            }
            None => self.new_link(app.clone(), online, Reach::Direct),
        };
        let both = |name: &str| {
            self.config.lossless_streams && registration.features.iter().any(|known| known == name)
        };
        let features = Features {
            reliable_notify: both(FEATURES[0]),
            stream_credit: both(FEATURES[1]),
        };
        let link = &mut self.links[key];
        link.state = online;
        link.reach = Reach::Direct;
        link.is_gateway = takes_slot;
        link.leaving = false;
        link.features = features;
        link.remote_instance = registration.instance.clone();
        if takes_slot {
            self.gateway = Some(key);
        }
        if let Some(state) = self.peers.get_mut(peer) {
            state.phase = Phase::Bound;
            if !state.bound.contains(&key) {
                state.bound.push(key);
            }
        }
        self.timers.disarm(Subject::Peer(peer));
        self.timers.disarm(Subject::Grace(key));
        self.timers.disarm(Subject::Probe(key));
        let resumed = known.is_some();
        self.events.push_back(Event::Online {
            app: app.clone(),
            peer,
            is_gateway: takes_slot,
            resumed,
            restarted,
        });
        if restarted {
            self.forget_remote_memory(now, key);
        }
        self.mark_ready(key);
        if takes_slot {
            self.gateway_online(now);
        }
        key
    }

    /// A known App over a new connection: what was under way on the old one is sent again, the old one is closed.
    fn rebind(&mut self, now: Instant, key: Key, peer: PeerId) {
        let old = self.unbind(key);
        let same = old == Some(peer);
        self.withdraw_from_connection(key);
        self.enforce_backlog_caps();
        let direct = self.links[key].reach == Reach::Direct;
        if let Some(old) = old.filter(|_| direct && !same)
            && self
                .peers
                .get(old)
                .is_some_and(|state| state.bound.is_empty())
        {
            self.close_peer(old, CloseReason::Superseded);
        }
        if let Some(challenge) = self.links[key]
            .challenge
            .take()
            .filter(|challenge| challenge.newcomer != peer)
        {
            let state = self.peers.get_mut(challenge.newcomer);
            if let Some(Phase::Challenging(claim)) =
                state.map(|state| std::mem::replace(&mut state.phase, Phase::Unregistered))
            {
                self.refuse(
                    now,
                    challenge.newcomer,
                    &claim.app,
                    &claim.id,
                    "appId-in-use",
                );
            }
        }
    }

    fn report_register(&mut self, peer: PeerId, app: Option<AppId>, reason: &'static str) {
        self.events.push_back(Event::Report(crate::Report {
            name: "nacp:internal:register:error",
            reason,
            peer: Some(peer),
            app,
            message: None,
        }));
    }
}
