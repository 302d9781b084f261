//! Connections. What this module keeps true of each direction: messages arrive in the order in which they were handed
//! over, each once or not at all, except that a small one may pass a large one that is still being written; and what
//! is accepted is accepted before the end of the connection is told.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{ENDLESS, SEEN_MAX, World, peer_id, place};
use nacp::PeerId;

/// Something under way.
pub enum Packet {
    Message {
        bytes: Bytes,
        token: u64,
        large: bool,
    },
    /// The sender has closed.
    End,
}

/// One direction.
#[derive(Default)]
pub struct Lane {
    pub flight: VecDeque<Packet>,
    /// Handed over, and not yet said to be accepted.
    unaccepted: VecDeque<u64>,
}

/// One side of a connection.
pub struct End {
    /// Which App; `None` = somebody who follows no rules.
    pub node: Option<usize>,
    /// Whether that side believes the connection to be there.
    pub up: bool,
    /// Whether the core said that it has something to transmit.
    pub woken: bool,
    /// Whether the core wants nothing read from it.
    pub held: bool,
}

/// A connection; lane 0 goes from end 0 (which dialled) to end 1.
pub struct Conn {
    pub ends: [End; 2],
    pub lanes: [Lane; 2],
}

impl Conn {
    pub(super) fn new(dialer: Option<usize>, acceptor: Option<usize>) -> Self {
        let end = |node| End {
            node,
            up: true,
            woken: false,
            held: false,
        };
        Self {
            ends: [end(dialer), end(acceptor)],
            lanes: Default::default(),
        }
    }

    pub(super) fn live_ends_of(&self, node: usize) -> usize {
        let lives = |end: &&End| end.up && end.node == Some(node);
        self.ends.iter().filter(lives).count()
    }

    /// The side is gone without having been told: its process died.
    pub(super) fn die(&mut self, end: usize) {
        if std::mem::replace(&mut self.ends[end].up, false) {
            self.lanes[end].unaccepted.clear();
            self.lanes[end].flight.push_back(Packet::End);
        }
    }

    /// Whether one side does not know yet that the other is gone.
    pub fn is_half_open(&self) -> bool {
        self.ends[0].up != self.ends[1].up
    }

    pub fn is_hostile(&self) -> bool {
        self.ends.iter().any(|end| end.node.is_none())
    }
}

impl Lane {
    /// What arrives next: with `overtake`, the first that is not a large message being written.
    fn next(&mut self, overtake: bool) -> Option<Packet> {
        let being_written = |packet: &Packet| matches!(packet, Packet::Message { token, large: true, .. } if self.unaccepted.contains(token));
        let passing = self.flight.iter().position(|packet| !being_written(packet));
        let index = match passing.map(|index| (index, &self.flight[index])) {
            Some((index, Packet::Message { .. })) if overtake => index,
            _ => 0,
        };
        self.flight.remove(index)
    }
}

impl World {
    /// The core has closed its side.
    pub(super) fn closed_by_core(&mut self, peer: PeerId) {
        let (conn, end) = place(peer);
        assert!(self.conns[conn].ends[end].up, "{peer:?} is closed twice");
        self.conns[conn].die(end);
    }

    /// The core wants nothing read from this side, or again.
    pub(super) fn hold(&mut self, peer: PeerId, hold: bool) {
        let (conn, end) = place(peer);
        let side = &mut self.conns[conn].ends[end];
        assert!(side.up, "a connection that has ended is not read");
        assert_ne!(std::mem::replace(&mut side.held, hold), hold, "twice");
    }

    /// Hands up to `count` messages of one side to the transport, if the core said that it has some.
    pub fn pump(&mut self, conn: usize, end: usize, count: usize, urgent: bool) -> usize {
        let side = &self.conns[conn].ends[end];
        let (Some(node), true, true) = (side.node, side.up, side.woken) else {
            return 0;
        };
        let large_min = self.nodes[node].nacp.config().large_message_bytes;
        let peer = peer_id(conn, end);
        let mut moved = 0;
        while moved < count {
            assert!(moved < ENDLESS, "messages without end");
            let nacp = &mut self.nodes[node].nacp;
            let next = match urgent {
                true => nacp.poll_urgent(self.now, peer),
                false => nacp.poll_transmit(self.now, peer),
            };
            let Some(transmit) = next else {
                self.conns[conn].ends[end].woken = urgent;
                break;
            };
            moved += 1;
            let bytes = transmit.message.to_bytes();
            assert_eq!(bytes.len(), transmit.message.len());
            if self.everything_is_overheard || self.conns[conn].is_hostile() {
                self.remember(&bytes);
            }
            let lane = &mut self.conns[conn].lanes[end];
            if transmit.token != 0 {
                lane.unaccepted.push_back(transmit.token);
            }
            lane.flight.push_back(Packet::Message {
                large: bytes.len() > large_min,
                bytes,
                token: transmit.token,
            });
        }
        self.drain(node);
        moved
    }

    fn remember(&mut self, bytes: &Bytes) {
        if self.seen.len() == SEEN_MAX {
            self.seen.remove(0);
        }
        self.seen.push(bytes.clone());
    }

    /// The transport has taken the last byte of up to `count` messages.
    pub fn accept(&mut self, conn: usize, end: usize, count: usize) -> usize {
        let mut moved = 0;
        while moved < count {
            let side = &self.conns[conn].ends[end];
            let (Some(node), true) = (side.node, side.up) else {
                break;
            };
            let Some(token) = self.conns[conn].lanes[end].unaccepted.pop_front() else {
                break;
            };
            moved += 1;
            self.nodes[node]
                .nacp
                .handle_accepted(self.now, peer_id(conn, end), token);
            self.drain(node);
        }
        moved
    }

    /// Up to `count` packets of one side arrive at the other.
    pub fn deliver(&mut self, conn: usize, end: usize, count: usize, overtake: bool) -> usize {
        let mut moved = 0;
        while moved < count && !self.conns[conn].ends[1 - end].held {
            let Some(packet) = self.conns[conn].lanes[end].next(overtake) else {
                break;
            };
            moved += 1;
            match packet {
                Packet::Message { bytes, .. } => self.arrive(conn, 1 - end, &bytes),
                Packet::End => self.down(conn, 1 - end),
            }
        }
        moved
    }

    /// A message reaches one side.
    pub fn arrive(&mut self, conn: usize, end: usize, bytes: &Bytes) {
        let side = &self.conns[conn].ends[end];
        let (Some(node), true) = (side.node, side.up) else {
            return self.lost_on_the_way();
        };
        if self.trace {
            eprintln!(
                "  {conn}.{end} at {node}: {:?}",
                nacp::message::decode(bytes)
            );
        }
        // Every second one or so comes in two pieces.
        if bytes.len().is_multiple_of(2) {
            self.progress(conn, end);
        }
        let outcome = self.nodes[node]
            .nacp
            .handle_message(self.now, peer_id(conn, end), bytes);
        if let Err(violation) = outcome {
            assert!(!violation.to_string().is_empty() && !violation.reason().is_empty());
        }
        self.drain(node);
    }

    /// Some bytes of a message reach one side.
    pub fn progress(&mut self, conn: usize, end: usize) {
        if let (Some(node), true) = (
            self.conns[conn].ends[end].node,
            self.conns[conn].ends[end].up,
        ) {
            self.nodes[node]
                .nacp
                .handle_progress(self.now, peer_id(conn, end));
        }
    }

    /// Whoever follows no rules sends this, if he has a side of that connection.
    pub fn lie(&mut self, conn: usize, bytes: &Bytes) {
        for end in 0..2 {
            if self.conns[conn].ends[end].node.is_none() {
                self.arrive(conn, 1 - end, bytes);
            }
        }
    }

    /// One side learns that the connection has ended.
    pub fn down(&mut self, conn: usize, end: usize) {
        let side = &mut self.conns[conn].ends[end];
        if !std::mem::replace(&mut side.up, false) {
            return;
        }
        let node = side.node;
        self.conns[conn].lanes[end].unaccepted.clear();
        if let Some(node) = node {
            self.nodes[node]
                .nacp
                .handle_peer_down(self.now, peer_id(conn, end));
            self.drain(node);
        }
    }

    /// The connection breaks: what is under way is lost. Only the sides that are named learn of it.
    pub fn cut(&mut self, conn: usize, told: [bool; 2]) {
        self.lost_on_the_way();
        for end in 0..2 {
            self.conns[conn].lanes[end].flight.clear();
            if told[1 - end] {
                self.down(conn, 1 - end);
            } else {
                self.conns[conn].lanes[end].flight.push_back(Packet::End);
            }
        }
    }

    /// Everything that can move moves, until nothing can.
    pub fn flow(&mut self) {
        for round in 0.. {
            assert!(round < 10_000, "the network is never quiet");
            let mut moved = 0;
            for conn in 0..self.conns.len() {
                for end in 0..2 {
                    moved += self.pump(conn, end, usize::MAX, false);
                    moved += self.accept(conn, end, usize::MAX);
                    moved += self.deliver(conn, end, usize::MAX, false);
                }
            }
            if moved == 0 {
                return;
            }
        }
    }
}
