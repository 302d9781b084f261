//! The payload by which the judge knows a message again: a byte string that begins with the message's number.

use nacp::Payload;

/// The largest padding.
const PAD_MAX: usize = 8_192;

/// A payload for the message `uid`, padded by `pad` bytes.
pub(crate) fn payload(uid: u32, script: u64, pad: usize) -> Payload {
    let mut content = [0; 16 + PAD_MAX];
    content[..8].copy_from_slice(&u64::from(uid).to_le_bytes());
    content[8..16].copy_from_slice(&script.to_le_bytes());
    Payload::bytes(&content[..16 + pad.min(PAD_MAX)])
}

/// The number and the script; `None` when it is no payload of ours.
pub(crate) fn read(payload: &[u8]) -> Option<(u32, u64)> {
    let head = match payload.first()? {
        0x50..=0x57 => 1,
        0x58 => 2,
        0x59 => 3,
        0x5a => 5,
        _ => return None,
    };
    let number = |at: usize| {
        let bytes = payload.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    Some((u32::try_from(number(head)?).ok()?, number(head + 8)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_back_at_any_size() {
        for pad in [0, 7, 8, 300, 8_192] {
            assert_eq!(read(payload(77, 9, pad).as_bytes()), Some((77, 9)));
        }
        assert_eq!(read(Payload::default().as_bytes()), None);
    }
}
