//! A shortcut for messages in exactly the layout that our own [`encode`](super::encode()) writes, which is nearly all that
//! an App of ours ever sees. It knows no errors: whatever looks different is left to the general decoder, so it neither
//! accepts nor refuses anything by itself. Tests hold the two against each other.

use std::borrow::Cow;

use super::cbor::{SAFE_MAX, check};
use super::decode_error::ID_LENGTH_MAX;
use super::{AppId, Envelope, Meta, RequestKind, SignalKind, VERSION};

/// Decodes `bytes` if they have our own layout.
#[inline]
pub(super) fn decode_own(bytes: &[u8]) -> Option<Envelope<'_>> {
    let with_payload = match bytes.first()? {
        0xa7 => false,
        0xa8 => true,
        _ => return None,
    };
    let mut scan = Scan { left: &bytes[1..] };
    scan.expect(b"\x61v\xa2\x65major\x02\x65minor\x01\x64type")?;
    let name = scan.bytes()?;
    let (id, from, to) = scan.names()?;
    scan.expect(b"\x61t\xfb")?;
    let t_ms = scan.whole_float()?;
    scan.expect(b"\x64meta")?;
    let meta = scan.meta(name)?;
    let payload = if with_payload {
        scan.expect(b"\x67payload")?;
        // Null and undefined are no payload: seldom, so not here.
        if matches!(scan.left.first()?, 0xf6 | 0xf7) {
            return None;
        }
        check(scan.left).ok()?;
        Some(bytes.len() - scan.left.len()..bytes.len())
    } else {
        scan.left.is_empty().then_some(None)?
    };
    Some(Envelope {
        version: VERSION,
        id,
        from,
        to,
        t_ms,
        meta,
        payload,
    })
}

struct Scan<'a> {
    left: &'a [u8],
}

impl<'a> Scan<'a> {
    #[inline(always)]
    fn expect<const N: usize>(&mut self, wanted: &[u8; N]) -> Option<()> {
        let (got, left) = self.left.split_first_chunk::<N>()?;
        (got == wanted).then(|| self.left = left)
    }

    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, left) = self.left.split_first()?;
        self.left = left;
        Some(byte)
    }

    #[inline(always)]
    fn bytes(&mut self) -> Option<&'a [u8]> {
        self.string(0x60)
    }

    /// The bytes of a text (0x60) or byte string (0x40) of up to 64 KiB.
    #[inline(always)]
    fn string(&mut self, major: u8) -> Option<&'a [u8]> {
        let length = match self.byte()?.checked_sub(major)? {
            length @ 0..=0x17 => usize::from(length),
            0x18 => usize::from(self.byte()?),
            0x19 => usize::from(self.byte()?) << 8 | usize::from(self.byte()?),
            _ => return None,
        };
        let (bytes, left) = self.left.split_at_checked(length)?;
        self.left = left;
        Some(bytes)
    }

    /// `id`, `from` and `to`. What is text is checked in one go, which is cheaper than three times a little: the keys and
    /// lengths between them are ASCII too, unless a name is long.
    #[inline(always)]
    fn names(&mut self) -> Option<(Cow<'a, str>, Cow<'a, str>, Cow<'a, str>)> {
        let start = self.left;
        let at = |scan: &Self| start.len() - scan.left.len();
        self.expect(b"\x62id")?;
        let id = self.bytes()?;
        let id_end = at(self);
        self.expect(b"\x64from")?;
        let from = self.bytes()?;
        let from_end = at(self);
        self.expect(b"\x62to")?;
        let to = self.bytes()?;
        let to_end = at(self);
        let fits = (1..=ID_LENGTH_MAX).contains(&id.len())
            && (1..=AppId::LENGTH_MAX).contains(&from.len())
            && (1..=AppId::LENGTH_MAX).contains(&to.len());
        if !fits {
            return None;
        }
        if let Ok(all) = std::str::from_utf8(&start[..to_end]) {
            let part = |end: usize, length: usize| all.get(end - length..end).map(Cow::Borrowed);
            return Some((
                part(id_end, id.len())?,
                part(from_end, from.len())?,
                part(to_end, to.len())?,
            ));
        }
        let text = |bytes| std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
        Some((text(id)?, text(from)?, text(to)?))
    }

    #[inline(always)]
    fn text(&mut self) -> Option<Cow<'a, str>> {
        std::str::from_utf8(self.bytes()?).ok().map(Cow::Borrowed)
    }

    #[inline(always)]
    fn id(&mut self, length_max: usize) -> Option<Cow<'a, str>> {
        self.text()
            .filter(|id| (1..=length_max).contains(&id.len()))
    }

    /// The rest of a float64 that is a whole number which a float holds exactly.
    #[inline(always)]
    fn whole_float(&mut self) -> Option<u64> {
        let (bits, left) = self.left.split_first_chunk::<8>()?;
        self.left = left;
        let value = f64::from_bits(u64::from_be_bytes(*bits));
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        ((0.0..=SAFE_MAX as f64).contains(&value) && value.fract() == 0.0).then_some(value as u64)
    }

    #[inline(always)]
    fn request_kind(&mut self) -> Option<RequestKind> {
        match self.bytes()? {
            b"ability" => Some(RequestKind::Ability),
            b"event" => Some(RequestKind::Event),
            _ => None,
        }
    }

    #[inline(always)]
    fn parent_id(&mut self) -> Option<Cow<'a, str>> {
        self.expect(b"\x68parentId")?;
        self.id(ID_LENGTH_MAX)
    }

    #[inline(always)]
    fn meta(&mut self, name: &[u8]) -> Option<Meta<'a>> {
        let entries = self.byte()?.checked_sub(0xa0)?;
        Some(match (name, entries) {
            (b"ack", 1) => Meta::Ack {
                parent_id: self.parent_id()?,
                taken: None,
            },
            (b"ack", 2) => {
                let parent_id = self.parent_id()?;
                self.expect(b"\x64also")?;
                let also = Cow::Borrowed(self.string(0x40)?);
                Meta::AckMany { parent_id, also }
            }
            (b"request", 2) => {
                self.expect(b"\x64kind")?;
                let kind = self.request_kind()?;
                self.expect(b"\x66target")?;
                Meta::Request {
                    kind,
                    target: Some(self.text()?),
                }
            }
            (b"response", 3) => self.response()?,
            (b"notify", 3 | 4) => self.notify(entries == 4)?,
            (b"signal", 2) => {
                let parent_id = self.parent_id()?;
                self.expect(b"\x64kind")?;
                let kind = match self.bytes()? {
                    b"normal" => SignalKind::Normal,
                    b"pause" => SignalKind::Pause,
                    b"resume" => SignalKind::Resume,
                    b"abort" => SignalKind::Abort,
                    _ => return None,
                };
                Meta::Signal { parent_id, kind }
            }
            // Seldom, or in more than one form: the general decoder.
            _ => return None,
        })
    }

    /// The answer that went well to a request, which is nearly every answer.
    #[inline(always)]
    fn response(&mut self) -> Option<Meta<'a>> {
        let parent_id = self.parent_id()?;
        self.expect(b"\x64isOk\xf5\x64kind")?;
        let kind = Some(self.request_kind()?);
        Some(Meta::Response {
            parent_id,
            is_ok: true,
            why_not_ok: None,
            kind,
        })
    }

    #[inline(always)]
    fn notify(&mut self, reliable: bool) -> Option<Meta<'a>> {
        let parent_id = self.parent_id()?;
        self.expect(b"\x6dtargetSubName")?;
        let target_sub_name = self.text()?;
        self.expect(b"\x6ahitSubName")?;
        let hit_sub_name = self.text()?;
        if reliable {
            self.expect(b"\x68reliable\xf5")?;
        }
        Some(Meta::Notify {
            parent_id,
            target_sub_name,
            hit_sub_name,
            reliable,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode_any;
    use super::super::{Head, Payload, encode};
    use super::*;
    use proptest::prelude::*;

    fn meta() -> impl Strategy<Value = Meta<'static>> {
        let id = || "[a-zé0-9-]{1,40}".prop_map(Cow::Owned);
        let name = || "[a-z:*]{0,80}".prop_map(Cow::Owned);
        let kind = || prop_oneof![Just(RequestKind::Event), Just(RequestKind::Ability)];
        let signal = prop_oneof![
            Just(SignalKind::Normal),
            Just(SignalKind::Pause),
            Just(SignalKind::Abort)
        ];
        prop_oneof![
            id().prop_map(|parent_id| Meta::Ack {
                parent_id,
                taken: None
            }),
            (id(), prop::collection::vec(any::<u8>(), 1..300)).prop_map(|(parent_id, also)| {
                Meta::AckMany {
                    parent_id,
                    also: Cow::Owned(also),
                }
            }),
            (kind(), name()).prop_map(|(kind, target)| Meta::Request {
                kind,
                target: Some(target)
            }),
            (id(), kind()).prop_map(|(parent_id, kind)| Meta::Response {
                parent_id,
                is_ok: true,
                why_not_ok: None,
                kind: Some(kind)
            }),
            (id(), name(), name(), any::<bool>()).prop_map(
                |(parent_id, target_sub_name, hit_sub_name, reliable)| Meta::Notify {
                    parent_id,
                    target_sub_name,
                    hit_sub_name,
                    reliable
                }
            ),
            (id(), signal).prop_map(|(parent_id, kind)| Meta::Signal { parent_id, kind }),
        ]
    }

    proptest! {
        #[test]
        fn what_our_encoder_writes_takes_the_shortcut_and_means_the_same(
            id in "[a-z0-9-]{1,300}", from in "[a-zä]{1,90}", to in "[a-z]{1,90}",
            t_ms in 0..SAFE_MAX, meta in meta(), text in "[a-z]{0,400}",
        ) {
            let payload = Payload::encode(&text).unwrap();
            let head = Head { id: &id, from: &from, to: &to, t_ms, meta };
            let bytes = encode(&head, Some(&payload)).to_bytes();
            let own = decode_own(&bytes);
            prop_assert!(own.is_some(), "encoder and shortcut have parted");
            prop_assert_eq!(own, decode_any(&bytes).ok());
        }

        #[test]
        fn whatever_takes_the_shortcut_the_general_decoder_takes_too(
            meta in meta(), at in 0..200_usize, byte in any::<u8>(), cut in 0..200_usize,
        ) {
            let head = Head { id: "id-1", from: "from", to: "to", t_ms: 1_796_092_529_444, meta };
            let mut bytes = encode(&head, Some(&Payload::encode(&[1, 2]).unwrap())).to_bytes().to_vec();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(bytes.len().saturating_sub(cut / 4));
            if let Some(own) = decode_own(&bytes) {
                prop_assert_eq!(Ok(own), decode_any(&bytes));
            }
        }
    }
}
