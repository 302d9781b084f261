//! A picture of the core for people and tests: what is known, what waits, what is counted.

use crate::link::{LinkState, Reach};
use crate::message::{AppId, MessageId};
use crate::outbox::{Class, Count};
use crate::{Instant, Nacp, Timer};

/// Messages and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSize {
    /// How many messages.
    pub messages: usize,
    /// Their encoded size in bytes.
    pub bytes: u64,
}

/// One remote App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSnapshot {
    /// The App.
    pub app: AppId,
    /// Online or offline.
    pub state: LinkState,
    /// Direct, or through the Gateway.
    pub reach: Reach,
    /// Whether it is our Gateway.
    pub is_gateway: bool,
    /// Messages of ours that wait to be submitted.
    pub backlog: usize,
    /// Other Apps' messages on their way to it through us.
    pub forwarded: QueueSize,
    /// Messages in the transport's hands.
    pub submitted: usize,
    /// Messages without an ACK.
    pub ack_pending: usize,
    /// Heartbeats and handshake replies, wherever they are.
    pub control: usize,
    /// Calls of ours without a Response.
    pub waiters: usize,
    /// Its requests without our answer.
    pub serving: usize,
    /// Our subscriptions on it.
    pub subscriptions: usize,
    /// Its subscriptions on us.
    pub listens: usize,
    /// Message ids that are remembered.
    pub dedup: usize,
}

/// Everything at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The remote Apps, by App ID.
    pub links: Vec<LinkSnapshot>,
    /// Connections.
    pub peers: usize,
    /// The Backlog of all Apps (CAP-1).
    pub backlog: QueueSize,
    /// AckPending of all Apps (CAP-1).
    pub ack_pending: QueueSize,
    /// Messages anywhere, control messages included.
    pub messages: usize,
    /// Calls without a Response.
    pub waiters: usize,
    /// Requests without our answer.
    pub serving: usize,
    /// Our subscriptions.
    pub subscriptions: usize,
    /// Subscriptions of others.
    pub listens: usize,
    /// Armed timers, ACK clocks aside.
    pub timers: usize,
    /// The next deadline.
    pub next: Option<(Instant, Timer)>,
}

/// A message that has not been delivered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// For whom.
    pub app: AppId,
    /// Its id.
    pub id: MessageId,
    /// Its type on the wire.
    pub what: &'static str,
    /// Encoded size in bytes.
    pub bytes: u64,
}

impl Nacp {
    /// See [`Snapshot`]. Linear in what is known; not for the hot path.
    pub fn snapshot(&self) -> Snapshot {
        let mut links: Vec<_> = self
            .links
            .keys()
            .into_iter()
            .map(|key| self.link_snapshot(key))
            .collect();
        links.sort_by(|a, b| a.app.cmp(&b.app));
        Snapshot {
            links,
            peers: self.peers.len(),
            backlog: size(self.outbox.backlog()),
            ack_pending: size(self.outbox.pending()),
            messages: self.outbox.len(),
            waiters: self.waiters.len(),
            serving: self.serving.len(),
            subscriptions: self.subscriptions.len(),
            listens: self.listens.len(),
            timers: self.timers.len(),
            next: self.poll_timeout(),
        }
    }

    fn link_snapshot(&self, key: crate::arena::Key) -> LinkSnapshot {
        let link = &self.links[key];
        LinkSnapshot {
            app: link.app.clone(),
            state: link.state,
            reach: link.reach,
            is_gateway: link.is_gateway,
            backlog: self.own_backlog(key),
            forwarded: size(link.forwarded),
            submitted: link.queues.submitted.len(),
            ack_pending: link.queues.pending.len(),
            control: link.queues.control.len(),
            waiters: link.waiters.len(),
            serving: link.serving.len(),
            subscriptions: link.subscriptions.len(),
            listens: link.listens.len(),
            dedup: link.dedup.len(),
        }
    }

    fn own_backlog(&self, key: crate::arena::Key) -> usize {
        let link = &self.links[key];
        if link.forwarded.messages == 0 {
            return link.queues.backlog.len();
        }
        let seqs = self.outbox.seqs(&link.queues.backlog);
        seqs.into_iter()
            .filter(|&seq| self.outbox.get(seq).is_some_and(|out| out.source.is_none()))
            .count()
    }

    /// Whether every message is delivered: ACKed, or accepted where no ACK is due. Control messages do not count.
    pub fn is_drained(&self) -> bool {
        self.outbox.backlog().messages == 0
            && self.links.keys().into_iter().all(|key| {
                let queues = &self.links[key].queues;
                queues.backlog.is_empty()
                    && queues.submitted.is_empty()
                    && queues.pending.is_empty()
            })
    }

    /// What is not delivered yet, by App and in send order.
    pub fn undelivered(&self) -> Vec<Undelivered> {
        let mut keys = self.links.keys();
        keys.sort_by(|&a, &b| self.links[a].app.cmp(&self.links[b].app));
        let mut undelivered = Vec::new();
        for key in keys {
            let queues = &self.links[key].queues;
            let lists = [&queues.pending, &queues.submitted, &queues.backlog];
            let mut seqs: Vec<u64> = lists
                .into_iter()
                .flat_map(|list| self.outbox.seqs(list))
                .collect();
            seqs.sort_unstable();
            for seq in seqs {
                let outgoing = self.outbox.get(seq).expect("listed just now");
                undelivered.push(Undelivered {
                    app: self.links[key].app.clone(),
                    id: outgoing.id.clone(),
                    what: type_name(&outgoing.class),
                    bytes: outgoing.bytes,
                });
            }
        }
        undelivered
    }
}

fn size(count: Count) -> QueueSize {
    QueueSize {
        messages: count.messages,
        bytes: count.bytes,
    }
}

fn type_name(class: &Class) -> &'static str {
    match class {
        Class::Notify | Class::Chunk { .. } | Class::Hit => "notify",
        Class::Request => "request",
        Class::Response { .. } => "response",
        Class::Signal => "signal",
        Class::Subscribe => "subscribe",
        Class::Unsubscribe => "unsubscribe",
        Class::Forwarded { .. } => "forwarded",
        Class::Control => "control",
    }
}
