//! A set of our own sequence numbers. What this module keeps true: changing it costs the same however many there are,
//! and it is gone through in order, so the same history gives the same run.

use std::collections::HashSet;

use foldhash::fast::FixedState;

/// Sequence numbers, each once.
#[derive(Debug, Default)]
pub(crate) struct SeqSet(HashSet<u64, FixedState>);

impl SeqSet {
    pub(crate) fn insert(&mut self, seq: u64) {
        self.0.insert(seq);
    }

    pub(crate) fn remove(&mut self, seq: u64) {
        self.0.remove(&seq);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, lowest first.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.0.iter().copied().collect();
        all.sort_unstable();
        all
    }

    /// Empties the set; what was in it, lowest first.
    pub(crate) fn drain_sorted(&mut self) -> Vec<u64> {
        let all = self.sorted();
        self.0 = HashSet::default();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_gone_through_in_order() {
        let mut set = SeqSet::default();
        for seq in [7, 1, 900, 3] {
            set.insert(seq);
        }
        set.remove(3);
        set.remove(4);
        assert_eq!((set.sorted(), set.len()), (vec![1, 7, 900], 3));
        assert_eq!(set.drain_sorted(), [1, 7, 900]);
        assert!(set.is_empty());
    }
}
