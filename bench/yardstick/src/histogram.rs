//! Latencies, recorded without allocating and from any thread.
//!
//! Log-linear buckets: 256 to each power of two, so a percentile is off by 0.4 % at most, well below the ratios that are
//! judged. Recording is one relaxed addition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SUB_BITS: u32 = 8;
const SUB_COUNT: u64 = 1 << SUB_BITS;
/// Up to 2^40 ns, a little over 18 minutes; anything longer lands in the last bucket.
const OCTAVES: u64 = 33;

/// Counts of latencies by size.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = (0..SUB_COUNT * OCTAVES).map(|_| AtomicU64::new(0));
        Self {
            buckets: buckets.collect(),
        }
    }
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        let last = self.buckets.len() - 1;
        let index = usize::try_from(index_of(nanos)).unwrap_or(last).min(last);
        self.buckets[index].fetch_add(1, Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).sum()
    }

    /// The latency in microseconds that the `share` (0 to 1) fastest do not exceed; 0 if nothing was counted.
    pub fn percentile_us(&self, share: f64) -> f64 {
        let rank = (self.count() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Ordering::Relaxed);
            if seen >= rank {
                return middle_of(index as u64) / 1_000.0;
            }
        }
        0.0
    }
}

fn index_of(nanos: u64) -> u64 {
    if nanos < SUB_COUNT {
        return nanos;
    }
    let octave = u64::from(63 - nanos.leading_zeros() - SUB_BITS);
    (octave + 1) * SUB_COUNT + (nanos >> octave) - SUB_COUNT
}

fn middle_of(index: u64) -> f64 {
    if index < SUB_COUNT {
        return index as f64;
    }
    let octave = index / SUB_COUNT - 1;
    let low = (index % SUB_COUNT + SUB_COUNT) << octave;
    low as f64 + ((1u64 << octave) - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_half_a_percent_of_what_falls_into_it() {
        for nanos in (1..2_000_000u64).step_by(37).chain([1 << 39]) {
            let seen = middle_of(index_of(nanos));
            assert!(
                (seen - nanos as f64).abs() <= nanos as f64 * 0.004,
                "{nanos} {seen}"
            );
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let histogram = Histogram::default();
        for micros in 1..=100 {
            histogram.record(Duration::from_micros(micros));
        }
        assert_eq!(histogram.count(), 100);
        assert!((histogram.percentile_us(0.50) - 50.0).abs() < 0.3);
        assert!((histogram.percentile_us(0.99) - 99.0).abs() < 0.5);
    }

    #[test]
    fn the_absurd_lands_in_the_last_bucket() {
        let histogram = Histogram::default();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.count(), 1);
    }
}
