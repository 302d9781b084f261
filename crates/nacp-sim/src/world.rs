//! The world: Apps, a network between them, and one clock. What this module keeps true: whatever happens, happens in
//! order of time, and at one time in order of scheduling; every wake-up touches one App; and after each call of a core
//! its events go to the judge before anything else happens. `wire` moves bytes, `apps` plays the programs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use nacp::{CallId, Event, Instant, Nacp, ServingId};

use crate::broken::{Broken, Verdict};
use crate::model::{Cause, Model};
use crate::net::{Conn, Stage, conn_of};
use crate::op::Op;
use crate::rng::Rng;
use crate::settings::Settings;

/// A millisecond in the world's nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// Something that falls due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    Segment { conn: u32, side: u8, bytes: u32 },
    Writable { conn: u32, side: u8 },
    Up { conn: u32, side: u8 },
    Down { conn: u32, side: u8 },
    Accepted { conn: u32, side: u8 },
    Timer { node: u8 },
    Handler { node: u8, life: u32, handler: u32 },
    Take { node: u8, life: u32, call: u64 },
    Verdict { conn: u32, side: u8 },
    Redial { wish: u32 },
    Thaw { node: u8 },
}

/// A connection that somebody wants kept.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) wanted: bool,
    /// The attempt, or the connection, that it made.
    pub(crate) attempt: Option<u32>,
    pub(crate) failures: u32,
    pub(crate) scheduled: bool,
}

/// A call that its App still waits for.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub(crate) call: CallId,
    pub(crate) to: usize,
    pub(crate) event: bool,
    pub(crate) uid: u32,
    /// Chunks that came, and how many of them the App has taken.
    pub(crate) came: u64,
    pub(crate) taken: u64,
}

/// A handler that runs.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) serving: ServingId,
    pub(crate) from: usize,
    pub(crate) request: u32,
    pub(crate) run: u32,
    pub(crate) lossless: bool,
    pub(crate) delay: u64,
    pub(crate) chunks: u32,
    pub(crate) size: usize,
    pub(crate) ok: bool,
    /// Chunks that the core took.
    pub(crate) emitted: u32,
    /// Chunks that were tried.
    pub(crate) tried: u32,
    pub(crate) waiting: bool,
    pub(crate) over: bool,
}

/// One App: its core, and what its program does with it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) core: Nacp,
    pub(crate) life: u32,
    /// How far its clock is behind the world's.
    pub(crate) behind: u64,
    pub(crate) frozen: bool,
    pub(crate) clock_stops: bool,
    pub(crate) frozen_at: u64,
    pub(crate) deferred: Vec<Wake>,
    pub(crate) timer_at: u64,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) by_serving: BTreeMap<u64, u32>,
    pub(crate) calls: BTreeMap<u64, OpenCall>,
    pub(crate) subs: Vec<(CallId, usize)>,
    /// Handlers that were told to wait for room.
    pub(crate) waiting: Vec<u32>,
}

/// Everything.
#[derive(Debug)]
pub struct World {
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    due: BinaryHeap<Reverse<(u64, u64, Wake)>>,
    scheduled: u64,
    pub(crate) conns: Vec<Conn>,
    /// Connections that are not over on both sides, oldest first.
    pub(crate) live: Vec<u32>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wishes: Vec<Wish>,
    pub(crate) cut: [[bool; 5]; 5],
    pub(crate) model: Model,
    pub(crate) ops: u64,
    pub(crate) messages: u64,
    pub(crate) drains: u64,
    batch: Vec<Event>,
}

impl World {
    /// A world in which nothing has happened; the Apps are about to dial.
    pub fn new(settings: Settings) -> Self {
        let mut rng = Rng::new(settings.seed);
        let count = settings.node_count();
        let nodes = (0..count)
            .map(|node| Node::new(&settings, node, 0, &mut rng))
            .collect();
        let mut wishes = Vec::new();
        for from in 0..count {
            for to in 0..count {
                let wanted = match settings.gateway {
                    1 => to == 0 && from > 0,
                    _ => from < to || (from > to && settings.both_dial == 1),
                };
                if wanted {
                    wishes.push(Wish {
                        from,
                        to,
                        wanted: true,
                        attempt: None,
                        failures: 0,
                        scheduled: false,
                    });
                }
            }
        }
        let mut world = Self {
            model: Model::new(&settings),
            settings,
            rng,
            now: MS,
            due: BinaryHeap::new(),
            scheduled: 0,
            conns: Vec::new(),
            live: Vec::new(),
            nodes,
            wishes,
            cut: [[false; 5]; 5],
            ops: 0,
            messages: 0,
            drains: 0,
            batch: Vec::new(),
        };
        for wish in 0..world.wishes.len() {
            world.plan_redial(wish);
        }
        world
    }

    /// Does `op`, and whatever it brings about at once.
    pub(crate) fn apply(&mut self, op: Op) -> Verdict {
        self.ops += 1;
        match op {
            Op::Advance { steps } => self.advance(u64::from(steps) * Op::STEP_NANOS),
            _ => self.apply_now(op),
        }
    }

    /// Lets `span` nanoseconds pass.
    pub(crate) fn advance(&mut self, span: u64) -> Verdict {
        let until = self.now + span;
        while let Some(&Reverse((at, _, _))) = self.due.peek().filter(|due| due.0.0 <= until) {
            let Some(Reverse((_, _, wake))) = self.due.pop() else {
                break;
            };
            self.now = self.now.max(at);
            self.wake(wake)?;
        }
        self.now = until;
        Ok(())
    }

    pub(crate) fn schedule(&mut self, at: u64, wake: Wake) {
        self.scheduled += 1;
        self.due.push(Reverse((at, self.scheduled, wake)));
    }

    fn node_of(&self, wake: Wake) -> Option<usize> {
        let end = |conn: u32, side: u8| self.conns[conn as usize].ends[usize::from(side)].node;
        match wake {
            Wake::Segment { conn, side, .. } => Some(end(conn, 1 - side)),
            Wake::Writable { conn, side }
            | Wake::Up { conn, side }
            | Wake::Down { conn, side }
            | Wake::Accepted { conn, side }
            | Wake::Verdict { conn, side } => Some(end(conn, side)),
            Wake::Timer { node } | Wake::Handler { node, .. } | Wake::Take { node, .. } => {
                Some(usize::from(node))
            }
            Wake::Redial { wish } => Some(self.wishes[wish as usize].from),
            Wake::Thaw { .. } => None,
        }
    }

    fn wake(&mut self, wake: Wake) -> Verdict {
        if let Some(node) = self.node_of(wake).filter(|&node| self.nodes[node].frozen) {
            self.nodes[node].deferred.push(wake);
            return Ok(());
        }
        match wake {
            Wake::Segment { conn, side, bytes } => {
                self.segment(conn, usize::from(side), bytes as usize)
            }
            Wake::Writable { conn, side } => self.writable(conn, usize::from(side)),
            Wake::Up { conn, side: 1 } => self.reach_acceptor(conn),
            Wake::Up { conn, .. } => self.reach_dialler(conn),
            Wake::Down { conn, side } => self.down(conn, usize::from(side)),
            Wake::Accepted { conn, side } => self.tell_accepted(conn, usize::from(side)),
            Wake::Verdict { conn, side } => self.decide(conn, usize::from(side)),
            Wake::Timer { node } => self.timer(usize::from(node)),
            Wake::Handler {
                node,
                life,
                handler,
            } if self.nodes[usize::from(node)].life == life => {
                self.step_handler(usize::from(node), handler)?;
                self.settle(usize::from(node))
            }
            Wake::Take { node, life, call } if self.nodes[usize::from(node)].life == life => {
                self.take_chunks(usize::from(node), call);
                self.settle(usize::from(node))
            }
            Wake::Handler { .. } | Wake::Take { .. } => Ok(()),
            Wake::Redial { wish } => self.redial(wish as usize),
            Wake::Thaw { node } => self.thaw(usize::from(node)),
        }
    }

    /// The clock of `node`.
    pub(crate) fn local(&self, node: usize) -> Instant {
        Instant::from_nanos(self.now - self.nodes[node].behind)
    }

    /// Takes the core's events, has them judged, and lets the App react, until there are none.
    pub(crate) fn tell(&mut self, node: usize, cause: Cause) -> Verdict {
        let mut cause = cause;
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            batch.clear();
            while let Some(event) = self.nodes[node].core.poll_event() {
                batch.push(event);
            }
            if batch.is_empty() {
                self.batch = batch;
                return Ok(());
            }
            let now = self.local(node);
            self.model.judge(node, now, &batch, cause)?;
            cause = Cause::Other;
            for event in batch.drain(..) {
                self.react(node, event)?;
            }
            self.batch = batch;
        }
    }

    /// Drains the core: events, then what it has for connections, then its timer.
    pub(crate) fn settle(&mut self, node: usize) -> Verdict {
        loop {
            self.tell(node, Cause::Other)?;
            let Some(peer) = self.nodes[node].core.poll_wake() else {
                break;
            };
            let (conn, side) = conn_of(peer);
            self.flush(conn, side);
        }
        self.check_sampled(node)?;
        let Some((at, _)) = self.nodes[node].core.poll_timeout() else {
            return Ok(());
        };
        let at = (at.as_nanos() + self.nodes[node].behind).max(self.now);
        if at < self.nodes[node].timer_at {
            self.nodes[node].timer_at = at;
            self.schedule(at, Wake::Timer { node: node as u8 });
        }
        Ok(())
    }

    fn timer(&mut self, node: usize) -> Verdict {
        if self.nodes[node].timer_at > self.now {
            // An earlier alarm has replaced it.
            return Ok(());
        }
        self.nodes[node].timer_at = u64::MAX;
        let now = self.local(node);
        self.nodes[node].core.handle_timeout(now);
        if let Some((at, reason)) = self.nodes[node].core.poll_timeout()
            && at <= now
        {
            let what =
                format!("after handle_timeout at {now:?}, {reason:?} at {at:?} is still due");
            return Err(Broken::new("CONTRACT", what));
        }
        self.settle(node)
    }

    pub(crate) fn freeze(&mut self, node: usize, span: u64, clock_stops: bool) {
        if self.nodes[node].frozen {
            return;
        }
        self.nodes[node].frozen = true;
        self.nodes[node].frozen_at = self.now;
        self.nodes[node].clock_stops = clock_stops;
        self.schedule(self.now + span, Wake::Thaw { node: node as u8 });
    }

    /// The program runs again, and sees at once everything that it missed.
    pub(crate) fn thaw(&mut self, node: usize) -> Verdict {
        if !self.nodes[node].frozen {
            return Ok(());
        }
        self.nodes[node].frozen = false;
        if self.nodes[node].clock_stops {
            self.nodes[node].behind += self.now - self.nodes[node].frozen_at;
        }
        for wake in std::mem::take(&mut self.nodes[node].deferred) {
            self.wake(wake)?;
        }
        self.settle(node)
    }

    /// The program dies, and starts again at once without memory.
    pub(crate) fn restart(&mut self, node: usize, silent: bool) -> Verdict {
        let live = self.live.clone();
        for conn in live {
            for side in 0..2 {
                let end = &self.conns[conn as usize].ends[side];
                if end.node == node && end.stage != Stage::Gone {
                    self.die(conn, side, silent);
                }
            }
        }
        let life = self.nodes[node].life + 1;
        let behind = self.nodes[node].behind;
        self.nodes[node] = Node::new(&self.settings, node, life, &mut self.rng);
        self.nodes[node].behind = behind;
        self.model.restarted(node);
        for wish in 0..self.wishes.len() {
            if self.wishes[wish].from == node {
                self.wishes[wish].attempt = None;
                self.wishes[wish].scheduled = false;
                self.plan_redial(wish);
            }
        }
        Ok(())
    }
}

impl Node {
    fn new(settings: &Settings, node: usize, life: u32, rng: &mut Rng) -> Self {
        Self {
            core: Nacp::new(settings.config(node), 1_700_000_000_000, rng.seed()),
            life,
            behind: 0,
            frozen: false,
            clock_stops: false,
            frozen_at: 0,
            deferred: Vec::new(),
            timer_at: u64::MAX,
            handlers: Vec::new(),
            by_serving: BTreeMap::new(),
            calls: BTreeMap::new(),
            subs: Vec::new(),
            waiting: Vec::new(),
        }
    }
}
