//! What the core tells its driver: [`Event`]s, in the order in which they came about.

use std::borrow::Cow;

use crate::message::{
    AppId, Encoded, MessageId, Payload, Registration, RequestKind, SignalKind, Target,
};
use crate::time::Instant;

/// One transport connection, named by the driver. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// How a connection came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// We dialled and expect this App; a register goes out at once.
    Dialer {
        /// The App that must answer.
        expect: AppId,
    },
    /// We accepted; the remote registers.
    Acceptor,
}

/// A call of ours: request, subscribe or unsubscribe. Its message's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub(crate) u64);

/// A request of a remote App that we have not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServingId(pub(crate) u64);

/// A message whose fate was asked for. Its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SendId(pub(crate) u64);

impl CallId {
    /// A number that no other call of this App has.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl ServingId {
    /// A number that no other served request of this App has.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// How a call ended. Each call has exactly one (WAIT-4).
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A Response came.
    Response {
        /// Whether the handler succeeded.
        is_ok: bool,
        /// Why it did not.
        why_not_ok: Option<String>,
        /// Its payload.
        payload: Payload,
    },
    /// Its own deadline, or the protocol's 10 s, passed. Its message is taken out of the queues (WAIT-6).
    Timeout,
    /// Its message was evicted or parked before the remote had received it (WAIT-5, MSG-9).
    Discarded,
    /// The remote App was dropped: it unregistered, its grace ended, or we disconnected.
    PeerGone,
    /// The remote restarted after it had received the request: whether it was carried out is unknown (LINK-15).
    PeerRestarted,
    /// This App was terminated (TERM-1).
    Terminated,
}

/// Why a link went offline (LINK-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfflineCause {
    /// The connection ended.
    PeerDown,
    /// A reliable message was not ACKed in time.
    AckTimeout,
    /// A heartbeat had no Response when the next fell due.
    HeartbeatMissed,
    /// It did not answer the probe when another program claimed its App ID (LINK-14).
    ChallengeLost,
    /// The Gateway through which it is reached went offline (LINK-16).
    GatewayOffline,
}

/// Why an App was dropped (LINK-10, LINK-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// Its reconnect grace ended.
    GraceEnded,
    /// It unregistered.
    Unregistered,
    /// We disconnected.
    Disconnected,
}

/// Why the core wants a connection closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The link over it went offline.
    LinkOffline(OfflineCause),
    /// The same program registered again over another connection.
    Superseded,
    /// The remote unregistered and has our reply; or it answered ours.
    Unregistered,
    /// Our register was refused.
    Refused(String),
    /// Our register had no response in time (`response-timeout`).
    ResponseTimeout,
    /// The answer to our register came from another App (`expect-mismatch`).
    ExpectMismatch,
    /// We refused the remote's register, and it had 10 s to read why.
    RefusedRemote(Cow<'static, str>),
    /// It never registered.
    NeverRegistered,
    /// It broke the protocol.
    Violation(&'static str),
    /// This App terminates.
    Terminated,
}

impl CloseReason {
    /// The short name that the event bus and logs use.
    pub fn reason(&self) -> &str {
        match self {
            Self::LinkOffline(OfflineCause::PeerDown) => "peer-down",
            Self::LinkOffline(OfflineCause::AckTimeout) => "ack-timeout",
            Self::LinkOffline(OfflineCause::HeartbeatMissed) => "heartbeat-missed",
            Self::LinkOffline(OfflineCause::ChallengeLost) => "challenge-lost",
            Self::LinkOffline(OfflineCause::GatewayOffline) => "gateway-offline",
            Self::Superseded => "superseded",
            Self::Unregistered => "unregistered",
            Self::Refused(reason) => reason,
            Self::ResponseTimeout => "response-timeout",
            Self::ExpectMismatch => "expect-mismatch",
            Self::RefusedRemote(reason) => reason,
            Self::Violation(reason) => reason,
            Self::NeverRegistered => "never-registered",
            Self::Terminated => "terminated",
        }
    }
}

/// To whom a notify belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotifyTarget {
    /// A chunk of this event call's stream.
    Call(CallId),
    /// A hit of this subscription (named by its subscribe call).
    Subscription(CallId),
}

/// Something went wrong that a person may want to see; the event bus carries it under
/// [`name`](Report::name) as `{msg, reason}`.
#[derive(Clone, Debug)]
pub struct Report {
    /// The bus name, such as `nacp:internal:ack:warning`.
    pub name: &'static str,
    /// The reason, such as `timeout`: one of a fixed set.
    pub reason: &'static str,
    /// The application's own reason, where it refused a register.
    pub said: Option<String>,
    /// Where it came from, if it came.
    pub peer: Option<PeerId>,
    /// The other App, if known.
    pub app: Option<AppId>,
    /// The message it is about, as wire bytes.
    pub message: Option<Encoded>,
}

/// One thing that happened. The driver takes them all after each call of the core.
#[derive(Clone, Debug)]
pub enum Event {
    /// With [`Config::asks_before_binding`](crate::Config::asks_before_binding): a remote wants to register, and no state
    /// was made for it. Answer with [`Nacp::admit_register`](crate::Nacp::admit_register), and hand over no further message of this
    /// connection before: they come after the register, and mean nothing without it.
    RegisterAsked {
        /// Its connection.
        peer: PeerId,
        /// Who it says it is.
        app: AppId,
        /// What else it says.
        registration: Box<Registration>,
    },
    /// A remote App is online (LINK-2): `bound` on the event bus.
    Online {
        /// The App.
        app: AppId,
        /// Its connection.
        peer: PeerId,
        /// Whether it is our Gateway.
        is_gateway: bool,
        /// Whether it was offline before and its Backlog is replayed (LINK-8); false for a new App.
        resumed: bool,
        /// Whether it lost what it knew of us in between (LINK-15).
        restarted: bool,
    },
    /// A remote App went offline (LINK-4).
    Offline {
        /// The App.
        app: AppId,
        /// Why.
        cause: OfflineCause,
        /// When its grace ends.
        until: Instant,
    },
    /// A remote App is forgotten (LINK-11).
    Dropped {
        /// The App.
        app: AppId,
        /// Why.
        cause: DropCause,
    },
    /// The driver must close this connection. The core has forgotten it already; do not report it down.
    ClosePeer {
        /// The connection.
        peer: PeerId,
        /// Why.
        reason: CloseReason,
    },
    /// A request to serve: answer it with [`Nacp::respond`](crate::Nacp::respond).
    Request {
        /// Its name here.
        serving: ServingId,
        /// Who asks.
        from: AppId,
        /// Its message id.
        id: MessageId,
        /// Event or ability.
        kind: RequestKind,
        /// The handler's name.
        target: Option<Target>,
        /// What it is asked with.
        payload: Payload,
        /// Whether chunks of its stream are lossless (MSG-11).
        lossless: bool,
    },
    /// A signal for an event request that is being served.
    Signal {
        /// Which.
        serving: ServingId,
        /// Who sent it.
        from: AppId,
        /// What it says.
        kind: SignalKind,
        /// With [`SignalKind::Normal`] only.
        payload: Payload,
    },
    /// Who asked is dropped or restarted: nobody waits for the answer (WAIT-7).
    RequesterGone {
        /// Which request.
        serving: ServingId,
    },
    /// The lossless stream has room again (MSG-11).
    StreamWritable {
        /// Which request's stream.
        serving: ServingId,
    },
    /// A chunk of an event call, or a hit of a subscription.
    Notify {
        /// Whose it is.
        target: NotifyTarget,
        /// The name that was emitted at the remote.
        hit_sub_name: String,
        /// The chunk.
        payload: Payload,
        /// Whether it came as a reliable message (MSG-11): its reader must not lose it.
        reliable: bool,
    },
    /// A call ended.
    Done {
        /// Which.
        call: CallId,
        /// How.
        outcome: Outcome,
    },
    /// An established subscription ended without our doing: its App was dropped or refused to renew it.
    SubscriptionEnded {
        /// Its subscribe call.
        call: CallId,
        /// How.
        outcome: Outcome,
    },
    /// The fate of a send that asked for it (MSG-5).
    Settled {
        /// Which.
        send: SendId,
        /// True = accepted (notify) or ACKed (reliable).
        delivered: bool,
    },
    /// After [`SendError::Full`](crate::SendError::Full): there is room again (CAP-6).
    Room,
    /// A destination is behind: read nothing from this connection until [`Event::Release`].
    Hold {
        /// The source's connection.
        peer: PeerId,
    },
    /// Read from it again.
    Release {
        /// The source's connection.
        peer: PeerId,
    },
    /// See [`Report`].
    Report(Report),
}
