//! Which messages of a remote App came already (MSG-4, MSG-8). The window holds the last ids, each once, and costs
//! nothing before the first; a flood of ids pushes out only ids of the same App (B19).

use hashbrown::HashTable;
use std::hash::BuildHasher;

use crate::message::MessageId;

/// The last ids of one App.
#[derive(Debug, Default)]
pub(crate) struct Dedup {
    ring: Vec<MessageId>,
    oldest: usize,
    slots: HashTable<u32>,
}

impl Dedup {
    /// Remembers `id`; false if it was remembered already.
    pub(crate) fn insert(&mut self, hasher: &impl BuildHasher, window: usize, id: &str) -> bool {
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

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
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
        assert_eq!((dedup.len(), dedup.slots.len()), (4_096, 4_096));
    }
}
