//! One message on its way, and what kind of promise hangs on it.

use crate::arena::{Key, Linked, Neighbours};
use crate::message::{Encoded, MessageId, RequestKind};
use crate::time::Instant;

/// The list of its link's queue that a record stands in.
pub(crate) const QUEUE: usize = 0;
/// The list by acceptance that a record in AckPending stands in; in the Backlog, the list by age.
pub(crate) const AGE: usize = 1;

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Waiting to be pulled by the transport (for control: in the urgent lane).
    Backlog,
    /// In the transport's hands.
    Submitted,
    /// Accepted at that time, not ACKed.
    AckPending(Instant),
}

/// What a message is to the queues.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    /// Complete when accepted; evicted first (CAP-2).
    Notify,
    /// A lossless chunk of the stream of this served request, whose id is `parent` (MSG-11).
    Chunk { serving: u64, parent: MessageId },
    /// A lossless hit of a subscription (MSG-11).
    Hit,
    /// Its waiter has the same sequence number.
    Request,
    /// The answer to `parent`.
    Response {
        parent: MessageId,
        kind: Option<RequestKind>,
        is_ok: bool,
    },
    /// Steers a remote event.
    Signal,
    /// Its waiter has the same sequence number.
    Subscribe,
    /// Its waiter has the same sequence number.
    Unsubscribe,
    /// Somebody else's message through us: complete when accepted, never ACKed to us (GW-1).
    Forwarded { notify: bool },
    /// A heartbeat, its answer, or a handshake reply: outside the caps, gone with the connection (HB-4).
    Control,
}

impl Class {
    /// Whether CAP-2 counts it as a notify.
    pub(crate) fn is_notify(&self) -> bool {
        matches!(self, Self::Notify | Self::Forwarded { notify: true })
    }

    /// Whether it is complete only when ACKed.
    pub(crate) fn needs_ack(&self) -> bool {
        !matches!(self, Self::Notify | Self::Forwarded { .. })
    }
}

/// A message on its way.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Send order; never reused.
    pub(crate) seq: u64,
    pub(crate) id: MessageId,
    /// The link to its receiver.
    pub(crate) link: Key,
    /// For whom it is forwarded; `None` = our own. With the receiver this is the pair of MSG-7.
    pub(crate) source: Option<Key>,
    pub(crate) class: Class,
    pub(crate) encoded: Encoded,
    /// Encoded size.
    pub(crate) bytes: u64,
    pub(crate) place: Place,
    /// Whether its fate becomes an event (MSG-5).
    pub(crate) tracked: bool,
    /// Whether the transport ever had it: then the remote may have it, wherever it is now.
    pub(crate) left: bool,
    /// How often in a row the link broke while it was the oldest unACKed (MSG-9).
    pub(crate) breaks: u32,
    /// In the Backlog: whether it came in order, and so stands in the list by age.
    pub(super) in_order: bool,
    queue: Neighbours,
    age: Neighbours,
}

impl Outgoing {
    pub(crate) fn new(seq: u64, id: MessageId, link: Key, class: Class, encoded: Encoded) -> Self {
        Self {
            seq,
            id,
            link,
            source: None,
            class,
            bytes: encoded.len() as u64,
            encoded,
            place: Place::Backlog,
            tracked: false,
            left: false,
            breaks: 0,
            in_order: false,
            queue: Neighbours::default(),
            age: Neighbours::default(),
        }
    }

    pub(crate) fn next_in_queue(&self) -> Option<Key> {
        <Self as Linked<QUEUE>>::after(self)
    }
}

impl Linked<QUEUE> for Outgoing {
    fn neighbours(&mut self) -> &mut Neighbours {
        &mut self.queue
    }
    fn after(&self) -> Option<Key> {
        self.queue.after()
    }
}

impl Linked<AGE> for Outgoing {
    fn neighbours(&mut self) -> &mut Neighbours {
        &mut self.age
    }
    fn after(&self) -> Option<Key> {
        self.age.after()
    }
}
