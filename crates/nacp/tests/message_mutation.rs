//! Mutation: whatever is done to the bytes of messages, the answer is a message or an error.

use bytes::Bytes;
use nacp::message::{Head, Meta, RequestKind, decode, encode};
use nacp::{Payload, Value};

/// An ack by hand; whatever follows belongs to the same map.
const ACK: &[u8] = b"\xbf\x61v\xa2\x65major\x02\x65minor\x01\x64type\x63ack\x64from\x61f\x62to\x61t\x62id\x7f\x61a\x61b\xff\x64meta\xa1\x68parentId\x61p\x67payload";

/// Some captured messages, and first frames of longer ones.
fn captured() -> impl Iterator<Item = Bytes> {
    include_str!("data/nasdk-1.0.4-tcp.jsonl")
        .lines()
        .step_by(8)
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let frame = line["frame"].as_str().unwrap();
            (32..frame.len() / 2)
                .map(|at| u8::from_str_radix(&frame[2 * at..2 * at + 2], 16).unwrap())
                .collect()
        })
}

/// Messages that use much of the format.
fn samples() -> Vec<Bytes> {
    let payload = Payload::encode(&Value::Map(vec![
        (
            "text".into(),
            Value::Array(vec!["x".into(), Value::Null, Value::Float(1.5)]),
        ),
        (
            "date".into(),
            Value::decode(b"\xc1\x1a\x69\x55\xb9\x00").unwrap(),
        ),
        (
            "big".into(),
            Value::decode(b"\xc2\x49\x40\0\0\0\0\0\0\0\0").unwrap(),
        ),
        (
            Value::Integer(1),
            Value::Typed {
                tag: 85,
                bytes: vec![0; 8],
            },
        ),
    ]))
    .unwrap();
    let metas = [
        Meta::Notify {
            parent_id: "dd481314".into(),
            target_sub_name: "a".into(),
            hit_sub_name: "a".into(),
            reliable: true,
        },
        Meta::Response {
            parent_id: "dd481314".into(),
            is_ok: false,
            why_not_ok: Some("no".into()),
            kind: Some(RequestKind::Event),
        },
        Meta::Ack {
            parent_id: "dd481314".into(),
            taken: Some(5_000_000_000),
        },
    ];
    let encoded = metas.map(|meta| {
        encode(
            &Head {
                id: "id",
                from: "hello",
                to: "world",
                t_ms: 5,
                meta,
            },
            Some(&payload),
        )
        .to_bytes()
    });
    let open = [ACK, b"\x9f\x5f\x41\x00\xff\xff\xff"];
    encoded
        .into_iter()
        .chain([open.concat().into()])
        .chain(captured())
        .collect()
}

/// Everything that may be asked of received bytes: none of it may panic, whatever they are.
fn ask_everything_of(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(envelope) = decode(&bytes) else { return };
    let payload = envelope.payload_of(&bytes);
    let _ = format!("{payload:?}");
    let _ = payload.decode::<std::collections::BTreeMap<String, Option<Vec<f64>>>>();
    let _ = payload.decode::<std::collections::HashMap<u8, serde_json::Value>>();
    let _ = payload.decode::<nacp::message::Registration>();
    if let Ok(value) = payload.decode::<Value>() {
        let again = Payload::encode(&value).unwrap();
        assert_eq!(
            Value::decode(again.as_bytes()).unwrap().encode().unwrap(),
            again.as_bytes()
        );
        let _ = serde_json::to_string(&value);
    }
    let head = Head {
        id: &envelope.id,
        from: &envelope.from,
        to: &envelope.to,
        t_ms: envelope.t_ms,
        meta: envelope.meta.clone(),
    };
    let again = encode(&head, Some(&payload)).to_bytes();
    assert_eq!(
        decode(&again).unwrap().meta,
        envelope.meta,
        "what we write, we read"
    );
}

#[test]
fn no_mutation_of_a_message_makes_anything_panic() {
    for sample in samples() {
        for at in 0..sample.len() {
            ask_everything_of(&sample[..at]);
            let mut bytes = sample.to_vec();
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                ask_everything_of(&bytes);
                bytes[at] ^= 1 << bit;
            }
            for byte in [
                0x00, 0x1b, 0x5f, 0x7b, 0x9f, 0xa1, 0xbf, 0xc2, 0xd8, 0xf7, 0xf8, 0xfb, 0xff,
            ] {
                bytes[at] = byte;
                ask_everything_of(&bytes);
            }
            bytes[at] = sample[at];
            bytes.insert(at, 0xff);
            ask_everything_of(&bytes);
            bytes[at] = 0x81;
            ask_everything_of(&bytes);
            bytes.remove(at);
            bytes.remove(at);
            ask_everything_of(&bytes);
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_random_payload_makes_anything_panic(payload in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
        ask_everything_of(&[ACK, &payload, b"\xff"].concat());
        let _ = decode(&payload);
    }
}
