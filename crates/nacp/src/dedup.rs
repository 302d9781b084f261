//! Which messages of a remote App came already (MSG-4, MSG-8). The window holds the last ids, each once, and costs
//! nothing before the first; a flood of ids pushes out only ids of the same App (B19).

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::message::ack::parts_of;
use crate::message::{InlineId, MessageId};

/// What is kept of an id of our own making is its number: ids of one prefix come in order, and each connection has its
/// own prefix.
#[derive(Debug)]
struct Run {
    prefix: InlineId,
    /// Ascending.
    numbers: VecDeque<u64>,
}

/// Runs at most; the oldest then goes to the ids that are kept whole. Only who reconnects all the time gets there.
const RUNS_MAX: usize = 16;

/// The last ids of one App.
#[derive(Debug, Default)]
pub(crate) struct Dedup {
    /// Ids of our own making that came in order; the newest prefix is the last.
    runs: VecDeque<Run>,
    /// Numbers in all runs.
    in_runs: usize,
    /// All other ids.
    others: Ids,
}

impl Dedup {
    /// Remembers `id`; false if it was remembered already.
    pub(crate) fn insert(&mut self, hasher: &impl BuildHasher, window: usize, id: &str) -> bool {
        let in_order = self.insert_in_order(hasher, window, id);
        in_order.unwrap_or_else(|| self.others.insert(hasher, window, id))
    }

    /// `None` if it has to be kept whole.
    fn insert_in_order(
        &mut self,
        hasher: &impl BuildHasher,
        window: usize,
        id: &str,
    ) -> Option<bool> {
        let (prefix, number) = parts_of(id.as_bytes())?;
        let mut newest_first = self.runs.iter_mut().rev();
        let run = newest_first.find(|run| run.prefix.as_bytes() == prefix);
        let last = run.as_ref().and_then(|run| run.numbers.back());
        if last.is_some_and(|&last| number <= last) {
            let known = run.is_some_and(|run| run.numbers.binary_search(&number).is_ok());
            return known.then_some(false);
        }
        // It may have been kept whole when there were too many runs.
        if self.others.contains(hasher, id) {
            return Some(false);
        }
        match run {
            Some(run) => run.numbers.push_back(number),
            None => {
                if self.runs.len() >= RUNS_MAX {
                    self.fold_oldest(hasher, window);
                }
                self.runs.push_back(Run {
                    prefix: InlineId::from(id.get(..prefix.len())?).ok()?,
                    numbers: VecDeque::from([number]),
                });
            }
        }
        self.in_runs += 1;
        while self.in_runs > window
            && let Some(oldest) = self.runs.front_mut()
        {
            match oldest.numbers.pop_front() {
                Some(_) => self.in_runs -= 1,
                None => drop(self.runs.pop_front()),
            }
        }
        Some(true)
    }

    fn fold_oldest(&mut self, hasher: &impl BuildHasher, window: usize) {
        if let Some(run) = self.runs.pop_front() {
            self.in_runs -= run.numbers.len();
            for number in run.numbers {
                let id = format!("{}{number:x}", run.prefix);
                self.others.insert(hasher, window, &id);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_runs + self.others.ring.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The last ids, whole.
#[derive(Debug, Default)]
struct Ids {
    ring: Vec<MessageId>,
    oldest: usize,
    slots: HashTable<u32>,
}

impl Ids {
    fn contains(&self, hasher: &impl BuildHasher, id: &str) -> bool {
        let is_it = |&slot: &u32| self.ring[slot as usize].as_bytes() == id.as_bytes();
        !self.ring.is_empty()
            && self
                .slots
                .find(hasher.hash_one(id.as_bytes()), is_it)
                .is_some()
    }

    /// Remembers `id`; false if it was remembered already.
    fn insert(&mut self, hasher: &impl BuildHasher, window: usize, id: &str) -> bool {
        let hash = |id: &[u8]| hasher.hash_one(id);
        let ring = &mut self.ring;
        let new = hash(id.as_bytes());
        if self
            .slots
            .find(new, |&slot| ring[slot as usize].as_bytes() == id.as_bytes())
            .is_some()
        {
            return false;
        }
        let slot = if ring.len() < window {
            ring.push(MessageId::from(id));
            ring.len() - 1
        } else {
            let slot = self.oldest;
            self.oldest = (slot + 1) % window;
            let old = hash(ring[slot].as_bytes());
            if let Ok(entry) = self.slots.find_entry(old, |&other| other as usize == slot) {
                entry.remove();
            }
            ring[slot] = MessageId::from(id);
            slot
        };
        let slot =
            u32::try_from(slot).expect("a window of more than 2^32 ids does not fit in memory");
        self.slots
            .insert_unique(new, slot, |&slot| hash(ring[slot as usize].as_bytes()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashing::seeded;

    #[test]
    fn msg_8_the_last_ids_are_remembered_and_memory_is_bounded() {
        let hasher = seeded(1);
        let mut dedup = Dedup::default();
        for round in 0..100_000u32 {
            assert!(
                dedup.insert(&hasher, 4_096, &round.to_string()),
                "{round} is new"
            );
            if round >= 4_095 {
                assert!(
                    !dedup.insert(&hasher, 4_096, &(round - 4_095).to_string()),
                    "still in the window"
                );
            }
        }
        assert!(dedup.insert(&hasher, 4_096, "0"), "long out of the window");
        assert_eq!((dedup.len(), dedup.others.slots.len()), (4_096, 4_096));
    }

    #[test]
    fn msg_8_ids_of_our_own_making_are_remembered_over_prefixes_and_out_of_order() {
        let hasher = seeded(2);
        let mut dedup = Dedup::default();
        let id = |prefix: u32, number: u32| format!("{prefix:014}-{number:x}");
        // A prefix per connection, many more than there are runs; every tenth message comes late.
        for prefix in 0..60 {
            for step in 1..=50 {
                let number = if step % 10 == 0 { step - 9 } else { step + 1 };
                assert!(
                    dedup.insert(&hasher, 4_096, &id(prefix, number)),
                    "{prefix} {number}"
                );
                assert!(
                    !dedup.insert(&hasher, 4_096, &id(prefix, number)),
                    "{prefix} {number}"
                );
            }
        }
        for prefix in 0..60 {
            for number in 1..=10 {
                let first_time = dedup.insert(&hasher, 4_096, &id(prefix, number));
                assert!(!first_time, "{prefix} {number}");
            }
        }
        for number in 1_000..100_000 {
            assert!(dedup.insert(&hasher, 4_096, &id(7, number)));
            assert!(!dedup.insert(&hasher, 4_096, &id(7, number.max(5_095) - 4_095)));
        }
        assert!(dedup.len() <= 2 * 4_096);
    }
}
