//! The envelope: fixed bytes for each type, length, round trip, and all the forms of CBOR in which it is accepted.

use bytes::Bytes;
use nacp::Payload;
use nacp::message::{
    DecodeError, Envelope, Head, MessageType, Meta, RequestKind, SignalKind, VERSION, Version,
    decode, encode,
};
use proptest::prelude::*;

fn head(meta: Meta<'_>) -> Head<'_> {
    Head {
        id: "7",
        from: "hello",
        to: "world",
        t_ms: 1_796_092_529_444,
        meta,
    }
}

fn metas() -> [Meta<'static>; 9] {
    let parent_id = || "6".into();
    [
        Meta::Register,
        Meta::Unregister,
        Meta::Subscribe,
        Meta::Unsubscribe,
        Meta::Notify {
            parent_id: parent_id(),
            target_sub_name: "a:*".into(),
            hit_sub_name: "a:b".into(),
            reliable: false,
        },
        Meta::Request {
            kind: RequestKind::Ability,
            target: Some("echo".into()),
        },
        Meta::Response {
            parent_id: parent_id(),
            is_ok: false,
            why_not_ok: Some("no".into()),
            kind: Some(RequestKind::Event),
        },
        Meta::Signal {
            parent_id: parent_id(),
            kind: SignalKind::Pause,
        },
        Meta::Ack {
            parent_id: parent_id(),
            taken: None,
        },
    ]
}

/// The bytes of a message as text: what is printable as such, the rest as `<hex>`.
fn shown(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|&byte| match byte {
            b'<' | b'>' => format!("<{byte:02x}>"),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("<{byte:02x}>"),
        })
        .collect()
}

#[test]
fn each_type_has_its_exact_bytes() {
    let common = |count: &str, name: &str| {
        let length = 0x60 + name.len();
        let length = if length < 0x7f {
            char::from(u8::try_from(length).unwrap()).to_string()
        } else {
            unreachable!()
        };
        format!(
            "<{count}>av<a2>emajor<02>eminor<01>dtype{length}{name}bida7dfromehellobtoeworldat<fb>Bz\"<f7>P<b2>@<00>dmeta"
        )
    };
    let expected = [
        common("a8", "register") + "<a0>gpayload<a0>",
        common("a8", "unregister") + "<a0>gpayload<a0>",
        common("a8", "subscribe") + "<a0>gpayload<a0>",
        common("a8", "unsubscribe") + "<a0>gpayload<a0>",
        common("a8", "notify") + "<a3>hparentIda6mtargetSubNameca:*jhitSubNameca:bgpayload<a0>",
        common("a8", "request") + "<a2>dkindgabilityftargetdechogpayload<a0>",
        common("a8", "response") + "<a4>hparentIda6disOk<f4>hwhyNotOkbnodkindeeventgpayload<a0>",
        common("a7", "signal") + "<a2>hparentIda6dkindepause",
        common("a7", "ack") + "<a1>hparentIda6",
    ];
    for (meta, expected) in metas().into_iter().zip(expected) {
        assert_eq!(shown(encode(&head(meta), None).head()), expected);
    }
}

#[test]
fn extensions_are_written_only_if_set_and_read_back() {
    let notify = |reliable| Meta::Notify {
        parent_id: "6".into(),
        target_sub_name: "a".into(),
        hit_sub_name: "a".into(),
        reliable,
    };
    let ack = |taken| Meta::Ack {
        parent_id: "6".into(),
        taken,
    };
    for (meta, tail) in [
        (notify(true), "hreliable<f5>gpayload<a0>"),
        (ack(Some(3)), "etaken<03>"),
        (
            ack(Some(0x1_0000_0000)),
            "etaken<fb>A<f0><00><00><00><00><00><00>",
        ),
    ] {
        let bytes = encode(&head(meta.clone()), None).to_bytes();
        assert!(shown(&bytes).ends_with(tail), "{}", shown(&bytes));
        assert_eq!(decode(&bytes).unwrap().meta, meta);
    }
    assert!(!shown(encode(&head(notify(false)), None).head()).contains("reliable"));
    assert!(!shown(encode(&head(ack(None)), None).head()).contains("taken"));
}

#[test]
fn acks_and_control_signals_never_have_a_payload_and_all_others_always_do() {
    let payload = Payload::encode("some").unwrap();
    let normal = Meta::Signal {
        parent_id: "6".into(),
        kind: SignalKind::Normal,
    };
    for meta in metas().into_iter().chain([normal]) {
        let control = matches!(meta.message_type(), MessageType::Ack)
            || matches!(&meta, Meta::Signal { kind, .. } if *kind != SignalKind::Normal);
        for given in [None, Some(&payload)] {
            let bytes = encode(&head(meta.clone()), given).to_bytes();
            let envelope = decode(&bytes).unwrap();
            assert_eq!(envelope.payload.is_none(), control, "{meta:?}");
            let expected = given.filter(|_| !control).cloned().unwrap_or_default();
            assert_eq!(envelope.payload_of(&bytes), expected);
        }
    }
}

#[test]
fn a_large_payload_is_shared_and_a_small_one_stands_in_the_head() {
    for (length, is_segment) in [(0, false), (4093, false), (4094, true), (1 << 20, true)] {
        let payload = Payload::bytes(&vec![7; length]);
        let encoded = encode(&head(Meta::Register), Some(&payload));
        assert_eq!(encoded.payload().is_empty(), !is_segment, "{length}");
        if is_segment {
            assert_eq!(encoded.payload().as_ptr(), payload.as_bytes().as_ptr());
        }
        let bytes = encoded.to_bytes();
        assert_eq!(bytes.len(), encoded.len());
        assert_eq!(
            bytes[..],
            [&encoded.head()[..], &encoded.payload()[..]].concat()
        );
        assert_eq!(decode(&bytes).unwrap().payload_of(&bytes), payload);
    }
}

#[test]
fn a_payload_is_sliced_from_the_message_without_a_copy() {
    let payload = Payload::encode("some").unwrap();
    let bytes = encode(&head(Meta::Register), Some(&payload)).to_bytes();
    let sliced = decode(&bytes).unwrap().payload_of(&bytes);
    let start = bytes.len() - payload.len();
    assert_eq!(sliced.as_bytes().as_ptr(), bytes[start..].as_ptr());
}

/// A message written by hand: a map of `entries` after `open`, closed with `close`.
fn written(open: &[u8], entries: &[&[u8]], close: &[u8]) -> Bytes {
    [open, &entries.concat(), close].concat().into()
}

const V: &[u8] = b"\x61v\xa2\x65major\x02\x65minor\x01";
const TYPE: &[u8] = b"\x64type\x63ack";
const ID: &[u8] = b"\x62id\x61a";
const FROM: &[u8] = b"\x64from\x61f";
const TO: &[u8] = b"\x62to\x61t";
const META: &[u8] = b"\x64meta\xa1\x68parentId\x61p";

fn plain() -> Envelope<'static> {
    Envelope {
        version: VERSION,
        id: "a".into(),
        from: "f".into(),
        to: "t".into(),
        t_ms: 0,
        meta: Meta::Ack {
            parent_id: "p".into(),
            taken: None,
        },
        payload: None,
    }
}

#[test]
fn keys_may_come_in_any_order() {
    let bytes = written(b"\xa6", &[META, TO, FROM, ID, TYPE, V], b"");
    assert_eq!(decode(&bytes).unwrap(), plain());
}

#[test]
fn every_length_of_head_and_indefinite_maps_are_accepted() {
    for open in [
        &b"\xb8\x06"[..],
        b"\xb9\x00\x06",
        b"\xba\0\0\0\x06",
        b"\xbb\0\0\0\0\0\0\0\x06",
        b"\xbf",
    ] {
        let close: &[u8] = if open == b"\xbf" { b"\xff" } else { b"" };
        let bytes = written(open, &[V, TYPE, ID, FROM, TO, META], close);
        assert_eq!(decode(&bytes).unwrap(), plain());
    }
    let ids: [&[u8]; 4] = [
        b"\x62id\x78\x01a",
        b"\x62id\x79\0\x01a",
        b"\x78\x02id\x7a\0\0\0\x01a",
        b"\x62id\x7b\0\0\0\0\0\0\0\x01a",
    ];
    for id in ids {
        assert_eq!(
            decode(&written(b"\xa6", &[V, TYPE, id, FROM, TO, META], b"")).unwrap(),
            plain()
        );
    }
    let meta = b"\x64meta\xbf\x68parentId\x61p\xff";
    assert_eq!(
        decode(&written(b"\xa6", &[V, TYPE, ID, FROM, TO, meta], b"")).unwrap(),
        plain()
    );
}

#[test]
fn indefinite_texts_are_joined_as_key_and_as_value() {
    let id = b"\x7f\x61i\x61d\xff\x7f\x62ab\x60\x61c\xff";
    let bytes = written(b"\xa6", &[V, TYPE, id, FROM, TO, META], b"");
    assert_eq!(decode(&bytes).unwrap().id, "abc");
}

#[test]
fn tags_around_the_message_and_its_values_are_passed_over() {
    let v = b"\x61v\xd8\x2a\xa2\x65major\xc9\x02\x65minor\x01";
    let id = b"\x62id\xd8\x20\xd8\x21\x61a";
    let bytes = written(b"\xd9\xd9\xf7\xa6", &[v, TYPE, id, FROM, TO, META], b"");
    assert_eq!(decode(&bytes).unwrap(), plain());
}

#[test]
fn unknown_keys_are_ignored_whatever_they_are_and_hold() {
    let unknown: [&[u8]; 8] = [
        b"\x63new\xf6",
        b"\x63new\x9f\x01\xbf\x61a\xc1\xfb\0\0\0\0\0\0\0\0\xff\xff",
        b"\x07\x01",
        b"\xf6\xf7",
        b"\x82\x01\x02\xa1\x01\x02",
        b"\x5f\x41\x01\xff\x7f\xff",
        b"\x62\xff\xfe\x01",
        b"\xc1\x62id\x01",
    ];
    for entry in unknown {
        let bytes = written(b"\xa8", &[entry, V, TYPE, ID, FROM, TO, META, entry], b"");
        assert_eq!(decode(&bytes).unwrap(), plain(), "{entry:02x?}");
    }
    let meta = b"\x64meta\xa3\x64kind\x07\x01\x02\x68parentId\x61p";
    assert_eq!(
        decode(&written(b"\xa6", &[V, TYPE, ID, FROM, TO, meta], b"")).unwrap(),
        plain()
    );
}

#[test]
fn integers_may_be_floats_and_floats_integers() {
    let v = b"\x61v\xa2\x65major\xfb\x40\x00\x00\x00\x00\x00\x00\x00\x65minor\xf9\x4d\x00";
    let bytes = written(b"\xa6", &[v, TYPE, ID, FROM, TO, META], b"");
    assert_eq!(
        decode(&bytes).unwrap().version,
        Version {
            major: 2,
            minor: 20
        }
    );
    let meta = b"\x64meta\xa2\x68parentId\x61p\x65taken\xfa\x40\xa0\x00\x00";
    let bytes = written(b"\xa6", &[V, TYPE, ID, FROM, TO, meta], b"");
    assert_eq!(
        decode(&bytes).unwrap().meta,
        Meta::Ack {
            parent_id: "p".into(),
            taken: Some(5)
        }
    );
}

#[test]
fn whatever_t_is_the_message_is_as_good() {
    let times: [(&[u8], u64); 10] = [
        (b"\x0c", 12),
        (b"\x1b\0\0\x01\xa2\x2f\x75\x0b\x24", 1_796_092_529_444),
        (b"\xfb\x42\x7a\x22\xf7\x50\xb2\x40\x00", 1_796_092_529_444),
        (b"\xfb\x7f\xf8\0\0\0\0\0\0", 0),
        (b"\xfb\xbf\xf0\0\0\0\0\0\0", 0),
        (b"\x20", 0),
        (b"\xf6", 0),
        (b"\x63now", 0),
        (b"\x9f\xff", 0),
        (b"\xc2\x41\x01", 0),
    ];
    for (t, expected) in times {
        let t = [b"\x61t", t].concat();
        let bytes = written(b"\xa7", &[V, TYPE, ID, FROM, TO, &t, META], b"");
        assert_eq!(decode(&bytes).unwrap().t_ms, expected, "{t:02x?}");
    }
}

#[test]
fn a_payload_of_null_or_undefined_is_none() {
    for (payload, is_some) in [
        (b"\x67payload\xf6", false),
        (b"\x67payload\xf7", false),
        (b"\x67payload\xa0", true),
    ] {
        let bytes = written(b"\xa7", &[payload, V, TYPE, ID, FROM, TO, META], b"");
        let envelope = decode(&bytes).unwrap();
        assert_eq!(envelope.payload.is_some(), is_some);
        assert_eq!(envelope.payload_of(&bytes), Payload::default());
    }
}

#[test]
fn optional_keys_of_null_or_undefined_are_as_good_as_none() {
    let response = b"\x64type\x68response";
    let meta = b"\x64meta\xa4\x68parentId\x61p\x64isOk\xf5\x68whyNotOk\xf7\x64kind\xf6";
    let bytes = written(b"\xa6", &[V, response, ID, FROM, TO, meta], b"");
    let expected = Meta::Response {
        parent_id: "p".into(),
        is_ok: true,
        why_not_ok: None,
        kind: None,
    };
    assert_eq!(decode(&bytes).unwrap().meta, expected);
}

#[test]
fn a_notify_is_reliable_only_if_it_says_true() {
    for (value, expected) in [
        (b"\xf5", true),
        (b"\xf4", false),
        (b"\x01", false),
        (b"\xf6", false),
    ] {
        let meta = [
            b"\x64meta\xa4\x68parentId\x61p\x6dtargetSubName\x60\x6ahitSubName\x60\x68reliable",
            &value[..],
        ]
        .concat();
        let bytes = written(
            b"\xa6",
            &[V, b"\x64type\x66notify", ID, FROM, TO, &meta],
            b"",
        );
        assert!(
            matches!(decode(&bytes).unwrap().meta, Meta::Notify { reliable, .. } if reliable == expected)
        );
    }
}

fn text(max: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 1..max).prop_map(|chars| chars.into_iter().collect())
}

fn any_meta() -> impl Strategy<Value = Meta<'static>> {
    let kind = || prop_oneof![Just(RequestKind::Event), Just(RequestKind::Ability)];
    let signal = prop_oneof![
        Just(SignalKind::Normal),
        Just(SignalKind::Pause),
        Just(SignalKind::Resume),
        Just(SignalKind::Abort)
    ];
    prop_oneof![
        Just(Meta::Register),
        Just(Meta::Unregister),
        Just(Meta::Subscribe),
        Just(Meta::Unsubscribe),
        (text(60), text(300), text(9), any::<bool>()).prop_map(
            |(parent_id, target, hit, reliable)| Meta::Notify {
                parent_id: parent_id.into(),
                target_sub_name: target.into(),
                hit_sub_name: hit.into(),
                reliable
            }
        ),
        (kind(), proptest::option::of(text(40))).prop_map(|(kind, target)| Meta::Request {
            kind,
            target: target.map(Into::into)
        }),
        (
            text(60),
            any::<bool>(),
            proptest::option::of(text(40)),
            proptest::option::of(kind())
        )
            .prop_map(|(parent_id, is_ok, why, kind)| Meta::Response {
                parent_id: parent_id.into(),
                is_ok,
                why_not_ok: why.map(Into::into),
                kind
            }),
        (text(60), signal).prop_map(|(parent_id, kind)| Meta::Signal {
            parent_id: parent_id.into(),
            kind
        }),
        (text(60), proptest::option::of(any::<u64>())).prop_map(|(parent_id, taken)| Meta::Ack {
            parent_id: parent_id.into(),
            taken
        }),
    ]
}

proptest! {
    #[test]
    fn every_message_survives_the_way_there_and_back(
        id in text(250), from in text(60), to in text(60), t_ms in 0_u64..1 << 53, meta in any_meta(),
        content in proptest::collection::vec(any::<u8>(), 0..5000),
    ) {
        let payload = Payload::bytes(&content);
        let encoded = encode(&Head { id: &id, from: &from, to: &to, t_ms, meta: meta.clone() }, Some(&payload));
        let bytes = encoded.to_bytes();
        prop_assert_eq!(encoded.len(), bytes.len());
        prop_assert_eq!(encoded.len(), encoded.head().len() + encoded.payload().len());
        let envelope = decode(&bytes).unwrap();
        prop_assert_eq!((&*envelope.id, &*envelope.from, &*envelope.to, envelope.t_ms), (&*id, &*from, &*to, t_ms));
        prop_assert_eq!(&envelope.meta, &meta);
        prop_assert_eq!(envelope.version, VERSION);
        if envelope.payload.is_some() {
            prop_assert_eq!(envelope.payload_of(&bytes), payload);
        }
    }

    #[test]
    fn every_cut_of_a_message_is_refused(meta in any_meta(), cut in 0.0..1.0) {
        let bytes = encode(&Head { id: "i", from: "f", to: "t", t_ms: 1, meta }, None).to_bytes();
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let cut = (bytes.len() as f64 * cut) as usize;
        prop_assert!(matches!(decode(&bytes[..cut]), Err(DecodeError::Malformed(_))));
    }
}
