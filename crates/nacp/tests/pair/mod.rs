//! Two cores and a wire between them that can go silent, lose a chosen message, or be cut; one virtual clock.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use nacp::message::{Envelope, decode};
use nacp::*;

pub const MS: Duration = Duration::from_millis(1);

pub fn app(name: &str) -> AppId {
    AppId::new(name).unwrap()
}

pub fn text(value: &str) -> Payload {
    Payload::encode(value).unwrap()
}

pub fn offline(event: &Event) -> bool {
    matches!(event, Event::Offline { .. })
}

pub fn online(event: &Event) -> bool {
    matches!(event, Event::Online { .. })
}

/// The settings of the scenarios' rig.
pub fn config(name: &str) -> Config {
    let mut config = Config::new(app(name));
    config.ack_timeout = 200 * MS;
    config.heartbeat_interval = Some(100 * MS);
    config.reconnect_grace = 2_000 * MS;
    config
}

/// One App and what it saw.
pub struct Node {
    pub nacp: Nacp,
    /// Payload texts of the requests and signals that were handled, in order.
    pub handled: Vec<String>,
    pub events: Vec<Event>,
    /// Answers requests at once when set, else keeps them in `open`.
    pub answers: bool,
    pub open: Vec<ServingId>,
}

impl Node {
    pub fn new(config: Config, seed: u8) -> Self {
        let nacp = Nacp::new(config, 0, [seed; 32]);
        Self {
            nacp,
            handled: Vec::new(),
            events: Vec::new(),
            answers: true,
            open: Vec::new(),
        }
    }

    fn drain(&mut self, now: Instant) {
        while let Some(event) = self.nacp.poll_event() {
            match &event {
                Event::Request {
                    serving, payload, ..
                } => {
                    self.handled.push(payload.decode().unwrap());
                    if self.answers {
                        let answer = Answer::ok(payload.clone());
                        self.nacp.respond(now, *serving, &answer, false).unwrap();
                    } else {
                        self.open.push(*serving);
                    }
                }
                Event::Signal { payload, .. } => self.handled.push(payload.decode().unwrap()),
                _ => {}
            }
            self.events.push(event);
        }
    }

    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }

    pub fn outcomes(&self) -> Vec<(CallId, Outcome)> {
        let done = |event: &Event| match event {
            Event::Done { call, outcome } => Some((*call, outcome.clone())),
            _ => None,
        };
        self.events.iter().filter_map(done).collect()
    }

    /// Whether this call alone has ended, and with an answer.
    pub fn only_answered(&self, call: CallId) -> bool {
        let outcomes = self.outcomes();
        matches!(&outcomes[..], [(done, Outcome::Response { .. })] if *done == call)
    }

    pub fn settled(&self) -> Vec<(SendId, bool)> {
        let settled = |event: &Event| match event {
            Event::Settled { send, delivered } => Some((*send, *delivered)),
            _ => None,
        };
        self.events.iter().filter_map(settled).collect()
    }

    pub fn is_online(&self, name: &str) -> bool {
        matches!(
            self.nacp.link_state(&app(name)),
            Some(LinkState::Online { .. })
        )
    }
}

/// What a wire does with a message.
pub type Fault = Box<dyn FnMut(&Envelope<'_>) -> bool>;

/// One direction of a connection.
#[derive(Default)]
struct Way {
    flying: VecDeque<(Instant, Bytes)>,
    black: bool,
    lose: Option<Fault>,
}

struct Wire {
    peer: PeerId,
    /// a → b, b → a.
    ways: [Way; 2],
}

pub struct Pair {
    pub a: Node,
    pub b: Node,
    pub now: Instant,
    pub latency: Duration,
    /// Nobody at that end looks at anything.
    pub frozen: [bool; 2],
    wires: Vec<Wire>,
    peers: u64,
    /// The event call that signals are for.
    job: Option<CallId>,
}

impl Pair {
    pub fn new(a: Config, b: Config) -> Self {
        Self {
            a: Node::new(a, 1),
            b: Node::new(b, 2),
            now: Instant::EPOCH,
            latency: MS,
            frozen: [false; 2],
            wires: Vec::new(),
            peers: 0,
            job: None,
        }
    }

    /// Both online over one wire that `a` dialled.
    pub fn online() -> Self {
        let mut pair = Self::new(config("a"), config("b"));
        pair.dial();
        pair.run(10 * MS);
        assert!(pair.a.is_online("b") && pair.b.is_online("a"));
        pair
    }

    /// `a` dials `b`.
    pub fn dial(&mut self) -> PeerId {
        self.peers += 1;
        let peer = PeerId(self.peers);
        let expect = self.b.nacp.config().app.clone();
        self.a
            .nacp
            .handle_peer_up(self.now, peer, Role::Dialer { expect });
        self.b.nacp.handle_peer_up(self.now, peer, Role::Acceptor);
        self.wires.push(Wire {
            peer,
            ways: Default::default(),
        });
        peer
    }

    fn wire(&mut self, peer: PeerId) -> Option<&mut Wire> {
        self.wires.iter_mut().find(|wire| wire.peer == peer)
    }

    /// Nothing of `way` (0 = a → b) arrives any more, and nobody is told.
    pub fn black_hole(&mut self, way: usize) {
        for wire in &mut self.wires {
            wire.ways[way].black = true;
        }
    }

    /// The newest connection.
    pub fn newest(&self) -> PeerId {
        PeerId(self.peers)
    }

    /// How many connections are there.
    pub fn connections(&self) -> usize {
        self.wires.len()
    }

    /// One connection ends, if it is still there, and both learn it.
    pub fn end(&mut self, peer: PeerId) {
        self.wires.retain(|wire| wire.peer != peer);
        self.a.nacp.handle_peer_down(self.now, peer);
        self.b.nacp.handle_peer_down(self.now, peer);
    }

    /// Loses the messages of `way` for which `fault` says so.
    pub fn lose(&mut self, way: usize, fault: impl FnMut(&Envelope<'_>) -> bool + 'static) {
        self.wires.last_mut().unwrap().ways[way].lose = Some(Box::new(fault));
    }

    pub fn cut(&mut self) {
        while let Some(wire) = self.wires.first() {
            self.end(wire.peer);
        }
    }

    /// `b` dies and starts again, knowing nothing.
    pub fn restart_b(&mut self, seed: u8) {
        for wire in std::mem::take(&mut self.wires) {
            self.a.nacp.handle_peer_down(self.now, wire.peer);
        }
        self.b.nacp = Nacp::new(self.b.nacp.config().clone(), 0, [seed; 32]);
    }

    /// Lets time pass, in steps of a millisecond or less.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.step();
        while self.now < end {
            self.now = (self.now + MS).min(end);
            self.step();
        }
    }

    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now + limit;
        while !done(self) {
            assert!(self.now < end, "not within {limit:?}");
            self.run(MS);
        }
    }

    fn step(&mut self) {
        for end in [0, 1] {
            if !self.frozen[end] {
                self.deliver(end);
                let node = [&mut self.a, &mut self.b].into_iter().nth(end).unwrap();
                node.nacp.handle_timeout(self.now);
                node.drain(self.now);
                self.transmit(end);
                self.close(end);
            }
        }
    }

    /// What has arrived at `end` by now.
    fn deliver(&mut self, end: usize) {
        let node = [&mut self.a, &mut self.b].into_iter().nth(end).unwrap();
        for wire in &mut self.wires {
            let way = &mut wire.ways[1 - end];
            while way.flying.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, bytes) = way.flying.pop_front().unwrap();
                let _ = node.nacp.handle_message(self.now, wire.peer, &bytes);
                node.drain(self.now);
            }
        }
    }

    /// What `end` wants to send now.
    fn transmit(&mut self, end: usize) {
        let node = [&mut self.a, &mut self.b].into_iter().nth(end).unwrap();
        for wire in &mut self.wires {
            let way = &mut wire.ways[end];
            while let Some(transmit) = node.nacp.poll_transmit(self.now, wire.peer) {
                node.nacp
                    .handle_accepted(self.now, wire.peer, transmit.token);
                let bytes = transmit.message.to_bytes();
                let lost = way
                    .lose
                    .as_mut()
                    .is_some_and(|lose| lose(&decode(&bytes).unwrap()));
                if !way.black && !lost {
                    way.flying.push_back((self.now + self.latency, bytes));
                }
            }
            node.drain(self.now);
        }
    }

    /// Connections that `end` wants closed: the other end learns it, unless its way is black.
    fn close(&mut self, end: usize) {
        let [node, other] = match end {
            0 => [&mut self.a, &mut self.b],
            _ => [&mut self.b, &mut self.a],
        };
        let mut closed = Vec::new();
        for event in &node.events {
            if let Event::ClosePeer { peer, .. } = event {
                closed.push(*peer);
            }
        }
        for peer in closed {
            if let Some(index) = self.wires.iter().position(|wire| wire.peer == peer) {
                let wire = self.wires.remove(index);
                if !wire.ways[end].black {
                    other.nacp.handle_peer_down(self.now, peer);
                    other.drain(self.now);
                }
            }
        }
    }

    /// A signal for the event call of [`serve_signals`](Self::serve_signals).
    pub fn try_signal(&mut self, value: &str) -> Result<SendId, SendError> {
        let (job, payload) = (self.job.expect("it is being served"), text(value));
        let nacp = &mut self.a.nacp;
        nacp.signal(self.now, job, SignalKind::Normal, Some(&payload))
    }

    pub fn call(&mut self, value: &str) -> CallId {
        let kind = RequestKind::Ability;
        self.a
            .nacp
            .request(self.now, &app("b"), kind, "do", &text(value), None)
            .unwrap()
    }

    /// Signals are for an event call: makes one, and leaves it open.
    pub fn serve_signals(&mut self) {
        let answers = std::mem::replace(&mut self.b.answers, false);
        let kind = RequestKind::Event;
        let job = self
            .a
            .nacp
            .request(self.now, &app("b"), kind, "job", &text("job"), None);
        self.job = Some(job.unwrap());
        self.run_until(1_000 * MS, |pair| !pair.b.open.is_empty());
        self.b.answers = answers;
        self.b.handled.clear();
    }
}
