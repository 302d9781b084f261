//! Everything of ours that is on its way. What this module keeps true: a message is in exactly one [`Place`], counted
//! there and nowhere else; a link's Backlog is sorted by sequence number, which is send order; and what the caps of
//! CAP-1 count is exact (CAP-5), so both counters end at zero when the last message leaves.
//!
//! ```text
//!            submit              accept                 ack
//!  Backlog ─────────► Submitted ────────► AckPending ────────► done
//!     ▲                   │    └─ notify, forwarded: done
//!     └───── requeue ─────┴──────────────────┘        (the link went offline: LINK-6)
//! ```

mod record;

use std::collections::BTreeMap;

use crate::arena::{Arena, Key, List};
use crate::hashing::FastMap;
use crate::time::Instant;

pub(crate) use record::{AGE, Class, Outgoing, Place, QUEUE};

/// Messages and bytes of one table of CAP-1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    pub(crate) fn sub(&mut self, bytes: u64) {
        self.messages -= 1;
        self.bytes -= bytes;
    }
}

/// One link's queues; the records are in the [`Outbox`].
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Not submitted, in send order.
    pub(crate) backlog: List<QUEUE>,
    /// Handed to the transport, not accepted.
    pub(crate) submitted: List<QUEUE>,
    /// Accepted, not ACKed.
    pub(crate) pending: List<QUEUE>,
    /// Heartbeats and handshake replies, wherever they are: they die with the connection.
    pub(crate) control: List<QUEUE>,
}

impl Queues {
    pub(crate) fn is_empty(&self) -> bool {
        self.backlog.is_empty()
            && self.submitted.is_empty()
            && self.pending.is_empty()
            && self.control.is_empty()
    }

    fn list(&mut self, outgoing: &Outgoing) -> &mut List<QUEUE> {
        match (&outgoing.class, outgoing.place) {
            (Class::Control, _) => &mut self.control,
            (_, Place::Backlog) => &mut self.backlog,
            (_, Place::Submitted) => &mut self.submitted,
            (_, Place::AckPending(_)) => &mut self.pending,
        }
    }
}

/// What the Backlogs hold, by age. Messages come in order, so they stand in a list; only what was put back there
/// (LINK-6) must be sorted in.
#[derive(Debug, Default)]
struct Ages {
    in_order: List<AGE>,
    out_of_order: BTreeMap<u64, Key>,
}

impl Ages {
    fn insert(&mut self, records: &mut Arena<Outgoing>, key: Key) {
        let newest = self.in_order.last().map(|last| records[last].seq);
        let outgoing = &mut records[key];
        outgoing.in_order = newest.is_none_or(|newest| newest < outgoing.seq);
        if outgoing.in_order {
            self.in_order.push_back(records, key);
        } else {
            self.out_of_order.insert(outgoing.seq, key);
        }
    }

    fn remove(&mut self, records: &mut Arena<Outgoing>, key: Key) {
        if records[key].in_order {
            self.in_order.unlink(records, key);
        } else {
            self.out_of_order.remove(&records[key].seq);
        }
    }

    fn oldest(&self, records: &Arena<Outgoing>) -> Option<Key> {
        let in_order = self.in_order.first();
        let out_of_order = self.out_of_order.values().next().copied();
        let both = in_order.into_iter().chain(out_of_order);
        both.min_by_key(|&key| records[key].seq)
    }
}

/// The records of all links, and what spans links: the caps and the ACK clocks.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    records: Arena<Outgoing>,
    by_seq: FastMap<u64, Key>,
    backlog: Count,
    /// Submitted messages that will need a place in AckPending.
    submitted: Count,
    pending: Count,
    /// Backlogged notifies by age: what CAP-2 evicts first.
    notifies: Ages,
    /// All else in the Backlog by age.
    others: Ages,
    /// AckPending by acceptance: its first is what CAP-3 evicts, and whose ACK falls due next.
    pending_age: List<AGE>,
    /// The same for control messages, which no cap counts.
    control_age: List<AGE>,
}

impl Outbox {
    /// Where a message stands, for the calls that follow at once.
    pub(crate) fn locate(&self, seq: u64) -> Option<Key> {
        self.by_seq.get(&seq).copied()
    }

    pub(crate) fn record(&self, key: Key) -> &Outgoing {
        &self.records[key]
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&Outgoing> {
        self.by_seq.get(&seq).map(|&key| &self.records[key])
    }

    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut Outgoing> {
        self.by_seq.get(&seq).map(|&key| &mut self.records[key])
    }

    pub(crate) fn backlog(&self) -> Count {
        self.backlog
    }

    pub(crate) fn pending(&self) -> Count {
        self.pending
    }

    pub(crate) fn submitted(&self) -> Count {
        self.submitted
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes a new message: the Backlog's newest, or a control message on its way to the urgent lane.
    pub(crate) fn insert(&mut self, queues: &mut Queues, outgoing: Outgoing) {
        let (seq, control) = (outgoing.seq, matches!(outgoing.class, Class::Control));
        let key = self.records.insert(outgoing);
        let doubled = self.by_seq.insert(seq, key);
        assert!(doubled.is_none(), "a sequence number is never reused");
        if control {
            queues.control.push_back(&mut self.records, key);
        } else {
            self.enter_backlog(queues, key);
        }
    }

    fn enter_backlog(&mut self, queues: &mut Queues, key: Key) {
        self.count_in_backlog(key);
        queues
            .backlog
            .insert_sorted(&mut self.records, key, |outgoing| outgoing.seq);
    }

    fn count_in_backlog(&mut self, key: Key) {
        let outgoing = &mut self.records[key];
        outgoing.place = Place::Backlog;
        // What is forwarded has a bound of its own for each destination.
        if matches!(outgoing.class, Class::Forwarded { .. }) {
            return;
        }
        self.backlog.add(outgoing.bytes);
        let ages = if outgoing.class.is_notify() {
            &mut self.notifies
        } else {
            &mut self.others
        };
        ages.insert(&mut self.records, key);
    }

    /// Backlog (or urgent lane) → Submitted.
    pub(crate) fn submit(&mut self, queues: &mut Queues, key: Key) -> &Outgoing {
        self.records[key].left = true;
        if matches!(self.records[key].class, Class::Control) {
            self.records[key].place = Place::Submitted;
        } else {
            assert_eq!(
                self.records[key].place,
                Place::Backlog,
                "only the Backlog is submitted"
            );
            self.detach(queues, key);
            let outgoing = &mut self.records[key];
            outgoing.place = Place::Submitted;
            if outgoing.class.needs_ack() {
                self.submitted.add(outgoing.bytes);
            }
            queues
                .submitted
                .insert_sorted(&mut self.records, key, |outgoing| outgoing.seq);
        }
        &self.records[key]
    }

    /// Submitted → AckPending; the ACK clock starts (MSG-2). A message that needs no ACK is complete and comes back.
    pub(crate) fn accept(
        &mut self,
        queues: &mut Queues,
        key: Key,
        now: Instant,
    ) -> Option<Outgoing> {
        if !self.records[key].class.needs_ack() {
            return Some(self.remove(queues, self.records[key].seq));
        }
        if matches!(self.records[key].class, Class::Control) {
            self.records[key].place = Place::AckPending(now);
            self.control_age.push_back(&mut self.records, key);
            return None;
        }
        self.detach(queues, key);
        let outgoing = &mut self.records[key];
        outgoing.place = Place::AckPending(now);
        self.pending.add(outgoing.bytes);
        queues
            .pending
            .insert_sorted(&mut self.records, key, |outgoing| outgoing.seq);
        self.pending_age.push_back(&mut self.records, key);
        None
    }

    /// Takes a message out of wherever it is.
    pub(crate) fn remove(&mut self, queues: &mut Queues, seq: u64) -> Outgoing {
        let key = self.by_seq.remove(&seq).expect("the caller looked it up");
        self.detach(queues, key);
        self.records.remove(key)
    }

    fn detach(&mut self, queues: &mut Queues, key: Key) {
        let outgoing = &self.records[key];
        let (bytes, place) = (outgoing.bytes, outgoing.place);
        let (control, needs_ack) = (
            matches!(outgoing.class, Class::Control),
            outgoing.class.needs_ack(),
        );
        let forwarded = matches!(outgoing.class, Class::Forwarded { .. });
        let notify = outgoing.class.is_notify();
        queues.list(outgoing).unlink(&mut self.records, key);
        match place {
            Place::AckPending(_) if control => self.control_age.unlink(&mut self.records, key),
            Place::AckPending(_) => {
                self.pending.sub(bytes);
                self.pending_age.unlink(&mut self.records, key);
            }
            Place::Backlog if !control && !forwarded => {
                self.backlog.sub(bytes);
                let ages = if notify {
                    &mut self.notifies
                } else {
                    &mut self.others
                };
                ages.remove(&mut self.records, key);
            }
            Place::Submitted if needs_ack && !control => self.submitted.sub(bytes),
            Place::Backlog | Place::Submitted => {}
        }
    }

    /// AckPending and Submitted → front of the Backlog, in send order (LINK-6). Linear in what is put back: what was
    /// submitted was sent before what still waits, so the walk along the Backlog stays within its front.
    pub(crate) fn requeue(&mut self, queues: &mut Queues) {
        let mut keys = queues.pending.keys(&self.records);
        keys.extend(queues.submitted.keys(&self.records));
        keys.sort_by_key(|&key| self.records[key].seq);
        let mut before = None;
        for key in keys {
            self.detach(queues, key);
            let seq = self.records[key].seq;
            let mut next = match before {
                Some(before) => self.records[before].next_in_queue(),
                None => queues.backlog.first(),
            };
            while let Some(candidate) = next.filter(|&candidate| self.records[candidate].seq < seq)
            {
                before = next;
                next = self.records[candidate].next_in_queue();
            }
            self.count_in_backlog(key);
            queues.backlog.insert_after(&mut self.records, before, key);
            before = Some(key);
        }
    }

    /// What CAP-2 evicts next: the oldest notify, else the oldest other message.
    pub(crate) fn eviction_candidate(&self) -> Option<&Outgoing> {
        let notify = self.notifies.oldest(&self.records);
        let key = notify.or_else(|| self.others.oldest(&self.records))?;
        Some(&self.records[key])
    }

    /// The AckPending message that was accepted first.
    pub(crate) fn oldest_pending(&self) -> Option<&Outgoing> {
        self.pending_age.first().map(|key| &self.records[key])
    }

    /// The acceptance that is longest without an ACK, control messages included.
    pub(crate) fn oldest_unacked(&self) -> Option<(Instant, &Outgoing)> {
        let first = |key: Option<Key>| key.map(|key| &self.records[key]);
        [
            first(self.pending_age.first()),
            first(self.control_age.first()),
        ]
        .into_iter()
        .flatten()
        .filter_map(|outgoing| match outgoing.place {
            Place::AckPending(since) => Some((since, outgoing)),
            Place::Backlog | Place::Submitted => None,
        })
        .min_by_key(|&(since, outgoing)| (since, outgoing.seq))
    }

    /// Starts the ACK clock of an AckPending message anew: it goes last in line.
    pub(crate) fn restart_ack_clock(&mut self, seq: u64, now: Instant) {
        let key = self.by_seq[&seq];
        let control = matches!(self.records[key].class, Class::Control);
        let age = if control {
            &mut self.control_age
        } else {
            &mut self.pending_age
        };
        age.unlink(&mut self.records, key);
        self.records[key].place = Place::AckPending(now);
        age.push_back(&mut self.records, key);
    }

    /// The sequence numbers of one of a link's lists, in order.
    pub(crate) fn seqs(&self, list: &List<QUEUE>) -> Vec<u64> {
        list.keys(&self.records)
            .into_iter()
            .map(|key| self.records[key].seq)
            .collect()
    }

    /// The first of a link's Backlog, within the first `depth`, that `wanted` accepts.
    pub(crate) fn find(
        &self,
        list: &List<QUEUE>,
        depth: usize,
        wanted: impl Fn(&Outgoing) -> bool,
    ) -> Option<Key> {
        let mut next = list.first();
        for _ in 0..depth {
            let outgoing = &self.records[next?];
            if wanted(outgoing) {
                return next;
            }
            next = outgoing.next_in_queue();
        }
        None
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
