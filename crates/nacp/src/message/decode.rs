//! Bytes → message: the code that meets hostile bytes first.
//!
//! What this module keeps true: one pass over the envelope without recursion, and without allocation unless a text
//! came in chunks; the payload is checked to be well-formed and not too deep, but not looked at. Any well-formed CBOR
//! that says the right things is accepted, whatever the length of its heads; what is refused has a [`DecodeError`].

use std::borrow::Cow;
use std::num::NonZeroUsize;

use bytes::Bytes;

use super::cbor::{Item, Malformed, Reader};
use super::decode_error::{DecodeError, ID_LENGTH_MAX};
use super::own_layout::decode_own;
use super::{AppId, Envelope, MessageType, Meta, Payload, RequestKind, SignalKind, Version};

/// Decodes the envelope of a message, and checks its payload to be well-formed.
///
/// ```
/// use nacp::message::{Head, Meta, Payload, decode, encode};
/// let head = Head { id: "1", from: "hello", to: "world", t_ms: 0, meta: Meta::Unregister };
/// let bytes = encode(&head, None).to_bytes();
/// let envelope = decode(&bytes).unwrap();
/// assert_eq!((&*envelope.id, &*envelope.from), ("1", "hello"));
/// assert_eq!(envelope.payload_of(&bytes), Payload::default());
/// ```
///
/// # Errors
/// A [`DecodeError`] for everything that is not a message; memory stays within a small multiple of the input.
pub fn decode(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    decode_own(bytes).map_or_else(|| decode_any(bytes), Ok)
}

/// As [`decode()`], for any layout.
pub(super) fn decode_any(bytes: &[u8]) -> Result<Envelope<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut values = [None; 8];
    let mut version = [None; 2];
    let mut meta = [None; 10];
    let mut payload_end = 0;
    let is_map = entries(&mut reader, |reader, key| {
        let Some(index) = envelope_key(key) else {
            return Ok(reader.skip()?);
        };
        place(&mut values, index, reader, &ENVELOPE_KEYS)?;
        match index {
            V => collect(reader, "v", &mut version, &VERSION_KEYS, version_key),
            META => collect(reader, "meta", &mut meta, &META_KEYS, meta_key),
            PAYLOAD => {
                reader.skip()?;
                payload_end = reader.offset();
                Ok(())
            }
            _ => Ok(reader.skip()?),
        }
    })?;
    if !is_map {
        return Err(DecodeError::NotAMap { offset: 0 });
    }
    reader.finish()?;

    let envelope = Found {
        reader,
        values: &values,
        keys: &ENVELOPE_KEYS,
    };
    let found_version = Found {
        reader,
        values: &version,
        keys: &VERSION_KEYS,
    };
    envelope.required(V)?;
    let message_type = envelope.message_type()?;
    let version = Version {
        major: found_version.integer(0)?,
        minor: found_version.integer(1)?,
    };
    let id = envelope.id(ID)?;
    let from = envelope.app_id(FROM)?;
    let to = envelope.app_id(TO)?;
    envelope.required(META)?;
    let meta = Found {
        reader,
        values: &meta,
        keys: &META_KEYS,
    }
    .meta(message_type)?;
    let payload = envelope.optional(PAYLOAD).map(|start| start..payload_end);
    Ok(Envelope {
        version,
        id,
        from,
        to,
        t_ms: envelope.t_ms()?,
        meta,
        payload,
    })
}

impl Envelope<'_> {
    /// The payload, sliced without a copy from `bytes`, which must be those that this envelope was decoded from.
    ///
    /// # Panics
    /// When `bytes` are shorter than those.
    pub fn payload_of(&self, bytes: &Bytes) -> Payload {
        match &self.payload {
            Some(range) => Payload::from_checked(bytes.slice(range.clone())),
            None => Payload::default(),
        }
    }
}

const V: usize = 0;
const TYPE: usize = 1;
const ID: usize = 2;
const FROM: usize = 3;
const TO: usize = 4;
const T: usize = 5;
const META: usize = 6;
const PAYLOAD: usize = 7;
static ENVELOPE_KEYS: [&str; 8] = ["v", "type", "id", "from", "to", "t", "meta", "payload"];

#[inline]
fn envelope_key(key: &[u8]) -> Option<usize> {
    Some(match key {
        b"v" => V,
        b"type" => TYPE,
        b"id" => ID,
        b"from" => FROM,
        b"to" => TO,
        b"t" => T,
        b"meta" => META,
        b"payload" => PAYLOAD,
        _ => return None,
    })
}

static VERSION_KEYS: [&str; 2] = ["v.major", "v.minor"];

#[inline]
fn version_key(key: &[u8]) -> Option<usize> {
    match key {
        b"major" => Some(0),
        b"minor" => Some(1),
        _ => None,
    }
}

const PARENT_ID: usize = 0;
const KIND: usize = 1;
const TARGET: usize = 2;
const IS_OK: usize = 3;
const WHY_NOT_OK: usize = 4;
const TARGET_SUB_NAME: usize = 5;
const HIT_SUB_NAME: usize = 6;
const RELIABLE: usize = 7;
const TAKEN: usize = 8;
const ALSO: usize = 9;
static META_KEYS: [&str; 10] = [
    "meta.parentId",
    "meta.kind",
    "meta.target",
    "meta.isOk",
    "meta.whyNotOk",
    "meta.targetSubName",
    "meta.hitSubName",
    "meta.reliable",
    "meta.taken",
    "meta.also",
];

#[inline]
fn meta_key(key: &[u8]) -> Option<usize> {
    Some(match key {
        b"parentId" => PARENT_ID,
        b"kind" => KIND,
        b"target" => TARGET,
        b"isOk" => IS_OK,
        b"whyNotOk" => WHY_NOT_OK,
        b"targetSubName" => TARGET_SUB_NAME,
        b"hitSubName" => HIT_SUB_NAME,
        b"reliable" => RELIABLE,
        b"taken" => TAKEN,
        b"also" => ALSO,
        _ => return None,
    })
}

/// Walks the map that comes next; `entry` is called with each text key and must pass its value. Pairs with other
/// keys are passed. `false`: not a map.
#[inline]
fn entries<'a>(
    reader: &mut Reader<'a>,
    mut entry: impl FnMut(&mut Reader<'a>, &[u8]) -> Result<(), DecodeError>,
) -> Result<bool, DecodeError> {
    let Some(mut left) = reader.map_header()? else {
        return Ok(false);
    };
    loop {
        match &mut left {
            Some(0) => return Ok(true),
            Some(count) => *count -= 1,
            None if reader.take_break() => return Ok(true),
            None => {}
        }
        let joined;
        let key = match reader.plain_text() {
            Some(key) => key,
            None => match odd_key(reader)? {
                Some(key) => {
                    joined = key;
                    &joined[..]
                }
                None => continue,
            },
        };
        entry(reader, key)?;
    }
}

/// A key that is not a definite text. If it is no text at all, its value is passed as well.
#[cold]
fn odd_key<'a>(reader: &mut Reader<'a>) -> Result<Option<Cow<'a, [u8]>>, Malformed> {
    let start = reader.offset();
    let item = reader.item()?;
    let key = reader.string(item, 3)?;
    if key.is_none() {
        *reader = reader.at(start);
        reader.skip()?;
        reader.skip()?;
    }
    Ok(key)
}

/// Where a value stands: never at 0, for a map's head and a key come before it.
type Place = Option<NonZeroUsize>;

/// Notes where the value of a known key stands.
#[inline]
fn place<const N: usize>(
    values: &mut [Place; N],
    index: usize,
    reader: &Reader<'_>,
    keys: &'static [&'static str; N],
) -> Result<(), DecodeError> {
    let offset = reader.offset();
    match std::mem::replace(&mut values[index], NonZeroUsize::new(offset)) {
        None => Ok(()),
        Some(_) => Err(DecodeError::DuplicateKey {
            key: keys[index],
            offset,
        }),
    }
}

/// Walks the map `name` and notes where the values of the known keys stand.
#[inline]
fn collect<const N: usize>(
    reader: &mut Reader<'_>,
    name: &'static str,
    values: &mut [Place; N],
    keys: &'static [&'static str; N],
    index_of: impl Fn(&[u8]) -> Option<usize>,
) -> Result<(), DecodeError> {
    let offset = reader.offset();
    let is_map = entries(reader, |reader, key| {
        if let Some(index) = index_of(key) {
            place(values, index, reader, keys)?;
        }
        Ok(reader.skip()?)
    })?;
    if is_map {
        Ok(())
    } else {
        Err(DecodeError::WrongType {
            key: name,
            expected: "a map",
            offset,
        })
    }
}

/// Where the values of a map's known keys stand, and how to read them. Every value was passed once, so it is
/// well-formed; whether it is what its key wants is found out here.
struct Found<'a, 'k> {
    reader: Reader<'a>,
    values: &'k [Place],
    keys: &'k [&'static str],
}

impl<'a> Found<'a, '_> {
    #[inline(always)]
    fn required(&self, index: usize) -> Result<usize, DecodeError> {
        match self.values[index] {
            Some(offset) => Ok(offset.get()),
            None => Err(DecodeError::MissingKey {
                key: self.keys[index],
            }),
        }
    }

    /// Where an optional value stands; null and undefined are as good as none.
    #[inline(always)]
    fn optional(&self, index: usize) -> Option<usize> {
        self.values[index]
            .map(NonZeroUsize::get)
            .filter(|&offset| !matches!(self.reader.at(offset).peek(), Some(0xf6 | 0xf7)))
    }

    #[cold]
    fn wrong(&self, index: usize, expected: &'static str, offset: usize) -> DecodeError {
        DecodeError::WrongType {
            key: self.keys[index],
            expected,
            offset,
        }
    }

    #[inline(always)]
    fn text_at(&self, index: usize, offset: usize) -> Result<Cow<'a, str>, DecodeError> {
        match self.reader.at(offset).plain_text().map(std::str::from_utf8) {
            Some(Ok(text)) => Ok(Cow::Borrowed(text)),
            _ => self.odd_text_at(index, offset),
        }
    }

    /// As [`text_at`](Self::text_at), for a text that is only compared: then its bytes do.
    #[inline(always)]
    fn name_at(&self, index: usize, offset: usize) -> Result<Cow<'a, [u8]>, DecodeError> {
        match self.reader.at(offset).plain_text() {
            Some(name) => Ok(Cow::Borrowed(name)),
            None => Ok(Cow::Owned(
                self.odd_text_at(index, offset)?.into_owned().into_bytes(),
            )),
        }
    }

    /// A text with tags or in chunks, or no text at all.
    #[cold]
    fn odd_text_at(&self, index: usize, offset: usize) -> Result<Cow<'a, str>, DecodeError> {
        let mut reader = self.reader.at(offset);
        let item = reader.untagged()?;
        let Some(bytes) = reader.string(item, 3)? else {
            return Err(self.wrong(index, "a text", offset));
        };
        let invalid = DecodeError::InvalidUtf8 {
            key: self.keys[index],
            offset,
        };
        match bytes {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
                .map(Cow::Borrowed)
                .map_err(|_| invalid),
            Cow::Owned(bytes) => String::from_utf8(bytes)
                .map(Cow::Owned)
                .map_err(|_| invalid),
        }
    }

    #[inline(always)]
    fn text(&self, index: usize) -> Result<Cow<'a, str>, DecodeError> {
        self.text_at(index, self.required(index)?)
    }

    #[inline(always)]
    fn optional_text(&self, index: usize) -> Result<Option<Cow<'a, str>>, DecodeError> {
        self.optional(index)
            .map(|offset| self.text_at(index, offset))
            .transpose()
    }

    #[inline(always)]
    fn id(&self, index: usize) -> Result<Cow<'a, str>, DecodeError> {
        let offset = self.required(index)?;
        let id = self.text_at(index, offset)?;
        match id.len() {
            1..=ID_LENGTH_MAX => Ok(id),
            length => Err(DecodeError::IdLength {
                key: self.keys[index],
                length,
                offset,
            }),
        }
    }

    #[inline(always)]
    fn app_id(&self, index: usize) -> Result<Cow<'a, str>, DecodeError> {
        let offset = self.required(index)?;
        let id = self.text_at(index, offset)?;
        match id.len() {
            1..=AppId::LENGTH_MAX => Ok(id),
            length => Err(DecodeError::AppIdLength {
                key: self.keys[index],
                length,
                offset,
            }),
        }
    }

    fn byte_string(&self, index: usize) -> Result<Cow<'a, [u8]>, DecodeError> {
        let offset = self.required(index)?;
        let mut reader = self.reader.at(offset);
        let item = reader.untagged()?;
        let bytes = reader.string(item, 2)?;
        bytes.ok_or_else(|| self.wrong(index, "a byte string", offset))
    }

    #[inline(always)]
    fn integer(&self, index: usize) -> Result<u64, DecodeError> {
        let offset = self.required(index)?;
        if let Some(n) = self.reader.at(offset).plain_argument(0) {
            return Ok(n);
        }
        let item = self.reader.at(offset).untagged()?;
        item.as_u64()
            .ok_or_else(|| self.wrong(index, "a non-negative integer", offset))
    }

    #[inline(always)]
    fn boolean(&self, index: usize) -> Result<bool, DecodeError> {
        let offset = self.required(index)?;
        match self.reader.at(offset).untagged()? {
            Item::Bool(value) => Ok(value),
            _ => Err(self.wrong(index, "a boolean", offset)),
        }
    }

    #[inline(always)]
    fn message_type(&self) -> Result<MessageType, DecodeError> {
        let offset = self.required(TYPE)?;
        let name = self.name_at(TYPE, offset)?;
        MessageType::from_bytes(&name).ok_or(DecodeError::UnknownType { offset })
    }

    /// `t` is for people: whatever it is, the message is as good.
    #[inline(always)]
    fn t_ms(&self) -> Result<u64, DecodeError> {
        let Some(offset) = self.values[T].map(NonZeroUsize::get) else {
            return Ok(0);
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // saturates; NaN reads as 0
        Ok(match self.reader.at(offset).untagged()? {
            Item::Unsigned(t) => t,
            Item::Float(t) => t as u64,
            _ => 0,
        })
    }

    #[inline(always)]
    fn request_kind(
        &self,
        message_type: MessageType,
        offset: usize,
    ) -> Result<RequestKind, DecodeError> {
        match &*self.name_at(KIND, offset)? {
            b"event" => Ok(RequestKind::Event),
            b"ability" => Ok(RequestKind::Ability),
            _ => Err(DecodeError::UnknownKind {
                message_type,
                offset,
            }),
        }
    }

    #[inline(always)]
    fn signal_kind(&self) -> Result<SignalKind, DecodeError> {
        let offset = self.required(KIND)?;
        match &*self.name_at(KIND, offset)? {
            b"normal" => Ok(SignalKind::Normal),
            b"pause" => Ok(SignalKind::Pause),
            b"resume" => Ok(SignalKind::Resume),
            b"abort" => Ok(SignalKind::Abort),
            _ => Err(DecodeError::UnknownKind {
                message_type: MessageType::Signal,
                offset,
            }),
        }
    }

    #[inline(always)]
    fn meta(&self, message_type: MessageType) -> Result<Meta<'a>, DecodeError> {
        Ok(match message_type {
            MessageType::Register => Meta::Register,
            MessageType::Unregister => Meta::Unregister,
            MessageType::Subscribe => Meta::Subscribe,
            MessageType::Unsubscribe => Meta::Unsubscribe,
            MessageType::Notify => Meta::Notify {
                parent_id: self.id(PARENT_ID)?,
                target_sub_name: self.text(TARGET_SUB_NAME)?,
                hit_sub_name: self.text(HIT_SUB_NAME)?,
                // Anything but `true` is some other protocol's business.
                reliable: self.values[RELIABLE].is_some()
                    && self.boolean(RELIABLE).unwrap_or(false),
            },
            MessageType::Request => Meta::Request {
                kind: self.request_kind(message_type, self.required(KIND)?)?,
                target: self.optional_text(TARGET)?,
            },
            MessageType::Response => Meta::Response {
                parent_id: self.id(PARENT_ID)?,
                is_ok: self.boolean(IS_OK)?,
                why_not_ok: self.optional_text(WHY_NOT_OK)?,
                kind: self
                    .optional(KIND)
                    .map(|offset| self.request_kind(message_type, offset))
                    .transpose()?,
            },
            MessageType::Signal => Meta::Signal {
                parent_id: self.id(PARENT_ID)?,
                kind: self.signal_kind()?,
            },
            MessageType::Ack if self.optional(ALSO).is_some() => Meta::AckMany {
                parent_id: self.id(PARENT_ID)?,
                also: self.byte_string(ALSO)?,
            },
            MessageType::Ack => Meta::Ack {
                parent_id: self.id(PARENT_ID)?,
                taken: self
                    .optional(TAKEN)
                    .map(|_| self.integer(TAKEN))
                    .transpose()?,
            },
        })
    }
}
