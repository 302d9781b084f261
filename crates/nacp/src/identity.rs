//! Names that nobody else gives out: message ids, and the instance tokens of LINK-15. All randomness is handed in, so
//! the same seed gives the same run; fresh entropy is mixed in with every connection, so that a copy of a running
//! program (a fork, a restored snapshot) parts from its original as soon as it speaks to anybody.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::message::ack::{PREFIX_LENGTH, parts_of};
use crate::message::{InlineId, MessageId};

/// Gives out ids and tokens.
#[derive(Debug)]
pub(crate) struct Identity {
    random: ChaCha8Rng,
    prefix: String,
    last_seq: u64,
    /// The ids from `stem_of` × 256 on, without their last two digits.
    stem: InlineId,
    stem_of: u64,
}

/// The two digits of every byte.
const PAIRS: &str = "\
    000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
    202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\
    404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f\
    606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f\
    808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f\
    a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf\
    c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf\
    e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff\
";

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl Identity {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let mut identity = Self {
            random: ChaCha8Rng::from_seed(seed),
            prefix: String::new(),
            last_seq: 0,
            stem: InlineId::new(),
            stem_of: 0,
        };
        identity.renew_prefix();
        identity
    }

    /// From here on, what is given out depends on `entropy` too.
    pub(crate) fn mix(&mut self, entropy: [u8; 32]) {
        let mut seed = [0; 32];
        self.random.fill_bytes(&mut seed);
        for (byte, fresh) in seed.iter_mut().zip(entropy) {
            *byte ^= fresh;
        }
        self.random = ChaCha8Rng::from_seed(seed);
        self.renew_prefix();
    }

    fn renew_prefix(&mut self) {
        self.prefix = self.text(PREFIX_LENGTH);
        self.stem_of = 0;
    }

    /// A token of 130 random bits.
    pub(crate) fn token(&mut self) -> String {
        self.text(26)
    }

    pub(crate) fn random_u64(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn text(&mut self, length: usize) -> String {
        (0..length)
            .map(|_| char::from(ALPHABET[(self.random.next_u32() & 31) as usize]))
            .collect()
    }

    /// The next sequence number and the message id that carries it: `<70 random bits>-<number in hex>`.
    pub(crate) fn next(&mut self) -> (u64, MessageId) {
        self.last_seq += 1;
        let seq = self.last_seq;
        if seq < 256 {
            return (seq, MessageId::from(&*format!("{}-{seq:x}", self.prefix)));
        }
        // An id is made for every message: only one in 256 is formatted.
        if self.stem_of != seq >> 8 {
            self.stem_of = seq >> 8;
            let stem = format!("{}-{:x}", self.prefix, self.stem_of);
            self.stem = InlineId::from(&stem).expect("it has 14 + 1 + 14 bytes at most");
        }
        let mut id = self.stem;
        id.push_str(&PAIRS[(seq & 255) as usize * 2..][..2]);
        (seq, MessageId::from(id))
    }

    /// The next sequence number, for what needs no id.
    pub(crate) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }
}

/// The sequence number in an id of our own making. A foreign id may happen to read as one: whoever looks the number
/// up compares the whole id.
pub(crate) fn seq_of(id: &str) -> Option<u64> {
    parts_of(id.as_bytes()).map(|(_, seq)| seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn b20_ids_are_distinct_with_a_frozen_clock_after_a_restart_and_in_a_copy() {
        let mut seen = HashSet::new();
        let mut original = Identity::new([1; 32]);
        let mut restarted = Identity::new([2; 32]);
        let mut copy = Identity::new([1; 32]);
        copy.mix([3; 32]);
        for identity in [&mut original, &mut restarted, &mut copy] {
            for _ in 0..4_000 {
                assert!(seen.insert(identity.next().1));
            }
        }
    }

    #[test]
    fn an_id_carries_its_sequence_number() {
        let mut identity = Identity::new([7; 32]);
        for expected in 1..70_000 {
            let (seq, id) = identity.next();
            assert_eq!((seq, seq_of(id.as_str())), (expected, Some(expected)));
        }
        assert_eq!(seq_of("81d40e16-fc86-48ab-a7e4-55f96d1686ef"), None);
        assert_eq!(seq_of("short"), None);
        assert_eq!(seq_of("0123456789abcd-fffffffffffffffff"), None);
        assert_eq!(seq_of("0123456789abcdé"), None);
    }
}
