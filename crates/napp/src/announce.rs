//! What the event bus tells of the protocol: the names and payloads of `docs/wire.md`. What this module keeps true:
//! nothing is built when nobody listens; a subscription to events about messages never feeds on itself (SUB-4).

use bytes::Bytes;
use nacp::message::{Encoded, decode};
use nacp::{Answer, AppId, MessageId, Payload, PeerId, Report, SignalKind};
use serde::Serialize;

use crate::bus::Audience;
use crate::driver::{Visit, payload};
use crate::link::LinkStatus;
use crate::serving::{Arrival, Signal};

/// `peerId` on the bus is text.
pub(crate) fn peer_name(peer: PeerId) -> String {
    peer.0.to_string()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PeerEvent<'a> {
    peer_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inbound {
    from_peer_id: String,
    msg: Payload,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outbound {
    to_peer_id: String,
    msg: Payload,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LinkEvent<'a> {
    app_id: &'a str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_gateway: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trouble<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<Payload>,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_peer_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_gateway_peer_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerEvent<'a> {
    result: &'a Payload,
    is_ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not_ok: Option<&'a str>,
}

#[derive(Serialize)]
struct SignalEvent<'a> {
    kind: &'static str,
    from: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Payload>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Overflow<'a> {
    app_id: &'a str,
    sub_id: &'a str,
    target_sub_name: &'a str,
    dropped: u64,
    reason: &'static str,
}

#[derive(Serialize)]
struct RequestMessage<'a> {
    r#type: &'static str,
    id: &'a str,
    from: &'a str,
    to: &'a str,
    meta: RequestMeta<'a>,
}

#[derive(Serialize)]
struct RequestMeta<'a> {
    kind: &'static str,
    target: &'a str,
}

impl Visit<'_> {
    pub(crate) fn announce_peer(&mut self, what: &'static str, peer: PeerId, reason: Option<&str>) {
        let name = match what {
            "connect" => "nact:peer:connect",
            "disconnect" => "nact:peer:disconnect",
            _ => "nact:peer:error",
        };
        self.announce(name, Audience::All, || {
            payload(&PeerEvent {
                peer_id: peer_name(peer),
                reason,
            })
        });
    }

    /// Before any check (MSG-4).
    pub(crate) fn announce_inbound(&mut self, peer: PeerId, message: &Bytes) {
        if self.is_heard() {
            self.announce_message("nacp:inbound:", peer, message);
        }
    }

    /// At each attempt to leave.
    pub(crate) fn announce_outbound(&mut self, peer: PeerId, message: &Encoded) {
        if self.is_heard() {
            self.announce_message("nacp:outbound:", peer, &message.to_bytes());
        }
    }

    fn announce_message(&mut self, prefix: &'static str, peer: PeerId, bytes: &Bytes) {
        // What is no message has no type, hence no name; it is reported as an error.
        let Ok(envelope) = decode(bytes) else { return };
        let audience = self.state.bus.audience(&envelope);
        let name = format!("{prefix}{}", envelope.meta.message_type().as_str());
        if !self.is_heard_as(&name) {
            return;
        }
        let Ok(msg) = Payload::from_cbor(bytes.clone()) else {
            return;
        };
        let peer = peer_name(peer);
        let event = if prefix == "nacp:inbound:" {
            payload(&Inbound {
                from_peer_id: peer,
                msg,
            })
        } else {
            payload(&Outbound {
                to_peer_id: peer,
                msg,
            })
        };
        self.emit(&name, &event, audience);
    }

    pub(crate) fn announce_link(&mut self, app: &AppId, status: &LinkStatus) {
        let (reason, is_gateway) = match status {
            LinkStatus::Online { is_gateway, .. } => ("bound", Some(*is_gateway)),
            LinkStatus::Offline { .. } => ("offline", None),
            LinkStatus::Dropped { .. } => ("dropped", None),
        };
        self.announce("nacp:internal:napp:success", Audience::All, || {
            payload(&LinkEvent {
                app_id: app.as_str(),
                reason,
                is_gateway,
            })
        });
    }

    pub(crate) fn announce_answer(&mut self, arrival: &Arrival, answer: &Answer) {
        if !self.is_heard() {
            return;
        }
        let name = format!("nacp:{}:{}:response", arrival.kind.as_str(), arrival.id);
        self.announce(&name, Audience::All, || {
            payload(&AnswerEvent {
                result: &answer.payload,
                is_ok: answer.is_ok,
                why_not_ok: answer.why_not_ok.as_deref(),
            })
        });
    }

    pub(crate) fn announce_signal(&mut self, arrival: &Arrival, signal: &Signal) {
        if !self.is_heard() {
            return;
        }
        let name = format!("nacp:event:{}:signal", arrival.id);
        self.announce(&name, Audience::All, || {
            payload(&SignalEvent {
                kind: signal.kind.as_str(),
                from: signal.from.as_str(),
                payload: Some(&signal.payload).filter(|_| signal.kind == SignalKind::Normal),
            })
        });
    }

    /// A chunk for everybody but its requester, who got it already.
    pub(crate) fn announce_chunk(&mut self, arrival: &Arrival, chunk: &Payload) {
        if self.is_heard() {
            let name = format!("nacp:event:{}:process", arrival.id);
            self.emit(&name, chunk, Audience::Except(arrival.id.as_str()));
        }
    }

    /// SUB-3.
    pub(crate) fn announce_overflow(
        &mut self,
        app: &AppId,
        id: &MessageId,
        name: &str,
        dropped: u64,
    ) {
        self.shared.metrics.chunks_dropped.increment(1);
        self.announce("napp:internal:notify:warning", Audience::All, || {
            payload(&Overflow {
                app_id: app.as_str(),
                sub_id: id.as_str(),
                target_sub_name: name,
                dropped,
                reason: "stream-overflow",
            })
        });
    }

    /// A request that no handler served as it should be.
    pub(crate) fn report_request(&mut self, arrival: &Arrival, reason: &'static str) {
        crate::metrics::report("nacp:internal:request:error", reason);
        tracing::debug!(from = %arrival.from, id = %arrival.id, reason, "a request was not served");
        let to = self.shared.app.clone();
        self.announce("nacp:internal:request:error", Audience::All, || {
            let msg = payload(&RequestMessage {
                r#type: "request",
                id: arrival.id.as_str(),
                from: arrival.from.as_str(),
                to: to.as_str(),
                meta: RequestMeta {
                    kind: arrival.kind.as_str(),
                    target: &arrival.name,
                },
            });
            payload(&Trouble {
                msg: Some(msg),
                ..Trouble::of(reason)
            })
        });
    }

    pub(crate) fn report(&mut self, report: Report) {
        crate::metrics::report(report.name, report.reason);
        tracing::debug!(
            name = report.name,
            reason = report.said.as_deref().unwrap_or(report.reason),
            app = report.app.as_ref().map(AppId::as_str),
            peer = report.peer.map(|peer| peer.0),
            "reported"
        );
        if !self.is_heard() || !self.is_heard_as(report.name) {
            return;
        }
        let bytes = report.message.as_ref().map(Encoded::to_bytes);
        let envelope = bytes.as_ref().and_then(|bytes| decode(bytes).ok());
        let audience = envelope
            .as_ref()
            .map_or(Audience::All, |envelope| self.state.bus.audience(envelope));
        let msg = bytes
            .clone()
            .and_then(|bytes| Payload::from_cbor(bytes).ok());
        let mut trouble = Trouble {
            msg,
            ..Trouble::of(report.said.as_deref().unwrap_or(report.reason))
        };
        let (peer, app) = (report.peer.map(peer_name), report.app.as_ref());
        match report.name {
            "nacp:internal:register:error" => {
                trouble.from_peer_id = peer;
                trouble.from = app.map(AppId::as_str);
            }
            "nacp:internal:gateway:warning" => {
                trouble.kept_gateway_peer_id = peer;
                trouble.app_id = app.map(AppId::as_str);
            }
            name if name.starts_with("nact:") || name.starts_with("nacp:internal:gateway:") => {
                trouble.peer_id = peer;
                trouble.app_id = app.map(AppId::as_str);
            }
            _ => {}
        }
        self.emit(report.name, &payload(&trouble), audience);
    }
}

impl<'a> Trouble<'a> {
    fn of(reason: &'a str) -> Self {
        Self {
            msg: None,
            reason,
            peer_id: None,
            from_peer_id: None,
            from: None,
            app_id: None,
            kept_gateway_peer_id: None,
        }
    }
}
