//! Failures of dialling, listening and moving messages, sorted by who can do something about them.
//!
//! Each has a `reason()`: a short stable text for reports and metrics. The `Display` text is for people and says what to do.

use std::io;
use std::time::Duration;

use crate::frame::FrameError;
use crate::url::UrlError;

/// The reason of a byte stream that fails by a rule of its own. An `AsyncRead` or `AsyncWrite` under
/// [`stream::channel`](crate::stream::channel) that fails with `io::Error::other(TransportFailure::new("…"))` fails the
/// channel with that reason.
///
/// ```
/// use nact::{ReceiveError, TransportFailure};
/// let error: ReceiveError = std::io::Error::other(TransportFailure::new("upload-aborted")).into();
/// assert_eq!(error.reason(), "upload-aborted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransportFailure(String);

impl TransportFailure {
    /// A failure with a short stable text.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// What a byte stream says of itself when it fails, if it says more than the system would.
fn stated_reason(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?;
    if let Some(TransportFailure(reason)) = inner.downcast_ref() {
        return Some(reason.clone());
    }
    #[cfg(feature = "tls")]
    if let Some(error) = inner.downcast_ref::<rustls::Error>() {
        return Some(crate::tls::refusal::reason(error).to_owned());
    }
    None
}

/// No channel came of a dial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The URL is wrong for its transport.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// No transport of this scheme is registered.
    #[error("no transport for \"{scheme}\"; known are: {known}")]
    UnknownScheme {
        /// The scheme asked for.
        scheme: String,
        /// The schemes that would work, comma-separated.
        known: String,
    },
    /// Nobody listens there.
    #[error("nobody listens at {url}")]
    Refused {
        /// What was dialled.
        url: String,
    },
    /// The host name has no address.
    #[error("cannot find the host of {url}: {source}")]
    Resolve {
        /// What was dialled.
        url: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No answer within `connect_timeout`.
    #[error("{url} did not answer within {limit:?}")]
    Timeout {
        /// What was dialled.
        url: String,
        /// The `connect_timeout`.
        limit: Duration,
    },
    /// The connection reached itself: nobody listens, and the system chose the very port that was dialled as its own.
    #[error("nobody listens at {url} (the connection met itself)")]
    SelfConnected {
        /// What was dialled.
        url: String,
    },
    /// The other side is there but is not what the transport wants (handshakes of TLS, WebSocket, HTTP).
    #[error("{url} refused the handshake: {reason}")]
    Handshake {
        /// What was dialled.
        url: String,
        /// A short stable text.
        reason: String,
    },
    /// No TLS came about: a certificate is not trusted, or the other side does not speak TLS.
    #[error("no TLS with {url}: {detail}")]
    Tls {
        /// What was dialled.
        url: String,
        /// A short stable text: `certificate-expired`, `certificate-wrong-name`, `certificate-unknown-issuer`,
        /// `client-certificate-missing`, and the like.
        reason: &'static str,
        /// What is wrong and what to do.
        detail: String,
    },
    /// Anything else the system says.
    #[error("cannot connect to {url}: {source}")]
    Io {
        /// What was dialled.
        url: String,
        /// What the system said.
        source: io::Error,
    },
}

impl DialError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Url(_) => "bad-url",
            Self::UnknownScheme { .. } => "unknown-scheme",
            Self::Refused { .. } => "connect-refused",
            Self::Resolve { .. } => "unknown-host",
            Self::Timeout { .. } => "connect-timeout",
            Self::SelfConnected { .. } => "self-connected",
            Self::Handshake { reason, .. } => reason,
            Self::Tls { reason, .. } => reason,
            Self::Io { .. } => "connect-failed",
        }
    }
}

/// No listener came of a listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The URL is wrong for its transport.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// No transport of this scheme is registered.
    #[error("no transport for \"{scheme}\"; known are: {known}")]
    UnknownScheme {
        /// The scheme asked for.
        scheme: String,
        /// The schemes that would work, comma-separated.
        known: String,
    },
    /// Somebody listens there already.
    #[error(
        "{url} is taken: somebody is already listening there; stop that one or choose another address"
    )]
    AlreadyListening {
        /// Where to listen.
        url: String,
    },
    /// A Unix path names something that is not a socket; it is left alone.
    #[error("{path} exists and is not a socket; it was left as it is")]
    NotASocket {
        /// The path.
        path: String,
    },
    /// TLS needs a certificate, and none was configured.
    #[error(
        "listening at {url} needs a certificate: register the transport with one, as in \
         Transports::register(Tls::new(TlsConfig::default().with_certificate(Certificate::from_files(…)?)))"
    )]
    NoCertificate {
        /// Where to listen.
        url: String,
    },
    /// Anything else the system says.
    #[error("cannot listen at {url}: {source}")]
    Io {
        /// Where to listen.
        url: String,
        /// What the system said.
        source: io::Error,
    },
}

impl ListenError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Url(_) => "bad-url",
            Self::UnknownScheme { .. } => "unknown-scheme",
            Self::AlreadyListening { .. } => "already-listening",
            Self::NotASocket { .. } => "not-a-socket",
            Self::NoCertificate { .. } => "no-certificate",
            Self::Io { .. } => "listen-failed",
        }
    }
}

/// A listener can accept no more. Failures that pass (one connection broke, no file descriptors are left) never show
/// here: the listener waits and goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The listener is over.
    #[error("the listener is closed")]
    Closed,
    /// The listening socket itself is broken.
    #[error("the listening socket is broken: {0}")]
    Io(#[from] io::Error),
}

impl AcceptError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Io(_) => "accept-failed",
        }
    }
}

/// A channel can send no more. Messages whose tokens were not given out as accepted count as not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The channel was closed, here or there, or failed before.
    #[error("the channel is closed")]
    Closed,
    /// A message is larger than `message_size_max`: the caller's mistake, who could have asked.
    #[error("message {token} has {size} bytes, more than the {size_max} allowed")]
    MessageTooLarge {
        /// The message's token.
        token: u64,
        /// Its size in bytes.
        size: u64,
        /// The most allowed.
        size_max: u32,
    },
    /// The connection broke.
    #[error("the connection broke while sending: {0}")]
    Io(#[source] io::Error),
    /// The transport has a reason of its own (`http-post-404`).
    #[error("the transport failed: {0}")]
    Transport(String),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        stated_reason(&error).map_or(Self::Io(error), Self::Transport)
    }
}

impl SendError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Closed => "closed",
            Self::MessageTooLarge { .. } => "message-too-large",
            Self::Io(_) => "connection-lost",
            Self::Transport(reason) => reason,
        }
    }
}

/// A channel can receive no more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The remote ended the channel between two messages.
    #[error("the remote closed the channel")]
    Closed,
    /// The channel ended in the middle of a message, whose part is thrown away, or without the farewell that its
    /// transport prescribes (TLS, WebSocket, HTTP): more may have been under way.
    #[error("the channel ended in the middle of a message or without a farewell")]
    Cut,
    /// The connection broke.
    #[error("the connection broke while receiving: {0}")]
    Io(#[source] io::Error),
    /// The remote broke the framing rules.
    #[error("the remote broke the framing rules: {0}")]
    Frame(#[from] FrameError),
    /// The transport has a reason of its own (`upload-aborted`).
    #[error("the transport failed: {0}")]
    Transport(String),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Self::Cut;
        }
        let frame_error = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<FrameError>());
        if let Some(frame_error) = frame_error {
            return Self::Frame(*frame_error);
        }
        stated_reason(&error).map_or(Self::Io(error), Self::Transport)
    }
}

impl ReceiveError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Closed => "closed",
            Self::Cut => "connection-cut",
            Self::Io(_) => "connection-lost",
            Self::Frame(error) => error.reason(),
            Self::Transport(reason) => reason,
        }
    }

    /// True when the remote is to blame: the peer is reported as erroneous, not only as gone.
    pub fn is_violation(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Transport(_))
    }
}
