//! Integers of any size, from text.
//!
//! What this module keeps true: whatever `BigInt`'s `Display` writes is read as the same number; the cost of a long
//! decimal is bounded.

use nacp::message::payload::BigInt;
use nacp::{Payload, Value};

/// Turning decimal into binary takes time with the square of this; longer ones can be written in hexadecimal.
const DECIMAL_DIGITS_MAX: usize = 10_000;

/// Reads `-12`, `0x1f`, and `-1-0x1f` (which is how a very large negative is written).
pub(super) fn parse(text: &str) -> Option<BigInt> {
    if let Some(digits) = text.strip_prefix("-1-0x") {
        return from_argument(true, &hexadecimal(digits)?);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return from_argument(false, &hexadecimal(digits)?);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if let Ok(n) = text.parse::<i128>() {
        return Some(n.into());
    }
    let mut magnitude = decimal(digits)?;
    let is_negative = digits.len() < text.len();
    if is_negative {
        decrement(&mut magnitude); // the argument of a negative n is −1 − n
    }
    from_argument(is_negative, &magnitude)
}

/// Bytes, big-endian.
fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let padded = format!("{}{digits}", if digits.len() % 2 == 1 { "0" } else { "" });
    padded
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Bytes, big-endian.
fn decimal(digits: &str) -> Option<Vec<u8>> {
    if digits.len() > DECIMAL_DIGITS_MAX {
        return None;
    }
    let mut little_endian: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in &mut little_endian {
            let n = u16::from(*byte) * 10 + carry;
            *byte = (n & 0xff) as u8;
            carry = n >> 8;
        }
        if carry > 0 {
            little_endian.push((carry & 0xff) as u8);
        }
    }
    little_endian.reverse();
    Some(little_endian)
}

/// Of a number above zero.
fn decrement(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().rev() {
        let (less, borrows) = byte.overflowing_sub(1);
        *byte = less;
        if !borrows {
            return;
        }
    }
}

/// The only public way to a `BigInt` of more than 128 bits leads over its CBOR: tag 2 or 3 around a byte string.
fn from_argument(is_negative: bool, bytes: &[u8]) -> Option<BigInt> {
    let mut item = vec![if is_negative { 0xc3 } else { 0xc2 }];
    item.extend_from_slice(Payload::bytes(bytes).as_bytes());
    match Value::decode(&item) {
        Ok(Value::BigInt(n)) => Some(n),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_hexadecimal_and_negative_texts_are_the_same_numbers() {
        let same = |a: &str, b: &str| assert_eq!(parse(a).unwrap(), parse(b).unwrap(), "{a}");
        same("255", "0xff");
        same("-256", "-1-0xff");
        same(
            "340282366920938463463374607431768211456",
            "0x100000000000000000000000000000000",
        );
        same(
            "-340282366920938463463374607431768211456",
            "-1-0xffffffffffffffffffffffffffffffff",
        );
        same("0", "0x0");
        for odd in [
            "", "-", "0x", "-1-0x", "1.5", "x", "1e3", "--1", "0xg", "+-1",
        ] {
            assert!(parse(odd).is_none(), "{odd}");
        }
        assert!(parse(&"9".repeat(DECIMAL_DIGITS_MAX + 1)).is_none());
    }
}
