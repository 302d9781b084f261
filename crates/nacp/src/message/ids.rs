//! Ids and names. All are short text that is copied often, so no copy allocates: an [`AppId`] is shared, a [`MessageId`]
//! (a UUID has 36 bytes) or [`Target`] of up to 38 bytes is held inline.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrayvec::ArrayString;

/// The stable name of a program: 1 to 255 bytes of UTF-8.
///
/// ```
/// use nacp::AppId;
/// assert_eq!(AppId::new("world").unwrap().as_str(), "world");
/// assert!(AppId::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppId(Arc<str>);

/// An App ID that is empty or longer than 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an App ID has 1 to {max} bytes, this one has {length}", max = AppId::LENGTH_MAX)]
pub struct InvalidAppId {
    /// The refused length, in bytes.
    pub length: usize,
}

impl AppId {
    /// The longest App ID, in bytes.
    pub const LENGTH_MAX: usize = 255;

    /// Checks the length and takes a copy.
    ///
    /// # Errors
    /// [`InvalidAppId`] when `id` is empty or longer than 255 bytes.
    pub fn new(id: &str) -> Result<Self, InvalidAppId> {
        match id.len() {
            1..=Self::LENGTH_MAX => Ok(Self(id.into())),
            length => Err(InvalidAppId { length }),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for AppId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for AppId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl TryFrom<&str> for AppId {
    type Error = InvalidAppId;
    fn try_from(id: &str) -> Result<Self, InvalidAppId> {
        Self::new(id)
    }
}

const INLINE_MAX: usize = 38;

/// The id of a message: any text. Ours are a random prefix and a counter; base peers write UUIDs.
///
/// ```
/// use nacp::MessageId;
/// assert_eq!(MessageId::from("dd481314").as_str(), "dd481314");
/// ```
#[derive(Clone)]
pub struct MessageId(Short);

/// The name of a handler, as a request carries it.
///
/// ```
/// use nacp::Target;
/// let target = Target::from("echo");
/// assert_eq!((target.len(), &*target), (4, "echo"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Target(Short);

/// Text that is mostly short.
#[derive(Clone)]
enum Short {
    Inline(InlineId),
    Shared(Arc<str>),
}

impl Short {
    fn as_str(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&str> for Short {
    fn from(text: &str) -> Self {
        match InlineId::from(text) {
            Ok(inline) => Self::Inline(inline),
            Err(_) => Self::Shared(text.into()),
        }
    }
}

impl Default for Short {
    fn default() -> Self {
        Self::Inline(InlineId::new())
    }
}

impl PartialEq for Short {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Short {}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl std::ops::Deref for Target {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An id that is held in place.
pub(crate) type InlineId = ArrayString<INLINE_MAX>;

impl MessageId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The id as bytes of UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        self.as_str().as_bytes()
    }
}

impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<InlineId> for MessageId {
    fn from(id: InlineId) -> Self {
        Self(Short::Inline(id))
    }
}

impl PartialEq for MessageId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for MessageId {}

impl PartialOrd for MessageId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MessageId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for MessageId {
    // As `[u8]`, so that a table keyed by ids can be asked with borrowed bytes.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for MessageId {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
