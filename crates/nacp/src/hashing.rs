//! Hash maps that are fast and, with the same seed, the same: nothing here asks the system for randomness. Keys that
//! are our own numbers take [`FastMap`]; keys that a remote chooses take [`SeededMap`], whose seed it cannot know.
//! Neither is ever iterated in an order that shows: its keys are sorted first.

use std::collections::HashMap;

use foldhash::fast::FixedState as FastState;
use foldhash::quality::FixedState as SeededState;

/// Keyed by our own numbers.
pub(crate) type FastMap<K, V> = HashMap<K, V, FastState>;

/// Keyed by what remotes send.
pub(crate) type SeededMap<K, V> = HashMap<K, V, SeededState>;

/// The hash state of a [`SeededMap`].
pub(crate) fn seeded(seed: u64) -> SeededState {
    SeededState::with_seed(seed)
}
