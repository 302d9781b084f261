//! What we know of one remote App, from its first register until it is dropped.
//!
//! ```text
//!              register done                 peer down · ACK timeout · heartbeat missed · challenge lost
//!   (no record) ───────────► Online ─────────────────────────────────────────────► Offline
//!        ▲                    │  ▲ │                                                │  │ grace ends
//!        │      unregister,   │  │ └─ takeover by the same program (other peer)     │  │
//!        │      disconnect    │  └──────────────── register inside the grace ───────┘  │
//!        └────────────────────┴──────────────────────── dropped ◄─────────────────────┘
//! ```
//!
//! The queues, waiters and subscriptions stand beside the state, so that a transition moves none of them. An App that
//! is reached through the Gateway has the same record; its `peer` is the Gateway's connection (LINK-16).

mod accept;
mod binding;
mod dial;
mod lifecycle;

use std::collections::{BTreeMap, BTreeSet};

use crate::arena::{Arena, Key};
use crate::dedup::Dedup;
use crate::event::PeerId;
use crate::hashing::{SeededMap, seeded};
use crate::message::{AppId, MessageId, RequestKind};
use crate::outbox::{Count, Queues};
use crate::seq_set::SeqSet;
use crate::time::Instant;

/// Online or offline; dropped is the absence of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Bound to this connection.
    Online {
        /// The connection.
        peer: PeerId,
    },
    /// Unreachable; dropped at `until`.
    Offline {
        /// The end of the grace.
        until: Instant,
    },
}

/// How an App is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It registered with us, or we with it.
    Direct,
    /// Through our Gateway.
    Gateway,
}

/// What both sides announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Lossless streams (MSG-11).
    pub reliable_notify: bool,
    /// The reader of a lossless stream says how far it is.
    pub stream_credit: bool,
    /// One ack may name many messages.
    pub batched_acks: bool,
}

/// The names of the features, as they are announced.
pub(crate) const RELIABLE_NOTIFY: &str = "reliable-notify";
pub(crate) const STREAM_CREDIT: &str = "stream-credit";
pub(crate) const BATCHED_ACKS: &str = "batched-acks";

/// A Response whose loss would leave its requester waiting for ever (WAIT-5).
#[derive(Clone, Debug)]
pub(crate) struct Debt {
    pub(crate) parent: MessageId,
    pub(crate) kind: Option<RequestKind>,
}

/// A probe of the holder of an App ID (LINK-14).
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    pub(crate) newcomer: PeerId,
    pub(crate) probe: MessageId,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) app: AppId,
    pub(crate) state: LinkState,
    pub(crate) reach: Reach,
    pub(crate) is_gateway: bool,
    /// Our incarnation token towards it; renewed with the record (LINK-15).
    pub(crate) our_instance: String,
    /// Its incarnation, if it says so.
    pub(crate) remote_instance: Option<String>,
    pub(crate) features: Features,
    /// When it was last bound to a connection of its own, in the order of our sequence numbers.
    pub(crate) bound_at: u64,
    pub(crate) queues: Queues,
    pub(crate) dedup: Dedup,
    /// Calls of ours that it has not answered.
    pub(crate) waiters: SeqSet,
    /// Its requests that we have not answered.
    pub(crate) serving: SeqSet,
    /// Our subscriptions on it.
    pub(crate) subscriptions: BTreeSet<u64>,
    /// Its subscriptions on us.
    pub(crate) listens: BTreeSet<u64>,
    /// Evicted Responses that a short one must replace when it is online.
    pub(crate) owed: BTreeMap<u64, Debt>,
    /// Responses that are out, without a place in the queues, by the number of the message that is out.
    pub(crate) unsure: BTreeMap<u64, Debt>,
    /// Lossless chunks that are out without a place in the queues: their served requests, and the ids of these.
    pub(crate) unsure_chunks: BTreeMap<u64, (u64, MessageId)>,
    /// Event calls of ours that ended before their Response, and whose lossless chunks come all the same: nobody takes
    /// them, so we say at once that they are taken.
    pub(crate) abandoned: BTreeSet<MessageId>,
    /// Whether it stands in its peer's ready queue.
    pub(crate) ready: bool,
    /// Large messages in the transport's hands, with their sources: their pairs wait (MSG-7).
    pub(crate) large: Vec<(u64, Option<Key>)>,
    /// Other Apps' messages on their way to it, accepted ones not counted.
    pub(crate) forwarded: Count,
    /// The connections that are held until it has caught up with them.
    pub(crate) holds: Vec<PeerId>,
    /// Whether anything was ACKed since it came online (MSG-9).
    pub(crate) acked: bool,
    /// One message at a time until something is ACKed: the last links broke over the oldest.
    pub(crate) cautious: bool,
    /// The heartbeat whose Response is missing.
    pub(crate) heartbeat: Option<MessageId>,
    /// When the last heartbeat or probe was sent.
    pub(crate) heartbeat_at: Instant,
    pub(crate) challenge: Option<Challenge>,
    /// Behind the Gateway: whether anything passed since it was last looked at.
    pub(crate) used: bool,
    /// How often it was probed since it went offline (LINK-16).
    pub(crate) probes: u32,
    /// The next transmit is a probe.
    pub(crate) probe_due: bool,
    /// It unregistered; when our reply is accepted it is dropped.
    pub(crate) leaving: bool,
}

impl Link {
    pub(crate) fn new(app: AppId, state: LinkState, reach: Reach, our_instance: String) -> Self {
        Self {
            app,
            state,
            reach,
            is_gateway: false,
            our_instance,
            remote_instance: None,
            features: Features::default(),
            bound_at: 0,
            queues: Queues::default(),
            dedup: Dedup::default(),
            waiters: SeqSet::default(),
            serving: SeqSet::default(),
            subscriptions: BTreeSet::new(),
            listens: BTreeSet::new(),
            owed: BTreeMap::new(),
            unsure: BTreeMap::new(),
            unsure_chunks: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            ready: false,
            large: Vec::new(),
            forwarded: Count::default(),
            holds: Vec::new(),
            acked: false,
            cautious: false,
            heartbeat: None,
            heartbeat_at: Instant::EPOCH,
            challenge: None,
            used: true,
            probes: 0,
            probe_due: false,
            leaving: false,
        }
    }

    pub(crate) fn peer(&self) -> Option<PeerId> {
        match self.state {
            LinkState::Online { peer } => Some(peer),
            LinkState::Offline { .. } => None,
        }
    }

    /// Reaches it over `peer` from now on. It stands in no turn there yet, wherever it stood in one before.
    pub(crate) fn go_over(&mut self, peer: PeerId) {
        self.state = LinkState::Online { peer };
        self.ready = false;
    }

    pub(crate) fn is_online(&self) -> bool {
        self.peer().is_some()
    }

    /// Whether forgetting it would lose anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.is_empty()
            && self.waiters.is_empty()
            && self.serving.is_empty()
            && self.subscriptions.is_empty()
            && self.listens.is_empty()
            && self.owed.is_empty()
            && self.unsure.is_empty()
    }
}

/// The links, by key and by App ID.
#[derive(Debug)]
pub(crate) struct Links {
    links: Arena<Link>,
    by_app: SeededMap<AppId, Key>,
}

impl Links {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            links: Arena::default(),
            by_app: SeededMap::with_hasher(seeded(seed)),
        }
    }

    pub(crate) fn find(&self, app: &str) -> Option<Key> {
        self.by_app.get(app).copied()
    }

    pub(crate) fn insert(&mut self, link: Link) -> Key {
        let app = link.app.clone();
        let key = self.links.insert(link);
        let doubled = self.by_app.insert(app, key);
        assert!(doubled.is_none(), "one record per App ID");
        key
    }

    pub(crate) fn remove(&mut self, key: Key) -> Link {
        let link = self.links.remove(key);
        self.by_app.remove(&link.app);
        link
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.links.contains(key)
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.links.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    pub(crate) fn clear(&mut self) {
        self.links.clear();
        self.by_app.clear();
    }
}

impl std::ops::Index<Key> for Links {
    type Output = Link;
    fn index(&self, key: Key) -> &Link {
        &self.links[key]
    }
}

impl std::ops::IndexMut<Key> for Links {
    fn index_mut(&mut self, key: Key) -> &mut Link {
        &mut self.links[key]
    }
}
