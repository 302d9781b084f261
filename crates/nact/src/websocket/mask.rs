//! The masking of RFC 6455, section 5.3: what a client sends is XORed with a key that a page's script cannot foresee.

use std::io;

/// Masks or unmasks in place. `phase`: how many bytes of the frame came before these.
pub(super) fn apply(bytes: &mut [u8], key: [u8; 4], phase: usize) {
    let mut key = key;
    key.rotate_left(phase % 4);
    let wide = u64::from_ne_bytes([
        key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3],
    ]);
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        let mut value = [0; 8];
        value.copy_from_slice(word);
        word.copy_from_slice(&(u64::from_ne_bytes(value) ^ wide).to_ne_bytes());
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// Masking keys, fetched from the operating system some at a time.
#[derive(Default)]
pub(super) struct Keys {
    stock: Vec<[u8; 4]>,
}

impl Keys {
    const STOCK: usize = 64;

    /// # Errors
    /// The system has no randomness to give.
    pub(super) fn next(&mut self) -> io::Result<[u8; 4]> {
        if let Some(key) = self.stock.pop() {
            return Ok(key);
        }
        let mut bytes = [0; 4 * Self::STOCK];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let keys = bytes.chunks_exact(4);
        self.stock
            .extend(keys.map(|key| [key[0], key[1], key[2], key[3]]));
        Ok(self.stock.pop().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_of_a_payload_is_masked_the_same() {
        let key = [1, 2, 4, 8];
        let plain: Vec<u8> = (0..50).collect();
        let masked: Vec<u8> = (0..50u8).map(|at| at ^ key[usize::from(at) % 4]).collect();
        for cut in 0..=50 {
            let mut bytes = plain.clone();
            let (left, right) = bytes.split_at_mut(cut);
            apply(left, key, 0);
            apply(right, key, cut);
            assert_eq!(bytes, masked);
        }
    }

    #[test]
    fn keys_differ() {
        let mut keys = Keys::default();
        let mut seen: Vec<_> = (0..200).map(|_| keys.next().unwrap()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 190);
    }
}
