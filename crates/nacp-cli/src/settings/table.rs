//! The settings, all of them, once. Flags, variables, files, help and `--print-config` are made from this list.
//!
//! What this module keeps true: whoever adds a line here has added it everywhere; of every limit it is said what it
//! bounds, and what happens there.

use super::setting::{Group, Setting, of};
use super::slot::{Cell, Slot};
use super::who::Who;

/// Those for these programs, in the order in which they are shown.
pub fn settings(who: Who) -> impl Iterator<Item = &'static Setting> {
    [APP, QUEUES, TRANSPORT, super::security::SETTINGS]
        .into_iter()
        .flatten()
        .filter(move |setting| setting.who.includes(who))
}

static APP: &[Setting] = &[
    of(
        Group::App,
        Who::EVERYBODY,
        "id",
        Slot::Id(|plan| &mut plan.id),
        "Our own App ID, 1 to 255 bytes",
        "Without one, a command that calls makes one up: cli- and something random.",
    ),
    of(
        Group::App,
        Who::LISTENER,
        "listen",
        Slot::Urls(|plan| &mut plan.listen),
        "Where to listen; may be given more than once",
        "tcp://host:port (port 0: any), unix:/path, ws://…, http://…, and tls://, wss://, https:// with --tls-cert. One \
         http or ws listener serves both.",
    ),
    of(
        Group::App,
        Who::LISTENER,
        "connect",
        Slot::Links(|plan| &mut plan.connect),
        "An App to keep a link to, and where it listens; may be given more than once",
        "That App may be a Gateway, through which others reach us, and we them. It may also start later than we do.",
    ),
    of(
        Group::App,
        Who::SERVE,
        "gateway",
        Slot::Switch(|plan| &mut plan.core.is_gateway),
        "Forward between the Apps that register here, too",
        "As nacp gateway does, which has no handlers of its own.",
    ),
    of(
        Group::App,
        Who::SERVE,
        "handlers_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.handlers_max)),
        "Handlers that run at a time",
        "One more request is answered not ok, overloaded.",
    ),
    of(
        Group::Links,
        Who::EVERYBODY,
        "ack_timeout",
        Slot::Time(|plan| &mut plan.core.ack_timeout),
        "A message that is not acknowledged this long after it left takes the link offline",
        "The connection is closed, and made anew by whoever dialled it; what was not acknowledged is sent again.",
    ),
    Setting {
        short: Some("grace"),
        ..of(
            Group::Links,
            Who::EVERYBODY,
            "reconnect_grace",
            Slot::Time(|plan| &mut plan.core.reconnect_grace),
            "How long a lost App is waited for",
            "Then it is forgotten: what waits for it is dropped, its calls end with peer-gone.",
        )
    },
    Setting {
        short: Some("heartbeat"),
        ..of(
            Group::Links,
            Who::EVERYBODY,
            "heartbeat_interval",
            Slot::TimeOrOff(|plan| &mut plan.core.heartbeat_interval),
            "Time between heartbeats, or off",
            "One that is not answered before the next is due, or not acknowledged in time, takes the link offline.",
        )
    },
    of(
        Group::Links,
        Who::EVERYBODY,
        "protocol_timeout",
        Slot::Time(|plan| &mut plan.core.protocol_timeout),
        "How long a register, unregister, subscribe or unsubscribe waits for its answer",
        "Then it has failed. A new connection that sends no register for this long is closed.",
    ),
    of(
        Group::Links,
        Who::LISTENER,
        "challenge_timeout",
        Slot::Time(|plan| &mut plan.core.challenge_timeout),
        "How long the holder of an App ID may stay silent when another program claims it",
        "Then the newcomer gets the App ID, and the connection of the old one is closed.",
    ),
    of(
        Group::Links,
        Who::EVERYBODY,
        "reconnect_backoff",
        Slot::Time(|plan| &mut plan.backoff_base),
        "Before the first attempt to reconnect, a random part of this; doubled with each failure",
        "It stops doubling at --reconnect-backoff-max.",
    ),
    of(
        Group::Links,
        Who::EVERYBODY,
        "reconnect_backoff_max",
        Slot::Time(|plan| &mut plan.backoff_ceiling),
        "Between two attempts to reconnect at most",
        "Attempts go on at random times within it until the App is no longer wanted.",
    ),
    of(
        Group::Links,
        Who::LISTENER,
        "delivery_attempts_max",
        Slot::Count(0, |plan| Cell::U32(&mut plan.core.delivery_attempts_max)),
        "How often in a row a link may break over one message; 0: no limit",
        "Then the message is put aside as not sent (backlog:warning parked), and the next one goes.",
    ),
];

static QUEUES: &[Setting] = &[
    of(
        Group::Queues,
        Who::LISTENER,
        "queue_count_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.core.queue_count_max)),
        "Messages of our own that wait to be sent, and as many that wait for their ACK, for all Apps together",
        "See --overflow. Also unread chunks of one plain stream, the oldest of which is dropped and reported \
         (notify:warning). What is forwarded does not count here.",
    ),
    of(
        Group::Queues,
        Who::LISTENER,
        "queue_bytes_max",
        Slot::Bytes(1, |plan| Cell::U64(&mut plan.core.queue_bytes_max)),
        "The same in bytes",
        "See --overflow. One message that is larger is refused as too large.",
    ),
    of(
        Group::Queues,
        Who::LISTENER,
        "overflow",
        Slot::Overflow(|plan| &mut plan.core.overflow),
        "What a full queue does",
        "evict: a new notify is refused, for anything else the oldest notify is dropped, else the oldest message; each \
         is reported (backlog:warning), a call among them ends with an error. wait: the sender waits for room.",
    ),
    of(
        Group::Queues,
        Who::SERVE,
        "stream_window",
        Slot::Count(1, |plan| Cell::U64(&mut plan.core.stream_window)),
        "Chunks of one lossless stream that its reader has not taken",
        "The writer waits.",
    ),
    of(
        Group::Queues,
        Who::SERVE,
        "lossless_streams",
        Slot::Switch(|plan| &mut plan.core.lossless_streams),
        "Whether streams are lossless towards Apps that know how",
        "If not, chunks in flight are lost when a connection breaks, as in the base protocol.",
    ),
    of(
        Group::Queues,
        Who::LISTENER,
        "batched_acks",
        Slot::Switch(|plan| &mut plan.core.batched_acks),
        "Whether many messages may share one ACK, towards Apps that know how",
        "If not, each message has its own.",
    ),
    of(
        Group::Queues,
        Who::LISTENER,
        "acks_waiting_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.core.acks_waiting_max)),
        "ACKs that wait for one connection that is not read at its other end",
        "The connection is closed, and the link offline until a new one comes.",
    ),
    of(
        Group::Queues,
        Who::LISTENER,
        "subscriptions_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.core.subscriptions_max)),
        "Subscriptions to our event bus that one App may hold",
        "One more is refused, too-many-subscriptions.",
    ),
    of(
        Group::Forwarding,
        Who::LISTENER,
        "forward_count_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.core.forward_count_max)),
        "Messages that wait for one destination",
        "From half of it on, the connections that they come from are not read, for --forward-hold at most. At the \
         limit a new notify is refused, and anything else drops the oldest notify, else the oldest message \
         (backlog:warning). No destination takes room from another.",
    ),
    of(
        Group::Forwarding,
        Who::LISTENER,
        "forward_bytes_max",
        Slot::Bytes(1, |plan| Cell::U64(&mut plan.core.forward_bytes_max)),
        "The same in bytes",
        "As --forward-count-max. One request that is larger is answered not ok, too-large; another message that is \
         larger is dropped (gateway:error).",
    ),
    of(
        Group::Forwarding,
        Who::LISTENER,
        "forward_hold",
        Slot::Time(|plan| &mut plan.core.forward_hold),
        "How long a connection is not read at a time because a destination is behind",
        "Then it is read again for as long, and what finds no room is dropped. Keep it well below the ACK timeout of the \
         Apps that are connected: to them a Gateway that does not read looks dead.",
    ),
    of(
        Group::Forwarding,
        Who::LISTENER,
        "auto_multi_gateway_downgrade",
        Slot::Switch(|plan| &mut plan.core.auto_multi_gateway_downgrade),
        "Whether a second Gateway that registers here is kept, as an App like others",
        "If not, it is refused, multi-gateway.",
    ),
];

static TRANSPORT: &[Setting] = &[
    of(
        Group::Messages,
        Who::LISTENER,
        "message_size_max",
        Slot::Bytes(1024, |plan| Cell::U32(&mut plan.transport.message_size_max)),
        "Bytes of one message, in both directions",
        "A larger one is not sent (too-large); one that comes closes its connection (message-too-large).",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "chunk_size",
        Slot::Bytes(64, |plan| Cell::Usize(&mut plan.transport.chunk_size)),
        "Bytes of one frame that is sent, its header of 32 included",
        "A larger message is cut into frames, and messages of other Apps pass between them.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "frame_size_max",
        Slot::Bytes(64, |plan| Cell::U32(&mut plan.transport.frame_size_max)),
        "Bytes of one frame that comes, its header included",
        "A larger one closes its connection, frame-too-large.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "reassembly_count_max",
        Slot::Count(1, |plan| {
            Cell::Usize(&mut plan.transport.reassembly_count_max)
        }),
        "Messages of which a part has come, for each connection",
        "One more closes its connection, reassembly-overflow.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "reassembly_bytes_max",
        Slot::Bytes(1024, |plan| {
            Cell::U64(&mut plan.transport.reassembly_bytes_max)
        }),
        "Bytes that have come of unfinished messages, for each connection",
        "More close its connection, reassembly-overflow.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "reassembly_timeout",
        Slot::Time(|plan| &mut plan.transport.reassembly_timeout),
        "How long nothing more may come of an unfinished message",
        "Then its connection is closed, reassembly-timeout.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "batch_bytes_max",
        Slot::Bytes(1, |plan| Cell::Usize(&mut plan.transport.batch_bytes_max)),
        "Bytes of small messages that one connection takes from the queue ahead of the system, and writes at once",
        "The rest waits in the queue, where it survives the connection.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "large_count_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.transport.large_count_max)),
        "Large messages that are being written to one connection side by side; more than 4 are as good as 4",
        "The next one waits in the queue.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "unsent_bytes_max",
        Slot::Bytes(1, |plan| Cell::U32(&mut plan.transport.unsent_bytes_max)),
        "Bytes that the system may hold unsent for one connection, where it can be told",
        "The rest waits here, so that ACKs and heartbeats get ahead of it.",
    ),
    of(
        Group::Messages,
        Who::LISTENER,
        "read_buffer_size",
        Slot::Bytes(4096, |plan| {
            Cell::Usize(&mut plan.transport.read_buffer_size)
        }),
        "Bytes of the buffer that each connection is read into",
        "It starts smaller, and grows to this for a connection that sends a lot.",
    ),
    of(
        Group::Connections,
        Who::EVERYBODY,
        "connect_timeout",
        Slot::Time(|plan| &mut plan.transport.connect_timeout),
        "From the start of a dial, name look-up and TLS included, to a usable connection",
        "Then the attempt has failed. TLS handshakes of those who dial us have the same time.",
    ),
    of(
        Group::Connections,
        Who::LISTENER,
        "accept_queue_max",
        Slot::Count(1, |plan| Cell::U32(&mut plan.transport.accept_queue_max)),
        "Connections that the system holds until we take them, for each address",
        "The system lets further ones wait or fail, as it does.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_connections_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.web.connections_max)),
        "HTTP connections that handshake, wait between requests or serve one; an HTTP session has two, a WebSocket none",
        "Further ones wait in the system's queue.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_sessions_max",
        Slot::Count(1, |plan| Cell::Usize(&mut plan.web.sessions_max)),
        "HTTP sessions at once",
        "One more GET is answered 503.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_idle_timeout",
        Slot::TimeOrZero(|plan| &mut plan.web.idle_timeout),
        "How long an HTTP session may be without traffic, or off",
        "Then it ends, idle-timeout. Heartbeats are traffic.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_post_bytes_max",
        Slot::Bytes(1024, |plan| {
            Cell::Usize(&mut plan.web.received_post_bytes_max)
        }),
        "Bytes of the body of one POST",
        "A larger one is answered 413, and its session ends.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_queue_bytes_max",
        Slot::Bytes(1024, |plan| {
            Cell::Usize(&mut plan.web.downlink_queue_bytes_max)
        }),
        "Bytes that wait for one HTTP session beyond what it wants",
        "More end it, send-buffer-overflow.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_header_timeout",
        Slot::Time(|plan| &mut plan.web.header_timeout),
        "How long an HTTP connection may take to send the header of a request",
        "Then it is closed.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_header_bytes_max",
        Slot::Bytes(8192, |plan| Cell::Usize(&mut plan.web.header_bytes_max)),
        "Bytes of the header of one request",
        "A larger one is answered 431.",
    ),
    of(
        Group::Web,
        Who::LISTENER,
        "web_refusals_max",
        Slot::Count(0, |plan| Cell::U32(&mut plan.web.refusals_max)),
        "Requests of one address that were refused for their token; one is forgotten each second; 0: no limit",
        "Further ones are answered 429. Behind a proxy set it to 0: there all come from one address.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::plan::Plan;

    #[test]
    fn every_setting_is_explained_and_has_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        for setting in settings(Who::EVERYBODY) {
            assert!(names.insert(setting.name), "{} twice", setting.name);
            let lines = setting.what.lines().count();
            assert_eq!(lines, 1, "{}: it is a comment in a file", setting.name);
            assert!(!setting.what.ends_with('.'), "{}", setting.name);
            assert!(setting.then.ends_with('.'), "{}", setting.name);
        }
        assert!(names.len() > 40, "the table is here");
    }

    #[test]
    fn what_is_shown_can_be_read_back() {
        for who in [Who::SERVE, Who::GATEWAY, Who::CALLER] {
            let mut plan = Plan::new(who);
            for setting in settings(who) {
                let Some(shown) = setting.slot.show(&mut plan) else {
                    continue;
                };
                let word = vec![shown.trim_matches('"').to_owned()];
                if !setting.slot.is_list() {
                    setting.slot.write(&mut plan, &word).expect(setting.name);
                }
                assert_eq!(setting.slot.show(&mut plan), Some(shown));
            }
        }
    }
}
