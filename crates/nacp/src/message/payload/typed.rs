//! Typed arrays (RFC 8746): numbers packed into a byte string, with a tag that says how.
//!
//! What this module keeps true: the tag's bits are taken apart here and nowhere else.

use super::super::cbor::half;

/// An element of a typed array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Element {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// Whether that tag means a typed array.
pub(super) fn is_typed(tag: u64) -> bool {
    (64..=87).contains(&tag)
}

/// Whether the elements are single bytes without sign, so that a typed array is as good as a byte string.
pub(super) fn is_bytes(tag: u8) -> bool {
    matches!(tag, 64 | 68)
}

/// The size of an element; `None` for the reserved tag and for float128.
pub(super) fn element_size(tag: u8) -> Option<usize> {
    match tag {
        76 | 83 | 87 => None,
        _ if is_float(tag) => Some(2 << (tag & 3)),
        _ => Some(1 << (tag & 3)),
    }
}

// The tag is 0b010_f_s_e_ll: float, signed, little-endian, size.

fn is_float(tag: u8) -> bool {
    tag & 0b1_0000 != 0
}

/// Reads one element of the size that [`element_size`] says.
pub(super) fn element(tag: u8, bytes: &[u8]) -> Element {
    let mut wide = [0; 8];
    let is_little = tag & 0b100 != 0;
    for (at, &byte) in bytes.iter().enumerate().take(8) {
        wide[if is_little { bytes.len() - 1 - at } else { at }] = byte;
    }
    // The element now stands big-endian in the upper bytes.
    let unused_bits = 64 - 8 * u32::try_from(bytes.len().clamp(1, 8)).unwrap_or(8);
    let upper = u64::from_be_bytes(wide);
    let bits = upper >> unused_bits;
    #[allow(clippy::cast_possible_truncation)] // the size says how many bits there are
    match (is_float(tag), tag & 0b1000 != 0) {
        (true, _) => Element::Float(match bytes.len() {
            2 => half(bits as u16),
            4 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        }),
        (false, true) => Element::Signed(upper.cast_signed() >> unused_bits),
        (false, false) => Element::Unsigned(bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_element_is_read_in_both_byte_orders() {
        assert_eq!(element(64, &[0xff]), Element::Unsigned(255));
        assert_eq!(element(72, &[0xff]), Element::Signed(-1));
        assert_eq!(element(65, &[1, 2]), Element::Unsigned(0x0102));
        assert_eq!(element(69, &[1, 2]), Element::Unsigned(0x0201));
        assert_eq!(element(78, &(-7_i32).to_le_bytes()), Element::Signed(-7));
        assert_eq!(
            element(75, &i64::MIN.to_be_bytes()),
            Element::Signed(i64::MIN)
        );
        assert_eq!(
            element(71, &u64::MAX.to_le_bytes()),
            Element::Unsigned(u64::MAX)
        );
        assert_eq!(element(80, &[0x3e, 0x00]), Element::Float(1.5));
        assert_eq!(element(85, &1.5_f32.to_le_bytes()), Element::Float(1.5));
        assert_eq!(element(82, &2.5_f64.to_be_bytes()), Element::Float(2.5));
        let sizes: Vec<_> = [64, 65, 66, 67, 76, 80, 81, 82, 83, 87]
            .map(element_size)
            .into();
        assert_eq!(
            sizes,
            [
                Some(1),
                Some(2),
                Some(4),
                Some(8),
                None,
                Some(2),
                Some(4),
                Some(8),
                None,
                None
            ]
        );
    }
}
