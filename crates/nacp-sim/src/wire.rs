//! The world's hand on the network: connections come and go, bytes move. What this module keeps true: a core is asked
//! for a message only when its connection can take bytes; acceptance is told when the kernel has the last of them, if
//! late then still in order and before the end of the connection; and a reader learns of the end after what came before.

use bytes::Bytes;
use nacp::message::{Head, Meta, Payload, Registration, decode, encode};
use nacp::{PeerId, Role};

use crate::broken::Verdict;
use crate::model::Cause;
use crate::net::{Conn, Open, Stage, peer_of};
use crate::settings::Settings;
use crate::world::{MS, Wake, World};

/// Large messages that one writer has begun.
const OPEN_MAX: usize = 4;

impl World {
    fn latency(&mut self) -> u64 {
        (self.settings.latency_us + self.rng.below(self.settings.jitter_us + 1)) * 1_000
    }

    /// One attempt of `from` to reach `to`.
    pub(crate) fn dial(&mut self, from: usize, to: usize, delay: u64) -> u32 {
        let conn = self.conns.len() as u32;
        let lives = (self.nodes[from].life, self.nodes[to].life);
        self.conns.push(Conn::new((from, lives.0), (to, lives.1)));
        self.live.push(conn);
        self.model.dialled(from, to);
        let at = self.now + delay + self.latency();
        self.schedule(at, Wake::Up { conn, side: 1 });
        conn
    }

    pub(crate) fn reach_acceptor(&mut self, conn: u32) -> Verdict {
        let at = self.now + self.latency();
        let [dialler, acceptor] = &mut self.conns[conn as usize].ends;
        if dialler.stage == Stage::Gone || self.cut[dialler.node][acceptor.node] {
            acceptor.stage = Stage::Gone;
            self.schedule(at, Wake::Up { conn, side: 0 });
            return Ok(());
        }
        let node = acceptor.node;
        acceptor.stage = Stage::Up;
        acceptor.life = self.nodes[node].life;
        self.schedule(at, Wake::Up { conn, side: 0 });
        let now = self.local(node);
        let core = &mut self.nodes[node].core;
        core.handle_peer_up(now, peer_of(conn, 1), Role::Acceptor);
        self.settle(node)
    }

    pub(crate) fn reach_dialler(&mut self, conn: u32) -> Verdict {
        let [dialler, acceptor] = &mut self.conns[conn as usize].ends;
        let node = dialler.node;
        let expect = Settings::app(acceptor.node);
        if dialler.stage == Stage::Gone || dialler.life != self.nodes[node].life {
            dialler.stage = Stage::Gone;
            self.ended(conn, 0);
            return self.reset_of(conn, 1);
        }
        if acceptor.stage == Stage::Gone {
            dialler.stage = Stage::Gone;
            self.ended(conn, 0);
            return Ok(());
        }
        dialler.stage = Stage::Up;
        let now = self.local(node);
        let entropy = self.rng.seed();
        let core = &mut self.nodes[node].core;
        core.mix_entropy(entropy);
        core.handle_peer_up(now, peer_of(conn, 0), Role::Dialer { expect });
        self.settle(node)
    }

    /// Moves what the core has for a connection into the kernel, as far as that takes it. Events wait in the core.
    pub(crate) fn flush(&mut self, conn: u32, side: usize) {
        let frame_max = self.settings.large_bytes as usize;
        loop {
            let Conn { ends, broken } = &mut self.conns[conn as usize];
            let end = &mut ends[side];
            if end.stage != Stage::Up || *broken || self.nodes[end.node].frozen {
                break;
            }
            let room = (self.settings.send_buffer as usize).saturating_sub(end.out.held);
            if room == 0 {
                break;
            }
            if end.out.current.is_none() && !self.next_frame(conn, side, frame_max) {
                break;
            }
            self.write_frame(conn, side, room);
        }
        self.ship(conn, side);
    }

    /// Decides whose frame is written next; false if there is none.
    fn next_frame(&mut self, conn: u32, side: usize, frame_max: usize) -> bool {
        let end = &mut self.conns[conn as usize].ends[side];
        let node = end.node;
        let now = nacp::Instant::from_nanos(self.now - self.nodes[node].behind);
        let core = &mut self.nodes[node].core;
        let peer = peer_of(conn, side);
        let fresh = if end.out.open.len() < OPEN_MAX {
            core.poll_transmit(now, peer)
        } else {
            core.poll_urgent(now, peer)
        };
        if let Some(transmit) = fresh {
            self.messages += 1;
            let mut bytes = transmit.message.to_bytes();
            self.model.transmitted(node, transmit.token, bytes.len());
            let [a, b] = [0, 1].map(|side: usize| self.conns[conn as usize].ends[side].node);
            if self.settings.is_base_pair(a, b) {
                bytes = as_base_peers_write(bytes);
            }
            let open = Open {
                left: bytes.len(),
                bytes,
                token: transmit.token,
            };
            let out = &mut self.conns[conn as usize].ends[side].out;
            if open.left <= frame_max {
                let left = open.left;
                out.current = Some((open, left));
                return true;
            }
            out.open.push_back(open);
        }
        let out = &mut self.conns[conn as usize].ends[side].out;
        let Some(open) = out.open.pop_front() else {
            return false;
        };
        let frame = open.left.min(frame_max);
        out.current = Some((open, frame));
        true
    }

    fn write_frame(&mut self, conn: u32, side: usize, room: usize) {
        let out = &mut self.conns[conn as usize].ends[side].out;
        let Some((mut open, frame)) = out.current.take() else {
            return;
        };
        let count = frame.min(room);
        open.left -= count;
        let frame = frame - count;
        if open.left == 0 {
            out.write(count, Some(open.bytes));
            self.accepted(conn, side, open.token);
            return;
        }
        out.write(count, None);
        if frame == 0 {
            out.open.push_back(open);
        } else {
            out.current = Some((open, frame));
        }
    }

    fn accepted(&mut self, conn: u32, side: usize, token: u64) {
        let late =
            self.settings.late_acceptance > 0 && self.rng.chance(self.settings.late_acceptance);
        let delay = self.rng.below(3 * MS);
        let end = &mut self.conns[conn as usize].ends[side];
        let node = end.node;
        let last = end.late.back().map(|&(_, at)| at);
        if late || last.is_some() {
            let at = (self.now + delay).max(last.unwrap_or(0));
            end.late.push_back((token, at));
            let side = side as u8;
            return self.schedule(at, Wake::Accepted { conn, side });
        }
        let now = self.local(node);
        let core = &mut self.nodes[node].core;
        core.handle_accepted(now, peer_of(conn, side), token);
    }

    pub(crate) fn tell_accepted(&mut self, conn: u32, side: usize) -> Verdict {
        let end = &mut self.conns[conn as usize].ends[side];
        if end.stage != Stage::Up {
            return Ok(());
        }
        let node = end.node;
        let now = nacp::Instant::from_nanos(self.now - self.nodes[node].behind);
        while let Some(&(token, _)) = end.late.front().filter(|late| late.1 <= self.now) {
            end.late.pop_front();
            let core = &mut self.nodes[node].core;
            core.handle_accepted(now, peer_of(conn, side), token);
        }
        self.settle(node)
    }

    /// Schedules the arrival of everything that waits in the kernel.
    fn ship(&mut self, conn: u32, side: usize) {
        loop {
            let out = &self.conns[conn as usize].ends[side].out;
            let waiting = out.unshipped();
            if waiting == 0 || out.blocked {
                return;
            }
            let mut bytes = waiting.min(self.settings.segment_bytes.max(1) as usize);
            if self.settings.segment_bytes < 1_000 {
                bytes = self.rng.between(1, bytes as u64) as usize;
            }
            let latency = self.latency();
            let out = &mut self.conns[conn as usize].ends[side].out;
            let span = bytes as u64 * MS / self.settings.bandwidth.max(1);
            out.busy_until = out.busy_until.max(self.now) + span;
            let at = out.last_arrival.max(out.busy_until + latency);
            out.last_arrival = at;
            out.in_flight += bytes;
            let segment = Wake::Segment {
                conn,
                side: side as u8,
                bytes: bytes as u32,
            };
            self.schedule(at, segment);
        }
    }

    pub(crate) fn segment(&mut self, conn: u32, side: usize, bytes: usize) -> Verdict {
        let Conn { ends, .. } = &mut self.conns[conn as usize];
        let (reader, out) = (ends[1 - side].stage, &mut ends[side].out);
        let bytes = bytes.min(out.in_flight);
        out.in_flight -= bytes;
        if out.blocked {
            return Ok(());
        }
        out.unread += bytes;
        if out.stalled || reader == Stage::Coming || ends[1 - side].asked {
            return Ok(());
        }
        self.read(conn, side)
    }

    /// The reader takes all that has arrived.
    pub(crate) fn read(&mut self, conn: u32, side: usize) -> Verdict {
        let end = &mut self.conns[conn as usize].ends[side];
        let unread = std::mem::take(&mut end.out.unread);
        let was_full = end.out.held >= self.settings.send_buffer as usize;
        let mut messages: Vec<Bytes> = Vec::new();
        let partial = end.out.read(unread, &mut messages);
        let reader = 1 - side;
        let node = self.conns[conn as usize].ends[reader].node;
        let peer = peer_of(conn, reader);
        let inbox = &mut self.conns[conn as usize].ends[reader].inbox;
        inbox.extend(messages);
        self.look_at_inbox(conn, reader)?;
        if self.conns[conn as usize].ends[reader].stage == Stage::Up {
            if partial {
                let now = self.local(node);
                self.nodes[node].core.handle_progress(now, peer);
            }
            self.settle(node)?;
        }
        if was_full {
            let at = self.now + self.latency();
            let side = side as u8;
            self.schedule(at, Wake::Writable { conn, side });
        }
        self.notice_end(conn, side)
    }

    /// The reader learns that the writer closed, when it has looked at all that came before.
    pub(crate) fn notice_end(&mut self, conn: u32, side: usize) -> Verdict {
        let ends = &self.conns[conn as usize].ends;
        let (reader, out) = (1 - side, &ends[side].out);
        if out.fin && out.held == 0 && !ends[reader].asked {
            return self.down(conn, reader);
        }
        Ok(())
    }

    /// Hands over what was read, until the program is asked something.
    pub(crate) fn look_at_inbox(&mut self, conn: u32, reader: usize) -> Verdict {
        loop {
            let end = &mut self.conns[conn as usize].ends[reader];
            if end.stage != Stage::Up {
                end.inbox.clear();
            }
            if end.asked {
                return Ok(());
            }
            let Some(message) = end.inbox.pop_front() else {
                return Ok(());
            };
            let node = end.node;
            self.hand_over(node, peer_of(conn, reader), &message)?;
        }
    }

    fn hand_over(&mut self, node: usize, peer: PeerId, message: &Bytes) -> Verdict {
        let now = self.local(node);
        self.model.received(node, message.len());
        if let Err(violation) = self.nodes[node].core.handle_message(now, peer, message) {
            self.model.violated(node, &violation)?;
        }
        self.tell(node, Cause::Other)
    }

    pub(crate) fn writable(&mut self, conn: u32, side: usize) -> Verdict {
        let end = &self.conns[conn as usize].ends[side];
        if end.stage != Stage::Up {
            return Ok(());
        }
        let node = end.node;
        self.flush(conn, side);
        self.settle(node)
    }

    /// A side notices the end of its connection.
    pub(crate) fn down(&mut self, conn: u32, side: usize) -> Verdict {
        let end = &mut self.conns[conn as usize].ends[side];
        let stage = end.stage;
        if stage != Stage::Up {
            if stage == Stage::Coming {
                end.stage = Stage::Gone;
                self.ended(conn, side);
            }
            return Ok(());
        }
        let (node, peer) = (end.node, peer_of(conn, side));
        end.stage = Stage::Gone;
        end.out.forget_unwritten();
        let late = std::mem::take(&mut end.late);
        let now = self.local(node);
        let core = &mut self.nodes[node].core;
        for (token, _) in late {
            core.handle_accepted(now, peer, token);
        }
        core.handle_peer_down(now, peer);
        self.ended(conn, side);
        self.tell(node, Cause::PeerDown)?;
        self.settle(node)?;
        // If the other side lives on, it learns of the end from its own next write.
        self.reset_of(conn, 1 - side)
    }

    /// The core wants the connection closed.
    pub(crate) fn close(&mut self, conn: u32, side: usize) {
        let end = &mut self.conns[conn as usize].ends[side];
        if end.stage != Stage::Up {
            return;
        }
        end.stage = Stage::Gone;
        let unsure = !std::mem::take(&mut end.late).is_empty();
        end.out.forget_unwritten();
        end.out.fin = true;
        let tell = end.out.held == 0 && !end.out.blocked;
        if unsure {
            let [from, to] = [side, 1 - side].map(|side| self.conns[conn as usize].ends[side].node);
            self.model.unsure(from, to);
        }
        self.ended(conn, side);
        if tell {
            let at = self.now + self.latency();
            let side = 1 - side as u8;
            self.schedule(at, Wake::Down { conn, side });
        }
    }

    /// One side's program is gone; `silent` = the other hears nothing of it.
    pub(crate) fn die(&mut self, conn: u32, side: usize, silent: bool) {
        let ends = &mut self.conns[conn as usize].ends;
        // An attempt that is under way fails, told or not.
        let silent = silent && ends.iter().all(|end| end.stage == Stage::Up);
        ends[side].stage = Stage::Gone;
        ends[side].out.forget_unwritten();
        ends[side].late.clear();
        if silent {
            for end in ends {
                end.out.blocked = true;
            }
        } else {
            let at = self.now + self.latency();
            let side = 1 - side as u8;
            self.schedule(at, Wake::Down { conn, side });
        }
        self.ended(conn, side);
    }

    /// `side` learns soon that the other is gone, unless nothing reaches it.
    fn reset_of(&mut self, conn: u32, side: usize) -> Verdict {
        let ends = &self.conns[conn as usize].ends;
        if ends[side].stage != Stage::Gone && !ends[1 - side].out.blocked {
            let at = self.now + self.latency();
            let side = side as u8;
            self.schedule(at, Wake::Down { conn, side });
        }
        Ok(())
    }

    /// The connection breaks: each side notices in its own time.
    pub(crate) fn reset(&mut self, conn: u32, notice: [u64; 2], flush: bool) {
        let Conn { ends, broken } = &mut self.conns[conn as usize];
        *broken = true;
        for end in ends {
            end.out.forget_unwritten();
            // Unless flushed, nothing of it arrives any more.
            end.out.blocked |= !flush;
        }
        for (side, wait) in (0u8..).zip(notice) {
            self.schedule(self.now + wait, Wake::Down { conn, side });
        }
    }

    pub(crate) fn block(&mut self, conn: u32, side: usize, blocked: bool) {
        let Conn { ends, broken } = &mut self.conns[conn as usize];
        if *broken {
            return;
        }
        ends[side].out.blocked = blocked;
        if blocked {
            return;
        }
        // Who closed says so after its last bytes; who died resets what comes.
        let gone = [0, 1].map(|x: usize| {
            let Conn { ends, .. } = &self.conns[conn as usize];
            let out = &ends[x].out;
            ends[x].stage == Stage::Gone && (!out.fin || (x == side && out.held == 0))
        });
        for x in (0..2).filter(|&x: &usize| gone[x]) {
            let at = self.now + self.latency();
            let side = 1 - x as u8;
            self.schedule(at, Wake::Down { conn, side });
        }
        self.ship(conn, side);
    }

    pub(crate) fn stall(&mut self, conn: u32, side: usize, stalled: bool) -> Verdict {
        let out = &mut self.conns[conn as usize].ends[side].out;
        out.stalled = stalled;
        if stalled || out.unread == 0 {
            return Ok(());
        }
        let reader = &self.conns[conn as usize].ends[1 - side];
        if reader.asked {
            return Ok(());
        }
        if self.nodes[reader.node].frozen || reader.stage == Stage::Coming {
            let wake = Wake::Segment {
                conn,
                side: side as u8,
                bytes: 0,
            };
            self.schedule(self.now, wake);
            return Ok(());
        }
        self.read(conn, side)
    }

    /// A side of a connection is over: whoever wanted it tries again.
    fn ended(&mut self, conn: u32, side: usize) {
        if !self.conns[conn as usize].is_live() {
            self.live.retain(|&live| live != conn);
        }
        if side == 0 {
            let mine = |wish: &crate::world::Wish| wish.attempt == Some(conn);
            if let Some(wish) = self.wishes.iter().position(mine) {
                self.wishes[wish].attempt = None;
                self.wishes[wish].failures += 1;
                self.plan_redial(wish);
            }
        }
    }

    /// Exponential backoff with full jitter from the first attempt (LINK-17).
    pub(crate) fn plan_redial(&mut self, wish: usize) {
        if self.wishes[wish].scheduled || !self.wishes[wish].wanted {
            return;
        }
        self.wishes[wish].scheduled = true;
        let ceiling = (5 << self.wishes[wish].failures.min(6)) * MS;
        let at = self.now + self.rng.below(ceiling);
        self.schedule(at, Wake::Redial { wish: wish as u32 });
    }

    pub(crate) fn redial(&mut self, wish: usize) -> Verdict {
        let (from, to) = (self.wishes[wish].from, self.wishes[wish].to);
        self.wishes[wish].scheduled = false;
        if !self.wishes[wish].wanted || self.wishes[wish].attempt.is_some() {
            return Ok(());
        }
        let state = self.nodes[from].core.link_state(&Settings::app(to));
        if matches!(state, Some(nacp::LinkState::Online { .. })) {
            self.wishes[wish].failures = 0;
            return Ok(());
        }
        let conn = self.dial(from, to, 0);
        self.wishes[wish].attempt = Some(conn);
        Ok(())
    }
}

/// What a peer that knows only the base protocol would have sent: a register without instance and features.
fn as_base_peers_write(bytes: Bytes) -> Bytes {
    let Ok(envelope) = decode(&bytes) else {
        return bytes;
    };
    let answer = matches!(envelope.meta, Meta::Response { kind: None, .. });
    if !answer && !matches!(envelope.meta, Meta::Register) {
        return bytes;
    }
    let Ok(mut registration) = envelope.payload_of(&bytes).decode::<Registration>() else {
        return bytes;
    };
    if registration.instance.is_none() && registration.features.is_empty() {
        return bytes;
    }
    registration.instance = None;
    registration.features.clear();
    let payload = Payload::encode(&registration).expect("it was decoded from bytes");
    let head = Head {
        id: &envelope.id,
        from: &envelope.from,
        to: &envelope.to,
        t_ms: envelope.t_ms,
        meta: envelope.meta.clone(),
    };
    encode(&head, Some(&payload)).to_bytes()
}
