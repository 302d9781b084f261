//! Every message captured between programs of the base implementation is read as what it was, and what we write for it
//! means the same.

use std::collections::HashMap;

use bytes::Bytes;
use nacp::message::{Envelope, Head, MessageType, Meta, SignalKind, decode, encode};
use nacp::{Payload, Value};
use serde_json::{Map, Value as Json, json};

const CAPTURED: &str = include_str!("data/nasdk-1.0.4-tcp.jsonl");
const FRAME_HEADER_LENGTH: usize = 32;

struct Captured {
    step: u64,
    bytes: Bytes,
    expected: Json,
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn field(frame: &[u8], at: usize) -> usize {
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()) as usize
}

/// The messages of the capture, put together from their frames.
fn captured() -> Vec<Captured> {
    let mut parts: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut messages = Vec::new();
    for line in CAPTURED.lines() {
        let line: Json = serde_json::from_str(line).unwrap();
        let frame = unhex(line["frame"].as_str().unwrap());
        let (packet_id, total) = (frame[..16].to_vec(), field(&frame, 20));
        let whole = parts
            .entry(packet_id.clone())
            .or_insert_with(|| vec![0; total]);
        let (offset, body) = (field(&frame, 16), &frame[FRAME_HEADER_LENGTH..]);
        whole[offset..offset + body.len()].copy_from_slice(body);
        if let Some(expected) = line.get("message") {
            let bytes = parts.remove(&packet_id).unwrap().into();
            messages.push(Captured {
                step: line["step"].as_u64().unwrap(),
                bytes,
                expected: expected.clone(),
            });
        }
    }
    assert!(parts.is_empty(), "every message is complete");
    messages
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(100)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A value in the capture's notation.
fn to_json(value: &Value) -> Json {
    match value {
        Value::Undefined => json!({"$undefined": true}),
        Value::Null => Json::Null,
        Value::Bool(value) => json!(value),
        Value::Integer(n) => json!(n),
        Value::BigInt(n) => json!({"$bigint": n.to_string()}),
        Value::Float(n) if n.is_nan() => json!({"$number": "NaN"}),
        Value::Float(n) if n.is_infinite() => {
            json!({"$number": if *n > 0.0 { "Infinity" } else { "-Infinity" }})
        }
        Value::Float(n) => value.as_i64().map_or(json!(n), |n| json!(n)),
        Value::Bytes(bytes) => json!({"$bytes": hex(bytes), "$len": bytes.len()}),
        Value::Typed { tag, bytes } => {
            let name = HashMap::from([(64, "Uint8Array"), (85, "Float32Array")])[tag];
            json!({"$typed": name, "$bytes": hex(bytes), "$len": bytes.len()})
        }
        Value::Text(text) => json!(text),
        Value::Array(values) => values.iter().map(to_json).collect(),
        Value::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| (key.as_str().unwrap().into(), to_json(value)))
                .collect(),
        ),
        Value::Date(date) => json!({"$date_ms": date.ms}),
        Value::Tagged(258, set) => json!({"$set": to_json(set)}),
        Value::Tagged(259, map) => match &**map {
            Value::Map(entries) => {
                let entries: Vec<Json> = entries
                    .iter()
                    .map(|(key, value)| json!([to_json(key), to_json(value)]))
                    .collect();
                json!({"$map": entries})
            }
            other => panic!("{other:?} in a Map"),
        },
        other => panic!("{other:?} was not expected in the capture"),
    }
}

fn meta_to_json(meta: &Meta<'_>) -> Json {
    let mut json = Map::new();
    let mut set = |key: &str, value: Json| json.insert(key.to_owned(), value);
    match meta {
        Meta::Register | Meta::Unregister | Meta::Subscribe | Meta::Unsubscribe => {}
        Meta::Notify {
            parent_id,
            target_sub_name,
            hit_sub_name,
            reliable,
        } => {
            set("parentId", json!(parent_id));
            set("targetSubName", json!(target_sub_name));
            set("hitSubName", json!(hit_sub_name));
            assert!(!reliable);
        }
        Meta::Request { kind, target } => {
            set("kind", json!(kind.as_str()));
            target.as_ref().map(|target| set("target", json!(target)));
        }
        Meta::Response {
            parent_id,
            is_ok,
            why_not_ok,
            kind,
        } => {
            set("parentId", json!(parent_id));
            set("isOk", json!(is_ok));
            why_not_ok.as_ref().map(|why| set("whyNotOk", json!(why)));
            kind.map(|kind| set("kind", json!(kind.as_str())));
        }
        Meta::Signal { parent_id, kind } => {
            set("parentId", json!(parent_id));
            set("kind", json!(kind.as_str()));
        }
        Meta::AckMany { .. } => unreachable!("no base peer writes one"),
        Meta::Ack { parent_id, taken } => {
            set("parentId", json!(parent_id));
            assert_eq!(*taken, None);
        }
    }
    Json::Object(json)
}

fn message_to_json(envelope: &Envelope<'_>, bytes: &Bytes) -> Json {
    let mut json = json!({
        "v": {"major": envelope.version.major, "minor": envelope.version.minor},
        "type": envelope.meta.message_type().as_str(),
        "id": envelope.id,
        "from": envelope.from,
        "to": envelope.to,
        "t": envelope.t_ms,
        "meta": meta_to_json(&envelope.meta),
    });
    if envelope.payload.is_some() {
        json["payload"] = to_json(&Value::decode(envelope.payload_of(bytes).as_bytes()).unwrap());
    }
    json
}

fn head_of<'a>(envelope: &'a Envelope<'a>) -> Head<'a> {
    let Envelope {
        id,
        from,
        to,
        t_ms,
        meta,
        ..
    } = envelope;
    Head {
        id,
        from,
        to,
        t_ms: *t_ms,
        meta: meta.clone(),
    }
}

#[test]
fn every_captured_message_is_read_as_what_it_was() {
    let messages = captured();
    assert_eq!(messages.len(), 138);
    for Captured {
        step,
        bytes,
        expected,
    } in messages
    {
        let envelope = decode(&bytes).unwrap_or_else(|error| panic!("step {step}: {error}"));
        assert_eq!(message_to_json(&envelope, &bytes), expected, "step {step}");
    }
}

#[test]
fn every_captured_message_means_the_same_when_we_write_it() {
    for Captured {
        step,
        bytes,
        mut expected,
    } in captured()
    {
        let envelope = decode(&bytes).unwrap();
        let payload = envelope.payload_of(&bytes);
        let encoded = encode(&head_of(&envelope), Some(&payload));
        let again = encoded.to_bytes();
        assert_eq!(encoded.len(), again.len());
        let envelope = decode(&again).unwrap();
        expected["v"] = json!({"major": 2, "minor": 1}); // ours, whoever wrote the original
        assert_eq!(message_to_json(&envelope, &again), expected, "step {step}");
        assert_eq!(
            envelope.payload_of(&again),
            payload,
            "payload bytes are forwarded unchanged, step {step}"
        );
    }
}

#[test]
fn every_captured_payload_keeps_its_meaning_as_a_value_and_inside_serde_types() {
    for Captured { step, bytes, .. } in captured() {
        let payload = decode(&bytes).unwrap().payload_of(&bytes);
        let value: Value = payload.decode().unwrap();
        let json = to_json(&value);
        let again = Value::decode(&value.encode().unwrap()).unwrap();
        assert_eq!(to_json(&again), json, "step {step}");
        let inside: (Value,) = Payload::encode(&(&value,)).unwrap().decode().unwrap();
        assert_eq!(to_json(&inside.0), json, "step {step}");
    }
}

#[test]
fn the_capture_has_all_nine_types_and_all_four_signals() {
    let messages = captured();
    let metas: Vec<Meta<'_>> = messages
        .iter()
        .map(|message| decode(&message.bytes).unwrap().meta)
        .collect();
    for message_type in MessageType::ALL {
        assert!(
            metas.iter().any(|meta| meta.message_type() == message_type),
            "{message_type:?}"
        );
    }
    for wanted in [
        SignalKind::Normal,
        SignalKind::Pause,
        SignalKind::Resume,
        SignalKind::Abort,
    ] {
        assert!(
            metas
                .iter()
                .any(|meta| matches!(meta, Meta::Signal { kind, .. } if *kind == wanted)),
            "{wanted:?}"
        );
    }
}
