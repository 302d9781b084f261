//! Which faults hit the job, and where.
//!
//! What this module keeps true: each fault is due at a number of chunks that lies within the job, whatever
//! its size; the same seed gives the same plan.

use std::time::Duration;

/// What is done to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A reset, when so many more bytes have come from the worker: mostly in the middle of a frame. Then there is no
    /// network for a while.
    Cut {
        /// That many.
        after_bytes: u64,
        /// That long.
        outage: Duration,
    },
    /// Nothing passes, until both sides have noticed.
    BlackHole,
    /// Bytes trickle for a while.
    Slow {
        /// At this rate, in both directions.
        bytes_per_s: u64,
        /// That long.
        time: Duration,
    },
}

/// A fault and when it is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// So many chunks.
    pub after_chunks: usize,
    /// What happens then.
    pub fault: Fault,
}

/// Three cuts, a slow stretch and a black hole, spread over a job of so many chunks.
pub fn plan(chunks: usize, seed: u64) -> [Step; 5] {
    let mut random = SplitMix(seed);
    let mut cut = || Fault::Cut {
        after_bytes: random.below(200),
        outage: Duration::from_millis(200 + random.below(300)),
    };
    let slow = Fault::Slow {
        bytes_per_s: 6_000,
        time: Duration::from_millis(600),
    };
    let faults = [cut(), slow, cut(), Fault::BlackHole, cut()];
    let mut due = 0;
    let mut steps = faults.into_iter().enumerate().map(|(index, fault)| {
        // Sixths of the job, each up to a twelfth early or late; the last chunk waits for the last fault.
        let twelfths = 2 * (index as u64 + 1) * 1_000 + random.below(2_000) - 1_000;
        let place = (chunks.saturating_sub(1) as u64 * twelfths / 12_000) as usize;
        due = place.max(due);
        Step {
            after_chunks: due,
            fault,
        }
    });
    std::array::from_fn(|_| steps.next().expect("as many steps as faults"))
}

/// A small generator that a number seeds (SplitMix64): a plan needs no better one.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_due_before_the_last_chunk_and_in_order() {
        for chunks in [0, 1, 2, 7, 100, 1_000_000] {
            for seed in 0..200 {
                let steps = plan(chunks, seed);
                assert!(steps.is_sorted_by_key(|step| step.after_chunks));
                assert!(steps[4].after_chunks <= chunks.saturating_sub(1));
                assert_eq!(steps, plan(chunks, seed));
            }
        }
        assert_ne!(plan(1_000, 1), plan(1_000, 2));
    }
}
