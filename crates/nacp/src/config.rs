//! Every limit and interval of the protocol, with its default and its name in the base protocol.

use std::time::Duration;

use crate::message::{AppId, Declaration};

/// What a full queue does with a newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overflow {
    /// CAP-2 and CAP-3: refuse a new notify, else evict the oldest notify, else the oldest message.
    #[default]
    Evict,
    /// CAP-6: nothing is evicted; a verb answers [`SendError::Full`](crate::SendError::Full) and the caller waits for
    /// [`Event::Room`](crate::Event::Room).
    Wait,
}

/// How one App speaks the protocol. All fields have the base protocol's defaults.
///
/// ```
/// use nacp::{AppId, Config};
/// use std::time::Duration;
/// let mut config = Config::new(AppId::new("world").unwrap());
/// config.reconnect_grace = Duration::from_secs(30);
/// assert_eq!(config.queue_count_max, 1_024);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Our own App ID.
    pub app: AppId,
    /// What we tell others that we can do.
    pub declaration: Declaration,
    /// A reliable message that is not ACKed this long after its acceptance takes the link offline (LINK-4b).
    /// Default 10 s; base name `ackTimeoutMs`.
    pub ack_timeout: Duration,
    /// How long an offline App is kept before it is dropped (LINK-7, LINK-10). Default 120 s; `reconnectGraceMs`.
    pub reconnect_grace: Duration,
    /// Between two heartbeats on a link; `None` sends none (the remote's are still answered). Default 60 s;
    /// `heartbeatIntervalMs`.
    pub heartbeat_interval: Option<Duration>,
    /// Messages in the Backlog, and in AckPending, of all remote Apps together (CAP-1). Default 1,024; `queueMaxCount`.
    pub queue_count_max: usize,
    /// Bytes in the Backlog, and in AckPending, of all remote Apps together (CAP-1). Default 4 GiB; `queueMaxBytes`.
    pub queue_bytes_max: u64,
    /// What happens at those limits. Default [`Overflow::Evict`], which is what base peers do.
    pub overflow: Overflow,
    /// Whether we forward for others (GW-1). Default false; `isGateway`.
    pub is_gateway: bool,
    /// As a Gateway: messages that may wait for one destination; they do not count in the Backlog's caps. From half of
    /// it on their source is held. Default 1,024.
    pub forward_count_max: usize,
    /// The same in bytes. Default 64 MiB.
    pub forward_bytes_max: u64,
    /// How long a source is held (not read) at a time for a destination that is behind. Default 1 s; keep it well below
    /// the peers' ACK timeout.
    pub forward_hold: Duration,
    /// Whether a second Gateway is kept as a plain link instead of being refused (GW-3). Default false;
    /// `autoMultiGatewayDowngrade`.
    pub auto_multi_gateway_downgrade: bool,
    /// Whether a register that nothing else speaks against waits for [`Nacp::admit_register`](crate::Nacp::admit_register), see
    /// [`Event::RegisterAsked`](crate::Event::RegisterAsked). Default false: everybody may register.
    pub asks_before_binding: bool,
    /// How long register, unregister, subscribe and unsubscribe wait for their Response (WAIT-2). Default 10 s.
    pub protocol_timeout: Duration,
    /// How long the holder of an App ID may stay silent when another program claims it (LINK-14). Default 3 s.
    pub challenge_timeout: Duration,
    /// How often in a row a link may break over one message before it is parked; 0 = never (MSG-9). Default 32.
    pub delivery_attempts_max: u32,
    /// The largest message that may be sent, in encoded bytes (MSG-9). Default 4 GiB − 1, the frame format's own limit.
    pub message_bytes_max: u64,
    /// A message above this many bytes counts as large: while one is being written, messages of other senders and
    /// receivers, acks and heartbeats overtake its chunks (HB-7). Default 64 KiB; set it to the transport's chunk size.
    pub large_message_bytes: usize,
    /// Chunks of one lossless stream that its reader has not taken yet, before the writer waits. Default 512.
    pub stream_window: u64,
    /// Acks that may wait for one peer that does not read, before it is closed. Default 65,536.
    pub acks_waiting_max: usize,
    /// Subscriptions that one remote App may hold here; one more is refused `too-many-subscriptions`. Default 65,536.
    pub subscriptions_max: usize,
    /// Whether to announce `reliable-notify` and `stream-credit` (MSG-11). Default true.
    pub lossless_streams: bool,
    /// Whether to announce `batched-acks`: one ack for many messages, between two Apps that both know it. Default true.
    pub batched_acks: bool,
}

impl Config {
    /// The defaults, for the App `app`.
    pub fn new(app: AppId) -> Self {
        Self {
            app,
            declaration: Declaration::default(),
            ack_timeout: Duration::from_secs(10),
            reconnect_grace: Duration::from_secs(120),
            heartbeat_interval: Some(Duration::from_secs(60)),
            queue_count_max: 1_024,
            queue_bytes_max: 4 << 30,
            overflow: Overflow::Evict,
            is_gateway: false,
            forward_count_max: 1_024,
            forward_bytes_max: 64 << 20,
            forward_hold: Duration::from_secs(1),
            auto_multi_gateway_downgrade: false,
            asks_before_binding: false,
            protocol_timeout: Duration::from_secs(10),
            challenge_timeout: Duration::from_secs(3),
            delivery_attempts_max: 32,
            message_bytes_max: u32::MAX as u64,
            large_message_bytes: 64 << 10,
            stream_window: 512,
            acks_waiting_max: 65_536,
            subscriptions_max: 65_536,
            lossless_streams: true,
            batched_acks: true,
        }
    }

    /// How many message ids are remembered for each remote App (MSG-8).
    pub fn dedup_window(&self) -> usize {
        self.queue_count_max.saturating_mul(2).max(4_096)
    }
}
