//! What the core knows of a transport connection: how far its handshake is, which Apps are bound to it, and the urgent
//! lane. What goes into the urgent lane overtakes the Backlog and every large message (HB-7); it is bounded, no cap of
//! CAP-1 counts it, and it is lost with the connection: the remote sends again what was not ACKed.

use std::collections::VecDeque;

use crate::arena::Key;
use crate::event::{CloseReason, PeerId};
use crate::hashing::FastMap;
use crate::message::ack::AckBatch;
use crate::message::{AppId, Encoded, MessageId, Registration};
use crate::time::Instant;

/// How far a connection is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// We dialled `expect` and sent the register `id`, as the incarnation `instance`.
    Registering {
        expect: AppId,
        id: MessageId,
        instance: String,
    },
    /// We accepted; nothing came yet.
    Unregistered,
    /// Its register waits for the incumbent's answer (LINK-14).
    Challenging(Box<Claim>),
    /// At least one App is, or was, bound.
    Bound,
    /// It is only kept until the remote has read our last words; `awaiting` = the unregister whose Response ends it.
    Closing {
        reason: CloseReason,
        awaiting: Option<MessageId>,
    },
}

/// A register that asks for a binding.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) app: AppId,
    pub(crate) id: MessageId,
    pub(crate) registration: Registration,
}

/// A message of the urgent lane.
#[derive(Debug)]
pub(crate) enum Urgent {
    /// Encoded when it leaves.
    Ack {
        to: AppId,
        parent: MessageId,
        taken: Option<u64>,
    },
    /// Acks of messages whose ids differ only in their number.
    Acks { to: AppId, batch: AckBatch },
    /// A handshake message without a record.
    Raw { token: u64, encoded: Encoded },
    /// A control message of the outbox.
    Control { link: Key, seq: u64 },
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) phase: Phase,
    /// A register that waits for the application's word.
    pub(crate) asked: Option<Box<Claim>>,
    /// When we dialled it, in the order of our attempts; `None` = we accepted it.
    pub(crate) dialled: Option<u64>,
    /// When it came up, in the order of our sequence numbers.
    pub(crate) up_at: u64,
    pub(crate) urgent: VecDeque<Urgent>,
    /// Acks in the urgent lane.
    pub(crate) acks: usize,
    /// The Apps bound to it.
    pub(crate) bound: Vec<Key>,
    /// The links that have something for it, to be served in turn.
    pub(crate) ready: VecDeque<Key>,
    /// Whether the driver knows, or will learn from `poll_wake`, that there is something to transmit.
    pub(crate) woken: bool,
    /// Large messages that were withdrawn while they were being written, and their links: their pairs wait until the
    /// last byte is out (MSG-7).
    pub(crate) withdrawn: Vec<(u64, Key)>,
    /// A large answer to a register that is being written: nothing may pass it, for who registered understands nothing
    /// else before it (LINK-8).
    pub(crate) opening: Option<u64>,
    /// When this token is accepted, the goodbye is complete.
    pub(crate) close_on: Option<u64>,
    /// It is not read while this destination is behind.
    pub(crate) held_for: Option<Key>,
    /// Not to be held before.
    pub(crate) hold_again: Instant,
    /// When bytes of an incomplete message last arrived.
    pub(crate) progress: Instant,
    /// When a message last arrived whole.
    pub(crate) completed: Instant,
}

impl Peer {
    pub(crate) fn new(phase: Phase, up_at: u64, now: Instant) -> Self {
        let dialled = matches!(phase, Phase::Registering { .. });
        Self {
            phase,
            asked: None,
            dialled: dialled.then_some(up_at),
            up_at,
            urgent: VecDeque::new(),
            acks: 0,
            bound: Vec::new(),
            ready: VecDeque::new(),
            woken: false,
            withdrawn: Vec::new(),
            opening: None,
            close_on: None,
            held_for: None,
            hold_again: Instant::EPOCH,
            progress: now,
            completed: now,
        }
    }
}

/// The connections, and those of them that the driver must be told about.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: FastMap<PeerId, Peer>,
    wakes: VecDeque<PeerId>,
}

impl Peers {
    pub(crate) fn insert(&mut self, id: PeerId, peer: Peer) {
        let doubled = self.peers.insert(id, peer);
        assert!(
            doubled.is_none(),
            "the driver gives each connection its own {id:?}"
        );
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: PeerId) -> Option<Peer> {
        self.peers.remove(&id)
    }

    /// All ids in order.
    pub(crate) fn ids(&self) -> Vec<PeerId> {
        let mut ids: Vec<_> = self.peers.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Puts `urgent` into the lane of `id`; false when that connection is gone.
    pub(crate) fn push_urgent(&mut self, id: PeerId, urgent: Urgent) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else {
            return false;
        };
        peer.acks += usize::from(matches!(urgent, Urgent::Ack { .. }));
        peer.urgent.push_back(urgent);
        self.wake(id);
        true
    }

    /// Queues the ack of `id`; where the remote knows `batched`, one ack for as many as wait together.
    pub(crate) fn push_ack(&mut self, id: PeerId, to: &AppId, parent: &str, batched: bool) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        if batched {
            if let Some(Urgent::Acks { to: waiting, batch }) = peer.urgent.back_mut()
                && waiting == to
                && batch.push(parent)
            {
                peer.acks += 1;
                return;
            }
            if let Some(batch) = AckBatch::new(parent) {
                peer.acks += 1;
                peer.urgent.push_back(Urgent::Acks {
                    to: to.clone(),
                    batch,
                });
                return self.wake(id);
            }
        }
        let parent = MessageId::from(parent);
        self.push_urgent(
            id,
            Urgent::Ack {
                to: to.clone(),
                parent,
                taken: None,
            },
        );
    }

    /// Tells the driver, once, that `id` has something to transmit.
    pub(crate) fn wake(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.get_mut(&id)
            && !peer.woken
        {
            peer.woken = true;
            self.wakes.push_back(id);
        }
    }

    pub(crate) fn poll_wake(&mut self) -> Option<PeerId> {
        self.wakes.pop_front()
    }
}
