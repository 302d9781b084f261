//! Errors, sorted by blame: the remote's fault is a [`PeerViolation`], the caller's a [`SendError`], and what became of
//! a call an [`Outcome`](crate::Outcome). Our own faults are assertions.

use crate::message::{AppId, DecodeError};

/// The remote broke a rule of the protocol. One variant per way to do so.
#[derive(Debug, thiserror::Error)]
pub enum PeerViolation {
    /// Not a message. From a peer that is bound to an App the message is dropped and the link stays; any other peer
    /// is closed.
    #[error("undecodable message: {0}")]
    Undecodable(#[from] DecodeError),
    /// `from` is not an App that registered over this peer (GW-4). The message was dropped.
    #[error("message from {from:?}, which is not registered over this connection")]
    FromMismatch {
        /// The claimed sender.
        from: String,
    },
    /// A register for another App. The message was dropped.
    #[error("register for {to:?}, which is not this App")]
    WrongApp {
        /// Who it was for.
        to: String,
    },
    /// A register, subscribe or unsubscribe whose payload has the wrong shape.
    #[error("{what} with a bad payload: {why}")]
    BadPayload {
        /// The message type.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The answer to our register came from another App than we dialled.
    #[error("dialled {expected}, but {from:?} answered")]
    ExpectMismatch {
        /// The App that we dialled.
        expected: AppId,
        /// Who answered.
        from: String,
    },
    /// It asks faster than it reads: too many acks wait for it.
    #[error("{waiting} acks wait for a peer that does not read them")]
    NotReading {
        /// How many.
        waiting: usize,
    },
    /// The peer is unknown: it was closed, or never announced. Late bytes of a closed connection; not worth a report.
    #[error("message over a connection that is closed already")]
    UnknownPeer,
}

impl PeerViolation {
    /// The short name that the event bus and logs use.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Undecodable(_) => "undecodable-message",
            Self::FromMismatch { .. } => "from-mismatch",
            Self::WrongApp { .. } => "wrong-app",
            Self::BadPayload { .. } => "bad-payload",
            Self::ExpectMismatch { .. } => "expect-mismatch",
            Self::NotReading { .. } => "not-reading",
            Self::UnknownPeer => "unknown-peer",
        }
    }
}

/// A verb that could not be carried out. Nothing was queued.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The receiver is this App itself (GW-2).
    #[error("self-addressed: {0} is this App itself")]
    SelfAddressed(AppId),
    /// The receiver is neither registered nor is there a Gateway that could know it (GW-2).
    #[error("no-route: {0} is not connected, and no Gateway is; connect to it first")]
    NoRoute(AppId),
    /// The encoded message exceeds [`Config::message_bytes_max`](crate::Config::message_bytes_max) (MSG-9).
    #[error("message of {bytes} bytes; at most {limit} can be sent")]
    TooLarge {
        /// Its encoded size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The queue is full (CAP-6), or the lossless stream's reader is behind (MSG-11). Wait for the event, try again.
    #[error("queue full: wait for room")]
    Full,
    /// A notify that found the Backlog full, or could never fit (CAP-2).
    #[error("notify refused: the Backlog is full")]
    NotifyRefused,
    /// What the verb refers to is over: the call is answered, the request's App was dropped, the subscription ended.
    #[error("gone: it has ended already")]
    Gone,
}

impl SendError {
    /// The short name that the event bus and logs use.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SelfAddressed(_) => "self-addressed",
            Self::NoRoute(_) => "no-route",
            Self::TooLarge { .. } => "too-large",
            Self::Full => "queue-full",
            Self::NotifyRefused => "notify-dropped",
            Self::Gone => "gone",
        }
    }
}
