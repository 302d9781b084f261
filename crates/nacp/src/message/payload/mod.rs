//! Payloads: one CBOR item, opaque until the user asks for a type.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::cbor::{self, Malformed};

/// One well-formed CBOR item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload(Bytes);

impl Default for Payload {
    fn default() -> Self {
        Self(Bytes::from_static(&[0xa0]))
    }
}

/// Why a payload is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Not CBOR, or beyond the limits.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl Payload {
    /// Checks that `bytes` are one well-formed item, at most 64 levels deep.
    ///
    /// # Errors
    /// [`PayloadError::Malformed`] when they are not.
    pub fn from_cbor(bytes: Bytes) -> Result<Self, PayloadError> {
        cbor::check(&bytes)?;
        Ok(Self(bytes))
    }

    pub(super) fn from_checked(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The item.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The item's size.
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Any payload; to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Null.
    Null,
}
