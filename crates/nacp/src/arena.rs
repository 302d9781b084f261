//! Slots with stable keys, and doubly linked lists threaded through them: every queue operation is O(1), nothing
//! moves, and a record can stand in two lists at once. A key is valid from `insert` to `remove`; keys are reused, so
//! whoever stores one must drop it with its record.

/// Where a record stands in an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(u32);

/// Records in slots.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Arena<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(value);
            return Key(slot);
        }
        self.slots.push(Some(value));
        Key(u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 records fit in memory"))
    }

    pub(crate) fn remove(&mut self, key: Key) -> T {
        self.free.push(key.0);
        self.slots[key.0 as usize]
            .take()
            .expect("a key lives as long as its record")
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        self.slots.get(key.0 as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The keys in slot order; the same history gives the same order.
    pub(crate) fn keys(&self) -> Vec<Key> {
        (0..)
            .zip(&self.slots)
            .filter(|(_, slot)| slot.is_some())
            .map(|(index, _)| Key(index))
            .collect()
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}

impl<T> std::ops::Index<Key> for Arena<T> {
    type Output = T;
    fn index(&self, key: Key) -> &T {
        self.slots[key.0 as usize]
            .as_ref()
            .expect("a key lives as long as its record")
    }
}

impl<T> std::ops::IndexMut<Key> for Arena<T> {
    fn index_mut(&mut self, key: Key) -> &mut T {
        self.slots[key.0 as usize]
            .as_mut()
            .expect("a key lives as long as its record")
    }
}

/// The neighbours of a record in one list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Neighbours {
    before: Option<Key>,
    after: Option<Key>,
}

impl Neighbours {
    pub(crate) fn after(self) -> Option<Key> {
        self.after
    }
}

/// A record that can stand in lists; `LIST` tells them apart.
pub(crate) trait Linked<const LIST: usize> {
    fn neighbours(&mut self) -> &mut Neighbours;
    fn after(&self) -> Option<Key>;
}

/// The ends of a list through an [`Arena`].
#[derive(Debug, Default)]
pub(crate) struct List<const LIST: usize> {
    first: Option<Key>,
    last: Option<Key>,
    len: usize,
}

impl<const LIST: usize> List<LIST> {
    pub(crate) fn first(&self) -> Option<Key> {
        self.first
    }

    pub(crate) fn last(&self) -> Option<Key> {
        self.last
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push_back<T: Linked<LIST>>(&mut self, arena: &mut Arena<T>, key: Key) {
        self.insert_after(arena, self.last, key);
    }

    /// Puts `key` behind `before`, or first.
    pub(crate) fn insert_after<T: Linked<LIST>>(
        &mut self,
        arena: &mut Arena<T>,
        before: Option<Key>,
        key: Key,
    ) {
        let after = match before {
            Some(before) => arena[before].after(),
            None => self.first,
        };
        *arena[key].neighbours() = Neighbours { before, after };
        match before {
            Some(before) => arena[before].neighbours().after = Some(key),
            None => self.first = Some(key),
        }
        match after {
            Some(after) => arena[after].neighbours().before = Some(key),
            None => self.last = Some(key),
        }
        self.len += 1;
    }

    /// Puts `key` where `order` says, looked for from the back: O(1) for a record that belongs there.
    pub(crate) fn insert_sorted<T: Linked<LIST>>(
        &mut self,
        arena: &mut Arena<T>,
        key: Key,
        order: impl Fn(&T) -> u64,
    ) {
        let rank = order(&arena[key]);
        let mut before = self.last;
        while let Some(candidate) = before {
            if order(&arena[candidate]) < rank {
                break;
            }
            before = arena[candidate].neighbours().before;
        }
        self.insert_after(arena, before, key);
    }

    pub(crate) fn unlink<T: Linked<LIST>>(&mut self, arena: &mut Arena<T>, key: Key) {
        let Neighbours { before, after } = std::mem::take(arena[key].neighbours());
        match before {
            Some(before) => arena[before].neighbours().after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => arena[after].neighbours().before = before,
            None => self.last = before,
        }
        self.len -= 1;
    }

    /// The keys from first to last.
    pub(crate) fn keys<T: Linked<LIST>>(&self, arena: &Arena<T>) -> Vec<Key> {
        let mut keys = Vec::with_capacity(self.len);
        let mut next = self.first;
        while let Some(key) = next {
            keys.push(key);
            next = arena[key].after();
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Record(u64, Neighbours);

    impl Linked<0> for Record {
        fn neighbours(&mut self) -> &mut Neighbours {
            &mut self.1
        }
        fn after(&self) -> Option<Key> {
            self.1.after
        }
    }

    #[test]
    fn a_list_keeps_its_order_under_any_insertion_and_removal() {
        let mut arena = Arena::default();
        let mut list = List::<0>::default();
        let mut keys = Vec::new();
        for rank in [5, 1, 9, 3, 7] {
            let key = arena.insert(Record(rank, Neighbours::default()));
            list.insert_sorted(&mut arena, key, |record| record.0);
            keys.push(key);
        }
        let ranks = |list: &List<0>, arena: &Arena<Record>| {
            list.keys(arena)
                .into_iter()
                .map(|key| arena[key].0)
                .collect::<Vec<_>>()
        };
        assert_eq!(ranks(&list, &arena), [1, 3, 5, 7, 9]);
        list.unlink(&mut arena, keys[1]);
        list.unlink(&mut arena, keys[2]);
        list.unlink(&mut arena, keys[0]);
        assert_eq!(ranks(&list, &arena), [3, 7]);
        assert_eq!(list.len(), 2);
        arena.remove(keys[0]);
        let reused = arena.insert(Record(4, Neighbours::default()));
        assert_eq!(reused, keys[0]);
        list.insert_sorted(&mut arena, reused, |record| record.0);
        assert_eq!(ranks(&list, &arena), [3, 4, 7]);
    }
}
