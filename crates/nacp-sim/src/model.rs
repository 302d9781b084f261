//! The reference model: what every App knows, by the promises alone. It is written from the numbered promises of the
//! protocol, never from the core's code. What this module keeps true: each message, call, send, subscription and
//! served request has one record, made before the core can say anything of it, and ended by exactly one event. The
//! rules by which events are judged are in `judge` and `order`.

use std::collections::{BTreeMap, VecDeque};

use nacp::{Instant, PeerViolation, SendError, SendId, ServingId};

use crate::broken::{Verdict, ensure};
use crate::settings::Settings;

/// What made the core speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Other,
    PeerDown,
    Disconnect,
    Terminate,
}

/// What a message with a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request {
        event: bool,
        chunks: u32,
        ok: bool,
    },
    Signal {
        request: u32,
    },
    Chunk {
        request: u32,
        run: u32,
        index: u32,
        lossless: bool,
    },
    Response {
        request: u32,
        run: u32,
        ok: bool,
        emitted: u32,
        lossless: bool,
    },
    Hit {
        name: u8,
    },
}

impl Kind {
    /// Whether it must arrive unless something is told of its loss.
    pub(crate) fn is_reliable(self) -> bool {
        match self {
            Self::Request { .. } | Self::Signal { .. } | Self::Response { .. } => true,
            Self::Chunk { lossless, .. } => lossless,
            Self::Hit { .. } => false,
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Msg {
    pub(crate) kind: Kind,
    pub(crate) from: u8,
    pub(crate) to: u8,
    /// It may be gone: evicted, parked, withdrawn, or its sender forgot it.
    pub(crate) lost: bool,
    /// How often it was handled, and in which memory of the receiver last.
    pub(crate) handled: u32,
    pub(crate) handled_epoch: u32,
    /// The call that it asks, while it is open.
    pub(crate) call: u64,
    /// For a request: its answer, or a chunk of its stream, was evicted.
    pub(crate) answer_lost: bool,
    pub(crate) chunk_lost: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Dial {
    /// Who dialled whom.
    pub(crate) ends: [usize; 2],
    /// How often the other had lost its memory of this side then.
    pub(crate) epochs: [u32; 2],
    /// What became of who wanted to register, where the program was asked.
    pub(crate) door: Option<Door>,
}

/// What a program said about a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Asked,
    Open,
    Shut,
}

/// What passes from one App to another.
#[derive(Debug, Default)]
pub(crate) struct Pair {
    /// Reliable messages that were never handled, in send order.
    pub(crate) outstanding: VecDeque<u32>,
    /// The last that was handled in this memory of the receiver.
    pub(crate) last: u32,
    /// How often the receiver has lost its memory of the sender.
    pub(crate) epoch: u32,
    /// A connection was given up while bytes of it were on the way: what needs no ACK, or was given up itself, may come
    /// late or twice.
    pub(crate) unsure: bool,
}

/// What one App's core said of a remote.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkModel {
    pub(crate) state: State,
    /// When it became so.
    pub(crate) since: Instant,
    /// The oldest memory of the remote that its last handshake can have told of.
    pub(crate) remote_epoch: u32,
    /// How often the remote left, and was not seen leaving.
    pub(crate) departures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Unknown,
    Online,
    Offline {
        until: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Request { event: bool },
    Introduce,
    Subscribe,
    Unsubscribe,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) to: usize,
    pub(crate) asked: Asked,
    /// 0 = it has no payload of ours.
    pub(crate) uid: u32,
    pub(crate) deadline: Option<Instant>,
    /// The remote's memory when it was made.
    pub(crate) epoch: u32,
    /// The stream: of which run of the handler, and the next chunk.
    pub(crate) run: u32,
    pub(crate) next: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sub {
    pub(crate) to: usize,
    pub(crate) pattern: usize,
    pub(crate) established: bool,
    pub(crate) last: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) request: u32,
    pub(crate) from: usize,
    pub(crate) run: u32,
}

/// What one core said.
#[derive(Debug, Default)]
pub(crate) struct NodeModel {
    pub(crate) links: [LinkModel; 5],
    pub(crate) calls: BTreeMap<u64, Call>,
    pub(crate) subs: BTreeMap<u64, Sub>,
    pub(crate) served: BTreeMap<u64, Served>,
    /// Sends whose fate is open: the receiver and the message.
    pub(crate) sends: BTreeMap<SendId, (usize, u32)>,
    /// Whether AckPending ever overflowed: protocol calls without a number may have fallen.
    pub(crate) overflowed: bool,
    /// Somebody was told `Full`, and nobody `Room` since.
    pub(crate) room_owed: bool,
    /// Subscriptions whose end the remote may not have heard of.
    pub(crate) strays: [usize; 5],
    /// It has the policy that refuses instead of evicting.
    pub(crate) waits: bool,
}

impl NodeModel {
    fn new(settings: &Settings, node: usize) -> Self {
        Self {
            waits: Settings::names(settings.wait_mask, node),
            ..Self::default()
        }
    }
}

/// What one batch of events says of causes.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) dropped: [bool; 5],
    /// Came back without its memory.
    pub(crate) restarted: [bool; 5],
    pub(crate) evicted: usize,
    /// A link left its connection.
    pub(crate) broke: bool,
    pub(crate) terminated: bool,
}

/// The judge's memory.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) settings: Settings,
    pub(crate) msgs: Vec<Msg>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) nodes: Vec<NodeModel>,
    pub(crate) runs: u32,
    /// Every connection there was.
    pub(crate) dials: Vec<Dial>,
    /// Everything that was said, folded into one number: equal runs have equal ones.
    pub(crate) hash: u64,
    /// Where Apps speak through a Gateway: a link broke somewhere, or something fell, so that what was forwarded may be
    /// lost or late (it is forwarded without ACK, and comes again after its sender's timeout).
    pub(crate) murky: bool,
    pub(crate) log: Option<Vec<String>>,
    pub(crate) facts: Facts,
}

impl Model {
    pub(crate) fn new(settings: &Settings) -> Self {
        let unused = Msg {
            kind: Kind::Hit { name: 0 },
            from: 0,
            to: 0,
            lost: true,
            handled: 0,
            handled_epoch: 0,
            call: 0,
            answer_lost: false,
            chunk_lost: false,
        };
        let count = settings.node_count();
        Self {
            settings: settings.clone(),
            msgs: vec![unused],
            pairs: (0..25).map(|_| Pair::default()).collect(),
            nodes: (0..count)
                .map(|node| NodeModel::new(settings, node))
                .collect(),
            runs: 0,
            dials: Vec::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            murky: false,
            log: None,
            facts: Facts::default(),
        }
    }

    /// What `node` was told of `other`, before its next event. Who is behind a Gateway does not register: it is online from
    /// the first message on (LINK-16).
    pub(crate) fn link(&mut self, node: usize, other: usize) -> &mut LinkModel {
        let is_forwarded = self.settings.is_forwarded(node, other);
        let link = &mut self.nodes[node].links[other];
        if is_forwarded && link.state == State::Unknown {
            link.state = State::Online;
        }
        link
    }

    /// Whether what passes between these two is forwarded, and may be lost or late by now.
    pub(crate) fn is_murky(&self, a: usize, b: usize) -> bool {
        self.murky && self.settings.is_forwarded(a, b)
    }

    pub(crate) fn fold(&mut self, value: u64) {
        self.hash = (self.hash ^ value)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    pub(crate) fn pair(&mut self, from: usize, to: usize) -> &mut Pair {
        &mut self.pairs[from * 5 + to]
    }

    pub(crate) fn dialled(&mut self, from: usize, to: usize) {
        self.dials.push(Dial {
            ends: [from, to],
            epochs: [self.epoch(to, from), self.epoch(from, to)],
            door: None,
        });
    }

    /// How often `owner` has lost its memory of `about`.
    pub(crate) fn epoch(&self, owner: usize, about: usize) -> u32 {
        self.pairs[about * 5 + owner].epoch
    }

    pub(crate) fn unsure(&mut self, from: usize, to: usize) {
        self.pair(from, to).unsure = true;
    }

    pub(crate) fn msg(&mut self, uid: u32) -> Option<&mut Msg> {
        self.msgs.get_mut(uid as usize).filter(|_| uid > 0)
    }

    /// The number of a message that is about to be sent.
    pub(crate) fn reserve(&mut self, from: usize, to: usize, kind: Kind) -> u32 {
        let uid = self.msgs.len() as u32;
        self.msgs.push(Msg {
            kind,
            from: from as u8,
            to: to as u8,
            lost: false,
            handled: 0,
            handled_epoch: 0,
            call: 0,
            answer_lost: false,
            chunk_lost: false,
        });
        if kind.is_reliable() {
            self.pair(from, to).outstanding.push_back(uid);
        }
        uid
    }

    fn take_back(&mut self, uid: u32) {
        if let Some(msg) = self.msg(uid) {
            msg.lost = true;
            let (from, to) = (usize::from(msg.from), usize::from(msg.to));
            let outstanding = &mut self.pair(from, to).outstanding;
            if outstanding.back() == Some(&uid) {
                outstanding.pop_back();
            }
        }
    }

    fn may_have_route(&self, node: usize, to: usize) -> bool {
        let known = |to: usize| self.nodes[node].links[to].state != State::Unknown;
        known(to) || (self.settings.gateway == 1 && node != 0 && known(0))
    }

    /// A verb was refused: with a reason.
    pub(crate) fn unsent(
        &mut self,
        node: usize,
        to: usize,
        uid: u32,
        error: &SendError,
    ) -> Verdict {
        self.take_back(uid);
        let waits = self.nodes[node].waits;
        let legal = match error {
            SendError::SelfAddressed(_) => node == to,
            SendError::NoRoute(_) => {
                !self.may_have_route(node, to) || self.nodes[node].links[to].departures > 0
            }
            SendError::Full => waits,
            SendError::TooLarge { limit, .. } => *limit <= self.settings.queue_bytes_max,
            SendError::NotifyRefused | SendError::Gone => false,
        };
        self.nodes[node].room_owed |= *error == SendError::Full;
        ensure!(legal, "GW-2", "app-{node} → app-{to}: {error}");
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // a record's fields
    pub(crate) fn called(
        &mut self,
        node: usize,
        to: usize,
        call: u64,
        asked: Asked,
        uid: u32,
        deadline: Option<Instant>,
    ) -> Verdict {
        ensure!(node != to, "GW-2", "app-{node} called itself");
        ensure!(
            self.may_have_route(node, to),
            "GW-2",
            "app-{node} called app-{to}, which it does not know"
        );
        let epoch = self.epoch(to, node);
        if let Some(msg) = self.msg(uid) {
            msg.call = call;
        }
        let record = Call {
            to,
            asked,
            uid,
            deadline,
            epoch,
            run: 0,
            next: 0,
        };
        let doubled = self.nodes[node].calls.insert(call, record);
        ensure!(doubled.is_none(), "CONTRACT", "call {call} twice");
        Ok(())
    }

    pub(crate) fn tracked(&mut self, node: usize, to: usize, send: SendId, uid: u32) {
        self.nodes[node].sends.insert(send, (to, uid));
    }

    pub(crate) fn cancelled(&mut self, node: usize, call: u64, known: bool) -> Verdict {
        let record = self.nodes[node].calls.remove(&call);
        ensure!(
            known == record.is_some(),
            "WAIT-4",
            "cancel of call {call}: {known}"
        );
        self.nodes[node].subs.remove(&call);
        if let Some(msg) = record.and_then(|record| self.msg(record.uid)) {
            msg.lost = true;
            msg.call = 0;
        }
        Ok(())
    }

    pub(crate) fn subscribed(&mut self, node: usize, to: usize, call: u64, pattern: usize) {
        let sub = Sub {
            to,
            pattern,
            established: false,
            last: 0,
        };
        self.nodes[node].subs.insert(call, sub);
    }

    pub(crate) fn unsubscribed(&mut self, node: usize, call: u64) -> Verdict {
        self.nodes[node].calls.remove(&call);
        let known = self.nodes[node].subs.remove(&call).is_some();
        ensure!(known, "SUB-1", "app-{node} ended subscription {call} twice");
        Ok(())
    }

    pub(crate) fn departed(&mut self, node: usize, to: usize) {
        self.nodes[to].links[node].departures += 1;
    }

    /// Rows that may be left at `other` of subscriptions that `node` has given up.
    pub(crate) fn strays(&self, node: usize, other: usize) -> usize {
        self.nodes[node].strays[other]
    }

    /// A new handler's run.
    pub(crate) fn run_of(&self, node: usize, serving: ServingId) -> Option<u32> {
        let served = self.nodes[node].served.get(&serving.as_u64());
        served.map(|served| served.run)
    }

    pub(crate) fn answered(&mut self, node: usize, serving: ServingId) {
        self.nodes[node].served.remove(&serving.as_u64());
    }

    pub(crate) fn refused_chunk(
        &mut self,
        node: usize,
        serving: ServingId,
        uid: u32,
        lossless: bool,
        error: &SendError,
    ) -> Verdict {
        self.take_back(uid);
        self.nodes[node].room_owed |= *error == SendError::Full;
        let served = self.nodes[node].served.contains_key(&serving.as_u64());
        let waits = self.nodes[node].waits;
        let legal = match error {
            SendError::Full => lossless || waits,
            SendError::NotifyRefused => !lossless && !waits,
            SendError::Gone => !served,
            _ => false,
        };
        ensure!(
            legal,
            "MSG-11",
            "app-{node}: a chunk (lossless: {lossless}): {error}"
        );
        Ok(())
    }

    pub(crate) fn refused_answer(
        &mut self,
        node: usize,
        serving: ServingId,
        uid: u32,
        error: &SendError,
    ) -> Verdict {
        self.take_back(uid);
        self.nodes[node].room_owed |= *error == SendError::Full;
        let served = self.nodes[node].served.contains_key(&serving.as_u64());
        let waits = self.nodes[node].waits;
        let legal = match error {
            SendError::Full => waits,
            SendError::Gone => !served,
            _ => false,
        };
        ensure!(legal, "WAIT-7", "app-{node}: an answer: {error}");
        Ok(())
    }

    pub(crate) fn transmitted(&mut self, node: usize, token: u64, bytes: usize) {
        self.fold(token << 8 | node as u64);
        self.fold(bytes as u64);
        if let Some(log) = &mut self.log {
            log.push(format!("  app-{node} sends {token}, {bytes} bytes"));
        }
    }

    pub(crate) fn received(&mut self, node: usize, bytes: usize) {
        self.fold((bytes as u64) << 8 | 0x80 | node as u64);
        if let Some(log) = &mut self.log {
            log.push(format!("  app-{node} gets {bytes} bytes"));
        }
    }

    /// Only what is late may be refused: nobody here breaks the protocol.
    pub(crate) fn violated(&mut self, node: usize, violation: &PeerViolation) -> Verdict {
        let late = matches!(
            violation,
            PeerViolation::UnknownPeer | PeerViolation::FromMismatch { .. }
        );
        ensure!(
            late,
            "CONTRACT",
            "app-{node} accuses an honest peer: {violation}"
        );
        Ok(())
    }

    /// The program of `node` has lost its memory.
    pub(crate) fn restarted(&mut self, node: usize) {
        for other in 0..self.nodes.len() {
            self.forget(node, other);
        }
        // Who said goodbye to the old program said it to nobody.
        self.nodes[node] = NodeModel::new(&self.settings, node);
    }

    /// `node` gives up all that it knows of `other`: what it sent, and what it remembers having handled.
    pub(crate) fn forget(&mut self, node: usize, other: usize) {
        self.murky = true;
        let sent = std::mem::take(&mut self.pair(node, other).outstanding);
        for uid in sent {
            self.msgs[uid as usize].lost = true;
        }
        let heard = self.pair(other, node);
        heard.epoch += 1;
        heard.last = 0;
    }

    /// TERM-1: whatever was open must have ended.
    pub(crate) fn terminated(&mut self, node: usize) -> Verdict {
        let record = &self.nodes[node];
        ensure!(
            record.calls.is_empty() && record.subs.is_empty(),
            "TERM-1",
            "app-{node}: open after terminate: {:?} {:?}",
            record.calls,
            record.subs
        );
        ensure!(
            record.served.is_empty() && record.sends.is_empty(),
            "TERM-1",
            "app-{node}: not settled by terminate: {:?} {:?}",
            record.served,
            record.sends
        );
        self.restarted(node);
        Ok(())
    }
}
