//! Proof of life on an idle link. What this module keeps true: at most one heartbeat of ours is open on a link, it goes
//! with the connection (HB-4), and after every register probing starts anew (HB-5).

use crate::arena::Key;
use crate::event::OfflineCause;
use crate::message::{MessageId, Meta, RequestKind};
use crate::send::text_map;
use crate::serving::HEARTBEAT;
use crate::timers::Subject;
use crate::{Instant, Nacp};

impl Nacp {
    /// HB-6: the dialling side beats at once, the accepting side half an interval later, so that they alternate.
    pub(crate) fn start_heartbeats(&mut self, now: Instant, key: Key, dialled: bool) {
        let Some(interval) = self.config.heartbeat_interval else {
            return;
        };
        if dialled {
            self.beat(now, key);
        } else {
            self.timers.arm(Subject::Heartbeat(key), now + interval / 2);
        }
    }

    fn beat(&mut self, now: Instant, key: Key) {
        let Some(interval) = self.config.heartbeat_interval else {
            return;
        };
        let id = self.send_heartbeat(now, key);
        self.links[key].heartbeat = Some(id);
        self.timers.arm(Subject::Heartbeat(key), now + interval);
    }

    /// HB-3. One overdue tick beats once, however late it is (LINK-18).
    pub(crate) fn on_heartbeat_due(&mut self, now: Instant, key: Key) {
        let Some(interval) = self.config.heartbeat_interval else {
            return;
        };
        let link = &self.links[key];
        let Some(peer) = link.peer() else { return };
        if link.heartbeat.is_none() {
            return self.beat(now, key);
        }
        // Bytes of a large message have been coming in: its answer stands behind them (HB-7).
        let progress = self
            .peers
            .get(peer)
            .map_or(Instant::EPOCH, |peer| peer.progress);
        if progress + interval > now && progress > link.heartbeat_at {
            self.timers.arm(Subject::Heartbeat(key), now + interval);
        } else {
            self.go_offline(now, key, OfflineCause::HeartbeatMissed);
        }
    }

    pub(crate) fn send_heartbeat(&mut self, now: Instant, key: Key) -> MessageId {
        let payload = text_map("from", self.config.app.as_str());
        let meta = Meta::Request {
            kind: RequestKind::Ability,
            target: Some(HEARTBEAT.into()),
        };
        let seq = self.push_control(now, key, meta, Some(&payload));
        self.links[key].heartbeat_at = now;
        self.outbox.get(seq).expect("queued just now").id.clone()
    }
}
