//! Register, the accepting side. What this file keeps true: an App ID is bound to one connection at a time; of two
//! programs that claim one App ID, the one that is there and alive keeps it (LINK-14); whom the application does not
//! admit leaves no trace and disturbs nobody; and who is refused reads why.

use std::borrow::Cow;

use bytes::Bytes;

use crate::arena::Key;
use crate::event::{CloseReason, Event, OfflineCause, PeerId};
use crate::link::{Challenge, Reach};
use crate::message::{AppId, Envelope, MessageId, Meta, Registration, VERSION};
use crate::peers::{Claim, Peer, Phase, Urgent};
use crate::timers::Subject;
use crate::{Instant, Nacp, PeerViolation};

impl Nacp {
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
        let claimable = |peer: &Peer| peer.asked.is_none() && may_claim(peer);
        if !self.peers.get(peer).is_some_and(claimable) {
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
            // Before all else, as in the base protocol; what else a Gateway may not do is asked when it is accepted.
            self.refuse(now, peer, &app, &id, "dual-gateway");
        } else if envelope.version.major != VERSION.major {
            self.refuse(now, peer, &app, &id, "version-mismatch");
        } else if app == self.config.app {
            self.refuse(now, peer, &app, &id, "appId-in-use");
        } else {
            let claim = Claim {
                app,
                id,
                registration,
            };
            if self.config.asks_before_binding {
                self.ask(peer, claim);
            } else {
                self.claim(now, peer, claim);
            }
        }
        Ok(())
    }

    /// Before the challenge, which may cost the holder of the App ID its link.
    fn ask(&mut self, peer: PeerId, claim: Claim) {
        self.events.push_back(Event::RegisterAsked {
            peer,
            app: claim.app.clone(),
            registration: Box::new(claim.registration.clone()),
        });
        if let Some(state) = self.peers.get_mut(peer) {
            state.asked = Some(Box::new(claim));
        }
    }

    /// The application's word on [`Event::RegisterAsked`]: the register takes its course, or is refused with this
    /// reason. Nothing happens when the connection has gone, or nobody asked.
    pub fn admit_register(
        &mut self,
        now: Instant,
        peer: PeerId,
        verdict: Result<(), impl Into<Cow<'static, str>>>,
    ) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(claim) = state.asked.take().filter(|_| may_claim(state)) else {
            return;
        };
        match verdict {
            Ok(()) => self.claim(now, peer, *claim),
            Err(reason) => self.refuse(now, peer, &claim.app, &claim.id, reason),
        }
    }

    /// LINK-14.
    fn claim(&mut self, now: Instant, peer: PeerId, claim: Claim) {
        let Some(key) = self.links.find(claim.app.as_str()) else {
            return self.accept_claim(now, peer, claim);
        };
        if self.links[key].leaving {
            // It comes back before our reply to its goodbye was accepted: as a new App, not with what it gave up.
            self.finish_leaving(now, key);
            return self.accept_claim(now, peer, claim);
        }
        let link = &self.links[key];
        let incumbent = link.peer().filter(|_| link.reach == Reach::Direct);
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
        let takes_slot = match self.gateway_slot(&claim.app, &claim.registration) {
            Ok(takes_slot) => takes_slot,
            Err(reason) => return self.refuse(now, peer, &claim.app, &claim.id, reason),
        };
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
        reason: impl Into<Cow<'static, str>>,
    ) {
        let reason = reason.into();
        let meta = Meta::Response {
            parent_id: id.as_str().into(),
            is_ok: false,
            why_not_ok: Some(reason.clone()),
            kind: None,
        };
        let (token, _, encoded) = self.raw(now, app.as_str(), meta, None);
        self.peers.push_urgent(peer, Urgent::Raw { token, encoded });
        if let Some(state) = self.peers.get_mut(peer)
            && state.bound.is_empty()
        {
            state.phase = Phase::Closing {
                reason: CloseReason::RefusedRemote(reason.clone()),
                awaiting: None,
            };
            self.timers
                .arm(Subject::Peer(peer), now + self.config.protocol_timeout);
        }
        self.report_register(peer, Some(app.clone()), reason);
    }

    pub(crate) fn report_register(
        &mut self,
        peer: PeerId,
        app: Option<AppId>,
        reason: impl Into<Cow<'static, str>>,
    ) {
        let (reason, said) = match reason.into() {
            Cow::Borrowed(reason) => (reason, None),
            Cow::Owned(said) => ("not-authorised", Some(said)),
        };
        self.events.push_back(Event::Report(crate::Report {
            name: "nacp:internal:register:error",
            reason,
            said,
            peer: Some(peer),
            app,
            message: None,
        }));
    }
}

/// Whether a register over this connection may bind something.
fn may_claim(peer: &Peer) -> bool {
    matches!(peer.phase, Phase::Unregistered | Phase::Bound)
}
