//! Payloads: one CBOR item each, opaque until the user asks for a type.
//!
//! What this module keeps true: the bytes of a [`Payload`] are exactly one well-formed item, at most 64 levels deep;
//! nothing read from them can overflow the stack or make memory grow beyond a multiple of their size.
//!
//! # What is written, what is read
//! Any serde type can be a payload, under these rules:
//!
//! | Rust | written | also read |
//! |---|---|---|
//! | integers | up to 32 bits as such, to ±(2^53 − 1) as float64, to 64 bits as such, beyond as bignum | any of these forms, integer-valued floats, and in a map's key position decimal text; range-checked |
//! | floats | as such | integers |
//! | `()`, `None` | the empty map where it is the whole payload, null elsewhere | null, undefined; the empty map (for `None` only where it is the whole payload) |
//! | `Vec<u8>` | array of integers; see [`Payload::bytes`] and the `serde_bytes` crate for byte strings | byte strings, typed arrays |
//! | `Vec` of numbers | array | typed arrays (tags 64 to 87, but for the two of float128) |
//! | serde's bytes | byte string | tags 64 and 68, arrays of integers |
//! | maps, structs | map | tag 259; a struct ignores keys that are not text |
//! | enums | unit variants as text, others as a map of one entry | |
//! | [`Date`] | tag 1, seconds since the epoch | tag 0 |
//! | [`Value`] | whatever it is | anything |
//!
//! Other tags are passed over: a Set (258) reads as a sequence, a RegExp or Error (27) as its array, a date as the
//! seconds or the text that it is on the wire. Indefinite lengths are read and never written.

mod access;
mod date;
mod de;
mod diagnostic;
mod embed;
mod number;
mod ser;
mod typed;
mod value;

use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, DeserializeOwned};
use serde::ser::Serialize;

pub use date::Date;
pub use number::BigInt;
pub use value::Value;

use super::cbor::{self, Malformed};
use super::chunk::{SHARED_MAX, SharedChunk};

/// Encodes many payloads with few allocations: small ones share chunks of memory. A chunk lives as long as one of its
/// payloads, so what a single payload that stays can hold is bounded: 16 KiB.
///
/// ```
/// use nacp::{Payload, message::PayloadEncoder};
/// let mut encoder = PayloadEncoder::default();
/// assert_eq!(encoder.encode("ok").unwrap(), Payload::encode("ok").unwrap());
/// ```
#[derive(Debug, Default)]
pub struct PayloadEncoder {
    scratch: Vec<u8>,
    chunk: SharedChunk,
}

impl PayloadEncoder {
    /// As [`Payload::encode`].
    ///
    /// # Errors
    /// As [`Payload::encode`].
    pub fn encode<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<Payload, PayloadError> {
        let written = ser::into_vec(std::mem::take(&mut self.scratch), value)?;
        if written.len() > SHARED_MAX {
            return Ok(Payload(written.into()));
        }
        let piece = self.chunk.piece(&written, &[]);
        self.scratch = written;
        Ok(Payload(piece))
    }
}

/// One well-formed CBOR item; cheap to clone.
///
/// ```
/// use nacp::Payload;
/// let payload = Payload::encode(&("countdown", 3)).unwrap();
/// assert_eq!(payload.decode::<(String, u8)>().unwrap(), ("countdown".to_owned(), 3));
/// assert_eq!(format!("{payload:?}"), r#"Payload(["countdown", 3])"#);
///
/// // A missing payload is the empty map, and reads as nothing.
/// assert_eq!(Payload::default().decode::<Option<u8>>().unwrap(), None);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

/// The empty map: what a missing payload is on the wire.
impl Default for Payload {
    fn default() -> Self {
        Self(Bytes::from_static(&[0xa0]))
    }
}

impl Payload {
    /// Encodes a value by the rules above.
    ///
    /// ```
    /// use nacp::Payload;
    /// assert_eq!(Payload::encode("ok").unwrap().as_bytes()[..], *b"\x62ok");
    /// ```
    ///
    /// # Errors
    /// [`PayloadError::TooDeep`] and [`PayloadError::Unwritable`].
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, PayloadError> {
        ser::to_vec(value).map(|bytes| Self(bytes.into()))
    }

    /// A byte string: the compact form of a `[u8]`, which JavaScript reads as a Buffer.
    ///
    /// ```
    /// use nacp::Payload;
    /// assert_eq!(Payload::bytes(&[1, 2]).decode::<Vec<u8>>().unwrap(), [1, 2]);
    /// ```
    pub fn bytes(content: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(content.len() + 9);
        cbor::put_head(&mut bytes, 2, content.len() as u64);
        bytes.extend_from_slice(content);
        Self(bytes.into())
    }

    /// Decodes to a value by the rules above.
    ///
    /// # Errors
    /// [`PayloadError::Unfit`] when the payload is not of that type, [`PayloadError::InvalidUtf8`] when a text in it
    /// is none.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, PayloadError> {
        self.decode_borrowed()
    }

    /// As [`decode`](Self::decode), to a value that may borrow texts and bytes from the payload.
    ///
    /// ```
    /// use nacp::Payload;
    /// let payload = Payload::encode("hello").unwrap();
    /// assert_eq!(payload.decode_borrowed::<&str>().unwrap(), "hello");
    /// ```
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_borrowed<'de, T: Deserialize<'de>>(&'de self) -> Result<T, PayloadError> {
        de::from_slice(&self.0)
    }

    /// Takes encoded CBOR after checking that it is one well-formed item, at most 64 levels deep.
    ///
    /// ```
    /// use nacp::Payload;
    /// assert!(Payload::from_cbor(vec![0x81, 0x01].into()).is_ok());
    /// assert!(Payload::from_cbor(vec![0x81].into()).is_err());
    /// ```
    ///
    /// # Errors
    /// [`PayloadError::Malformed`] when it is not.
    pub fn from_cbor(bytes: Bytes) -> Result<Self, PayloadError> {
        cbor::check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Takes bytes that were checked where they were decoded.
    pub(super) fn from_checked(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The CBOR item.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The size of the CBOR item, in bytes.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// A short diagnostic form; long payloads are cut.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({})", diagnostic::Diagnostic(&self.0))
    }
}

/// Why a value cannot be written as a payload, or a payload not read as a value.
///
/// ```
/// use nacp::Payload;
/// let payload = Payload::encode(&[1, 300]).unwrap();
/// let error = payload.decode::<Vec<u8>>().unwrap_err();
/// assert_eq!(error.to_string(), "at byte 2: invalid value: integer `300`, expected u8");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The bytes are not one CBOR item within the limits.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The value to be written, or the type to be read, has more than 64 levels.
    #[error("more than {} levels of nesting", cbor::DEPTH_MAX)]
    TooDeep,
    /// The value's own `Serialize` failed, or broke serde's rules.
    #[error("cannot be written: {0}")]
    Unwritable(String),
    /// The payload is well-formed, but not of the type that is wanted.
    #[error("at byte {offset}: {reason}")]
    Unfit {
        /// Where the item stands that does not fit.
        offset: usize,
        /// In which way.
        reason: String,
    },
    /// A text that is not UTF-8.
    #[error("the text at byte {offset} is not UTF-8")]
    InvalidUtf8 {
        /// Where it stands.
        offset: usize,
    },
}
