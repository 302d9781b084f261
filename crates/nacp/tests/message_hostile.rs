//! Hostile bytes: one test per way to be refused, and none that ends in anything but an error.

use std::thread;

use bytes::Bytes;
use nacp::message::{DecodeError, Malformed, MessageType, PayloadError, decode};
use nacp::{Payload, Value};
use serde::{Deserialize, Serialize};

const V: &[u8] = b"\x61v\xa2\x65major\x02\x65minor\x01";
const TYPE: &[u8] = b"\x64type\x63ack";
const ID: &[u8] = b"\x62id\x61a";
const FROM: &[u8] = b"\x64from\x61f";
const TO: &[u8] = b"\x62to\x61t";
const META: &[u8] = b"\x64meta\xa1\x68parentId\x61p";

/// A map of these entries.
fn message(entries: &[&[u8]]) -> Vec<u8> {
    [
        &[0xa0 + u8::try_from(entries.len()).unwrap()],
        &entries.concat()[..],
    ]
    .concat()
}

/// A good message with that payload, which need not be CBOR.
fn with_payload(payload: &[u8]) -> Vec<u8> {
    message(&[
        V,
        TYPE,
        ID,
        FROM,
        TO,
        META,
        &[b"\x67payload", payload].concat(),
    ])
}

fn refusal(bytes: &[u8]) -> DecodeError {
    decode(bytes).expect_err("must be refused")
}

/// How a payload is refused, on its own and inside a message alike.
fn malformed(payload: &[u8]) -> Malformed {
    let Err(PayloadError::Malformed(alone)) = Payload::from_cbor(Bytes::copy_from_slice(payload))
    else {
        panic!("must be refused alone")
    };
    assert_eq!(
        Value::decode(payload),
        Err(PayloadError::Malformed(alone.clone()))
    );
    let DecodeError::Malformed(inside) = refusal(&with_payload(payload)) else {
        panic!("must be refused inside")
    };
    assert_eq!(
        std::mem::discriminant(&inside),
        std::mem::discriminant(&alone)
    );
    alone
}

/// Runs on a stack of 256 KiB.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn input_that_ends_inside_an_item_is_refused() {
    assert_eq!(refusal(b""), Malformed::Truncated { offset: 0 }.into());
    assert_eq!(malformed(b"\x19\x01"), Malformed::Truncated { offset: 2 });
    assert_eq!(malformed(b"\x9f\x01"), Malformed::Truncated { offset: 2 });
}

#[test]
fn b50_lengths_and_counts_beyond_the_input_are_refused() {
    let claims: [(&[u8], u64); 9] = [
        (b"\x9a\x06\xb4\x9d\x20", 0x06b4_9d20),
        (b"\xba\x06\xb4\x9d\x20", 0x06b4_9d20),
        (b"\x5a\x06\xb4\x9d\x20", 0x06b4_9d20),
        (b"\x7a\x06\xb4\x9d\x20", 0x06b4_9d20),
        (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", u64::MAX),
        (b"\xbb\x80\0\0\0\0\0\0\0", 1 << 63),
        (b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff", u64::MAX),
        (b"\x7b\x7f\xff\xff\xff\xff\xff\xff\xff", u64::MAX >> 1),
        (b"\x5f\x5a\x06\xb4\x9d\x20", 0x06b4_9d20),
    ];
    for (bytes, claimed) in claims {
        let offset = usize::from(bytes[0] == 0x5f);
        assert_eq!(
            malformed(bytes),
            Malformed::LengthBeyondInput { offset, claimed },
            "{bytes:02x?}"
        );
    }
    assert!(matches!(
        refusal(b"\xba\x06\xb4\x9d\x20"),
        DecodeError::Malformed(Malformed::LengthBeyondInput { .. })
    ));
    // A map's count is of pairs.
    assert_eq!(
        malformed(b"\xa2\x01\x02\x03"),
        Malformed::LengthBeyondInput {
            offset: 0,
            claimed: 2
        }
    );
}

#[test]
fn b50_nested_heads_that_claim_all_remaining_bytes_are_refused() {
    for initial in [0x9a_u8, 0xba] {
        let mut bytes = Vec::new();
        while bytes.len() < 40_000 {
            let left = u32::try_from(40_000 - bytes.len() - 5).unwrap();
            bytes.push(initial);
            bytes.extend_from_slice(&(if initial == 0xba { left / 2 } else { left }).to_be_bytes());
        }
        assert_eq!(malformed(&bytes), Malformed::TooDeep { offset: 64 * 5 });
    }
}

#[test]
fn b51_nesting_deeper_than_64_is_refused_on_a_small_stack() {
    on_a_small_stack(|| {
        for unit in [
            &b"\x81"[..],
            b"\xc1",
            b"\x9f",
            b"\xa1\x01",
            b"\xa1",
            b"\xbf",
            b"\xbf\x01",
            b"\xd8\x40",
            b"\x9f\xc1\xa1\x00",
        ] {
            for length in [200_000, 10_000] {
                let bytes = unit.repeat(length / unit.len());
                assert!(
                    matches!(malformed(&bytes), Malformed::TooDeep { .. }),
                    "{unit:02x?}"
                );
                assert!(decode(&bytes).is_err(), "{unit:02x?}");
            }
        }
        assert!(matches!(
            refusal(&b"\xc1".repeat(200_000)),
            DecodeError::Malformed(Malformed::TooDeep { .. })
        ));
        let id = [b"\x62id", &b"\xc1".repeat(66)[..], b"\x61a"].concat();
        let refused = refusal(&message(&[V, TYPE, &id, FROM, TO, META]));
        assert!(matches!(
            refused,
            DecodeError::Malformed(Malformed::TooDeep { .. })
        ));
    });
}

/// Nested with serde: an array of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Nest(Vec<Nest>);

#[test]
fn b51_what_is_64_deep_is_decoded_dropped_cloned_printed_and_encoded_on_a_small_stack() {
    on_a_small_stack(|| {
        for (unit, end) in [
            (&b"\x81"[..], &b"\x80"[..]),
            (b"\xa1\x01", b"\xa0"),
            (b"\x9f", b"\x9f"),
            (b"\xc6", b"\x81\x00"),
        ] {
            let breaks = if unit == b"\x9f" { 64 } else { 0 };
            let bytes = [&unit.repeat(63), end, &b"\xff".repeat(breaks)].concat();
            assert!(decode(&with_payload(&bytes)).is_ok());
            let value = Value::decode(&bytes).unwrap();
            let again = value.clone();
            assert_eq!(again, value);
            assert!(format!("{again:?} {again:#?}").len() > 64);
            assert_eq!(Value::decode(&value.encode().unwrap()).unwrap(), value);
            let payload = Payload::encode(&value).unwrap();
            assert_eq!(payload.decode::<Value>().unwrap(), value);
            assert!(format!("{payload:?}").len() > 64);
            // Inside one more array it is too deep.
            assert_eq!(Payload::encode(&[&value]), Err(PayloadError::TooDeep));
        }
        let nest: Nest = Payload::from_cbor([&b"\x81".repeat(63)[..], b"\x80"].concat().into())
            .unwrap()
            .decode()
            .unwrap();
        assert_eq!(
            Payload::encode(&nest).unwrap().decode::<Nest>().unwrap(),
            nest
        );
        assert_eq!(
            Payload::encode(&Nest(vec![nest])),
            Err(PayloadError::TooDeep)
        );
    });
}

/// Recurses without a level of CBOR.
#[derive(Serialize, Deserialize)]
struct Endless(Option<Box<Endless>>);

#[test]
fn b51_a_type_that_recurses_without_end_is_refused() {
    on_a_small_stack(|| {
        assert!(matches!(
            Payload::encode(&1).unwrap().decode::<Endless>(),
            Err(PayloadError::TooDeep)
        ));
        let mut endless = Endless(None);
        for _ in 0..200 {
            endless = Endless(Some(Box::new(endless)));
        }
        assert_eq!(Payload::encode(&endless), Err(PayloadError::TooDeep));
    });
}

#[test]
fn reserved_heads_are_refused() {
    for byte in [
        0x1c, 0x1d, 0x1e, 0x3c, 0x5d, 0x7e, 0x9c, 0xbd, 0xde, 0xfc, 0xfd, 0xfe, 0x1f, 0x3f, 0xdf,
    ] {
        assert_eq!(
            malformed(&[0x81, byte]),
            Malformed::ReservedHead { offset: 1, byte }
        );
    }
}

#[test]
fn simple_values_below_32_in_two_bytes_are_refused() {
    for value in [0, 20, 24, 31] {
        assert_eq!(
            malformed(&[0xf8, value]),
            Malformed::BadSimple { offset: 0, value }
        );
    }
    assert!(Payload::from_cbor(vec![0xf8, 32].into()).is_ok());
}

#[test]
fn stray_breaks_are_refused() {
    assert!(matches!(malformed(b"\xff"), Malformed::StrayBreak { .. }));
    assert_eq!(malformed(b"\x81\xff"), Malformed::StrayBreak { offset: 1 });
    assert_eq!(malformed(b"\xc1\xff"), Malformed::StrayBreak { offset: 1 });
    assert_eq!(
        malformed(b"\xbf\x01\xff"),
        Malformed::StrayBreak { offset: 2 }
    );
    assert_eq!(
        malformed(b"\xa1\x01\xff"),
        Malformed::StrayBreak { offset: 2 }
    );
    let unfinished = [b"\xbf", V, b"\x62id\xff"].concat();
    assert!(matches!(
        refusal(&unfinished),
        DecodeError::Malformed(Malformed::StrayBreak { .. })
    ));
}

#[test]
fn chunks_of_another_kind_are_refused() {
    for bytes in [
        &b"\x5f\x61a\xff"[..],
        b"\x7f\x41a\xff",
        b"\x7f\x7f\xff\xff",
        b"\x5f\x01\xff",
    ] {
        assert_eq!(malformed(bytes), Malformed::BadChunk { offset: 1 });
    }
}

#[test]
fn trailing_bytes_are_refused() {
    let mut bytes = message(&[V, TYPE, ID, FROM, TO, META]);
    let offset = bytes.len();
    bytes.push(0xf6);
    assert_eq!(refusal(&bytes), Malformed::TrailingBytes { offset }.into());
    let refused = Payload::from_cbor(vec![1, 2].into()).unwrap_err();
    assert_eq!(refused, Malformed::TrailingBytes { offset: 1 }.into());
}

#[test]
fn a_message_that_is_no_map_is_refused() {
    for bytes in [&b"\x01"[..], b"\x80", b"\x60", b"\xf6", b"\xc1\x80"] {
        assert_eq!(refusal(bytes), DecodeError::NotAMap { offset: 0 });
    }
}

#[test]
fn the_same_key_twice_is_refused_in_the_envelope_in_v_and_in_meta() {
    let keys = [
        ("v", V),
        ("type", TYPE),
        ("id", ID),
        ("from", FROM),
        ("to", TO),
        ("meta", META),
    ];
    for (name, entry) in keys {
        let refused = refusal(&message(&[V, TYPE, ID, FROM, TO, META, entry]));
        assert!(
            matches!(refused, DecodeError::DuplicateKey { key, .. } if key == name),
            "{refused}"
        );
    }
    for (name, entry) in [
        ("t", b"\x61t\x01" as &[u8]),
        ("payload", b"\x67payload\xa0"),
    ] {
        let refused = refusal(&message(&[V, TYPE, ID, FROM, TO, META, entry, entry]));
        assert!(
            matches!(refused, DecodeError::DuplicateKey { key, .. } if key == name),
            "{refused}"
        );
    }
    let chunked = b"\x7f\x61i\x61d\xff\x61a";
    let refused = refusal(&message(&[V, TYPE, ID, FROM, TO, META, chunked]));
    assert!(matches!(
        refused,
        DecodeError::DuplicateKey { key: "id", .. }
    ));
    let v = b"\x61v\xa3\x65major\x02\x65minor\x01\x65major\x02";
    let refused = refusal(&message(&[v, TYPE, ID, FROM, TO, META]));
    assert!(matches!(
        refused,
        DecodeError::DuplicateKey { key: "v.major", .. }
    ));
    let meta = b"\x64meta\xa2\x68parentId\x61p\x68parentId\x61p";
    let refused = refusal(&message(&[V, TYPE, ID, FROM, TO, meta]));
    assert!(matches!(
        refused,
        DecodeError::DuplicateKey {
            key: "meta.parentId",
            ..
        }
    ));
}

#[test]
fn a_missing_key_is_refused() {
    let all = [
        ("v", V),
        ("type", TYPE),
        ("id", ID),
        ("from", FROM),
        ("to", TO),
        ("meta", META),
    ];
    for (missing, _) in all {
        let entries: Vec<&[u8]> = all
            .iter()
            .filter(|(key, _)| *key != missing)
            .map(|(_, entry)| *entry)
            .collect();
        assert_eq!(
            refusal(&message(&entries)),
            DecodeError::MissingKey { key: missing }
        );
    }
    for (v, key) in [
        (&b"\x61v\xa1\x65major\x02"[..], "v.minor"),
        (b"\x61v\xa1\x65minor\x02", "v.major"),
    ] {
        assert_eq!(
            refusal(&message(&[v, TYPE, ID, FROM, TO, META])),
            DecodeError::MissingKey { key }
        );
    }
}

/// A message of that type and meta, each given as its content.
fn typed(name: &str, meta: &[u8]) -> Vec<u8> {
    let length = [0x60 + u8::try_from(name.len()).unwrap()];
    let entry = [b"\x64type", &length[..], name.as_bytes()].concat();
    message(&[V, &entry, ID, FROM, TO, &[b"\x64meta", meta].concat()])
}

#[test]
fn a_missing_key_of_meta_is_refused_by_type() {
    let parent = b"\xa1\x68parentId\x61p";
    for (name, meta, key) in [
        ("ack", &b"\xa0"[..], "meta.parentId"),
        ("signal", b"\xa0", "meta.parentId"),
        ("signal", parent, "meta.kind"),
        ("request", b"\xa0", "meta.kind"),
        ("response", b"\xa0", "meta.parentId"),
        ("response", parent, "meta.isOk"),
        ("notify", b"\xa0", "meta.parentId"),
        ("notify", parent, "meta.targetSubName"),
        (
            "notify",
            b"\xa2\x68parentId\x61p\x6dtargetSubName\x60",
            "meta.hitSubName",
        ),
    ] {
        assert_eq!(
            refusal(&typed(name, meta)),
            DecodeError::MissingKey { key },
            "{name}"
        );
    }
}

#[test]
fn values_of_a_wrong_type_are_refused() {
    let wrong: [(&[u8], &str); 9] = [
        (b"\x61v\x02", "v"),
        (b"\x61v\xa2\x65major\x20\x65minor\x01", "v.major"),
        (b"\x61v\xa2\x65major\x02\x65minor\xf9\x3e\x00", "v.minor"),
        (
            b"\x61v\xa2\x65major\x02\x65minor\xfb\x7f\xf0\0\0\0\0\0\0",
            "v.minor",
        ),
        (b"\x64type\xf7", "type"),
        (b"\x62id\x41a", "id"),
        (b"\x64from\x80", "from"),
        (b"\x62to\x5f\xff", "to"),
        (b"\x64meta\x80", "meta"),
    ];
    for (entry, name) in wrong {
        let kept = [V, TYPE, ID, FROM, TO, META]
            .into_iter()
            .filter(|kept| kept[..2] != entry[..2]);
        let refused = refusal(&message(&kept.chain([entry]).collect::<Vec<_>>()));
        assert!(
            matches!(refused, DecodeError::WrongType { key, .. } if key == name),
            "{name}: {refused}"
        );
    }
    for (name, meta, wrong) in [
        ("ack", &b"\xa1\x68parentId\x01"[..], "meta.parentId"),
        ("ack", b"\xa2\x68parentId\x61p\x65taken\x20", "meta.taken"),
        (
            "ack",
            b"\xa2\x68parentId\x61p\x65taken\xf9\x3e\x00",
            "meta.taken",
        ),
        ("request", b"\xa1\x64kind\xf5", "meta.kind"),
        (
            "request",
            b"\xa2\x64kind\x65event\x66target\x01",
            "meta.target",
        ),
        (
            "response",
            b"\xa2\x68parentId\x61p\x64isOk\x01",
            "meta.isOk",
        ),
        (
            "response",
            b"\xa3\x68parentId\x61p\x64isOk\xf4\x68whyNotOk\x80",
            "meta.whyNotOk",
        ),
    ] {
        let refused = refusal(&typed(name, meta));
        assert!(
            matches!(refused, DecodeError::WrongType { key, .. } if key == wrong),
            "{wrong}: {refused}"
        );
    }
}

#[test]
fn texts_of_the_envelope_that_are_not_utf8_are_refused() {
    for id in [
        &b"\x62id\x61\xff"[..],
        b"\x62id\x7f\x61\xc3\xff",
        b"\x62id\xc1\x62\xed\xa0",
    ] {
        let refused = refusal(&message(&[V, TYPE, id, FROM, TO, META]));
        assert!(
            matches!(refused, DecodeError::InvalidUtf8 { key: "id", .. }),
            "{refused}"
        );
    }
}

#[test]
fn unknown_types_and_kinds_are_refused() {
    assert!(matches!(
        refusal(&typed("Ack", b"\xa1\x68parentId\x61p")),
        DecodeError::UnknownType { .. }
    ));
    for (message_type, meta) in [
        (MessageType::Request, &b"\xa1\x64kind\x66normal"[..]),
        (
            MessageType::Response,
            b"\xa3\x68parentId\x61p\x64isOk\xf4\x64kind\x60",
        ),
        (
            MessageType::Signal,
            b"\xa2\x68parentId\x61p\x64kind\x65event",
        ),
    ] {
        let refused = refusal(&typed(message_type.as_str(), meta));
        assert!(
            matches!(refused, DecodeError::UnknownKind { message_type: of, .. } if of == message_type),
            "{refused}"
        );
    }
}

#[test]
fn ids_are_refused_when_empty_or_too_long() {
    let id = |key: &[u8], length: u16| {
        [
            key,
            b"\x79",
            &length.to_be_bytes(),
            &b"x".repeat(length.into()),
        ]
        .concat()
    };
    for (length, is_ok) in [(0, false), (1, true), (1024, true), (1025, false)] {
        let result = message(&[V, TYPE, &id(b"\x62id", length), FROM, TO, META]);
        match decode(&result) {
            Ok(_) => assert!(is_ok),
            Err(DecodeError::IdLength {
                key: "id",
                length: refused,
                ..
            }) => assert!(!is_ok && refused == usize::from(length)),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(matches!(
        refusal(&typed("ack", b"\xa1\x68parentId\x60")),
        DecodeError::IdLength {
            key: "meta.parentId",
            ..
        }
    ));
    for (length, is_ok) in [(0, false), (1, true), (255, true), (256, false)] {
        for (key, name) in [(&b"\x64from"[..], "from"), (b"\x62to", "to")] {
            let other = if name == "from" { TO } else { FROM };
            match decode(&message(&[V, TYPE, ID, &id(key, length), other, META])) {
                Ok(_) => assert!(is_ok),
                Err(DecodeError::AppIdLength { key, .. }) => assert!(!is_ok && key == name),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
