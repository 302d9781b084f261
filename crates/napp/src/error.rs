//! Every way to fail that a user of this crate meets, sorted by blame: [`BuildError`] and [`StartError`] are the
//! program's own, [`ConnectError`] the network's or the remote's, [`CallError`] says what became of a call. Each has
//! a `reason()`: a short stable text for logs and metrics. The `Display` text is for people.

use nacp::{InvalidAppId, Outcome, Payload, SendError};
use nact::{DialError, ListenError, UrlError};

use nacp::message::PayloadError;

/// A [`Builder`](crate::Builder) was told something that cannot work.
///
/// ```
/// use napp::App;
/// let error = App::builder("world").listen("tcp:localhost").unwrap_err();
/// assert!(error.to_string().contains("write tcp://host:port"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An address that is none.
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl BuildError {
    /// The short stable text.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Url(_) => "bad-url",
        }
    }
}

/// An App could not start. Nothing of it is left.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use napp::App;
/// let error = App::builder("").start().await.unwrap_err();
/// assert_eq!((error.reason(), error.to_string().as_str()), ("bad-app-id", "an App ID has 1 to 255 bytes, this one has 0"));
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The App ID is empty or too long.
    #[error(transparent)]
    BadAppId(#[from] InvalidAppId),
    /// Two handlers of one kind have one name.
    #[error("two {kind} handlers are called {name:?}; each needs a name of its own")]
    DuplicateHandler {
        /// `ability` or `event`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A handler has a name that every App serves by itself.
    #[error("{name:?} is one of the abilities that every App has; choose another name")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// [`describe`](crate::Builder::describe) or [`detached`](crate::Builder::detached) names no handler.
    #[error("no handler is called {name:?}; register it before it is described")]
    UnknownHandler {
        /// The name.
        name: String,
    },
    /// An address cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The operating system gave no randomness.
    #[error("the operating system gives no randomness: {0}")]
    NoRandomness(getrandom::Error),
}

impl StartError {
    /// The short stable text.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadAppId(_) => "bad-app-id",
            Self::DuplicateHandler { .. } => "duplicate-handler",
            Self::ReservedName { .. } => "reserved-name",
            Self::UnknownHandler { .. } => "unknown-handler",
            Self::Listen(error) => error.reason(),
            Self::NoRandomness(_) => "no-randomness",
        }
    }
}

/// The first attempt of a [`connect`](crate::App::connect) did not end in a link.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::App;
/// let hello = App::builder("hello").start().await?;
/// let error = hello.connect("world", "mem://nobody-here").await.unwrap_err();
/// assert_eq!((error.reason(), error.to_string().as_str()), ("connect-refused", "nobody listens at mem://nobody-here"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The App ID is empty or too long.
    #[error(transparent)]
    BadAppId(#[from] InvalidAppId),
    /// It is this App's own ID.
    #[error("{app:?} is this App itself")]
    SelfAddressed {
        /// The App ID.
        app: String,
    },
    /// No connection came about.
    #[error("{0}")]
    Dial(std::sync::Arc<DialError>),
    /// The remote said no: `appId-in-use`, `version-mismatch`, `multi-gateway`, `dual-gateway`; because of its
    /// [`identities`](crate::Builder::identities), `identity-not-allowed` or `gateway-not-allowed`; or what its
    /// [`authorize`](crate::Builder::authorize) hook gave as the reason. `refused-too-often`: it looks at nothing more
    /// before some time has passed.
    #[error("{app:?} refused the register: {reason}{}", advice(reason))]
    Refused {
        /// Who was dialled.
        app: String,
        /// Its reason.
        reason: String,
    },
    /// Somebody else answers there.
    #[error("another App than {app:?} answers at that address (expect-mismatch)")]
    ExpectMismatch {
        /// Who was dialled.
        app: String,
    },
    /// It did not answer the register within 10 s.
    #[error("{app:?} did not answer the register (response-timeout)")]
    Timeout {
        /// Who was dialled.
        app: String,
    },
    /// The connection ended before the register was answered.
    #[error("the connection to {app:?} ended before it was registered ({reason})")]
    PeerDown {
        /// Who was dialled.
        app: String,
        /// The transport's reason.
        reason: String,
    },
    /// [`disconnect`](crate::App::disconnect), a shutdown, or the App's end came first.
    #[error("the attempt to connect was given up")]
    GivenUp,
}

/// What to do about a refusal, to be put behind its reason.
fn advice(reason: &str) -> &'static str {
    match reason {
        "identity-not-allowed" => {
            "; there this App ID belongs to another identity, or this identity to other App IDs: use the certificate or \
             token of this App ID"
        }
        "gateway-not-allowed" => "; no Gateway may register there: have that App dial this one",
        "refused-too-often" => "; wait some seconds, and find out why it was refused before",
        _ => "",
    }
}

impl ConnectError {
    /// The short stable text; the remote's own when it refused.
    pub fn reason(&self) -> &str {
        match self {
            Self::BadAppId(_) => "bad-app-id",
            Self::SelfAddressed { .. } => "self-addressed",
            Self::Dial(error) => error.reason(),
            Self::Refused { reason, .. } | Self::PeerDown { reason, .. } => reason,
            Self::ExpectMismatch { .. } => "expect-mismatch",
            Self::Timeout { .. } => "response-timeout",
            Self::GivenUp => "given-up",
        }
    }
}

/// What became of a call that did not succeed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, CallError};
/// let world = App::builder("world").listen("mem://errors")?.start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://errors").await?;
/// let error = hello.call::<_, ()>("world", "nope", &()).await.unwrap_err();
/// assert!(matches!(&error, CallError::NotOk { why, .. } if why == "no ability 'nope'"));
/// let error = hello.call::<_, ()>("mars", "nope", &()).await.unwrap_err();
/// assert_eq!(error.reason(), "no-route");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The remote answered, not ok.
    #[error("{why}")]
    NotOk {
        /// Why; empty if it did not say.
        why: String,
        /// What came along.
        payload: Payload,
    },
    /// The call's own deadline passed, or the 10 s of a protocol call.
    #[error("no response in time")]
    Timeout,
    /// The request fell to the queue caps or was parked before the remote had it (CAP-2, MSG-9).
    #[error("the request was discarded before it was delivered")]
    Discarded,
    /// The remote App was dropped: it unregistered, its grace ended, or we disconnected.
    #[error("the remote App is gone")]
    PeerGone,
    /// The remote restarted after it had received the request: whether it was carried out is unknown.
    #[error("the remote App restarted; whether the request was carried out is unknown")]
    PeerRestarted,
    /// This App was shut down.
    #[error("this App was terminated")]
    Terminated,
    /// Nothing was sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The App ID is empty or too long.
    #[error(transparent)]
    BadAppId(#[from] InvalidAppId),
    /// The request cannot be written as a payload. Nothing was sent.
    #[error("the request cannot be encoded: {0}")]
    Encode(PayloadError),
    /// The response is not of the type that was asked for.
    #[error("the response is not of the expected type: {0}")]
    Decode(PayloadError),
    /// The remote sent more of a lossless stream than its window allows; rather than lose chunks, the call failed.
    #[error("the remote sent beyond the window of its lossless stream")]
    StreamOverflow,
}

impl CallError {
    /// The short stable text.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotOk { .. } => "not-ok",
            Self::Timeout => "timeout",
            Self::Discarded => "discarded",
            Self::PeerGone => "peer-gone",
            Self::PeerRestarted => "peer-restarted",
            Self::Terminated => "terminated",
            Self::Send(error) => error.reason(),
            Self::BadAppId(_) => "bad-app-id",
            Self::Encode(_) => "bad-request",
            Self::Decode(_) => "bad-response",
            Self::StreamOverflow => "stream-overflow",
        }
    }

    /// The result that an outcome is.
    pub(crate) fn of(outcome: Outcome) -> Result<Payload, Self> {
        match outcome {
            Outcome::Response {
                is_ok: true,
                payload,
                ..
            } => Ok(payload),
            Outcome::Response {
                why_not_ok,
                payload,
                ..
            } => Err(Self::NotOk {
                why: why_not_ok.unwrap_or_default(),
                payload,
            }),
            Outcome::Timeout => Err(Self::Timeout),
            Outcome::Discarded => Err(Self::Discarded),
            Outcome::PeerGone => Err(Self::PeerGone),
            Outcome::PeerRestarted => Err(Self::PeerRestarted),
            Outcome::Terminated => Err(Self::Terminated),
        }
    }
}

/// A chunk that was not sent.
///
/// In a handler, `?` hands it on: the requester is gone or has its answer, so there is nobody left to tell.
///
/// ```
/// use napp::{EmitError, EventContext, HandlerError};
/// async fn count(ctx: EventContext, to: u32) -> Result<u32, HandlerError> {
///     for n in 0..to {
///         match ctx.emit(&n).await {
///             Ok(_) => {}
///             Err(EmitError::Gone) => return Ok(n),
///             Err(other) => return Err(other.into()),
///         }
///     }
///     Ok(to)
/// }
/// # let _ = napp::App::builder("world").event("count", count);
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The chunk cannot be written as a payload.
    #[error("the chunk cannot be encoded: {0}")]
    Encode(#[from] PayloadError),
    /// The requester was dropped, the request is answered, or this App was terminated.
    #[error("nobody waits for this chunk any more")]
    Gone,
    /// The chunk exceeds what can be sent.
    #[error(transparent)]
    Send(SendError),
}

impl From<SendError> for EmitError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Gone => Self::Gone,
            other => Self::Send(other),
        }
    }
}
