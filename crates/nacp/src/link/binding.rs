//! App ID → connection. What this file keeps true: a known App comes back with all that it had (LINK-8), or, if it is
//! another incarnation, with what is left of it (LINK-15); and there is one Gateway slot (GW-3).

use crate::arena::Key;
use crate::event::{CloseReason, DropCause, Event, PeerId};
use crate::link::{BATCHED_ACKS, Features, LinkState, RELIABLE_NOTIFY, Reach, STREAM_CREDIT};
use crate::message::{AppId, Registration};
use crate::peers::Phase;
use crate::timers::Subject;
use crate::{Instant, Nacp};

impl Nacp {
    /// GW-3: whether `app` takes the one Gateway slot, or why it may not be a link at all.
    pub(crate) fn gateway_slot(
        &mut self,
        app: &AppId,
        registration: &Registration,
    ) -> Result<bool, &'static str> {
        if !registration.is_gateway {
            return Ok(false);
        }
        if self.config.is_gateway {
            return Err("dual-gateway");
        }
        let other = self
            .gateway
            .filter(|&gateway| self.links[gateway].app != *app);
        let Some(kept) = other else { return Ok(true) };
        if !self.config.auto_multi_gateway_downgrade {
            return Err("multi-gateway");
        }
        let name = "nacp:internal:gateway:warning";
        self.report(name, "multi-gateway-downgraded", Some(kept), None);
        Ok(false)
    }

    /// LINK-2: App ID → connection. A known App comes back with all that it had (LINK-8), or, if its incarnation is
    /// another, with what is left of it (LINK-15).
    pub(crate) fn bind(
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
        let features = self.features_with(registration);
        let bound_at = self.identity.next_seq();
        let link = &mut self.links[key];
        link.bound_at = bound_at;
        link.go_over(peer);
        link.reach = Reach::Direct;
        link.is_gateway = takes_slot;
        link.leaving = false;
        link.features = features;
        link.remote_instance = registration.instance.clone();
        if takes_slot {
            self.gateway = Some(key);
        } else if self.gateway == Some(key) {
            self.gateway = None;
            self.drop_links_behind_gateway(now, DropCause::Unregistered);
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

    /// What both sides announced is on; nothing else ever is.
    fn features_with(&self, registration: &Registration) -> Features {
        let ours = self.own_features();
        let both = |name: &str| {
            let lists = |names: &[String]| names.iter().any(|known| known == name);
            lists(&ours) && lists(&registration.features)
        };
        Features {
            reliable_notify: both(RELIABLE_NOTIFY),
            stream_credit: both(STREAM_CREDIT),
            batched_acks: both(BATCHED_ACKS),
        }
    }

    /// A known App over a new connection: what was under way on the old one is sent again, the old one is closed.
    pub(crate) fn rebind(&mut self, now: Instant, key: Key, peer: PeerId) {
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
}
