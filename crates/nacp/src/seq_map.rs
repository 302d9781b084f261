//! Tables keyed by our own sequence numbers. These are given out in order, looked up soon and mostly forgotten in order,
//! so the recent ones stand in a row: finding one is a subtraction, and going through them in order touches memory in
//! order. What this module keeps true: every operation costs the same however many entries there are (an old one that
//! stays moves once, into a hash table); the row is at most a small multiple of the entries in it; and tables are gone
//! through in order, so the same history gives the same run.

use std::collections::VecDeque;
use std::ops::Index;

use crate::arena::{Arena, Key};
use crate::hashing::FastMap;

/// Places of the row for each entry in it, and some more.
const SPREAD_MAX: usize = 8;
const SPREAD_FREE: usize = 64;

/// Small values by sequence number.
#[derive(Debug)]
pub(crate) struct SeqMap<V> {
    /// The values of `base` and the numbers after it.
    row: VecDeque<Option<V>>,
    base: u64,
    in_row: usize,
    /// What was overtaken by too many others. All of it is below `old_end`, the row is not.
    old: FastMap<u64, V>,
    old_end: u64,
}

impl<V> Default for SeqMap<V> {
    fn default() -> Self {
        Self {
            row: VecDeque::new(),
            base: 0,
            in_row: 0,
            old: FastMap::default(),
            old_end: 0,
        }
    }
}

impl<V: Copy> SeqMap<V> {
    fn place(&self, seq: u64) -> Option<usize> {
        let place = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        (place < self.row.len()).then_some(place)
    }

    pub(crate) fn get(&self, seq: u64) -> Option<V> {
        if let Some(place) = self.place(seq) {
            return self.row[place];
        }
        self.old.get(&seq).copied()
    }

    /// What stood there before.
    pub(crate) fn insert(&mut self, seq: u64, value: V) -> Option<V> {
        if let Some(place) = self.place(seq) {
            let before = self.row[place].replace(value);
            self.in_row += usize::from(before.is_none());
            return before;
        }
        if self.in_row == 0 {
            self.row.clear();
            self.base = seq.max(self.old_end);
        }
        if seq < self.base {
            self.old_end = self.old_end.max(seq + 1);
            return self.old.insert(seq, value);
        }
        let mut gap = seq - self.base - self.row.len() as u64;
        let spread = (self.row.len() as u64).saturating_add(gap);
        if spread > (SPREAD_MAX * self.in_row + SPREAD_FREE) as u64 {
            self.retire();
            (self.base, gap) = (seq, 0);
        }
        self.row.extend((0..gap).map(|_| None));
        self.row.push_back(Some(value));
        self.in_row += 1;
        None
    }

    /// Empties the row.
    fn retire(&mut self) {
        self.old_end = self.base + self.row.len() as u64;
        let numbered = (self.base..).zip(self.row.drain(..));
        let alive = numbered.filter_map(|(seq, value)| Some((seq, value?)));
        self.old.extend(alive);
        self.in_row = 0;
    }

    pub(crate) fn remove(&mut self, seq: u64) -> Option<V> {
        let Some(place) = self.place(seq) else {
            return self.old.remove(&seq);
        };
        let value = self.row[place].take()?;
        self.in_row -= 1;
        while let Some(None) = self.row.front() {
            self.row.pop_front();
            self.base += 1;
        }
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.in_row + self.old.len()
    }

    /// The numbers, lowest first.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.old.keys().copied().collect();
        all.sort_unstable();
        let numbered = (self.base..).zip(&self.row);
        all.extend(numbered.filter_map(|(seq, value)| value.is_some().then_some(seq)));
        all
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Sequence numbers, each once.
#[derive(Debug, Default)]
pub(crate) struct SeqSet(SeqMap<()>);

impl SeqSet {
    pub(crate) fn insert(&mut self, seq: u64) {
        self.0.insert(seq, ());
    }

    pub(crate) fn remove(&mut self, seq: u64) {
        self.0.remove(seq);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// All of them, lowest first.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        self.0.sorted()
    }

    /// Empties the set; what was in it, lowest first.
    pub(crate) fn drain_sorted(&mut self) -> Vec<u64> {
        let all = self.0.sorted();
        self.0.clear();
        all
    }
}

/// Records by sequence number.
#[derive(Debug)]
pub(crate) struct SeqTable<T> {
    keys: SeqMap<Key>,
    records: Arena<T>,
}

impl<T> Default for SeqTable<T> {
    fn default() -> Self {
        Self {
            keys: SeqMap::default(),
            records: Arena::default(),
        }
    }
}

impl<T> SeqTable<T> {
    pub(crate) fn get(&self, seq: u64) -> Option<&T> {
        self.keys.get(seq).map(|key| &self.records[key])
    }

    pub(crate) fn get_mut(&mut self, seq: u64) -> Option<&mut T> {
        self.keys.get(seq).map(|key| &mut self.records[key])
    }

    /// In place of what stood there.
    pub(crate) fn insert(&mut self, seq: u64, record: T) {
        let key = self.records.insert(record);
        if let Some(before) = self.keys.insert(seq, key) {
            self.records.remove(before);
        }
    }

    pub(crate) fn remove(&mut self, seq: u64) -> Option<T> {
        let key = self.keys.remove(seq)?;
        Some(self.records.remove(key))
    }

    pub(crate) fn contains(&self, seq: u64) -> bool {
        self.keys.get(seq).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The numbers, lowest first.
    pub(crate) fn sorted(&self) -> Vec<u64> {
        self.keys.sorted()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl<T> Index<u64> for SeqTable<T> {
    type Output = T;
    fn index(&self, seq: u64) -> &T {
        self.get(seq).expect("the caller knows that it is there")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..3_u8, 0..400_u64, 1..90_u64), 1..400)) {
            let (mut map, mut table, mut model) = (SeqMap::default(), SeqTable::default(), BTreeMap::new());
            let mut newest = 0;
            for (what, back, ahead) in steps {
                match what {
                    0 => {
                        newest += ahead;
                        prop_assert_eq!(map.insert(newest, back), model.insert(newest, back));
                        table.insert(newest, back);
                    }
                    1 => {
                        let seq = newest.saturating_sub(back);
                        prop_assert_eq!(map.remove(seq), model.remove(&seq));
                        table.remove(seq);
                    }
                    _ => {
                        let seq = newest.saturating_sub(back);
                        prop_assert_eq!(map.insert(seq, ahead), model.insert(seq, ahead));
                        table.insert(seq, ahead);
                    }
                }
                let seq = newest.saturating_sub(back / 2);
                prop_assert_eq!(map.get(seq), model.get(&seq).copied());
                prop_assert_eq!(table.get(seq), model.get(&seq));
                prop_assert_eq!((map.len(), table.len()), (model.len(), model.len()));
                prop_assert!(map.row.len() <= SPREAD_MAX * (map.in_row.max(model.len()) + 1) + SPREAD_FREE + 1);
            }
            let sorted: Vec<u64> = model.keys().copied().collect();
            prop_assert_eq!(map.sorted(), sorted.clone());
            prop_assert_eq!(table.sorted(), sorted);
        }
    }

    #[test]
    fn one_that_stays_does_not_hold_up_the_row() {
        let mut set = SeqSet::default();
        set.insert(1);
        for seq in 2..1_000_000 {
            set.insert(seq);
            set.remove(seq);
            assert!(set.0.row.len() <= 2 * (SPREAD_MAX + SPREAD_FREE));
        }
        assert_eq!((set.sorted(), set.len()), (vec![1], 1));
        assert_eq!(set.drain_sorted(), [1]);
        assert!(set.is_empty());
    }
}
