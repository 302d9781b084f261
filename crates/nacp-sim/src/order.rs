//! Judges what arrives. What this module keeps true: between two Apps everything is handled in send order (MSG-7), at
//! most once in one memory of the receiver (MSG-4), and nothing reliable is missing unless its loss was told (CAP-4).
//! The numbers of messages are send order, so one comparison judges order and duplicates together.

use nacp::{CallId, Payload, Report};

use crate::broken::{Broken, Verdict, ensure};
use crate::judge::uid_of;
use crate::model::{Asked, Call, Kind, Model};
use crate::tag;

impl Model {
    /// `uid` of `from` was handled by `node`.
    pub(crate) fn handled(&mut self, node: usize, from: usize, uid: u32, what: &str) -> Verdict {
        self.fold(u64::from(uid) << 8 | 0x40 | node as u64);
        let epoch = self.epoch(node, from);
        let Some(msg) = self.msg(uid) else {
            return Err(Broken::new(
                "MSG-9",
                format!("app-{node}: {what} that nobody sent"),
            ));
        };
        let hit = matches!(msg.kind, Kind::Hit { .. });
        ensure!(
            usize::from(msg.from) == from && (hit || usize::from(msg.to) == node),
            "GW-4",
            "app-{node}: {what} {uid} from app-{from}, but it is of app-{} to app-{}",
            msg.from,
            msg.to
        );
        let again = msg.handled > 0 && msg.handled_epoch == epoch && !hit;
        let (kind, lost) = (msg.kind, msg.lost);
        msg.handled += 1;
        msg.handled_epoch = epoch;
        if self.is_murky(from, node) {
            return self.handled_late(node, from, uid, again);
        }
        let base = self.settings.is_base_pair(from, node);
        let pair = self.pair(from, node);
        if pair.unsure && uid <= pair.last && (base || lost || !kind.is_reliable()) {
            ensure!(
                !again || !kind.is_reliable(),
                "MSG-4",
                "app-{node}: {uid} ({kind:?}) of app-{from} handled twice"
            );
            return Ok(());
        }
        ensure!(
            !again,
            "MSG-4",
            "app-{node}: {uid} ({kind:?}) of app-{from} handled twice"
        );
        let pair = self.pair(from, node);
        let last = pair.last;
        ensure!(
            uid > last || (hit && uid == last),
            "MSG-7",
            "app-{node}: {uid} ({kind:?}) of app-{from} handled after {last}"
        );
        self.pair(from, node).last = uid;
        self.nothing_skipped(node, from, uid)
    }

    /// In any order, but not twice.
    fn handled_late(&mut self, node: usize, from: usize, uid: u32, again: bool) -> Verdict {
        let kind = self.msgs[uid as usize].kind;
        ensure!(
            !again || !kind.is_reliable(),
            "MSG-4",
            "app-{node}: {uid} ({kind:?}) of app-{from} handled twice"
        );
        let pair = self.pair(from, node);
        pair.last = pair.last.max(uid);
        pair.outstanding.retain(|&other| other != uid);
        Ok(())
    }

    /// What was sent before `uid`, is reliable, and did not come: somebody must have been told.
    fn nothing_skipped(&mut self, node: usize, from: usize, uid: u32) -> Verdict {
        while let Some(&first) = self.pair(from, node).outstanding.front() {
            if first > uid {
                break;
            }
            self.pair(from, node).outstanding.pop_front();
            let msg = &self.msgs[first as usize];
            ensure!(
                first == uid || msg.lost,
                "MSG-7",
                "app-{node}: {uid} of app-{from} came before {first} ({:?}), which is not lost",
                msg.kind
            );
        }
        Ok(())
    }

    /// A chunk of a call's stream.
    pub(crate) fn chunk(&mut self, node: usize, id: CallId, uid: u32) -> Verdict {
        let Some(call) = self.nodes[node].calls.get(&id.as_u64()) else {
            return Err(Broken::new(
                "SUB-2",
                format!("app-{node}: a chunk of {id:?}, which has ended"),
            ));
        };
        let (to, asked, request) = (call.to, call.asked, call.uid);
        self.handled(node, to, uid, "a chunk")?;
        let kind = self.msgs[uid as usize].kind;
        let Kind::Chunk {
            request: of,
            run,
            index,
            lossless,
        } = kind
        else {
            return Err(Broken::new(
                "SUB-2",
                format!("app-{node}: {kind:?} came as a chunk"),
            ));
        };
        ensure!(
            of == request && asked == (Asked::Request { event: true }),
            "SUB-2",
            "app-{node}: a chunk of request {of} in the stream of {request}"
        );
        let lossy = !lossless || self.msgs[request as usize].chunk_lost;
        let murky = self.is_murky(node, to);
        let Some(call) = self.nodes[node].calls.get_mut(&id.as_u64()) else {
            return Ok(());
        };
        if call.run != run {
            // The handler ran in a memory that is gone; now it runs again.
            call.run = run;
            call.next = 0;
        }
        let late = index < call.next && (self.pairs[to * 5 + node].unsure || murky);
        if !lossless && late {
            return Ok(());
        }
        ensure!(
            index == call.next || (lossy && index > call.next),
            "MSG-11",
            "app-{node}: chunk {index} of request {request} instead of {} (lossless: {lossless})",
            call.next
        );
        call.next = index + 1;
        Ok(())
    }

    /// A call's Response: the right one, of a handler that ran.
    pub(crate) fn answered_call(
        &mut self,
        node: usize,
        call: &Call,
        is_ok: bool,
        why: Option<&str>,
        payload: &Payload,
    ) -> Verdict {
        if call.uid == 0 {
            return self.answered_by_the_core(node, call, is_ok, why);
        }
        let to = call.to;
        if let Some(request) = self.msg(call.uid) {
            request.call = 0;
            // It may be withdrawn now: an answer proves that it came.
            request.lost = true;
        }
        let request = self.msgs[call.uid as usize];
        let Some((uid, _)) = tag::read(payload.as_bytes()) else {
            let told = match why {
                // A Gateway's own answer can fall, too.
                Some("response-evicted") => {
                    request.answer_lost || request.chunk_lost || self.is_murky(node, to)
                }
                Some("no-route") => self.settings.is_forwarded(node, to),
                _ => false,
            };
            ensure!(
                told && !is_ok,
                "WAIT-5",
                "app-{node}: request {} to app-{to} answered {is_ok} {why:?} by nobody",
                call.uid
            );
            return Ok(());
        };
        self.handled(node, to, uid, "a response")?;
        let kind = self.msgs[uid as usize].kind;
        let Kind::Response {
            request: of,
            run,
            ok,
            emitted,
            lossless,
        } = kind
        else {
            return Err(Broken::new(
                "WAIT-4",
                format!("app-{node}: {kind:?} came as a response"),
            ));
        };
        ensure!(
            of == call.uid,
            "WAIT-4",
            "app-{node}: {} was answered for {of}",
            call.uid
        );
        let evicted = why == Some("stream-evicted") && request.chunk_lost;
        ensure!(
            is_ok == ok || (evicted && !is_ok),
            "WAIT-4",
            "app-{node}: request {of} answered {is_ok} {why:?} instead of {ok}"
        );
        let seen = if call.run == run { call.next } else { 0 };
        ensure!(
            !is_ok || !lossless || seen == emitted,
            "MSG-11",
            "app-{node}: request {of} answered ok after {seen} of {emitted} chunks"
        );
        Ok(())
    }

    fn answered_by_the_core(
        &self,
        node: usize,
        call: &Call,
        is_ok: bool,
        why: Option<&str>,
    ) -> Verdict {
        let legal = match (call.asked, is_ok, why) {
            (_, true, None) => true,
            (_, false, Some("response-evicted")) => true,
            (_, false, Some("no-route")) => self.settings.is_forwarded(node, call.to),
            (Asked::Unsubscribe, false, Some("unknown-subscription")) => true,
            _ => false,
        };
        ensure!(
            legal,
            "SUB-1",
            "app-{node}: {:?} to app-{} answered {is_ok} {why:?}",
            call.asked,
            call.to
        );
        Ok(())
    }

    /// A report: for a message that came and found nobody, that nobody was there.
    pub(crate) fn report(&mut self, node: usize, report: &Report) -> Verdict {
        let came = matches!(
            report.name,
            "nacp:internal:response:error"
                | "nacp:internal:notify:error"
                | "nacp:internal:signal:error"
        );
        if !came {
            return Ok(());
        }
        let Some(uid) = report.message.as_ref().and_then(uid_of) else {
            return Ok(());
        };
        let from = match &report.app {
            Some(app) => self.node_named(app.as_str())?,
            None => return Ok(()),
        };
        let Some(msg) = self.msg(uid).copied() else {
            return Ok(());
        };
        self.handled(node, from, uid, report.reason)?;
        let open = match msg.kind {
            Kind::Response { request, .. } | Kind::Chunk { request, .. } => {
                let call = self.msgs[request as usize].call;
                let call = self.nodes[node].calls.get(&call);
                call.is_some_and(|call| call.uid == request)
            }
            Kind::Signal { request } => {
                let mut served = self.nodes[node].served.values();
                served.any(|served| served.request == request)
            }
            Kind::Request { .. } | Kind::Hit { .. } => false,
        };
        ensure!(
            !open,
            "WAIT-4",
            "app-{node}: {uid} ({:?}) found nobody, but what it is for is open",
            msg.kind
        );
        Ok(())
    }
}
