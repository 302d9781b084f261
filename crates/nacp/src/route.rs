//! Apps behind our Gateway. What this module keeps true: a call through a Gateway ends, whatever happens to the App
//! behind it (LINK-16); and what nobody needs any more is forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::arena::Key;
use crate::event::{DropCause, Event, OfflineCause, Outcome, PeerId};
use crate::link::{LinkState, Reach};
use crate::message::AppId;
use crate::timers::Subject;
use crate::{Instant, Nacp};

/// The first probe of a silent App behind the Gateway, doubled each time.
const PROBE_FIRST: Duration = Duration::from_millis(500);
const PROBE_DOUBLINGS_MAX: u32 = 5;
/// Apps behind the Gateway that are remembered at a time.
const BEHIND_GATEWAY_MAX: usize = 65_536;

impl Nacp {
    /// The record of an App that only our Gateway can know.
    pub(crate) fn link_behind_gateway(&mut self, now: Instant, app: &AppId) -> Option<Key> {
        let gateway = self.gateway?;
        if self.links.len() >= BEHIND_GATEWAY_MAX {
            return None;
        }
        let until = now + self.config.reconnect_grace;
        let (state, at) = match self.links[gateway].peer() {
            Some(peer) => (LinkState::Online { peer }, self.next_look(now)),
            None => (LinkState::Offline { until }, until),
        };
        let key = self.new_link(app.clone(), state, Reach::Gateway);
        self.timers.arm(Subject::Grace(key), at);
        Some(key)
    }

    /// When to look again whether an App behind the Gateway is needed. What came of it last can come once more until its
    /// sender's ACK timeout and grace have passed, and a little later: so long it must be known (MSG-8).
    fn next_look(&self, now: Instant) -> Instant {
        now + self.config.reconnect_grace + 2 * self.config.ack_timeout
    }

    /// The grace of a link has ended; or, for one that is online behind the Gateway, it is time to look whether
    /// anybody still needs it, and whether it is still there.
    pub(crate) fn on_grace_end(&mut self, now: Instant, key: Key) {
        if !self.links[key].is_online() {
            return self.drop_link(now, key, DropCause::GraceEnded);
        }
        let link = &mut self.links[key];
        let used = std::mem::take(&mut link.used);
        if !used && link.is_idle() {
            self.starved.remove(&key);
            self.links.remove(key);
            return;
        }
        if !used && link.queues.is_empty() {
            // Somebody waits for an App of which nothing is under way, so no missing ACK can tell that it is gone: it must
            // show itself, or it goes offline and its callers learn (LINK-16).
            let probe = self.send_heartbeat(now, key);
            self.links[key].heartbeat = Some(probe);
        }
        self.doubt_what_left_ack_pending(key);
        self.timers.arm(Subject::Grace(key), self.next_look(now));
    }

    /// What fell to CAP-3 was handed to the Gateway, which may have lost it while the link stayed online: without an ACK
    /// for a whole grace, a request is given up, and a Response is replaced (WAIT-5).
    fn doubt_what_left_ack_pending(&mut self, key: Key) {
        let outbox = &self.outbox;
        let link = &mut self.links[key];
        let (out, lost): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut link.unsure)
            .into_iter()
            .partition(|&(seq, _)| outbox.get(seq).is_some());
        link.unsure = out;
        link.owed.extend(lost);
        self.mark_ready(key);
        let mut given_up = Vec::new();
        for seq in self.links[key].waiters.sorted() {
            let waiter = self.waiters.get_mut(seq).expect("both tables have it");
            let lost = !waiter.acked && self.outbox.get(seq).is_none();
            if lost && std::mem::replace(&mut waiter.doubted, true) {
                given_up.push(seq);
            }
        }
        for seq in given_up {
            self.settle_call(seq, Outcome::Discarded);
        }
    }

    pub(crate) fn schedule_probe(&mut self, now: Instant, key: Key) {
        self.links[key].probes = 0;
        self.timers.arm(Subject::Probe(key), now + PROBE_FIRST);
    }

    /// Sends the first queued message once more, or a heartbeat where that one is never ACKed; whoever ACKs is there
    /// (LINK-16).
    pub(crate) fn on_probe_due(&mut self, now: Instant, key: Key) {
        // Without the Gateway there is nobody to ask; when it returns, it is asked at once.
        if self.links[key].is_online() || self.gateway_peer().is_none() {
            return;
        }
        self.forget_probe(key);
        let link = &mut self.links[key];
        link.probes += 1;
        let wait = PROBE_FIRST * 2u32.pow(link.probes.min(PROBE_DOUBLINGS_MAX));
        self.outbox.requeue(&mut link.queues);
        link.large.clear();
        link.probe_due = true;
        self.timers.arm(Subject::Probe(key), now + wait);
        self.enforce_backlog_caps();
        let first = self.links[key].queues.backlog.first();
        let first = first.map(|first| self.outbox.record(first));
        if first.is_some_and(|first| !first.class.needs_ack()) {
            // A plain notify is never ACKed: as a probe it would be lost, and what comes behind it never leave.
            let probe = self.send_heartbeat(now, key);
            self.links[key].heartbeat = Some(probe);
        }
        self.mark_ready(key);
    }

    /// A heartbeat that was sent as a probe has not been answered, or its connection is gone.
    fn forget_probe(&mut self, key: Key) {
        for seq in self.outbox.seqs(&self.links[key].queues.control) {
            self.withdraw(seq);
        }
        self.links[key].heartbeat = None;
    }

    /// An App behind the Gateway has shown itself.
    pub(crate) fn online_behind_gateway(&mut self, now: Instant, key: Key) {
        let Some(peer) = self.gateway_peer() else {
            return;
        };
        let link = &mut self.links[key];
        link.go_over(peer);
        link.probe_due = false;
        let app = link.app.clone();
        self.timers.disarm(Subject::Probe(key));
        self.timers.arm(Subject::Grace(key), self.next_look(now));
        self.events.push_back(Event::Online {
            app,
            peer,
            is_gateway: false,
            resumed: true,
            restarted: false,
        });
        self.mark_ready(key);
    }

    /// The connection of our Gateway, if it is there.
    fn gateway_peer(&self) -> Option<PeerId> {
        self.gateway.and_then(|gateway| self.links[gateway].peer())
    }

    fn keys_behind_gateway(&self) -> Vec<Key> {
        self.links
            .keys()
            .into_iter()
            .filter(|&key| self.links[key].reach == Reach::Gateway)
            .collect()
    }

    pub(crate) fn gateway_offline(&mut self, now: Instant) {
        for key in self.keys_behind_gateway() {
            if self.links[key].is_online() {
                self.go_offline(now, key, OfflineCause::GatewayOffline);
            } else {
                self.forget_probe(key);
            }
        }
    }

    /// The Gateway is there, maybe over another connection: what was under way goes again, who was silent is probed.
    pub(crate) fn gateway_online(&mut self, now: Instant) {
        let Some(peer) = self.gateway_peer() else {
            return;
        };
        for key in self.keys_behind_gateway() {
            match self.links[key].state {
                LinkState::Online { peer: old } if old != peer => {
                    self.withdraw_from_connection(key);
                    self.links[key].go_over(peer);
                    self.mark_ready(key);
                }
                LinkState::Online { .. } => {}
                LinkState::Offline { .. } => self.timers.arm(Subject::Probe(key), now),
            }
        }
        self.enforce_backlog_caps();
    }

    pub(crate) fn drop_links_behind_gateway(&mut self, now: Instant, cause: DropCause) {
        for key in self.keys_behind_gateway() {
            self.drop_link(now, key, cause);
        }
    }
}
