//! A core under test, a clock that only the test moves, and scripted peers: `send` a message as a remote would, look at
//! what went `out`.
#![allow(dead_code, reason = "each test file uses its part")]

use std::time::Duration;

use bytes::Bytes;
use nacp::message::{Head, MessageType, Meta, Registration, decode, encode};
use nacp::*;

/// A message that the core sent, decoded and owned.
#[derive(Clone, Debug)]
pub struct Sent {
    pub token: u64,
    pub kind: MessageType,
    pub id: String,
    pub to: String,
    pub from: String,
    pub parent: Option<String>,
    pub is_ok: Option<bool>,
    pub why: Option<String>,
    pub target: Option<String>,
    pub hit: Option<String>,
    pub reliable: bool,
    pub taken: Option<u64>,
    pub acked: Vec<String>,
    pub payload: Payload,
    pub bytes: Bytes,
}

impl Sent {
    pub fn text(&self) -> String {
        self.payload.decode().expect("a text payload")
    }

    pub fn is_heartbeat(&self) -> bool {
        self.target.as_deref() == Some("NApp.heartbeat")
    }
}

pub struct Rig {
    pub nacp: Nacp,
    pub now: Instant,
    peers: u64,
    ids: u64,
}

pub fn app(name: &str) -> AppId {
    AppId::new(name).unwrap()
}

pub fn text(value: &str) -> Payload {
    Payload::encode(value).unwrap()
}

pub const MS: Duration = Duration::from_millis(1);

impl Rig {
    /// The App `me`, without heartbeats so that only what a test asks for is sent.
    pub fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(app("me"));
        config.heartbeat_interval = None;
        change(&mut config);
        Self {
            nacp: Nacp::new(config, 1_700_000_000_000, [7; 32]),
            now: Instant::EPOCH,
            peers: 0,
            ids: 0,
        }
    }

    pub fn accept(&mut self) -> PeerId {
        self.peers += 1;
        let peer = PeerId(self.peers);
        self.nacp.handle_peer_up(self.now, peer, Role::Acceptor);
        peer
    }

    pub fn dial(&mut self, expect: &str) -> PeerId {
        self.peers += 1;
        let peer = PeerId(self.peers);
        self.nacp.handle_peer_up(
            self.now,
            peer,
            Role::Dialer {
                expect: app(expect),
            },
        );
        peer
    }

    pub fn new_id(&mut self) -> String {
        self.ids += 1;
        format!("remote-{}", self.ids)
    }

    pub fn try_send(
        &mut self,
        peer: PeerId,
        from: &str,
        to: &str,
        id: &str,
        meta: Meta<'_>,
        payload: Option<&Payload>,
    ) -> Result<(), PeerViolation> {
        let head = Head {
            id,
            from,
            to,
            t_ms: 0,
            meta,
        };
        let bytes = encode(&head, payload).to_bytes();
        self.nacp.handle_message(self.now, peer, &bytes)
    }

    /// A message of `from` to us.
    pub fn send(
        &mut self,
        peer: PeerId,
        from: &str,
        id: &str,
        meta: Meta<'_>,
        payload: Option<&Payload>,
    ) {
        self.try_send(peer, from, "me", id, meta, payload)
            .expect("a legal message");
    }

    pub fn ack(&mut self, peer: PeerId, from: &str, parent: &str) {
        let id = self.new_id();
        self.send(
            peer,
            from,
            &id,
            Meta::Ack {
                parent_id: parent.into(),
                taken: None,
            },
            None,
        );
    }

    pub fn answer(
        &mut self,
        peer: PeerId,
        from: &str,
        parent: &str,
        why_not: Option<&str>,
        payload: &Payload,
    ) -> String {
        let id = self.new_id();
        let meta = Meta::Response {
            parent_id: parent.into(),
            is_ok: why_not.is_none(),
            why_not_ok: why_not.map(Into::into),
            kind: Some(RequestKind::Ability),
        };
        self.send(peer, from, &id, meta, Some(payload));
        id
    }

    pub fn ask(&mut self, peer: PeerId, from: &str, id: &str, kind: RequestKind, target: &str) {
        self.send(
            peer,
            from,
            id,
            Meta::Request {
                kind,
                target: Some(target.into()),
            },
            Some(&text("?")),
        );
    }

    /// What the core hands to the transport, not accepted yet.
    pub fn submit(&mut self, peer: PeerId) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(transmit) = self.nacp.poll_transmit(self.now, peer) {
            sent.push(decoded(transmit));
        }
        sent
    }

    /// What the core sends, accepted at once.
    pub fn out(&mut self, peer: PeerId) -> Vec<Sent> {
        let sent = self.submit(peer);
        for message in &sent {
            self.nacp.handle_accepted(self.now, peer, message.token);
        }
        sent
    }

    pub fn registration(instance: Option<&str>, features: &[&str], is_gateway: bool) -> Payload {
        let registration = Registration {
            is_gateway,
            instance: instance.map(str::to_owned),
            features: features.iter().map(|&name| name.to_owned()).collect(),
            ..Registration::default()
        };
        Payload::encode(&registration).unwrap()
    }

    pub fn send_register(&mut self, peer: PeerId, from: &str, registration: &Payload) -> String {
        let id = self.new_id();
        self.send(peer, from, &id, Meta::Register, Some(registration));
        id
    }

    /// A connection over which the base peer `from` is registered, its handshake ACKed, our events drained.
    pub fn register(&mut self, from: &str) -> PeerId {
        self.register_as(from, &Self::registration(None, &[], false))
    }

    /// The same, but what was queued for it is left for the test to take.
    pub fn register_unacked(&mut self, from: &str) -> PeerId {
        let peer = self.accept();
        self.send_register(peer, from, &Self::registration(None, &[], false));
        for _ in 0..2 {
            let transmit = self
                .nacp
                .poll_transmit(self.now, peer)
                .expect("ack and response");
            self.nacp.handle_accepted(self.now, peer, transmit.token);
        }
        self.events();
        peer
    }

    pub fn register_as(&mut self, from: &str, registration: &Payload) -> PeerId {
        let peer = self.accept();
        self.send_register(peer, from, registration);
        let sent = self.out(peer);
        assert_eq!(sent[0].kind, MessageType::Ack, "{sent:?}");
        assert_eq!(
            (sent[1].kind, sent[1].is_ok),
            (MessageType::Response, Some(true)),
            "{sent:?}"
        );
        let response = sent[1].id.clone();
        self.ack(peer, from, &response);
        self.events();
        peer
    }

    pub fn cut(&mut self, peer: PeerId) {
        self.nacp.handle_peer_down(self.now, peer);
    }

    /// Lets time pass, doing what falls due when it does.
    pub fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some((at, _)) = self.nacp.poll_timeout() {
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.nacp.handle_timeout(self.now);
        }
        self.now = end;
        self.nacp.handle_timeout(self.now);
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.nacp.poll_event()).collect()
    }

    /// The reports among the events, as `(name, reason)`.
    pub fn reports(&mut self) -> Vec<(&'static str, &'static str)> {
        reports(&self.events())
    }

    pub fn signal_to(&mut self, to: &str, value: &str) -> SendId {
        let request = MessageId::from("some-request");
        self.nacp
            .signal_to(
                self.now,
                &app(to),
                &request,
                SignalKind::Normal,
                Some(&text(value)),
            )
            .unwrap()
    }

    pub fn call(&mut self, to: &str, value: &str) -> CallId {
        self.nacp
            .request(
                self.now,
                &app(to),
                RequestKind::Ability,
                "do",
                &text(value),
                None,
            )
            .unwrap()
    }

    pub fn event_call(&mut self, to: &str, value: &str) -> CallId {
        self.nacp
            .request(
                self.now,
                &app(to),
                RequestKind::Event,
                "do",
                &text(value),
                None,
            )
            .unwrap()
    }

    pub fn id_of(&self, call: CallId) -> String {
        self.nacp
            .call_message_id(call)
            .expect("an open call")
            .to_string()
    }
}

pub fn reports(events: &[Event]) -> Vec<(&'static str, &'static str)> {
    let report = |event: &Event| match event {
        Event::Report(report) => Some((report.name, report.reason)),
        _ => None,
    };
    events.iter().filter_map(report).collect()
}

pub fn outcomes(events: &[Event]) -> Vec<(CallId, Outcome)> {
    let done = |event: &Event| match event {
        Event::Done { call, outcome } => Some((*call, outcome.clone())),
        _ => None,
    };
    events.iter().filter_map(done).collect()
}

pub fn settled(events: &[Event]) -> Vec<(SendId, bool)> {
    let settled = |event: &Event| match event {
        Event::Settled { send, delivered } => Some((*send, *delivered)),
        _ => None,
    };
    events.iter().filter_map(settled).collect()
}

/// The served requests among the events.
pub fn requests(events: &[Event]) -> Vec<(ServingId, String)> {
    let request = |event: &Event| match event {
        Event::Request { serving, id, .. } => Some((*serving, id.to_string())),
        _ => None,
    };
    events.iter().filter_map(request).collect()
}

/// `online`, `offline` and `dropped` among the events.
pub fn links(events: &[Event]) -> Vec<(&'static str, String)> {
    let change = |event: &Event| match event {
        Event::Online { app, .. } => Some(("online", app.to_string())),
        Event::Offline { app, .. } => Some(("offline", app.to_string())),
        Event::Dropped { app, .. } => Some(("dropped", app.to_string())),
        _ => None,
    };
    events.iter().filter_map(change).collect()
}

pub fn closed(events: &[Event]) -> Vec<(PeerId, String)> {
    let close = |event: &Event| match event {
        Event::ClosePeer { peer, reason } => Some((*peer, reason.reason().to_owned())),
        _ => None,
    };
    events.iter().filter_map(close).collect()
}

pub fn texts(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .filter(|message| message.kind != MessageType::Ack)
        .map(Sent::text)
        .collect()
}

pub fn kinds(sent: &[Sent]) -> Vec<&'static str> {
    sent.iter().map(|message| message.kind.as_str()).collect()
}

fn ids_of(meta: &Meta<'_>) -> Vec<String> {
    meta.acknowledged()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn decoded(transmit: Transmit) -> Sent {
    let bytes = transmit.message.to_bytes();
    assert_eq!(bytes.len(), transmit.message.len());
    let envelope = decode(&bytes).expect("what the core sends is legal");
    let mut sent = Sent {
        token: transmit.token,
        kind: envelope.meta.message_type(),
        id: envelope.id.to_string(),
        to: envelope.to.to_string(),
        from: envelope.from.to_string(),
        parent: None,
        is_ok: None,
        why: None,
        target: None,
        hit: None,
        reliable: false,
        taken: None,
        acked: Vec::new(),
        payload: envelope.payload_of(&bytes),
        bytes: bytes.clone(),
    };
    match &envelope.meta {
        Meta::Notify {
            parent_id,
            hit_sub_name,
            reliable,
            ..
        } => {
            sent.parent = Some(parent_id.to_string());
            sent.hit = Some(hit_sub_name.to_string());
            sent.reliable = *reliable;
        }
        Meta::Request { target, .. } => sent.target = target.as_deref().map(str::to_owned),
        Meta::Response {
            parent_id,
            is_ok,
            why_not_ok,
            ..
        } => {
            sent.parent = Some(parent_id.to_string());
            sent.is_ok = Some(*is_ok);
            sent.why = why_not_ok.as_deref().map(str::to_owned);
        }
        Meta::Signal { parent_id, .. } => sent.parent = Some(parent_id.to_string()),
        Meta::Ack { parent_id, taken } => {
            sent.parent = Some(parent_id.to_string());
            sent.taken = *taken;
            sent.acked = ids_of(&envelope.meta);
        }
        Meta::AckMany { .. } => sent.acked = ids_of(&envelope.meta),
        Meta::Register | Meta::Unregister | Meta::Subscribe | Meta::Unsubscribe => {}
    }
    sent
}
