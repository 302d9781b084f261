//! Judges what a core says, event by event. What this module keeps true: an event is legal only for a cause that the
//! world knows of: a lost call for an eviction, a drop or a lost memory; a drop for a goodbye or the end of the grace.
//! The causes of one call of the core may stand behind their effects, so they are gathered first.

use nacp::message::{Encoded, Meta, decode};
use nacp::{
    CallId, DropCause, Event, Instant, NotifyTarget, OfflineCause, PeerId, Report, ServingId,
};

use crate::broken::{Broken, Verdict, ensure};
use crate::model::{Cause, Facts, Kind, Model, Served, State};
use crate::net::conn_of;
use crate::op::{NAMES, PATTERNS};
use crate::settings::Settings;
use crate::tag;

impl Model {
    pub(crate) fn node_named(&self, app: &str) -> Result<usize, Broken> {
        (0..self.nodes.len())
            .find(|&node| Settings::app(node).as_str() == app)
            .ok_or_else(|| Broken::new("CONTRACT", format!("nobody is called {app:?}")))
    }

    pub(crate) fn judge(
        &mut self,
        node: usize,
        now: Instant,
        batch: &[Event],
        cause: Cause,
    ) -> Verdict {
        self.gather(node, batch, cause)?;
        for event in batch {
            if let Some(log) = &mut self.log {
                log.push(format!("{now:?} app-{node} {event:?}"));
            }
            self.one(node, now, event, cause)?;
        }
        for other in 0..self.nodes.len() {
            if self.facts.dropped[other] && self.nodes[node].links[other].state == State::Unknown {
                self.nothing_left(node, other)?;
            }
        }
        Ok(())
    }

    fn gather(&mut self, node: usize, batch: &[Event], cause: Cause) -> Verdict {
        self.facts = Facts {
            terminated: cause == Cause::Terminate,
            ..Facts::default()
        };
        for event in batch {
            match event {
                Event::Dropped { app, .. } => {
                    let other = self.node_named(app.as_str())?;
                    self.facts.dropped[other] = true;
                }
                Event::Offline { .. } => {
                    self.facts.broke = true;
                    self.murky = true;
                }
                Event::Online { app, restarted, .. } => {
                    let other = self.node_named(app.as_str())?;
                    self.facts.restarted[other] |= restarted;
                    self.facts.broke = true;
                }
                Event::Report(report) => self.gather_report(node, report),
                _ => {}
            }
        }
        Ok(())
    }

    /// CAP-4: what is evicted or parked is reported, and nothing else may be missing later.
    fn gather_report(&mut self, node: usize, report: &Report) {
        self.murky |= report.name == "nacp:internal:gateway:error";
        let loss = match (report.name, report.reason) {
            ("nacp:internal:backlog:warning", reason) => reason != "notify-dropped",
            ("nacp:internal:ack:warning", "pending-overflow") => {
                self.nodes[node].overflowed = true;
                true
            }
            _ => false,
        };
        if !loss {
            return;
        }
        self.facts.evicted += 1;
        self.murky = true;
        self.gather_stray(node, report);
        let Some(uid) = report.message.as_ref().and_then(uid_of) else {
            return;
        };
        let Some(msg) = self.msg(uid) else { return };
        msg.lost = true;
        match msg.kind {
            Kind::Response { request, .. } => {
                if let Some(request) = self.msg(request) {
                    request.answer_lost = true;
                }
            }
            Kind::Chunk { request, .. } => {
                if let Some(request) = self.msg(request) {
                    request.chunk_lost = true;
                }
            }
            Kind::Request { .. } | Kind::Signal { .. } | Kind::Hit { .. } => {}
        }
    }

    /// An unsubscribe that is evicted leaves a row at the other side.
    fn gather_stray(&mut self, node: usize, report: &Report) {
        let Some(message) = &report.message else {
            return;
        };
        let bytes = message.to_bytes();
        if let Ok(envelope) = decode(&bytes)
            && matches!(envelope.meta, Meta::Unsubscribe | Meta::Subscribe)
            && let Ok(to) = self.node_named(&envelope.to)
        {
            self.nodes[node].strays[to] += 1;
        }
    }

    fn one(&mut self, node: usize, now: Instant, event: &Event, cause: Cause) -> Verdict {
        self.fold(now.as_nanos());
        match event {
            Event::Online {
                app,
                resumed,
                restarted,
                peer,
                ..
            } => {
                self.fold(peer.0);
                let other = self.node_named(app.as_str())?;
                self.online(node, now, other, *peer, [*resumed, *restarted])
            }
            Event::Offline {
                app,
                cause: why,
                until,
            } => {
                let other = self.node_named(app.as_str())?;
                self.offline(node, now, other, *why, *until, cause)
            }
            Event::Dropped { app, cause: why } => {
                let other = self.node_named(app.as_str())?;
                self.dropped(node, now, other, *why, cause)
            }
            Event::ClosePeer { peer, .. } => {
                self.fold(peer.0);
                Ok(())
            }
            Event::Request { .. }
            | Event::Signal { .. }
            | Event::RequesterGone { .. }
            | Event::StreamWritable { .. } => self.about_served(node, event),
            Event::Notify {
                target,
                hit_sub_name,
                payload,
                ..
            } => self.notify(node, *target, hit_sub_name, payload.as_bytes()),
            Event::Done { call, outcome } => {
                self.fold(call.as_u64());
                self.done(node, now, *call, outcome)
            }
            Event::SubscriptionEnded { call, outcome } => self.sub_ended(node, *call, outcome),
            Event::Settled { send, delivered } => self.settled(node, *send, *delivered),
            Event::RegisterAsked { peer, app, .. } => self.asked(node, *peer, app.as_str()),
            Event::Hold { .. } | Event::Release { .. } => Ok(()),
            Event::Room => {
                self.nodes[node].room_owed = false;
                Ok(())
            }
            Event::Report(report) => self.report(node, report),
        }
    }

    fn still_served(&self, node: usize, serving: ServingId, what: &str) -> Verdict {
        let served = self.nodes[node].served.contains_key(&serving.as_u64());
        ensure!(served, "WAIT-7", "app-{node}: {what}, but it is over");
        Ok(())
    }

    fn about_served(&mut self, node: usize, event: &Event) -> Verdict {
        match event {
            Event::Request {
                serving,
                from,
                payload,
                lossless,
                ..
            } => {
                self.fold(serving.as_u64());
                let from = self.node_named(from.as_str())?;
                self.request(node, from, serving.as_u64(), payload, *lossless)
            }
            Event::Signal {
                serving,
                from,
                payload,
                ..
            } => {
                let from = self.node_named(from.as_str())?;
                self.still_served(node, *serving, "a signal")?;
                match tag::read(payload.as_bytes()) {
                    Some((uid, _)) => self.handled(node, from, uid, "a signal"),
                    None => Ok(()),
                }
            }
            Event::RequesterGone { serving } => {
                self.fold(serving.as_u64());
                self.requester_gone(node, serving.as_u64())
            }
            Event::StreamWritable { serving } => {
                self.still_served(node, *serving, "room in its stream")
            }
            _ => Ok(()),
        }
    }

    fn online(
        &mut self,
        node: usize,
        now: Instant,
        other: usize,
        peer: PeerId,
        [resumed, restarted]: [bool; 2],
    ) -> Verdict {
        self.let_in(node, other, peer)?;
        let epoch = self.epoch(other, node);
        let (conn, side) = conn_of(peer);
        let told = self.dials[conn as usize].epochs[side];
        let link = self.link(node, other);
        let known = link.state != State::Unknown;
        ensure!(
            resumed == known,
            "LINK-8",
            "app-{node}: app-{other} online, resumed: {resumed}, but it was {:?}",
            link.state
        );
        // Of two connections at once each side may keep another one for a while. What came over the one that is given
        // up cannot be unsent.
        let doubtful = link.state == State::Online;
        let before = std::mem::replace(&mut link.remote_epoch, told);
        link.state = State::Online;
        link.since = now;
        if doubtful {
            self.murky = true;
            self.unsure(node, other);
            self.unsure(other, node);
        }
        if restarted {
            ensure!(
                before != epoch,
                "LINK-15",
                "app-{node}: app-{other} is said to have lost its memory, and has not"
            );
            self.withdrawn_from(node, other);
        }
        Ok(())
    }

    /// LINK-15: nobody at the other side waits for these any more.
    fn withdrawn_from(&mut self, node: usize, other: usize) {
        let outstanding = std::mem::take(&mut self.pair(node, other).outstanding);
        for &uid in &outstanding {
            let msg = &mut self.msgs[uid as usize];
            msg.lost |= matches!(msg.kind, Kind::Response { .. } | Kind::Chunk { .. });
        }
        self.pair(node, other).outstanding = outstanding;
    }

    fn offline(
        &mut self,
        node: usize,
        now: Instant,
        other: usize,
        why: OfflineCause,
        until: Instant,
        cause: Cause,
    ) -> Verdict {
        let settings = &self.settings;
        let (ack, beat) = (settings.ack_timeout_ms, settings.heartbeat_ms);
        let (grace, has_gateway) = (settings.grace_ms, settings.gateway == 1);
        let is_forwarded = settings.is_forwarded(node, other);
        let link = self.link(node, other);
        ensure!(
            link.state == State::Online,
            "LINK-1",
            "app-{node}: app-{other} offline ({why:?}), but it was {:?}",
            link.state
        );
        let online = (now - link.since).as_millis() as u64;
        let plausible = match why {
            OfflineCause::PeerDown => cause == Cause::PeerDown,
            // The clock of what was sent to find somebody behind a Gateway runs on when they are found by another message.
            OfflineCause::AckTimeout => online >= ack || is_forwarded,
            OfflineCause::HeartbeatMissed => beat > 0 && online >= beat,
            OfflineCause::ChallengeLost => true,
            OfflineCause::GatewayOffline => has_gateway,
        };
        ensure!(
            plausible,
            "LINK-4",
            "app-{node}: app-{other} offline by {why:?} after {online} ms, and there was no such thing"
        );
        let due = now + std::time::Duration::from_millis(grace);
        ensure!(
            until == due,
            "LINK-7",
            "the grace ends at {until:?}, not at {due:?}"
        );
        link.state = State::Offline { until };
        link.since = now;
        Ok(())
    }

    fn dropped(
        &mut self,
        node: usize,
        now: Instant,
        other: usize,
        why: DropCause,
        cause: Cause,
    ) -> Verdict {
        let is_forwarded = self.settings.is_forwarded(node, other);
        let link = self.link(node, other);
        let before = link.state;
        ensure!(
            before != State::Unknown,
            "LINK-1",
            "app-{node}: app-{other} dropped ({why:?}), but it was unknown"
        );
        let legal = match why {
            DropCause::GraceEnded => matches!(before, State::Offline { until } if until <= now),
            DropCause::Unregistered => link.departures > 0,
            DropCause::Disconnected => cause == Cause::Disconnect,
        };
        ensure!(
            legal || is_forwarded,
            "LINK-10",
            "app-{node}: app-{other} dropped by {why:?} at {now:?} from {before:?}"
        );
        link.state = State::Unknown;
        link.since = now;
        link.departures = link
            .departures
            .saturating_sub(u32::from(why == DropCause::Unregistered));
        self.forget(node, other);
        Ok(())
    }

    /// LINK-11.
    fn nothing_left(&self, node: usize, other: usize) -> Verdict {
        let record = &self.nodes[node];
        let calls = record.calls.values().any(|call| call.to == other);
        let subs = record.subs.values().any(|sub| sub.to == other);
        let served = record.served.values().any(|served| served.from == other);
        let sends = record.sends.values().any(|&(to, _)| to == other);
        ensure!(
            !(calls || subs || served || sends),
            "LINK-11",
            "app-{node} dropped app-{other} and left calls: {calls}, subscriptions: {subs}, served requests: {served}, \
             sends: {sends}"
        );
        Ok(())
    }

    fn request(
        &mut self,
        node: usize,
        from: usize,
        serving: u64,
        payload: &nacp::Payload,
        lossless: bool,
    ) -> Verdict {
        let Some((uid, script)) = tag::read(payload.as_bytes()) else {
            return Err(Broken::new(
                "MSG-9",
                format!("app-{node}: a request with another payload"),
            ));
        };
        self.handled(node, from, uid, "a request")?;
        let kind = self.msgs[uid as usize].kind;
        let Kind::Request { event, chunks, ok } = kind else {
            return Err(Broken::new(
                "MSG-4",
                format!("app-{node}: {kind:?} came as a request"),
            ));
        };
        let told = (u64::from(chunks), u64::from(ok));
        ensure!(
            told == (script >> 16 & 0xff, script >> 24 & 1),
            "MSG-9",
            "app-{node}: the payload of request {uid} has changed"
        );
        let expected = event && self.settings.is_lossless_pair(node, from);
        ensure!(
            lossless == expected,
            "MSG-11",
            "app-{node}: request {uid} of app-{from} lossless: {lossless}"
        );
        self.runs += 1;
        let served = Served {
            request: uid,
            from,
            run: self.runs,
        };
        self.nodes[node].served.insert(serving, served);
        Ok(())
    }

    fn requester_gone(&mut self, node: usize, serving: u64) -> Verdict {
        let served = self.nodes[node].served.remove(&serving);
        let Some(served) = served else {
            return Err(Broken::new(
                "WAIT-7",
                format!("app-{node}: the requester of nothing is gone"),
            ));
        };
        let facts = &self.facts;
        ensure!(
            facts.dropped[served.from] || facts.restarted[served.from] || facts.terminated,
            "WAIT-7",
            "app-{node}: app-{} is said to be gone, and is not",
            served.from
        );
        Ok(())
    }

    fn notify(&mut self, node: usize, target: NotifyTarget, name: &str, payload: &[u8]) -> Verdict {
        let Some((uid, _)) = tag::read(payload) else {
            return Err(Broken::new(
                "MSG-9",
                format!("app-{node}: a notify with another payload"),
            ));
        };
        match target {
            NotifyTarget::Call(call) => self.chunk(node, call, uid),
            NotifyTarget::Subscription(sub) => self.hit(node, sub, uid, name),
        }
    }

    fn hit(&mut self, node: usize, sub: CallId, uid: u32, name: &str) -> Verdict {
        let Some(row) = self.nodes[node].subs.get(&sub.as_u64()).copied() else {
            return Err(Broken::new(
                "SUB-1",
                format!("app-{node}: a hit of {sub:?}, which has ended"),
            ));
        };
        self.handled(node, row.to, uid, "a hit")?;
        let Kind::Hit { name: emitted } = self.msgs[uid as usize].kind else {
            return Err(Broken::new(
                "SUB-1",
                format!("app-{node}: message {uid} is no hit"),
            ));
        };
        ensure!(
            NAMES[usize::from(emitted)] == name
                && nacp::pattern::matches(PATTERNS[row.pattern], name),
            "SUB-1",
            "app-{node}: {name} hits {}",
            PATTERNS[row.pattern]
        );
        ensure!(
            uid > row.last || self.pairs[row.to * 5 + node].unsure || self.is_murky(node, row.to),
            "MSG-7",
            "app-{node}: hit {uid} of {sub:?} after hit {}",
            row.last
        );
        if let Some(row) = self.nodes[node].subs.get_mut(&sub.as_u64()) {
            row.last = uid;
        }
        Ok(())
    }
}

/// The number in the payload of a message's wire bytes.
pub(crate) fn uid_of(message: &Encoded) -> Option<u32> {
    let bytes = message.to_bytes();
    let envelope = decode(&bytes).ok()?;
    let payload = envelope.payload.clone()?;
    tag::read(&bytes[payload]).map(|(uid, _)| uid)
}
