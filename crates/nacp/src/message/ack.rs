//! Acks that name many messages (feature `batched-acks`), which rest on the form of our own ids: a prefix that all ids of
//! one epoch share, and a number in hex. What this module keeps true: two different ids never have the same prefix and
//! number, and what a batch names is exactly what was put into it.

use super::{MessageId, Meta};

/// Characters before the `-` of an id of our own.
pub(crate) const PREFIX_LENGTH: usize = 14;

/// The part of an id of our kind that all ids of one prefix share, and its number.
pub(crate) fn parts_of(id: &[u8]) -> Option<(&[u8], u64)> {
    let (prefix, digits) = id.split_at_checked(PREFIX_LENGTH + 1)?;
    // A leading zero would make two ids of one number.
    let plain =
        prefix[PREFIX_LENGTH] == b'-' && matches!(digits.first(), Some(b'1'..=b'9' | b'a'..=b'f'));
    if !plain || digits.len() > 16 {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |seq, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(seq << 4 | u64::from(digit))
    })?;
    Some((prefix, number))
}

/// One ack for several messages of one sender (feature `batched-acks`).
#[derive(Debug)]
pub(crate) struct AckBatch {
    pub(crate) first: MessageId,
    last: u64,
    /// The further ones, as on the wire.
    pub(crate) also: Vec<u8>,
    pub(crate) count: usize,
}

/// Messages that one ack names at most.
const BATCH_MAX: usize = 1_024;

impl AckBatch {
    pub(crate) fn new(first: &str) -> Option<Self> {
        let (_, last) = parts_of(first.as_bytes())?;
        let first = MessageId::from(first);
        Some(Self {
            first,
            last,
            also: Vec::new(),
            count: 1,
        })
    }

    /// Takes `id` in if it differs from the others only by a larger number.
    pub(crate) fn push(&mut self, id: &str) -> bool {
        let Some((prefix, number)) = parts_of(id.as_bytes()) else {
            return false;
        };
        if number <= self.last
            || self.count >= BATCH_MAX
            || !self.first.as_bytes().starts_with(prefix)
        {
            return false;
        }
        let mut delta = number - self.last;
        while delta >= 0x80 {
            self.also.push(delta as u8 | 0x80);
            delta >>= 7;
        }
        self.also.push(delta as u8);
        self.last = number;
        self.count += 1;
        true
    }
}

/// The numbers that `also` names after `first`; ends where it is not well-formed.
pub(crate) fn further_numbers(first: u64, also: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut bytes = also.iter();
    let mut last = first;
    std::iter::from_fn(move || {
        let mut delta = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *bytes.next()?;
            delta |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                last = last.checked_add(delta)?;
                return Some(last);
            }
        }
        None
    })
}

impl Meta<'_> {
    /// The ids that this message acknowledges; none if it is no ack.
    ///
    /// ```
    /// use nacp::message::Meta;
    /// let meta = Meta::Ack { parent_id: "r1".into(), taken: None };
    /// assert_eq!(meta.acknowledged(), ["r1".into()]);
    /// ```
    pub fn acknowledged(&self) -> Vec<MessageId> {
        match self {
            Meta::Ack {
                parent_id,
                taken: None,
            } => vec![MessageId::from(&**parent_id)],
            Meta::AckMany { parent_id, also } => {
                let mut ids = vec![MessageId::from(&**parent_id)];
                if let Some((prefix, first)) = parts_of(parent_id.as_bytes()) {
                    let prefix = &parent_id[..prefix.len()];
                    let further = further_numbers(first, also);
                    ids.extend(
                        further.map(|number| MessageId::from(&*format!("{prefix}{number:x}"))),
                    );
                }
                ids
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_batch_names_exactly_what_was_put_into_it(
            first in 1..u64::MAX / 2, deltas in prop::collection::vec(1..u64::from(u32::MAX), 0..50),
        ) {
            let id = |number: u64| format!("0123456789abcd-{number:x}");
            let mut batch = AckBatch::new(&id(first)).unwrap();
            let mut numbers = vec![first];
            for delta in deltas {
                let number = numbers.last().unwrap() + delta;
                prop_assert!(batch.push(&id(number)));
                numbers.push(number);
            }
            prop_assert_eq!(batch.count, numbers.len());
            let meta = Meta::AckMany { parent_id: id(first).into(), also: batch.also.into() };
            let expected: Vec<_> = numbers.into_iter().map(|number| MessageId::from(&*id(number))).collect();
            prop_assert_eq!(meta.acknowledged(), expected);
        }

        #[test]
        fn whatever_a_batch_claims_is_read_without_harm(also in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(further_numbers(1, &also).count() <= also.len());
        }
    }

    #[test]
    fn only_ids_of_one_prefix_with_rising_numbers_share_a_batch() {
        let mut batch = AckBatch::new("0123456789abcd-a").unwrap();
        assert!(!batch.push("0123456789abcd-a") && !batch.push("0123456789abcd-9"));
        assert!(!batch.push("0123456789abce-b") && !batch.push("dd481314-eaca-4bb1"));
        assert!(batch.push("0123456789abcd-b"));
        assert!(AckBatch::new("81d40e16-fc86-48ab-a7e4-55f96d1686ef").is_none());
        assert!(
            AckBatch::new("0123456789abcd-0a").is_none(),
            "one number has one form"
        );
    }
}
