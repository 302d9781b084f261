//! Some cores, the connections between them, and a clock: everything that a driver is to the core, under the control of
//! whoever calls. What this module keeps true: the world keeps the driver's side of the contract — one name per
//! connection, nothing after the end of one, all polls drained after each call — so whatever goes wrong is the core's.

mod census;
mod ledger;
mod network;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use nacp::{AppId, Config, Event, Instant, Nacp, Payload, PeerId, Role};
use serde_bytes::ByteBuf;

pub use ledger::{Call, Ledger, What};
pub use network::{Conn, End, Lane, Packet};

/// Events, deliveries or deadlines in a row after which something goes round in circles.
const ENDLESS: usize = 100_000;
/// Connections of one run: their names are never used again.
pub const CONNS_MAX: usize = 40;
/// Messages that are remembered for those who forge.
const SEEN_MAX: usize = 48;

/// What makes a payload ours: how messages are told from forgeries, and their order from disorder.
pub const STAMP: &str = "stamp";

/// One App.
pub struct Node {
    pub nacp: Nacp,
    pub ledger: Ledger,
    config: Config,
    lives: u32,
    /// How often it was asked who may register.
    asked: u64,
    /// Whom it let in, and over which connection.
    admitted: BTreeSet<(PeerId, AppId)>,
}

/// All of it.
pub struct World {
    pub nodes: Vec<Node>,
    pub conns: Vec<Conn>,
    pub now: Instant,
    /// What went over the wire lately.
    pub seen: Vec<Bytes>,
    /// Whether that includes what was not sent to a stranger.
    pub everything_is_overheard: bool,
    /// What the world did to its Apps so far.
    pub past: Past,
    stamp: u64,
    fresh: u64,
    pub trace: bool,
}

/// What happened that excuses a core: a Gateway forwards without ACK, so what one loses comes late, after the sender's
/// ACK timeout and after what was sent later; and the App behind one has no incarnation that its callers can see, so it
/// can forget a call without their knowing.
#[derive(Default)]
pub struct Past {
    /// Somebody was reached through a Gateway.
    pub gateway: bool,
    /// Somebody who follows no rules was there.
    pub stranger: bool,
    /// An App forgot another, or all.
    pub forgotten: bool,
}

/// The name of a node's App.
pub fn app(name: &str) -> AppId {
    AppId::new(name).expect("a short name")
}

impl World {
    pub fn new(configs: Vec<Config>) -> Self {
        let nodes = configs.into_iter().enumerate().map(|(index, config)| Node {
            nacp: Nacp::new(config.clone(), 1_700_000_000_000, [index as u8 + 1; 32]),
            ledger: Ledger::default(),
            config,
            lives: 0,
            asked: 0,
            admitted: BTreeSet::new(),
        });
        Self {
            nodes: nodes.collect(),
            conns: Vec::new(),
            now: Instant::EPOCH,
            seen: Vec::new(),
            everything_is_overheard: true,
            past: Past::default(),
            stamp: 0,
            fresh: 0,
            trace: std::env::var_os("NACP_FUZZ_TRACE").is_some(),
        }
    }

    /// A payload that is told from all others, and the later from the earlier.
    pub fn stamped(&mut self, size: usize) -> Payload {
        self.stamp += 1;
        let filler = ByteBuf::from(vec![0; size]);
        Payload::encode(&(STAMP, self.stamp, filler)).expect("a tuple is written")
    }

    pub fn fresh(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }

    /// A connection; `None` = somebody who follows no rules.
    pub fn connect(&mut self, dialer: Option<usize>, acceptor: Option<usize>, expect: &AppId) {
        if self.conns.len() >= CONNS_MAX {
            return;
        }
        let conn = self.conns.len();
        self.conns.push(Conn::new(dialer, acceptor));
        self.past.stranger |= self.conns[conn].is_hostile();
        if ![dialer, acceptor]
            .into_iter()
            .flatten()
            .any(|node| self.nodes[node].config.is_gateway)
        {
            // A way beside the Gateway's: what is under way there may come after what is sent here.
            self.lost_on_the_way();
        }
        let role = Role::Dialer {
            expect: expect.clone(),
        };
        for (end, node, role) in [(1, acceptor, Role::Acceptor), (0, dialer, role)] {
            if let Some(node) = node {
                self.nodes[node]
                    .nacp
                    .handle_peer_up(self.now, peer_id(conn, end), role);
                self.drain(node);
            }
        }
    }

    /// Takes everything that the core has to say, as its contract wants it after each call.
    pub fn drain(&mut self, node: usize) {
        let mut closed = Vec::new();
        for round in 0.. {
            assert!(round < ENDLESS, "events without end");
            let Some(event) = self.nodes[node].nacp.poll_event() else {
                break;
            };
            if self.trace {
                eprintln!("    {node}: {event:?}");
            }
            self.note(node, &event);
            self.keep_the_door(node, &event);
            closed.extend(self.nodes[node].ledger.on_event(event));
        }
        for peer in closed {
            self.closed_by_core(peer);
        }
        for round in 0.. {
            assert!(round < ENDLESS, "wakes without end");
            let Some(peer) = self.nodes[node].nacp.poll_wake() else {
                break;
            };
            let (conn, end) = place(peer);
            self.conns[conn].ends[end].woken = true;
        }
    }

    fn note(&mut self, node: usize, event: &Event) {
        match event {
            Event::Dropped { .. } | Event::RequesterGone { .. } => {
                self.past.forgotten = true;
                self.lost_on_the_way();
            }
            Event::Hold { peer } => self.hold(*peer, true),
            Event::Release { peer } => self.hold(*peer, false),
            Event::Report(report) if self.nodes[node].config.is_gateway => {
                let evicted = report.reason == "fifo-evicted" || report.reason == "notify-evicted";
                if evicted || report.name == "nacp:internal:gateway:error" {
                    self.lost_on_the_way();
                }
            }
            _ => {}
        }
    }

    /// Who may register, where that is asked: a friend, and of the others every second. Nobody else is ever bound.
    fn keep_the_door(&mut self, node: usize, event: &Event) {
        let now = self.now;
        match event {
            Event::RegisterAsked { peer, app, .. } => {
                let is_friend = self.nodes.iter().any(|one| one.config.app == *app);
                let me = &mut self.nodes[node];
                me.asked += 1;
                let verdict = if me.asked.is_multiple_of(2) || is_friend {
                    me.admitted.insert((*peer, app.clone()));
                    Ok(())
                } else {
                    Err("not you")
                };
                me.nacp.admit_register(now, *peer, verdict);
            }
            Event::Online { app, peer, .. } if self.nodes[node].config.asks_before_binding => {
                let (me, is_dialled) = (&self.nodes[node], place(*peer).1 == 0);
                assert!(
                    is_dialled || me.admitted.contains(&(*peer, app.clone())),
                    "{app} was never let in over {peer:?}"
                );
            }
            _ => {}
        }
    }

    /// Something that a Gateway may have forwarded is lost, or late.
    pub(crate) fn lost_on_the_way(&mut self) {
        if self.nodes.iter().any(|node| node.config.is_gateway) {
            self.distrust_order();
        }
    }

    /// The next deadline of all, if it is not after `end`.
    fn next_deadline(&self, end: Instant) -> Option<(Instant, usize)> {
        (0..self.nodes.len())
            .filter_map(|node| Some((self.nodes[node].nacp.poll_timeout()?.0, node)))
            .filter(|&(at, _)| at <= end)
            .min()
    }

    /// Lets time pass, and everybody do what falls due when it does; with `flowing`, what they send arrives at once.
    pub fn advance(&mut self, duration: Duration, flowing: bool) {
        let end = self.now + duration;
        for round in 0.. {
            assert!(round < ENDLESS, "deadlines without end");
            let Some((at, node)) = self.next_deadline(end) else {
                break;
            };
            self.now = self.now.max(at);
            self.tick(node);
            if flowing {
                self.flow();
            }
        }
        self.now = end;
    }

    /// A suspend: time jumps, and whatever was due in between falls due at once.
    pub fn jump(&mut self, duration: Duration) {
        self.now += duration;
        for node in 0..self.nodes.len() {
            self.tick(node);
        }
    }

    fn tick(&mut self, node: usize) {
        self.nodes[node].nacp.handle_timeout(self.now);
        if let Some((next, timer)) = self.nodes[node].nacp.poll_timeout() {
            assert!(
                next > self.now,
                "{timer:?} is due again at once: nothing was done about it"
            );
        }
        self.drain(node);
    }

    /// The program dies and starts again, with the same App ID and nothing else.
    pub fn restart(&mut self, node: usize) {
        for conn in 0..self.conns.len() {
            for end in 0..2 {
                if self.conns[conn].ends[end].node == Some(node) {
                    self.conns[conn].die(end);
                }
            }
        }
        self.past.forgotten = true;
        self.lost_on_the_way();
        let Node { config, lives, .. } = &mut self.nodes[node];
        *lives += 1;
        let mut seed = [node as u8 + 1; 32];
        seed[..4].copy_from_slice(&(1_000 + *lives).to_be_bytes());
        self.nodes[node].nacp = Nacp::new(config.clone(), 1_700_000_000_000, seed);
        self.nodes[node].ledger = self.nodes[node].ledger.of_a_new_life();
    }

    pub fn terminate(&mut self, node: usize) {
        self.past.forgotten = true;
        self.lost_on_the_way();
        self.nodes[node].nacp.terminate();
        self.drain(node);
        self.nodes[node].ledger.forget_apps();
        self.nodes[node].assert_empty();
        assert!(self.conns.iter().all(|conn| conn.live_ends_of(node) == 0));
    }

    /// From now on messages may be forgeries: their order says nothing.
    pub fn distrust_order(&mut self) {
        for node in &mut self.nodes {
            node.ledger.distrust_order();
        }
    }

    /// What must hold whenever the world stands still.
    pub fn check(&mut self) {
        for node in 0..self.nodes.len() {
            let live = self.conns.iter().map(|conn| conn.live_ends_of(node)).sum();
            let up = |peer: PeerId| {
                let (conn, end) = place(peer);
                self.conns[conn].ends[end].up && self.conns[conn].ends[end].node == Some(node)
            };
            self.past.gateway |= self.nodes[node].check(self.now, live, up);
        }
    }
}

pub(crate) fn peer_id(conn: usize, end: usize) -> PeerId {
    PeerId((2 * conn + end) as u64)
}

pub(crate) fn place(peer: PeerId) -> (usize, usize) {
    let number = usize::try_from(peer.0).expect("one of ours");
    (number / 2, number % 2)
}
