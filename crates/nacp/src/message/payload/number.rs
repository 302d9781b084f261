//! Integers of any size.
//!
//! What this module keeps true: a [`BigInt`] stays one. JavaScript tells a BigInt from a number, so what came as a
//! 64-bit integer or a bignum goes out as one, however small it is.

use std::fmt;

use super::super::cbor::{Sink, put_head, put_signed, put_unsigned};

/// An integer of any size: a JavaScript BigInt.
///
/// ```
/// use nacp::message::payload::BigInt;
/// let big = BigInt::from(2_u128.pow(70));
/// assert_eq!(big.to_u128(), Some(2_u128.pow(70)));
/// assert_eq!(BigInt::from(-5_i128).to_string(), "-5");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BigInt {
    negative: bool,
    /// n, big-endian, without leading zeros: the value is n, or −1 − n when negative.
    argument: Vec<u8>,
}

impl BigInt {
    pub(super) fn from_argument(negative: bool, bytes: &[u8]) -> Self {
        Self {
            negative,
            argument: significant(bytes).to_vec(),
        }
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The value, unless it is negative or takes more than 128 bits.
    pub fn to_u128(&self) -> Option<u128> {
        argument(&self.argument).filter(|_| !self.negative)
    }

    /// The value, unless it takes more than 128 bits.
    pub fn to_i128(&self) -> Option<i128> {
        let n = i128::try_from(argument(&self.argument)?).ok()?;
        Some(if self.negative { -1 - n } else { n })
    }

    /// Whether it takes a tag on the wire.
    pub(super) fn is_bignum(&self) -> bool {
        self.argument.len() > 8
    }

    pub(super) fn put(&self, sink: &mut impl Sink) {
        let major = u8::from(self.negative);
        match argument(&self.argument).map(u64::try_from) {
            Some(Ok(n)) => {
                // In 64 bits even if fewer would do: a shorter one is read as a number.
                sink.put(&[(major << 5) | 27]);
                sink.put(&n.to_be_bytes());
            }
            _ => put_bignum(sink, self.negative, &self.argument),
        }
    }
}

fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    &bytes[zeros..]
}

/// The number that big-endian bytes are, if it takes at most 128 bits.
pub(super) fn argument(bytes: &[u8]) -> Option<u128> {
    let bytes = significant(bytes);
    let mut wide = [0; 16];
    wide[16_usize.checked_sub(bytes.len())?..].copy_from_slice(bytes);
    Some(u128::from_be_bytes(wide))
}

fn put_bignum(sink: &mut impl Sink, negative: bool, argument: &[u8]) {
    put_head(sink, 6, 2 + u64::from(negative));
    put_head(sink, 2, argument.len() as u64);
    sink.put(argument);
}

pub(super) fn put_u128(sink: &mut impl Sink, n: u128) {
    match u64::try_from(n) {
        Ok(n) => put_unsigned(sink, n),
        Err(_) => put_bignum(sink, false, significant(&n.to_be_bytes())),
    }
}

pub(super) fn put_i128(sink: &mut impl Sink, n: i128) {
    let argument = if n < 0 {
        (-1 - n).cast_unsigned()
    } else {
        return put_u128(sink, n.cast_unsigned());
    };
    match (i64::try_from(n), u64::try_from(argument)) {
        (Ok(n), _) => put_signed(sink, n),
        (_, Ok(argument)) => put_head(sink, 1, argument),
        _ => put_bignum(sink, true, significant(&argument.to_be_bytes())),
    }
}

impl From<u128> for BigInt {
    fn from(n: u128) -> Self {
        Self::from_argument(false, &n.to_be_bytes())
    }
}

impl From<i128> for BigInt {
    fn from(n: i128) -> Self {
        let argument = if n < 0 { -1 - n } else { n };
        Self::from_argument(n < 0, &argument.to_be_bytes())
    }
}

/// Decimal up to 128 bits; beyond, hexadecimal (whose cost is linear), as the CBOR argument that it is.
impl fmt::Display for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(n) = self.to_i128() {
            return write!(f, "{n}");
        }
        if let Some(n) = self.to_u128() {
            return write!(f, "{n}");
        }
        f.write_str(if self.negative { "-1-0x" } else { "0x" })?;
        self.argument
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
