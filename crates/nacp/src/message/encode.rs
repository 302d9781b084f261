//! Message → bytes.
//!
//! What this module keeps true: a message is one definite map, its `payload` key is the last, and its bytes are laid
//! down in one allocation of the exact size. A large payload is not copied: it stays the segment behind the head.

use bytes::Bytes;

use super::cbor::{Sink, put_float, put_head, put_text, put_unsigned};
use super::chunk::{SHARED_MAX, SharedChunk};
use super::{Head, Meta, Payload, RequestKind, SignalKind};

/// From this size on a payload stays a segment of its own: below it, one contiguous write is cheaper than two.
const SEGMENT_MIN: usize = 4 * 1024 + 1;

/// An encoded message: what goes over the wire is `head`, then `payload`.
///
/// ```
/// use nacp::message::{Head, Meta, encode};
/// let head = Head { id: "1", from: "hello", to: "world", t_ms: 0, meta: Meta::Unregister };
/// let encoded = encode(&head, None);
/// assert_eq!(encoded.len(), encoded.to_bytes().len());
/// assert!(encoded.payload().is_empty()); // small enough to stand in the head
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    head: Bytes,
    payload: Bytes,
}

impl Encoded {
    /// The number of bytes of the message.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// The envelope, up to the payload; with it when the payload is small.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// A payload above 4 KiB, shared with the [`Payload`] it was encoded from; otherwise empty.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The message in one piece. Copies only if the payload is a segment of its own.
    pub fn to_bytes(&self) -> Bytes {
        if self.payload.is_empty() {
            return self.head.clone();
        }
        let mut joined = Vec::with_capacity(self.len());
        joined.extend_from_slice(&self.head);
        joined.extend_from_slice(&self.payload);
        joined.into()
    }
}

impl From<Bytes> for Encoded {
    /// Takes the bytes of a whole message as they came over the wire.
    fn from(message: Bytes) -> Self {
        Self {
            head: message,
            payload: Bytes::new(),
        }
    }
}

/// Encodes a message. A missing payload is written as the empty map, and not at all with an ack or a control signal:
/// those have none, even if one is given.
///
/// The ids are the caller's to keep legal: `from` and `to` as of [`AppId`](super::AppId), `id` and `parent_id` of 1
/// to [`ID_LENGTH_MAX`](super::ID_LENGTH_MAX) bytes.
///
/// ```
/// use nacp::message::{Head, Meta, decode, encode};
/// let meta = Meta::Ack { parent_id: "7".into(), taken: None };
/// let head = Head { id: "8", from: "world", to: "hello", t_ms: 1_796_092_529_444, meta };
/// let bytes = encode(&head, None).to_bytes();
/// assert_eq!(decode(&bytes).unwrap().meta, head.meta);
/// ```
pub fn encode(head: &Head<'_>, payload: Option<&Payload>) -> Encoded {
    let (inline, segment) = segments(head, payload);
    // The same code counts and writes, so the count is exact, and an exact buffer becomes `Bytes` without a second
    // allocation.
    let mut length = 0_usize;
    put_message(&mut length, head, inline);
    let mut buffer = Vec::with_capacity(length);
    put_message(&mut buffer, head, inline);
    debug_assert_eq!(buffer.len(), length);
    Encoded {
        head: buffer.into(),
        payload: segment,
    }
}

/// Encodes many messages with few allocations: small ones share chunks of memory.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    scratch: Vec<u8>,
    chunk: SharedChunk,
}

impl Encoder {
    /// As [`encode()`].
    pub(crate) fn encode(&mut self, head: &Head<'_>, payload: Option<&Payload>) -> Encoded {
        let (inline, segment) = segments(head, payload);
        if inline.is_some_and(|payload| payload.len() > SHARED_MAX) {
            return encode(head, payload);
        }
        self.scratch.clear();
        // The payload is the last of a message: it is copied once, behind the rest.
        put_message(&mut self.scratch, head, inline.map(|_| &[][..]));
        let content = inline.unwrap_or_default();
        let size = self.scratch.len() + content.len();
        if size > SHARED_MAX {
            return encode(head, payload);
        }
        Encoded {
            head: self.chunk.piece(&self.scratch, content),
            payload: segment,
        }
    }
}

/// The payload as it stands in the head (`None`: no such key), and the segment behind it.
#[inline]
fn segments<'a>(head: &Head<'_>, payload: Option<&'a Payload>) -> (Option<&'a [u8]>, Bytes) {
    debug_assert!(
        !head.id.is_empty() && head.id.len() <= super::ID_LENGTH_MAX,
        "the caller keeps ids legal"
    );
    const EMPTY_MAP: &[u8] = &[0xa0];
    match has_payload(&head.meta).then_some(payload.map(Payload::as_bytes)) {
        None => (None, Bytes::new()),
        Some(None) => (Some(EMPTY_MAP), Bytes::new()),
        Some(Some(bytes)) if bytes.len() < SEGMENT_MIN => (Some(&bytes[..]), Bytes::new()),
        Some(Some(bytes)) => (Some(&[]), bytes.clone()),
    }
}

/// Whether a message of that kind has the `payload` key.
fn has_payload(meta: &Meta<'_>) -> bool {
    match meta {
        Meta::Ack { .. } | Meta::AckMany { .. } => false,
        Meta::Signal { kind, .. } => *kind == SignalKind::Normal,
        _ => true,
    }
}

#[inline]
fn put_message(sink: &mut impl Sink, head: &Head<'_>, payload: Option<&[u8]>) {
    sink.put(if payload.is_some() { b"\xa8" } else { b"\xa7" });
    sink.put(b"\x61v\xa2\x65major\x02\x65minor\x01");
    sink.put(b"\x64type");
    put_text(sink, head.meta.message_type().as_str());
    sink.put(b"\x62id");
    put_text(sink, head.id);
    sink.put(b"\x64from");
    put_text(sink, head.from);
    sink.put(b"\x62to");
    put_text(sink, head.to);
    sink.put(b"\x61t");
    // As base peers write it: a 64-bit integer would reach them as a BigInt.
    #[allow(clippy::cast_precision_loss)]
    put_float(sink, head.t_ms as f64);
    sink.put(b"\x64meta");
    put_meta(sink, &head.meta);
    if let Some(payload) = payload {
        sink.put(b"\x67payload");
        sink.put(payload);
    }
}

#[inline]
fn put_meta(sink: &mut impl Sink, meta: &Meta<'_>) {
    match meta {
        Meta::Register | Meta::Unregister | Meta::Subscribe | Meta::Unsubscribe => {
            sink.put(b"\xa0")
        }
        Meta::Notify {
            parent_id,
            target_sub_name,
            hit_sub_name,
            reliable,
        } => {
            sink.put(if *reliable { b"\xa4" } else { b"\xa3" });
            sink.put(b"\x68parentId");
            put_text(sink, parent_id);
            sink.put(b"\x6dtargetSubName");
            put_text(sink, target_sub_name);
            sink.put(b"\x6ahitSubName");
            put_text(sink, hit_sub_name);
            if *reliable {
                sink.put(b"\x68reliable\xf5");
            }
        }
        Meta::Request { kind, target } => {
            sink.put(if target.is_some() { b"\xa2" } else { b"\xa1" });
            sink.put(b"\x64kind");
            put_text(sink, kind.as_str());
            if let Some(target) = target {
                sink.put(b"\x66target");
                put_text(sink, target);
            }
        }
        Meta::Response {
            parent_id,
            is_ok,
            why_not_ok,
            kind,
        } => {
            put_response(sink, parent_id, *is_ok, why_not_ok.as_deref(), *kind);
        }
        Meta::Signal { parent_id, kind } => {
            sink.put(b"\xa2\x68parentId");
            put_text(sink, parent_id);
            sink.put(b"\x64kind");
            put_text(sink, kind.as_str());
        }
        Meta::AckMany { parent_id, also } => {
            sink.put(b"\xa2\x68parentId");
            put_text(sink, parent_id);
            sink.put(b"\x64also");
            put_head(sink, 2, also.len() as u64);
            sink.put(also);
        }
        Meta::Ack { parent_id, taken } => {
            sink.put(if taken.is_some() { b"\xa2" } else { b"\xa1" });
            sink.put(b"\x68parentId");
            put_text(sink, parent_id);
            if let Some(taken) = taken {
                sink.put(b"\x65taken");
                put_unsigned(sink, *taken);
            }
        }
    }
}

#[inline]
fn put_response(
    sink: &mut impl Sink,
    parent_id: &str,
    is_ok: bool,
    why_not_ok: Option<&str>,
    kind: Option<RequestKind>,
) {
    put_head(
        sink,
        5,
        2 + u64::from(why_not_ok.is_some()) + u64::from(kind.is_some()),
    );
    sink.put(b"\x68parentId");
    put_text(sink, parent_id);
    sink.put(if is_ok {
        b"\x64isOk\xf5"
    } else {
        b"\x64isOk\xf4"
    });
    if let Some(why_not_ok) = why_not_ok {
        sink.put(b"\x68whyNotOk");
        put_text(sink, why_not_ok);
    }
    if let Some(kind) = kind {
        sink.put(b"\x64kind");
        put_text(sink, kind.as_str());
    }
}
