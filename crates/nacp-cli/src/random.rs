//! A random number now and then: for a name that nobody else has, for a seed.

use std::hash::{BuildHasher as _, RandomState};

/// The standard library's hasher keys come from the operating system: randomness enough for a name.
pub fn word() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
