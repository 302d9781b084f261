//! NACP, the protocol: messages, links, queues, waiters and timers as one state machine. No I/O, no clock, no task, no
//! lock, no `async`: whoever owns the sockets and the time drives it.
//!
//! # The contract
//! Four kinds of methods, told apart by name. `now` is always the first argument and never goes back.
//!
//! | name | meaning |
//! |---|---|
//! | `handle_*` | the world did something: a connection came or went, a message arrived, bytes were accepted, time passed |
//! | bare verbs | the application wants something: [`request`](Nacp::request), [`respond`](Nacp::respond), … |
//! | `poll_*` | what the core wants done |
//! | getters | [`snapshot`](Nacp::snapshot), [`link_state`](Nacp::link_state), … |
//!
//! After every call of the first two kinds, drain in this order until all three are empty:
//! 1. [`poll_event`](Nacp::poll_event): tell the application, close connections;
//! 2. [`poll_wake`](Nacp::poll_wake): for each connection that it names and that can take a message,
//!    [`poll_transmit`](Nacp::poll_transmit) until that gives `None` or the connection is full;
//! 3. [`poll_timeout`](Nacp::poll_timeout): set the one timer.
//!
//! # A complete loop
//! Two Apps, and a "network" that is a pair of loops:
//! ```
//! use nacp::*;
//!
//! let now = Instant::EPOCH;
//! let app = |name: &str| AppId::new(name).unwrap();
//! let mut world = Nacp::new(Config::new(app("world")), 0, [1; 32]);
//! let mut hello = Nacp::new(Config::new(app("hello")), 0, [2; 32]);
//! let peer = PeerId(1);
//! hello.handle_peer_up(now, peer, Role::Dialer { expect: app("world") });
//! world.handle_peer_up(now, peer, Role::Acceptor);
//!
//! // Moves everything that either side wants to send.
//! fn carry(now: Instant, peer: PeerId, a: &mut Nacp, b: &mut Nacp) {
//!     loop {
//!         let mut moved = false;
//!         for (from, to) in [(&mut *a, &mut *b)] {
//!             while let Some(transmit) = from.poll_transmit(now, peer) {
//!                 from.handle_accepted(now, peer, transmit.token);
//!                 to.handle_message(now, peer, &transmit.message.to_bytes()).unwrap();
//!                 moved = true;
//!             }
//!         }
//!         for (from, to) in [(&mut *b, &mut *a)] {
//!             while let Some(transmit) = from.poll_transmit(now, peer) {
//!                 from.handle_accepted(now, peer, transmit.token);
//!                 to.handle_message(now, peer, &transmit.message.to_bytes()).unwrap();
//!                 moved = true;
//!             }
//!         }
//!         if !moved { break }
//!     }
//! }
//! carry(now, peer, &mut hello, &mut world);
//!
//! let text = Payload::encode("hi").unwrap();
//! let call = hello.request(now, &app("world"), RequestKind::Ability, "echo", &text, None).unwrap();
//! carry(now, peer, &mut hello, &mut world);
//! while let Some(event) = world.poll_event() {
//!     if let Event::Request { serving, payload, .. } = event {
//!         world.respond(now, serving, &Answer::ok(payload), false).unwrap();
//!     }
//! }
//! carry(now, peer, &mut hello, &mut world);
//! let answered = std::iter::from_fn(|| hello.poll_event()).any(|event| {
//!     matches!(event, Event::Done { call: done, outcome: Outcome::Response { is_ok: true, .. } } if done == call)
//! });
//! assert!(answered);
//! ```

mod arena;
mod calls;
mod clock;
mod config;
mod dedup;
mod error;
mod event;
mod forward;
mod hashing;
mod heartbeat;
mod identity;
mod inbox;
mod link;
pub mod message;
mod outbox;
pub mod pattern;
mod peers;
mod route;
mod send;
mod seq_set;
mod serving;
mod snapshot;
mod subs;
mod time;
mod timers;
mod transmit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arena::Key;
use calls::{Subscription, Waiter};
use hashing::{FastMap, SeededMap, seeded};
use identity::Identity;
use link::Links;
use message::Encoder;
use outbox::Outbox;
use pattern::Patterns;
use peers::Peers;
use serving::Serving;
use subs::Listen;
use timers::Timers;

pub use config::{Config, Overflow};
pub use error::{PeerViolation, SendError};
pub use event::{
    CallId, CloseReason, DropCause, Event, NotifyTarget, OfflineCause, Outcome, PeerId, Report,
    Role, SendId, ServingId,
};
pub use link::{Features, LinkState, Reach};
pub use message::{
    AppId, Declaration, Declared, InvalidAppId, MessageId, Payload, RequestKind, SignalKind,
    Target, Value,
};
pub use serving::Answer;
pub use snapshot::{LinkSnapshot, QueueSize, Snapshot, Undelivered};
pub use time::Instant;
pub use timers::Timer;
pub use transmit::Transmit;

/// One App's side of the protocol. See the [crate documentation](crate) for how it is driven.
#[derive(Debug)]
pub struct Nacp {
    config: Config,
    /// Unix milliseconds at [`Instant::EPOCH`]; for `t` only.
    wall_epoch_ms: u64,
    identity: Identity,
    encoder: Encoder,
    hasher: foldhash::quality::FixedState,
    peers: Peers,
    links: Links,
    /// The link that occupies the one Gateway slot (GW-3).
    gateway: Option<Key>,
    /// Our incarnations towards Apps that we dial and that have no link yet (LINK-15).
    instances: BTreeMap<AppId, String>,
    outbox: Outbox,
    /// Links whose Backlog waits for room in AckPending (CAP-6).
    starved: BTreeSet<Key>,
    /// Somebody was refused for want of room.
    room_wanted: bool,
    waiters: FastMap<u64, Waiter>,
    subscriptions: FastMap<u64, Subscription>,
    serving: FastMap<u64, Serving>,
    /// Event requests that are being served, for their signals.
    serving_events: SeededMap<(Key, MessageId), u64>,
    /// The same by id alone: any App that knows the id may steer, as in the base protocol.
    steered: SeededMap<MessageId, u64>,
    listens: FastMap<u64, Listen>,
    listen_ids: SeededMap<(Key, MessageId), u64>,
    patterns: Patterns<u64>,
    timers: Timers,
    forwarded_observed: bool,
    events: VecDeque<Event>,
}

impl Nacp {
    /// A core that knows nobody. `wall_epoch_ms` = Unix milliseconds at [`Instant::EPOCH`], written into messages for
    /// people to read; `seed` must be random in production, and gives the same run when it is the same.
    pub fn new(config: Config, wall_epoch_ms: u64, seed: [u8; 32]) -> Self {
        let mut identity = Identity::new(seed);
        let map_seed = identity.random_u64();
        Self {
            config,
            wall_epoch_ms,
            identity,
            encoder: Encoder::default(),
            hasher: seeded(map_seed),
            peers: Peers::default(),
            links: Links::new(map_seed),
            gateway: None,
            instances: BTreeMap::new(),
            outbox: Outbox::default(),
            starved: BTreeSet::new(),
            room_wanted: false,
            waiters: FastMap::default(),
            subscriptions: FastMap::default(),
            serving: FastMap::default(),
            serving_events: SeededMap::with_hasher(seeded(map_seed)),
            steered: SeededMap::with_hasher(seeded(map_seed)),
            listens: FastMap::default(),
            listen_ids: SeededMap::with_hasher(seeded(map_seed)),
            patterns: Patterns::default(),
            timers: Timers::default(),
            forwarded_observed: false,
            events: VecDeque::new(),
        }
    }

    /// Mixes fresh randomness into what is given out from now on. Call it before each connection: a copy of a running
    /// program must not give out the ids of its original (B20).
    pub fn mix_entropy(&mut self, entropy: [u8; 32]) {
        self.identity.mix(entropy);
    }

    /// What this App was configured with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes what others are told that this App can do, from the next register on.
    pub fn set_declaration(&mut self, declaration: Declaration) {
        self.config.declaration = declaration;
    }

    /// Forgets the incarnation that was made up for an App that is no longer dialled.
    pub fn forget_dialled(&mut self, app: &AppId) {
        self.instances.remove(app);
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next connection that has something to transmit and was not named since it last had nothing.
    pub fn poll_wake(&mut self) -> Option<PeerId> {
        self.peers.poll_wake()
    }

    /// The message id of an open call, under which its stream and signals go on the wire.
    pub fn call_message_id(&self, call: CallId) -> Option<&MessageId> {
        self.waiters.get(&call.0).map(|waiter| &waiter.id)
    }

    /// Whether this request still waits for our answer.
    pub fn is_serving(&self, serving: ServingId) -> bool {
        self.serving.contains_key(&serving.0)
    }

    /// The App of this ID, if there is a link to it; saves making the ID anew.
    pub fn known_app(&self, app: &str) -> Option<&AppId> {
        self.links.find(app).map(|key| &self.links[key].app)
    }

    /// The connection over which `app` is reached now.
    pub fn peer_of_app(&self, app: &AppId) -> Option<PeerId> {
        self.links
            .find(app.as_str())
            .and_then(|key| self.links[key].peer())
    }

    fn wall_ms(&self, now: Instant) -> u64 {
        self.wall_epoch_ms.saturating_add(now.as_millis())
    }

    /// Everything but the events that tell of it.
    fn forget_everything(&mut self) {
        self.peers = Peers::default();
        self.links.clear();
        self.gateway = None;
        self.instances.clear();
        self.outbox.clear();
        self.starved.clear();
        self.room_wanted = false;
        self.waiters.clear();
        self.subscriptions.clear();
        self.serving.clear();
        self.serving_events.clear();
        self.steered.clear();
        self.listens.clear();
        self.listen_ids.clear();
        self.patterns = Patterns::default();
        self.timers.clear();
    }
}
