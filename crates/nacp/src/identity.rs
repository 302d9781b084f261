//! Names that nobody else gives out: message ids, and the instance tokens of LINK-15. All randomness is handed in, so
//! the same seed gives the same run; fresh entropy is mixed in with every connection, so that a copy of a running
//! program (a fork, a restored snapshot) parts from its original as soon as it speaks to anybody.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use crate::message::MessageId;
use crate::message::ack::{PREFIX_LENGTH, parts_of};

/// Gives out ids and tokens.
#[derive(Debug)]
pub(crate) struct Identity {
    random: ChaCha8Rng,
    prefix: [u8; PREFIX_LENGTH],
    last_seq: u64,
}

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

impl Identity {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let mut identity = Self {
            random: ChaCha8Rng::from_seed(seed),
            prefix: [0; PREFIX_LENGTH],
            last_seq: 0,
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
        let prefix = self.text(PREFIX_LENGTH);
        self.prefix.copy_from_slice(prefix.as_bytes());
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
        // By hand: an id is made for every message, and formatting costs ten times as much.
        let digits = (67 - seq.leading_zeros() as usize) / 4;
        let mut bytes = [0; PREFIX_LENGTH + 1 + 16];
        bytes[..PREFIX_LENGTH].copy_from_slice(&self.prefix);
        bytes[PREFIX_LENGTH] = b'-';
        let mut rest = seq;
        for place in bytes[PREFIX_LENGTH + 1..][..digits].iter_mut().rev() {
            *place = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        (
            seq,
            MessageId::from_ascii(&bytes[..PREFIX_LENGTH + 1 + digits]),
        )
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
        for expected in 1..100 {
            let (seq, id) = identity.next();
            assert_eq!((seq, seq_of(id.as_str())), (expected, Some(expected)));
        }
        assert_eq!(seq_of("81d40e16-fc86-48ab-a7e4-55f96d1686ef"), None);
        assert_eq!(seq_of("short"), None);
        assert_eq!(seq_of("0123456789abcd-fffffffffffffffff"), None);
        assert_eq!(seq_of("0123456789abcdé"), None);
    }
}
