//! Payloads: what serde types become, what they are read from, and that no value is lost on the way.

use std::collections::{BTreeMap, HashMap};

use nacp::message::payload::{BigInt, Date};
use nacp::message::{PayloadError, Registration};
use nacp::{Payload, Value};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

fn encoded<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    Payload::encode(value).unwrap().as_bytes().to_vec()
}

fn payload(cbor: &[u8]) -> Payload {
    Payload::from_cbor(cbor.to_vec().into()).unwrap()
}

#[track_caller]
fn read<T: serde::de::DeserializeOwned>(cbor: &[u8]) -> T {
    payload(cbor).decode().unwrap()
}

#[track_caller]
fn refusal<T: serde::de::DeserializeOwned + std::fmt::Debug>(cbor: &[u8]) -> String {
    payload(cbor).decode::<T>().unwrap_err().to_string()
}

#[test]
fn integers_are_written_as_javascript_reads_them() {
    let float = |n: f64| [&[0xfb], &n.to_be_bytes()[..]].concat();
    let safe = (1_i64 << 53) - 1;
    #[allow(clippy::cast_precision_loss)]
    let exact = safe as f64;
    assert_eq!(encoded(&23_u8), [23]);
    assert_eq!(encoded(&-500_i16), [0x39, 0x01, 0xf3]);
    assert_eq!(encoded(&u32::MAX), [0x1a, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(encoded(&-(1_i64 << 32)), [0x3a, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(encoded(&(1_u64 << 32)), float(4_294_967_296.0));
    assert_eq!(encoded(&(-(1_i64 << 32) - 1)), float(-4_294_967_297.0));
    assert_eq!(encoded(&safe), float(exact));
    assert_eq!(encoded(&-safe), float(-exact));
    assert_eq!(encoded(&(safe + 1)), b"\x1b\0\x20\0\0\0\0\0\0");
    assert_eq!(encoded(&(-safe - 1)), b"\x3b\0\x1f\xff\xff\xff\xff\xff\xff");
    assert_eq!(encoded(&5_u128), [5]);
    assert_eq!(encoded(&(1_u128 << 70)), b"\xc2\x49\x40\0\0\0\0\0\0\0\0");
    assert_eq!(
        encoded(&-(1_i128 << 64)),
        b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff"
    );
    assert_eq!(
        encoded(&(-(1_i128 << 64) - 1)),
        b"\xc3\x49\x01\0\0\0\0\0\0\0\0"
    );
}

#[test]
fn integers_are_read_from_every_form_they_come_in() {
    for cbor in [
        &b"\x05"[..],
        b"\x18\x05",
        b"\x1b\0\0\0\0\0\0\0\x05",
        b"\xf9\x45\x00",
        b"\xfa\x40\xa0\0\0",
        b"\xfb\x40\x14\0\0\0\0\0\0",
        b"\xc2\x41\x05",
        b"\xc2\x45\0\0\0\0\x05",
        b"\xc2\x5f\x41\0\x41\x05\xff",
        b"\xd8\x63\x05",
    ] {
        assert_eq!(
            (read::<u8>(cbor), read::<i64>(cbor), read::<u128>(cbor)),
            (5, 5, 5),
            "{cbor:02x?}"
        );
        assert_eq!(
            (read::<f32>(cbor), read::<f64>(cbor)),
            (5.0, 5.0),
            "{cbor:02x?}"
        );
    }
    assert_eq!(
        read::<i64>(b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
        i64::MIN
    );
    assert_eq!(
        read::<i128>(b"\xc3\x49\x01\0\0\0\0\0\0\0\0"),
        -(1 << 64) - 1
    );
    assert_eq!(read::<i8>(b"\xfb\xbf\xf0\0\0\0\0\0\0"), -1);
}

#[test]
fn integers_out_of_range_are_refused_with_what_was_wrong() {
    assert_eq!(
        refusal::<u8>(b"\x19\x01\x2c"),
        "at byte 0: invalid value: integer `300`, expected u8"
    );
    assert_eq!(
        refusal::<u8>(b"\x20"),
        "at byte 0: invalid value: integer `-1`, expected u8"
    );
    assert_eq!(
        refusal::<u8>(b"\xf9\x3e\x00"),
        "at byte 0: invalid type: floating point `1.5`, expected u8"
    );
    assert_eq!(
        refusal::<u8>(b"\xf9\x7c\x00"),
        "at byte 0: invalid type: floating point `inf`, expected u8"
    );
    assert_eq!(
        refusal::<(u8, u64)>(b"\x82\x01\x61a"),
        "at byte 2: invalid type: string \"a\", expected u64"
    );
    assert!(
        refusal::<u128>(b"\xc2\x51\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
            .contains("beyond 128 bits")
    );
    assert!(refusal::<i64>(b"\xfb\x43\xe0\0\0\0\0\0\0").contains("expected i64"));
}

#[test]
fn nothing_is_the_empty_map_as_a_whole_payload_and_null_inside_of_one() {
    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Defaults {
        a: u8,
        b: Option<String>,
    }
    assert_eq!(encoded(&()), [0xa0]);
    assert_eq!(encoded(&None::<u8>), [0xa0]);
    assert_eq!(encoded(&[None::<u8>]), [0x81, 0xf6]);
    assert_eq!(encoded(&((),)), [0x81, 0xf6]);
    for nothing in [&b"\xa0"[..], b"\xb9\0\0", b"\xbf\xff", b"\xf6", b"\xf7"] {
        assert_eq!(read::<Option<Defaults>>(nothing), None);
        assert_eq!(read::<Option<u8>>(nothing), None);
        read::<()>(nothing);
    }
    let missing = Payload::default();
    assert_eq!(missing.decode::<Defaults>().unwrap(), Defaults::default());
    assert_eq!(
        missing.decode::<HashMap<String, u8>>().unwrap(),
        HashMap::new()
    );
    assert_eq!(
        missing.decode::<Registration>().unwrap(),
        Registration::default()
    );
    // An empty map inside of a payload is one.
    assert_eq!(
        read::<Vec<Option<Defaults>>>(b"\x83\xa0\xf6\xf7"),
        [Some(Defaults::default()), None, None]
    );
}

#[test]
fn byte_strings_and_typed_arrays_are_read_as_bytes_and_as_numbers() {
    for bytes in [
        &b"\x42\x01\x02"[..],
        b"\xd8\x40\x42\x01\x02",
        b"\xd8\x44\x42\x01\x02",
        b"\x5f\x41\x01\x41\x02\xff",
        b"\x82\x01\x02",
    ] {
        assert_eq!(read::<Vec<u8>>(bytes), [1, 2], "{bytes:02x?}");
        assert_eq!(read::<ByteBuf>(bytes), [1, 2]);
        assert_eq!(read::<Vec<f64>>(bytes), [1.0, 2.0]);
        assert_eq!(read::<(u8, i32)>(bytes), (1, 2));
        assert_eq!(read::<Vec<Option<u8>>>(bytes), [Some(1), Some(2)]);
        assert_eq!(
            read::<Vec<Value>>(bytes),
            [Value::Integer(1), Value::Integer(2)]
        );
    }
    assert_eq!(Payload::bytes(&[1, 2]).as_bytes()[..], *b"\x42\x01\x02");
    assert_eq!(encoded(&ByteBuf::from([1, 2])), b"\x42\x01\x02");
    assert_eq!(encoded(&[1_u8, 2]), [0x82, 1, 2]);
    assert_eq!(
        payload(b"\x42\x01\x02").decode_borrowed::<&[u8]>().unwrap(),
        [1, 2]
    );

    assert_eq!(
        read::<Vec<u16>>(b"\xd8\x41\x44\x01\x02\x03\x04"),
        [0x0102, 0x0304]
    );
    assert_eq!(
        read::<Vec<u16>>(b"\xd8\x45\x44\x01\x02\x03\x04"),
        [0x0201, 0x0403]
    );
    assert_eq!(read::<Vec<i32>>(b"\xd8\x4e\x44\xff\xff\xff\xff"), [-1]);
    assert_eq!(
        read::<Vec<f32>>(b"\xd8\x55\x48\0\0\xc0\x3f\0\0\0\x40"),
        [1.5, 2.0]
    );
    assert_eq!(read::<Vec<i64>>(b"\xd8\x52\x48\x40\0\0\0\0\0\0\0"), [2]);
    assert!(refusal::<Vec<u16>>(b"\xd8\x41\x43\x01\x02\x03").contains("ends inside an element"));
    assert!(
        refusal::<Vec<f64>>(b"\xd8\x53\x50\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
            .contains("only a Value")
    );
    assert!(refusal::<(u8,)>(b"\x42\x01\x02").contains("more elements"));
    assert!(refusal::<(u8,)>(b"\x82\x01\x02").contains("more elements"));
}

#[test]
fn tagged_containers_and_texts_are_read_as_what_they_contain() {
    let expected = BTreeMap::from([("k".to_owned(), 1)]);
    assert_eq!(
        read::<BTreeMap<String, u8>>(b"\xd9\x01\x03\xa1\x61k\x01"),
        expected
    );
    assert_eq!(read::<Vec<u8>>(b"\xd9\x01\x02\x82\x01\x02"), [1, 2]);
    assert_eq!(
        read::<(String, String)>(b"\xd8\x1b\x82\x66RegExp\x61a"),
        ("RegExp".into(), "a".into())
    );
    assert_eq!(read::<String>(b"\xd8\x20\x61a"), "a");
    assert_eq!(read::<u32>(b"\xc1\x1a\x69\x55\xb9\x00"), 1_767_225_600);
}

#[test]
fn maps_may_have_integers_as_keys_in_any_form() {
    let map = BTreeMap::from([(1_i64, 'a'), (-1, 'b'), (1 << 40, 'c')]);
    assert_eq!(
        Payload::encode(&map)
            .unwrap()
            .decode::<BTreeMap<i64, char>>()
            .unwrap(),
        map
    );
    // JavaScript's objects know texts only.
    assert_eq!(
        read::<BTreeMap<i64, u8>>(b"\xa2\x62-7\x01\x617\x02"),
        BTreeMap::from([(-7, 1), (7, 2)])
    );
    assert!(refusal::<BTreeMap<u8, u8>>(b"\xa1\x61x\x01").contains("expected u8"));
    assert!(refusal::<Vec<u8>>(b"\x81\x617").contains("expected u8"));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Empty,
    Wrapped(Option<u8>),
    Pair(u8, u8),
    Named { a: u8 },
}

#[test]
fn enums_have_serdes_external_form() {
    for (shape, cbor) in [
        (Shape::Empty, &b"\x65Empty"[..]),
        (Shape::Wrapped(None), b"\xa1\x67Wrapped\xf6"),
        (Shape::Pair(1, 2), b"\xa1\x64Pair\x82\x01\x02"),
        (Shape::Named { a: 1 }, b"\xa1\x65Named\xa1\x61a\x01"),
    ] {
        assert_eq!(encoded(&shape), cbor);
        assert_eq!(read::<Shape>(cbor), shape);
    }
    assert_eq!(
        read::<Shape>(b"\xbf\x64Pair\x9f\x01\x02\xff\xff"),
        Shape::Pair(1, 2)
    );
    assert_eq!(read::<Shape>(b"\xa1\x65Empty\xf6"), Shape::Empty);
    assert_eq!(read::<Shape>(b"\x7f\x62Em\x63pty\xff"), Shape::Empty);
    for odd in [
        &b"\xa0"[..],
        b"\xa2\x65Empty\xf6\x65Empty\xf6",
        b"\xbf\x65Empty\xf6\x01\x02\xff",
        b"\x01",
        b"\x65other",
    ] {
        assert!(payload(odd).decode::<Shape>().is_err(), "{odd:02x?}");
    }
}

#[test]
fn structs_ignore_keys_that_they_do_not_know() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Only {
        a: u8,
    }
    // A number is not the index of a field.
    let cbor = b"\xa7\x00\x05\x61a\x01\x20\x02\xf6\x03\x82\x01\x02\x04\x41a\x05\x61b\x9f\xff";
    assert_eq!(read::<Only>(cbor), Only { a: 1 });
    assert_eq!(refusal::<Only>(b"\xa0"), "at byte 0: missing field `a`");
}

#[test]
fn containers_of_unknown_or_untrue_length_are_written_with_their_definite_length() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Flat {
        a: u8,
        #[serde(flatten)]
        rest: BTreeMap<String, u64>,
    }
    let rest = (0..30).map(|n| (n.to_string(), n << 33)).collect();
    let flat = Flat { a: 1, rest };
    let payload = Payload::encode(&flat).unwrap();
    assert_eq!(payload.as_bytes()[..2], [0xb8, 31]);
    assert_eq!(payload.decode::<Flat>().unwrap(), flat);

    struct Liar;
    impl Serialize for Liar {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeSeq;
            let mut seq = serializer.serialize_seq(Some(usize::MAX))?;
            seq.serialize_element(&1)?;
            seq.end()
        }
    }
    assert_eq!(encoded(&[Liar, Liar]), [0x82, 0x81, 1, 0x81, 1]);
}

#[test]
fn a_serialize_that_breaks_the_rules_gets_an_error_and_never_a_malformed_payload() {
    struct Fails;
    impl Serialize for Fails {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("on purpose"))
        }
    }
    struct CarriesOn;
    impl Serialize for CarriesOn {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeSeq;
            let mut seq = serializer.serialize_seq(None)?;
            let _ = seq.serialize_element(&Fails);
            seq.end()
        }
    }
    struct KeysOnly;
    impl Serialize for KeysOnly {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::SerializeMap;
            let mut map = serializer.serialize_map(None)?;
            map.serialize_key("a")?;
            map.end()
        }
    }
    let on_purpose = Err(PayloadError::Unwritable("on purpose".into()));
    assert_eq!(Payload::encode(&Fails), on_purpose);
    assert_eq!(Payload::encode(&CarriesOn), on_purpose);
    assert!(matches!(
        Payload::encode(&KeysOnly),
        Err(PayloadError::Unwritable(_))
    ));
}

#[test]
fn texts_that_are_not_utf8_are_refused() {
    for cbor in [&b"\x81\x61\xff"[..], b"\x81\x7f\x61\xc3\x61\xa9\xff"] {
        let is_whole_text = cbor.len() > 3;
        assert_eq!(payload(cbor).decode::<Vec<String>>().is_ok(), is_whole_text);
        assert_eq!(Value::decode(cbor).is_ok(), is_whole_text);
    }
    assert_eq!(
        payload(b"\x82\x00\x81\x61\xff").decode::<(u8, Value)>(),
        Err(PayloadError::InvalidUtf8 { offset: 3 })
    );
    assert_eq!(
        payload(b"\x81\x61\xff").decode::<[String; 1]>(),
        Err(PayloadError::InvalidUtf8 { offset: 1 })
    );
}

/// The values of B53 as the base implementation writes them.
const LOST_BETWEEN_LANGUAGES: &[u8] = b"\xb9\x00\x08\
    \x61u\xf7\
    \x61d\xc1\xfb\x41\xe0\x57\xc2\xd9\x79\x58\x10\
    \x61i\x1b\x00\x20\x00\x00\x00\x00\x00\x01\
    \x61b\xc2\x49\x40\x00\x00\x00\x00\x00\x00\x00\x00\
    \x61n\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00\
    \x61s\x43\x01\x02\x03\
    \x61a\xd8\x40\x42\x04\x05\
    \x61m\xd9\x01\x03\xa2\x01\x61x\x38\x63\x61y";

#[test]
fn b53_every_value_survives_decoding_and_encoding() {
    let value = Value::decode(LOST_BETWEEN_LANGUAGES).unwrap();
    let ms = 2_193_495_755_792; // 2039-07-05T16:22:35.792Z
    assert_eq!(value.get("u"), Some(&Value::Undefined));
    assert_eq!(value.get("d"), Some(&Value::Date(Date { ms })));
    assert_eq!(
        value.get("i"),
        Some(&Value::BigInt(BigInt::from((1_u128 << 53) + 1)))
    );
    assert_eq!(
        value.get("b"),
        Some(&Value::BigInt(BigInt::from(1_u128 << 70)))
    );
    assert!(value.get("n").unwrap().as_f64().unwrap().is_nan());
    assert_eq!(value.get("s"), Some(&Value::Bytes(vec![1, 2, 3])));
    assert_eq!(
        value.get("a"),
        Some(&Value::Typed {
            tag: 64,
            bytes: vec![4, 5]
        })
    );
    let entries = Value::Map(vec![
        (Value::Integer(1), "x".into()),
        (Value::Integer(-100), "y".into()),
    ]);
    assert_eq!(value.get("m"), Some(&Value::Tagged(259, Box::new(entries))));
    // Only the length of the map's head is another.
    assert_eq!(value.encode().unwrap()[1..], LOST_BETWEEN_LANGUAGES[3..]);
    assert_eq!(encoded(&value)[1..], LOST_BETWEEN_LANGUAGES[3..]);
}

#[test]
fn b53_the_rust_api_shows_each_value_without_loss() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Typed {
        u: Option<u8>,
        d: Date,
        i: u64,
        b: u128,
        n: f64,
        s: ByteBuf,
        a: ByteBuf,
        m: BTreeMap<i32, String>,
    }
    let typed: Typed = payload(LOST_BETWEEN_LANGUAGES).decode().unwrap();
    assert_eq!(
        (typed.u, typed.d.ms, typed.i, typed.b),
        (None, 2_193_495_755_792, (1 << 53) + 1, 1 << 70)
    );
    assert!(typed.n.is_nan());
    assert_eq!((&typed.s[..], &typed.a[..]), (&[1, 2, 3][..], &[4, 5][..]));
    assert_eq!(
        typed.m,
        BTreeMap::from([(1, "x".into()), (-100, "y".into())])
    );
    let again: Typed = Payload::encode(&typed).unwrap().decode().unwrap();
    assert_eq!(
        (again.d, again.i, again.b, again.m),
        (typed.d, typed.i, typed.b, typed.m)
    );

    #[derive(Serialize, Deserialize)]
    struct Inside {
        u: Value,
        n: Vec<Value>,
    }
    let inside: Inside = read(b"\xa2\x61u\xf7\x61n\x82\xf6\x1b\0\0\0\0\0\0\0\x05");
    assert_eq!(inside.u, Value::Undefined);
    assert_eq!(inside.n, [Value::Null, Value::BigInt(BigInt::from(5_u128))]);
    assert_eq!(
        encoded(&inside),
        b"\xa2\x61u\xf7\x61n\x82\xf6\x1b\0\0\0\0\0\0\0\x05"
    );
}

#[test]
fn dates_are_written_as_tag_1_and_read_from_text_too() {
    assert_eq!(
        encoded(&Date {
            ms: 1_767_225_600_000
        }),
        b"\xc1\x1a\x69\x55\xb9\x00"
    );
    assert_eq!(encoded(&Date { ms: 500 }), b"\xc1\xfb\x3f\xe0\0\0\0\0\0\0");
    assert_eq!(
        read::<Date>(b"\xc0\x741970-01-01T00:00:01Z"),
        Date { ms: 1000 }
    );
    assert!(refusal::<Date>(b"\x05").contains("expected a date"));
    // What no date can be stays what it is.
    let never = Value::decode(b"\xc1\xfb\x7f\xf8\0\0\0\0\0\0").unwrap();
    assert_eq!(
        never.encode().unwrap()[..],
        *b"\xc1\xfb\x7f\xf8\0\0\0\0\0\0"
    );
}

#[test]
fn values_in_json_are_the_nearest_that_it_has() {
    let json = r#"{"a":[1,-2,1.5,null,true,"x",18446744073709551615]}"#;
    let value: Value = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), json);
    let value =
        Value::decode(b"\x85\xf7\xc1\x01\xc2\x49\x40\0\0\0\0\0\0\0\0\x41\x07\xd9\x01\x02\x80")
            .unwrap();
    assert_eq!(
        serde_json::to_string(&value).unwrap(),
        r#"[null,1000,"1180591620717411303424",[7],[]]"#
    );
    assert_eq!(
        serde_json::from_str::<Date>("1000").unwrap(),
        Date { ms: 1000 }
    );
}

#[test]
fn any_wanted_gets_integers_back_as_integers() {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Other(String),
    }
    assert_eq!(
        Payload::encode(&(1_u64 << 40))
            .unwrap()
            .decode::<Either>()
            .unwrap(),
        Either::Number(1 << 40)
    );
    assert_eq!(
        read::<serde_json::Value>(b"\xa1\x61a\x82\x01\xf6"),
        serde_json::json!({"a": [1, null]})
    );
}

#[test]
fn debug_is_short_whatever_the_payload() {
    let shown = format!("{:?}", payload(LOST_BETWEEN_LANGUAGES));
    assert!(shown.starts_with(r#"Payload({"u": undefined, "d": 1(2193495755.792), "i": 9007199254740993, "b": 2(h'4000"#), "{shown}");
    let long = Payload::encode(&vec!["x".repeat(1000); 1000]).unwrap();
    assert!(format!("{long:?}").len() < 4000);
    assert_eq!(
        format!("{:?}", payload(b"\x9f\x01\x7f\x61a\xff\xff")),
        r#"Payload([1, "a"])"#
    );
}
