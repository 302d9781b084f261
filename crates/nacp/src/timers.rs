//! Every deadline but the ACK clocks, which the outbox keeps in order of acceptance. A subject has one deadline at a
//! time; arming it again moves it.

use std::collections::BTreeSet;

use crate::arena::Key;
use crate::event::PeerId;
use crate::hashing::FastMap;
use crate::time::Instant;

/// Why the core wants to be called at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A reliable message must be ACKed by then (LINK-4b).
    AckTimeout,
    /// An offline App is dropped then (LINK-10).
    Grace,
    /// A heartbeat is due (HB-1).
    Heartbeat,
    /// A handshake, challenge or goodbye ends then.
    Peer,
    /// A source is read again then, whether or not its destination has caught up.
    Hold,
    /// A call's deadline (WAIT-2, WAIT-4).
    Call,
    /// An App behind the Gateway is probed then (LINK-16).
    Probe,
}

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    Grace(Key),
    Heartbeat(Key),
    Probe(Key),
    Peer(PeerId),
    Hold(PeerId),
    Call(u64),
}

impl Subject {
    pub(crate) fn timer(self) -> Timer {
        match self {
            Self::Grace(_) => Timer::Grace,
            Self::Heartbeat(_) => Timer::Heartbeat,
            Self::Probe(_) => Timer::Probe,
            Self::Peer(_) => Timer::Peer,
            Self::Hold(_) => Timer::Hold,
            Self::Call(_) => Timer::Call,
        }
    }
}

/// The armed deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Instant, Subject)>,
    armed: FastMap<Subject, Instant>,
}

impl Timers {
    pub(crate) fn arm(&mut self, subject: Subject, at: Instant) {
        if let Some(before) = self.armed.insert(subject, at) {
            self.queue.remove(&(before, subject));
        }
        self.queue.insert((at, subject));
    }

    pub(crate) fn disarm(&mut self, subject: Subject) {
        if let Some(at) = self.armed.remove(&subject) {
            self.queue.remove(&(at, subject));
        }
    }

    pub(crate) fn next(&self) -> Option<(Instant, Subject)> {
        self.queue.first().copied()
    }

    /// Takes the first deadline that is not after `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Subject> {
        let &(at, subject) = self.queue.first().filter(|(at, _)| *at <= now)?;
        self.queue.remove(&(at, subject));
        self.armed.remove(&subject);
        Some(subject)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_has_one_deadline_and_the_earliest_comes_first() {
        let at = Instant::from_nanos;
        let mut timers = Timers::default();
        timers.arm(Subject::Call(1), at(30));
        timers.arm(Subject::Call(2), at(20));
        timers.arm(Subject::Call(1), at(10));
        assert_eq!(timers.next(), Some((at(10), Subject::Call(1))));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(50)), Some(Subject::Call(1)));
        timers.disarm(Subject::Call(2));
        timers.disarm(Subject::Call(2));
        assert_eq!((timers.pop_due(at(50)), timers.len()), (None, 0));
    }
}
