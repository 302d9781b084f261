//! The programs: what they ask of their cores and how they react. What this module keeps true: every verb is announced
//! to the judge before its events are judged; and a program does what a good one does: it answers every request once,
//! waits when it is told to wait, and drops what is over.

use nacp::{
    Answer, CallId, Event, NotifyTarget, Outcome, Payload, RequestKind, SendError, ServingId,
    SignalKind,
};

use crate::broken::{Verdict, ensure};
use crate::model::{Asked, Cause, Kind};
use crate::net::conn_of;
use crate::op::{NAMES, Op, PATTERNS};
use crate::settings::Settings;
use crate::tag;
use crate::world::{Handler, MS, OpenCall, Wake, World};

/// Open calls that one program has at most.
const CALLS_MAX: usize = 64;
/// Subscriptions that one program has at most.
const SUBS_MAX: usize = 16;

impl World {
    pub(crate) fn apply_now(&mut self, op: Op) -> Verdict {
        let count = self.nodes.len();
        let at = |node: u32| node as usize % count;
        match op {
            Op::Advance { .. } => Ok(()),
            Op::Reset {
                conn,
                dialler_ms,
                acceptor_ms,
                flush,
            } => {
                if let Some(conn) = self.live_conn(conn) {
                    let notice = [dialler_ms, acceptor_ms].map(|ms| u64::from(ms) * MS);
                    self.reset(conn, notice, flush == 1);
                }
                Ok(())
            }
            Op::Block { conn, side } | Op::Unblock { conn, side } => {
                if let Some(conn) = self.live_conn(conn) {
                    let blocked = matches!(op, Op::Block { .. });
                    self.block(conn, side as usize, blocked);
                }
                Ok(())
            }
            Op::Stall { conn, side } | Op::Resume { conn, side } => match self.live_conn(conn) {
                Some(conn) => self.stall(conn, side as usize, matches!(op, Op::Stall { .. })),
                None => Ok(()),
            },
            Op::Cut { a, b } => self.cut(at(a), at(b), true),
            Op::Heal { a, b } => self.cut(at(a), at(b), false),
            Op::Dial { node, to, delay_ms } => {
                let (from, to) = (at(node), at(to));
                if from != to && !self.nodes[from].frozen && self.may_dial(from, to) {
                    self.dial(from, to, u64::from(delay_ms) * MS);
                }
                Ok(())
            }
            Op::Freeze {
                node,
                ms,
                clock_stops,
            } => {
                self.freeze(at(node), u64::from(ms) * MS, clock_stops == 1);
                Ok(())
            }
            Op::Restart { node, silent } => self.restart(at(node), silent == 1),
            Op::Request { node, .. }
            | Op::Signal { node, .. }
            | Op::Cancel { node, .. }
            | Op::Introduce { node, .. }
            | Op::Subscribe { node, .. }
            | Op::Unsubscribe { node, .. }
            | Op::Publish { node, .. }
            | Op::Disconnect { node, .. }
            | Op::Terminate { node } => {
                let node = at(node);
                if self.nodes[node].frozen {
                    return Ok(());
                }
                self.verb(node, op)?;
                self.settle(node)
            }
        }
    }

    /// Behind a Gateway only the Gateway is dialled.
    fn may_dial(&self, from: usize, to: usize) -> bool {
        self.settings.gateway == 0 || (to == 0 && from != 0)
    }

    fn live_conn(&self, index: u32) -> Option<u32> {
        let count = self.live.len();
        (count > 0).then(|| self.live[index as usize % count])
    }

    fn cut(&mut self, a: usize, b: usize, cut: bool) -> Verdict {
        if a == b {
            return Ok(());
        }
        self.cut[a][b] = cut;
        self.cut[b][a] = cut;
        for conn in self.live.clone() {
            let [x, y] = [0, 1].map(|side: usize| self.conns[conn as usize].ends[side].node);
            if (x, y) == (a, b) || (x, y) == (b, a) {
                self.block(conn, 0, cut);
                self.block(conn, 1, cut);
            }
        }
        Ok(())
    }

    fn verb(&mut self, node: usize, op: Op) -> Verdict {
        let to_node = |to: u32| to as usize % self.nodes.len();
        match op {
            Op::Request { to, .. } => self.request(node, to_node(to), op),
            Op::Introduce { to, .. } => self.introduce(node, to_node(to)),
            Op::Signal {
                call, kind, size, ..
            } => self.signal(node, call, kind, size as usize),
            Op::Cancel { call, .. } => self.cancel(node, call),
            Op::Subscribe {
                to,
                pattern,
                lossless,
                ..
            } => self.subscribe(node, to_node(to), pattern as usize, lossless == 1),
            Op::Unsubscribe { sub, .. } => self.unsubscribe(node, sub),
            Op::Publish { name, size, .. } => self.publish(node, name as usize, size as usize),
            Op::Disconnect { to, .. } => {
                let to = to_node(to);
                let now = self.local(node);
                if self.nodes[node].core.disconnect(now, &Settings::app(to)) {
                    self.model.departed(node, to);
                }
                self.tell(node, Cause::Disconnect)
            }
            Op::Terminate { .. } => {
                self.nodes[node].core.terminate();
                self.tell(node, Cause::Terminate)?;
                self.nodes[node].calls.clear();
                self.nodes[node].subs.clear();
                self.model.terminated(node)
            }
            _ => Ok(()),
        }
    }

    fn request(&mut self, node: usize, to: usize, op: Op) -> Verdict {
        let Op::Request {
            event,
            delay_ms,
            chunks,
            ok,
            size,
            deadline_ms,
            ..
        } = op
        else {
            return Ok(());
        };
        if self.nodes[node].calls.len() >= CALLS_MAX {
            return Ok(());
        }
        let chunks = if event == 1 { chunks } else { 0 };
        let kind = Kind::Request {
            event: event == 1,
            chunks,
            ok: ok == 1,
        };
        let uid = self.model.reserve(node, to, kind);
        let size = (size as usize).min(self.settings.payload_max as usize);
        let script = u64::from(delay_ms)
            | u64::from(chunks) << 16
            | u64::from(ok) << 24
            | (size as u64) << 32;
        let payload = tag::payload(uid, script, size);
        let now = self.local(node);
        let deadline = (deadline_ms > 0)
            .then(|| now + std::time::Duration::from_millis(u64::from(deadline_ms)));
        let kind = if event == 1 {
            RequestKind::Event
        } else {
            RequestKind::Ability
        };
        let core = &mut self.nodes[node].core;
        let sent = core.request(now, &Settings::app(to), kind, "work", &payload, deadline);
        match sent {
            Ok(call) => {
                let asked = Asked::Request { event: event == 1 };
                self.open(node, to, call, asked, uid, deadline)
            }
            Err(error) => self.model.unsent(node, to, uid, &error),
        }
    }

    fn open(
        &mut self,
        node: usize,
        to: usize,
        call: CallId,
        asked: Asked,
        uid: u32,
        deadline: Option<nacp::Instant>,
    ) -> Verdict {
        self.model
            .called(node, to, call.as_u64(), asked, uid, deadline)?;
        let open = OpenCall {
            call,
            to,
            event: asked == Asked::Request { event: true },
            uid,
            came: 0,
            taken: 0,
        };
        self.nodes[node].calls.insert(call.as_u64(), open);
        self.tell(node, Cause::Other)
    }

    fn introduce(&mut self, node: usize, to: usize) -> Verdict {
        if self.nodes[node].calls.len() >= CALLS_MAX {
            return Ok(());
        }
        let now = self.local(node);
        let app = Settings::app(to);
        let (kind, empty) = (RequestKind::Ability, Payload::default());
        let core = &mut self.nodes[node].core;
        match core.request(now, &app, kind, "NApp.introduce", &empty, None) {
            Ok(call) => self.open(node, to, call, Asked::Introduce, 0, None),
            Err(error) => self.model.unsent(node, to, 0, &error),
        }
    }

    fn signal(&mut self, node: usize, call: u32, kind: u32, size: usize) -> Verdict {
        let Some((call, to, event, request)) = self
            .nth_call(node, call)
            .map(|open| (open.call, open.to, open.event, open.uid))
        else {
            return Ok(());
        };
        if !event {
            return Ok(());
        }
        let kind = [
            SignalKind::Normal,
            SignalKind::Pause,
            SignalKind::Resume,
            SignalKind::Abort,
        ][kind as usize];
        let normal = kind == SignalKind::Normal;
        // Only the normal signal has a payload to know it by.
        let uid = if normal {
            self.model.reserve(node, to, Kind::Signal { request })
        } else {
            0
        };
        let payload = tag::payload(uid, 0, size.min(self.settings.payload_max as usize));
        let now = self.local(node);
        let core = &mut self.nodes[node].core;
        match core.signal(now, call, kind, normal.then_some(&payload)) {
            Ok(send) => {
                self.model.tracked(node, to, send, uid);
                self.tell(node, Cause::Other)
            }
            Err(error) => self.model.unsent(node, to, uid, &error),
        }
    }

    fn nth_call(&self, node: usize, index: u32) -> Option<&OpenCall> {
        let calls = &self.nodes[node].calls;
        calls.values().nth(index as usize % calls.len().max(1))
    }

    fn cancel(&mut self, node: usize, call: u32) -> Verdict {
        let Some(call) = self.nth_call(node, call).map(|open| open.call) else {
            return Ok(());
        };
        let now = self.local(node);
        let known = self.nodes[node].core.cancel(now, call);
        self.nodes[node].calls.remove(&call.as_u64());
        self.nodes[node].subs.retain(|&(sub, _)| sub != call);
        self.model.cancelled(node, call.as_u64(), known)?;
        self.tell(node, Cause::Other)
    }

    fn subscribe(&mut self, node: usize, to: usize, pattern: usize, lossless: bool) -> Verdict {
        if self.nodes[node].calls.len() >= CALLS_MAX || self.nodes[node].subs.len() >= SUBS_MAX {
            return Ok(());
        }
        let now = self.local(node);
        let core = &mut self.nodes[node].core;
        match core.subscribe(now, &Settings::app(to), PATTERNS[pattern], lossless) {
            Ok(call) => {
                self.nodes[node].subs.push((call, to));
                self.model.subscribed(node, to, call.as_u64(), pattern);
                let until =
                    now + std::time::Duration::from_millis(self.settings.protocol_timeout_ms);
                self.open(node, to, call, Asked::Subscribe, 0, Some(until))
            }
            Err(error) => self.model.unsent(node, to, 0, &error),
        }
    }

    fn unsubscribe(&mut self, node: usize, index: u32) -> Verdict {
        let count = self.nodes[node].subs.len();
        if count == 0 {
            return Ok(());
        }
        let (sub, to) = self.nodes[node].subs.remove(index as usize % count);
        let now = self.local(node);
        let told = self.nodes[node].core.unsubscribe(now, sub);
        self.nodes[node].calls.remove(&sub.as_u64());
        self.model.unsubscribed(node, sub.as_u64())?;
        let Some(call) = told else {
            return self.tell(node, Cause::Other);
        };
        let until = now + std::time::Duration::from_millis(self.settings.protocol_timeout_ms);
        self.open(node, to, call, Asked::Unsubscribe, 0, Some(until))
    }

    fn publish(&mut self, node: usize, name: usize, size: usize) -> Verdict {
        let now = self.local(node);
        if !self.nodes[node].core.is_listened(NAMES[name]) {
            return Ok(());
        }
        let uid = self
            .model
            .reserve(node, node, Kind::Hit { name: name as u8 });
        let payload = tag::payload(uid, 0, size.min(self.settings.payload_max as usize));
        self.nodes[node]
            .core
            .publish(now, NAMES[name], &payload, None);
        self.tell(node, Cause::Other)
    }

    /// What the program does about an event of its core.
    pub(crate) fn react(&mut self, node: usize, event: Event) -> Verdict {
        match event {
            Event::ClosePeer { peer, .. } => {
                let (conn, side) = conn_of(peer);
                self.close(conn, side);
            }
            Event::RegisterAsked { peer, .. } => self.ponder(peer),
            Event::Offline { .. } | Event::Dropped { .. } => {
                for wish in 0..self.wishes.len() {
                    if self.wishes[wish].from == node && self.wishes[wish].attempt.is_none() {
                        self.plan_redial(wish);
                    }
                }
            }
            Event::Request {
                serving,
                from,
                payload,
                lossless,
                ..
            } => self.start_handler(node, serving, from.as_str(), &payload, lossless),
            Event::RequesterGone { serving } => {
                if let Some(handler) = self.nodes[node].by_serving.remove(&serving.as_u64()) {
                    self.nodes[node].handlers[handler as usize].over = true;
                }
            }
            Event::StreamWritable { serving } => {
                let handler = self.nodes[node].by_serving.get(&serving.as_u64()).copied();
                if let Some(handler) = handler {
                    self.go_on(node, handler)?;
                }
            }
            Event::Room => {
                for handler in std::mem::take(&mut self.nodes[node].waiting) {
                    self.go_on(node, handler)?;
                }
            }
            Event::Notify {
                target: NotifyTarget::Call(call),
                ..
            } => self.chunk_came(node, call),
            Event::Done { call, outcome } => {
                self.nodes[node].calls.remove(&call.as_u64());
                if !matches!(outcome, Outcome::Response { is_ok: true, .. }) {
                    self.nodes[node].subs.retain(|&(sub, _)| sub != call);
                }
            }
            Event::SubscriptionEnded { call, .. } => {
                self.nodes[node].subs.retain(|&(sub, _)| sub != call);
            }
            Event::Online { .. }
            | Event::Signal { .. }
            | Event::Notify { .. }
            | Event::Settled { .. }
            // A hint for real connections: the Gateways of this world read on, so their bounds decide.
            | Event::Hold { .. }
            | Event::Release { .. }
            | Event::Report(_) => {}
        }
        Ok(())
    }

    fn chunk_came(&mut self, node: usize, call: CallId) {
        let slow = self.settings.slow_reader > 0 && self.rng.chance(self.settings.slow_reader);
        let delay = self.rng.below(50 * MS);
        let Some(open) = self.nodes[node].calls.get_mut(&call.as_u64()) else {
            return;
        };
        open.came += 1;
        if slow {
            let wake = Wake::Take {
                node: node as u8,
                life: self.nodes[node].life,
                call: call.as_u64(),
            };
            self.schedule(self.now + delay, wake);
        } else {
            self.take_chunks(node, call.as_u64());
        }
    }

    pub(crate) fn take_chunks(&mut self, node: usize, call: u64) {
        if let Some(open) = self.nodes[node].calls.get_mut(&call) {
            open.taken = open.came;
            let (call, came) = (open.call, open.came);
            self.nodes[node].core.taken(call, came);
        }
    }

    fn start_handler(
        &mut self,
        node: usize,
        serving: ServingId,
        from: &str,
        payload: &Payload,
        lossless: bool,
    ) {
        let Some((request, script)) = tag::read(payload.as_bytes()) else {
            return;
        };
        let Some(run) = self.model.run_of(node, serving) else {
            return;
        };
        let from = (0..self.nodes.len()).find(|&other| Settings::app(other).as_str() == from);
        let handler = self.nodes[node].handlers.len() as u32;
        self.nodes[node].handlers.push(Handler {
            serving,
            from: from.unwrap_or(node),
            request,
            run,
            lossless,
            delay: (script & 0xffff) * MS,
            chunks: (script >> 16 & 0xff) as u32,
            size: (script >> 32) as usize,
            ok: script >> 24 & 1 == 1,
            emitted: 0,
            tried: 0,
            waiting: false,
            over: false,
        });
        self.nodes[node]
            .by_serving
            .insert(serving.as_u64(), handler);
        self.plan_step(node, handler);
    }

    fn plan_step(&mut self, node: usize, handler: u32) {
        let at = self.now + self.nodes[node].handlers[handler as usize].delay;
        let wake = Wake::Handler {
            node: node as u8,
            life: self.nodes[node].life,
            handler,
        };
        self.schedule(at, wake);
    }

    fn go_on(&mut self, node: usize, handler: u32) -> Verdict {
        if std::mem::take(&mut self.nodes[node].handlers[handler as usize].waiting) {
            self.step_handler(node, handler)?;
        }
        Ok(())
    }

    /// The handler's next chunk, or its answer.
    pub(crate) fn step_handler(&mut self, node: usize, index: u32) -> Verdict {
        let handler = &self.nodes[node].handlers[index as usize];
        if handler.over {
            return Ok(());
        }
        if handler.tried >= handler.chunks {
            return self.answer(node, index);
        }
        let (request, run, lossless) = (handler.request, handler.run, handler.lossless);
        let (serving, from, size) = (handler.serving, handler.from, handler.size);
        let kind = Kind::Chunk {
            request,
            run,
            index: handler.emitted,
            lossless,
        };
        let uid = self.model.reserve(node, from, kind);
        let payload = tag::payload(uid, 0, size);
        let now = self.local(node);
        let emitted = self.nodes[node].core.emit(now, serving, &payload, true);
        let handler = &mut self.nodes[node].handlers[index as usize];
        match emitted {
            Ok(send) => {
                handler.tried += 1;
                handler.emitted += 1;
                self.model.tracked(node, from, send, uid);
                self.plan_step(node, index);
                self.check_window(node, index)
            }
            Err(error) => {
                match error {
                    SendError::Full => self.wait(node, index),
                    SendError::NotifyRefused if !lossless => {
                        handler.tried += 1;
                        self.plan_step(node, index);
                    }
                    _ => {}
                }
                self.model
                    .refused_chunk(node, serving, uid, lossless, &error)
            }
        }
    }

    /// MSG-11: what the reader has not taken fits the window, unless nobody counts: the reader is gone, or a chunk is.
    fn check_window(&self, node: usize, index: u32) -> Verdict {
        let handler = &self.nodes[node].handlers[index as usize];
        let counted = handler.lossless && !self.model.msgs[handler.request as usize].chunk_lost;
        let mut readers = self.nodes[handler.from].calls.values();
        let reader = readers.find(|open| counted && open.uid == handler.request);
        if let Some(reader) = reader {
            let (sent, taken) = (u64::from(handler.emitted), reader.taken);
            ensure!(
                sent <= taken + self.settings.stream_window,
                "MSG-11",
                "app-{node}: {sent} chunks of request {} sent, {taken} taken",
                handler.request
            );
        }
        Ok(())
    }

    fn wait(&mut self, node: usize, index: u32) {
        self.nodes[node].handlers[index as usize].waiting = true;
        if !self.nodes[node].waiting.contains(&index) {
            self.nodes[node].waiting.push(index);
        }
    }

    fn answer(&mut self, node: usize, index: u32) -> Verdict {
        let handler = &self.nodes[node].handlers[index as usize];
        let (request, run, ok) = (handler.request, handler.run, handler.ok);
        let (serving, from, size) = (handler.serving, handler.from, handler.size);
        let kind = Kind::Response {
            request,
            run,
            ok,
            emitted: handler.emitted,
            lossless: handler.lossless,
        };
        let uid = self.model.reserve(node, from, kind);
        let payload = tag::payload(uid, 0, size);
        let answer = Answer {
            is_ok: ok,
            why_not_ok: (!ok).then(|| "failed".to_owned()),
            payload,
        };
        let now = self.local(node);
        match self.nodes[node].core.respond(now, serving, &answer, true) {
            Ok(send) => {
                self.nodes[node].handlers[index as usize].over = true;
                self.nodes[node].by_serving.remove(&serving.as_u64());
                self.model.answered(node, serving);
                self.model.tracked(node, from, send, uid);
                Ok(())
            }
            Err(error) => {
                if error == SendError::Full {
                    self.wait(node, index);
                }
                self.model.refused_answer(node, serving, uid, &error)
            }
        }
    }
}
