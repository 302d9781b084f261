//! The ways for a peer's message not to be one: each says which key, where, and what it should have been.

use super::cbor::Malformed;
use super::{AppId, MessageType};

/// The longest message id that is accepted, in bytes.
pub const ID_LENGTH_MAX: usize = 1024;

/// A way for a peer's message not to be one. Keys are named by their path, such as `meta.parentId`.
///
/// ```
/// use nacp::message::{DecodeError, decode};
/// assert_eq!(decode(&[0xa0]).unwrap_err(), DecodeError::MissingKey { key: "v" });
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not CBOR, or beyond the limits.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The message is not a map.
    #[error("a message is a map, the item at byte {offset} is none")]
    NotAMap {
        /// Where the item stands.
        offset: usize,
    },
    /// A key of the envelope, of `v` or of `meta` that came before.
    #[error("key {key} again, its value is at byte {offset}")]
    DuplicateKey {
        /// The key.
        key: &'static str,
        /// Where its second value stands.
        offset: usize,
    },
    /// A key that a message of this type must have.
    #[error("key {key} is missing")]
    MissingKey {
        /// The key.
        key: &'static str,
    },
    /// A value of another type than the key's.
    #[error("{key} at byte {offset} is not {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// What it should be.
        expected: &'static str,
        /// Where the value stands.
        offset: usize,
    },
    /// A text of the envelope that is not UTF-8.
    #[error("{key} at byte {offset} is not UTF-8")]
    InvalidUtf8 {
        /// The key.
        key: &'static str,
        /// Where the text stands.
        offset: usize,
    },
    /// `type` is none of the nine.
    #[error("type at byte {offset} is none of the nine")]
    UnknownType {
        /// Where the value stands.
        offset: usize,
    },
    /// `meta.kind` is none that this type has.
    #[error("meta.kind at byte {offset} is none that a {message_type} has", message_type = message_type.as_str())]
    UnknownKind {
        /// The message's type.
        message_type: MessageType,
        /// Where the value stands.
        offset: usize,
    },
    /// A message id that is empty or longer than [`ID_LENGTH_MAX`].
    #[error("{key} at byte {offset} has {length} bytes, an id has 1 to {ID_LENGTH_MAX}")]
    IdLength {
        /// The key.
        key: &'static str,
        /// The refused length, in bytes.
        length: usize,
        /// Where the id stands.
        offset: usize,
    },
    /// An App ID that is empty or longer than [`AppId::LENGTH_MAX`].
    #[error("{key} at byte {offset} has {length} bytes, an App ID has 1 to {max}", max = AppId::LENGTH_MAX)]
    AppIdLength {
        /// The key.
        key: &'static str,
        /// The refused length, in bytes.
        length: usize,
        /// Where the App ID stands.
        offset: usize,
    },
}
