//! The nine message types on one screen, and the two ids that everything is keyed by.
//!
//! What this module keeps true: a [`Head`] always encodes to a legal envelope, and a decoded [`Envelope`] has passed
//! every limit of `docs/wire.md`. Payloads stay opaque bytes here; only [`Payload`] looks inside, when the user asks.

pub(crate) mod ack;
mod cbor;
mod chunk;
mod decode;
mod decode_error;
mod encode;
mod ids;
mod own_layout;
pub mod payload;

use std::borrow::Cow;
use std::ops::Range;

pub use cbor::Malformed;
pub use decode::decode;
pub use decode_error::{DecodeError, ID_LENGTH_MAX};
pub(crate) use encode::Encoder;
pub use encode::{Encoded, encode};
pub(crate) use ids::InlineId;
pub use ids::{AppId, InvalidAppId, MessageId, Target};
pub use payload::{Payload, PayloadEncoder, PayloadError, Value};

use serde::{Deserialize, Serialize};

/// The protocol version that this crate speaks: NACP 2.1.
pub const VERSION: Version = Version { major: 2, minor: 1 };

/// `v` of the envelope. A register with another major version is refused `version-mismatch`.
///
/// ```
/// assert_eq!(nacp::message::VERSION.major, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Incompatible changes.
    pub major: u64,
    /// Compatible changes.
    pub minor: u64,
}

/// `type` of the envelope.
///
/// ```
/// use nacp::message::MessageType;
/// assert_eq!(MessageType::from_name("ack"), Some(MessageType::Ack));
/// assert_eq!(MessageType::Ack.as_str(), "ack");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageType {
    /// Asks for a link.
    Register,
    /// Ends a link.
    Unregister,
    /// Asks for the remote event bus' hits of a name pattern.
    Subscribe,
    /// Ends a subscription.
    Unsubscribe,
    /// A chunk of a stream, or a hit of a subscription.
    Notify,
    /// A call of an event or ability handler.
    Request,
    /// The answer to a request or protocol call.
    Response,
    /// Steers a running event handler.
    Signal,
    /// "Received", never "processed" (WAIT-1).
    Ack,
}

/// What a request calls.
///
/// ```
/// assert_eq!(nacp::message::RequestKind::Ability.as_str(), "ability");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A long-running handler with a stream of chunks and signals.
    Event,
    /// A plain call.
    Ability,
}

/// What a signal says.
///
/// ```
/// assert_eq!(nacp::message::SignalKind::Abort.as_str(), "abort");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignalKind {
    /// The application's own signal; the only one with a payload.
    Normal,
    /// Hold at the next chunk or checkpoint.
    Pause,
    /// Go on.
    Resume,
    /// Stop and answer not ok `aborted`.
    Abort,
}

/// `type` and `meta` of a message, borrowed: the nine types.
///
/// ```
/// use nacp::message::{MessageType, Meta};
/// let meta = Meta::Ack { parent_id: "dd481314".into(), taken: None };
/// assert_eq!(meta.message_type(), MessageType::Ack);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Meta<'a> {
    /// See [`Registration`] for the payload.
    Register,
    /// Payload `{}`.
    Unregister,
    /// Payload `{targetSubName}`; the message's id is the subscription's id.
    Subscribe,
    /// Payload `{targetSubId}`.
    Unsubscribe,
    /// A hit of the subscription `parent_id`.
    Notify {
        /// The subscription's id (for a process stream: the request's id).
        parent_id: Cow<'a, str>,
        /// The pattern subscribed to.
        target_sub_name: Cow<'a, str>,
        /// The name that was emitted.
        hit_sub_name: Cow<'a, str>,
        /// \[X\] `reliable: true`: ACKed, tracked and deduplicated like a request (MSG-11). Written only if true.
        reliable: bool,
    },
    /// A call.
    Request {
        /// Event or ability.
        kind: RequestKind,
        /// The handler's name.
        target: Option<Cow<'a, str>>,
    },
    /// The answer to `parent_id`.
    Response {
        /// The id of what is answered.
        parent_id: Cow<'a, str>,
        /// Whether it went well.
        is_ok: bool,
        /// Why it did not.
        why_not_ok: Option<Cow<'a, str>>,
        /// Set only when a request is answered.
        kind: Option<RequestKind>,
    },
    /// Steers the event `parent_id`.
    Signal {
        /// The event request's id.
        parent_id: Cow<'a, str>,
        /// What to do.
        kind: SignalKind,
    },
    /// Receipt of `parent_id`.
    Ack {
        /// The id of what was received.
        parent_id: Cow<'a, str>,
        /// \[X\] feature `stream-credit`: how many chunks of the lossless stream that `parent_id` names (its request
        /// or subscription id) the receiver has taken so far. Absolute, so a repeated one is harmless. Such an ack
        /// acknowledges nothing else. Written only if set.
        taken: Option<u64>,
    },
    /// \[X\] feature `batched-acks`: an ack that names many messages, whose ids differ only in the number at their end.
    AckMany {
        /// The id of the first.
        parent_id: Cow<'a, str>,
        /// `also`, a byte string: for each further one, how much larger its number is than that of the one before, as a
        /// little-endian base-128 varint.
        also: Cow<'a, [u8]>,
    },
}

impl Meta<'_> {
    /// The envelope's `type`.
    pub fn message_type(&self) -> MessageType {
        match self {
            Self::Register => MessageType::Register,
            Self::Unregister => MessageType::Unregister,
            Self::Subscribe => MessageType::Subscribe,
            Self::Unsubscribe => MessageType::Unsubscribe,
            Self::Notify { .. } => MessageType::Notify,
            Self::Request { .. } => MessageType::Request,
            Self::Response { .. } => MessageType::Response,
            Self::Signal { .. } => MessageType::Signal,
            Self::Ack { .. } | Self::AckMany { .. } => MessageType::Ack,
        }
    }
}

/// Everything of a message but its payload, to be encoded.
///
/// ```
/// use nacp::message::{Head, Meta, encode};
/// let head = Head { id: "1", from: "hello", to: "world", t_ms: 0, meta: Meta::Register };
/// assert!(encode(&head, None).len() < 100);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Head<'a> {
    /// Unique per sender.
    pub id: &'a str,
    /// The sending App.
    pub from: &'a str,
    /// The receiving App.
    pub to: &'a str,
    /// Wall-clock milliseconds since the Unix epoch. For people; no decision is taken from it.
    pub t_ms: u64,
    /// `type` and `meta`.
    pub meta: Meta<'a>,
}

/// A decoded message: the envelope, and where its payload stands in the bytes it was decoded from.
///
/// ```
/// use nacp::message::{Head, Meta, decode, encode};
/// let head = Head { id: "1", from: "hello", to: "world", t_ms: 0, meta: Meta::Register };
/// let bytes = encode(&head, None).to_bytes();
/// assert_eq!(decode(&bytes).unwrap().payload, Some(bytes.len() - 1..bytes.len()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope<'a> {
    /// `v`.
    pub version: Version,
    /// `id`, never empty.
    pub id: Cow<'a, str>,
    /// `from`, 1 to 255 bytes.
    pub from: Cow<'a, str>,
    /// `to`, 1 to 255 bytes.
    pub to: Cow<'a, str>,
    /// `t`; absent or odd values read as 0.
    pub t_ms: u64,
    /// `type` and `meta`.
    pub meta: Meta<'a>,
    /// Where the payload's CBOR item stands; `None` when the key is missing, or its value null or undefined.
    pub payload: Option<Range<usize>>,
}

/// A handler as its App declares it.
///
/// ```
/// let echo = nacp::message::Declared { name: "echo".into(), ..Default::default() };
/// assert_eq!(echo.description, "");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// What it is called by.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: String,
}

/// `decl`: what an App can do; the answer of `NApp.introduce`.
///
/// ```
/// use nacp::message::{Declaration, Declared};
/// let echo = Declared { name: "echo".into(), ..Declared::default() };
/// let declaration = Declaration { abilities: vec![echo], ..Declaration::default() };
/// assert!(declaration.events.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    /// Event handlers.
    #[serde(default)]
    pub events: Vec<Declared>,
    /// Ability handlers.
    #[serde(default)]
    pub abilities: Vec<Declared>,
}

/// The payload of register, and of its ok response.
///
/// ```
/// use nacp::Payload;
/// use nacp::message::Registration;
/// let registration = Registration { is_gateway: true, ..Registration::default() };
/// let payload = Payload::encode(&registration).unwrap();
/// assert_eq!(payload.decode::<Registration>().unwrap(), registration);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// Whether the sender is a Gateway.
    #[serde(default)]
    pub is_gateway: bool,
    /// What the sender can do.
    #[serde(default, rename = "decl")]
    pub declaration: Declaration,
    /// Application data; opaque.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Value>,
    /// \[X\] The sender's incarnation token towards the receiver (LINK-15).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// \[X\] Optional features that the sender knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

impl MessageType {
    /// All nine.
    pub const ALL: [Self; 9] = [
        Self::Register,
        Self::Unregister,
        Self::Subscribe,
        Self::Unsubscribe,
        Self::Notify,
        Self::Request,
        Self::Response,
        Self::Signal,
        Self::Ack,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Unregister => "unregister",
            Self::Subscribe => "subscribe",
            Self::Unsubscribe => "unsubscribe",
            Self::Notify => "notify",
            Self::Request => "request",
            Self::Response => "response",
            Self::Signal => "signal",
            Self::Ack => "ack",
        }
    }

    /// The type with that name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::from_bytes(name.as_bytes())
    }

    fn from_bytes(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"register" => Self::Register,
            b"unregister" => Self::Unregister,
            b"subscribe" => Self::Subscribe,
            b"unsubscribe" => Self::Unsubscribe,
            b"notify" => Self::Notify,
            b"request" => Self::Request,
            b"response" => Self::Response,
            b"signal" => Self::Signal,
            b"ack" => Self::Ack,
            _ => return None,
        })
    }
}

impl RequestKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Ability => "ability",
        }
    }
}

impl SignalKind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Abort => "abort",
        }
    }
}
