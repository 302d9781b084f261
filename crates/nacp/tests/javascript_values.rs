//! Bytes as `cbor-x`, the encoder of base programs, wrote them for the JavaScript value beside each, and what a Rust
//! program reads in them. What this file keeps true: no value that JavaScript can send is lost or refused, but for text
//! that is none.

use std::collections::{BTreeMap, BTreeSet};

use nacp::message::payload::{BigInt, Date, PayloadError};
use nacp::{Payload, Value};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn payload(hex: &str) -> Payload {
    Payload::from_cbor(bytes(hex).into()).unwrap()
}

fn read<T: DeserializeOwned>(hex: &str) -> T {
    payload(hex).decode().unwrap()
}

fn typed(tag: u8, hex: &str) -> Value {
    let bytes = bytes(hex);
    Value::Typed { tag, bytes }
}

fn tagged(tag: u64, value: Value) -> Value {
    Value::Tagged(tag, Box::new(value))
}

fn big(n: i128) -> Value {
    Value::BigInt(BigInt::from(n))
}

fn check(rows: impl IntoIterator<Item = (&'static str, Value)>) {
    for (hex, expected) in rows {
        let value = Value::decode(&bytes(hex)).unwrap();
        assert_eq!(value, expected, "{hex}");
        // None of these has a head that is longer than need be, so they are written again as they came.
        assert_eq!(value.encode().unwrap(), bytes(hex), "{hex} again");
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn b53_numbers_of_javascript_keep_their_kind() {
    check([
        ("17", Value::Integer(23)),
        ("19ffff", Value::Integer(65_535)),
        ("3a7fffffff", Value::Integer(-2_147_483_648)),
        ("3a80000000", Value::Integer(-2_147_483_649)),
        ("1affffffff", Value::Integer(4_294_967_295)),
        // From here on JavaScript's numbers are float64, and its BigInts integers of 64 bits, even small ones.
        ("fb41f0000000000000", Value::Float(4_294_967_296.0)),
        ("fb433fffffffffffff", Value::Float(9_007_199_254_740_991.0)),
        ("fb43b0000000000000", Value::Float(2_f64.powi(60))),
        ("fb3fb999999999999a", Value::Float(0.1)),
        ("fb0000000000000001", Value::Float(5e-324)),
        ("fb7ff0000000000000", Value::Float(f64::INFINITY)),
        ("1b0000000000000005", big(5)),
        ("3b0000000000000004", big(-5)),
        ("1b0000000000000000", big(0)),
        ("1b0020000000000001", big((1 << 53) + 1)),
        ("3b7fffffffffffffff", big(i64::MIN.into())),
        ("1bffffffffffffffff", big(u64::MAX.into())),
        ("c249400000000000000000", big(1 << 70)),
        ("c3493fffffffffffffffff", big(-(1 << 70))),
    ]);
    assert!(read::<f64>("fb7ff8000000000000").is_nan());
}

#[test]
fn numbers_of_javascript_are_what_the_rust_type_says() {
    assert_eq!(read::<u64>("fb41f0000000000000"), 4_294_967_296);
    assert_eq!(read::<i64>("fbc33fffffffffffff"), -9_007_199_254_740_991);
    assert_eq!(read::<u8>("1b0000000000000005"), 5);
    assert_eq!(read::<i64>("3b7fffffffffffffff"), i64::MIN);
    assert_eq!(read::<i128>("c3493fffffffffffffffff"), -(1 << 70));
    // 5.0 is 5 in JavaScript, and -0 is 0 for its encoder.
    assert_eq!(read::<f64>("05"), 5.0);
    assert_eq!(read::<f64>("00"), 0.0);
    payload("fb3ff8000000000000").decode::<u32>().unwrap_err(); // 1.5
    payload("20").decode::<u32>().unwrap_err(); // -1
    payload("190100").decode::<u8>().unwrap_err(); // 256
}

#[test]
fn b53_bytes_and_typed_arrays_keep_their_kind() {
    check([
        ("43010203", Value::Bytes(vec![1, 2, 3])), // Buffer; an ArrayBuffer or DataView too
        ("40", Value::Bytes(vec![])),
        ("d840420405", typed(64, "0405")),
        ("d844420607", typed(68, "0607")),
        ("d84842ff02", typed(72, "ff02")),
        ("d845440100ffff", typed(69, "0100ffff")),
        ("d855480000c03f000010c0", typed(85, "0000c03f000010c0")),
        ("d847480000000000000080", typed(71, "0000000000000080")),
    ]);
    for hex in ["43010203", "d84043010203", "d84443010203"] {
        assert_eq!(read::<ByteBuf>(hex)[..], [1, 2, 3]);
        assert_eq!(read::<Vec<u16>>(hex), [1, 2, 3]);
    }
    assert_eq!(read::<Vec<i8>>("d84842ff02"), [-1, 2]);
    assert_eq!(read::<Vec<u16>>("d845440100ffff"), [1, 65_535]);
    assert_eq!(read::<Vec<i16>>("d84d44ffff0001"), [-1, 256]);
    assert_eq!(read::<Vec<u32>>("d8464801000000ffffffff"), [1, u32::MAX]);
    assert_eq!(read::<Vec<i32>>("d84e48ffffffff00000100"), [-1, 65_536]);
    assert_eq!(read::<Vec<f32>>("d855480000c03f000010c0"), [1.5, -2.25]);
    let doubles: Vec<f64> = read("d856509a9999999999b93f9c7500883ce4377e");
    assert_eq!(doubles, [0.1, 1e300]);
    let signed: Vec<i64> = read("d84f50ffffffffffffffff0000000000000040");
    assert_eq!(signed, [-1, 1 << 62]);
    assert_eq!(read::<Vec<u64>>("d847480000000000000080"), [1 << 63]);
}

#[test]
fn b53_dates_keep_their_milliseconds() {
    let at = |ms| Value::Date(Date { ms });
    check([
        ("c11a6955b900", at(1_767_225_600_000)),
        ("c1fb41da556e4007df3b", at(1_767_225_600_123)),
        ("c1fbbff8000000000000", at(-1_500)),
        ("c1fb4130624dd2f1a9fc", at(1 << 30)),
        ("c1fb429f6ea086000000", at(8_640_000_000_000_000)), // the last one that JavaScript has
    ]);
    assert_eq!(read::<Date>("c1fb41da556e4007df3b").ms, 1_767_225_600_123);
    // new Date(NaN): no point in time, and no reason to refuse the rest of the payload.
    let Value::Tagged(1, inner) = read("c1fb7ff8000000000000") else {
        panic!("not tagged as a date");
    };
    assert!(inner.as_f64().unwrap().is_nan());
    payload("c1fb7ff8000000000000")
        .decode::<Date>()
        .unwrap_err();
}

#[test]
fn b53_maps_sets_regexps_and_errors_keep_their_kind() {
    // new Map([[1, "a"], [-2, "b"], [2 ** 40, "c"]])
    let map = "d90103a3016161216162fb42700000000000006163";
    let entries = vec![
        (Value::Integer(1), text("a")),
        (Value::Integer(-2), text("b")),
        (Value::Float(1_099_511_627_776.0), text("c")),
    ];
    let array = |values: &[Value]| Value::Array(values.to_vec());
    let set = array(&[Value::Integer(1), text("two"), Value::Null]);
    let regexp = array(&[text("RegExp"), text("a+b"), text("gi")]);
    let error = array(&[text("TypeError"), text("boom")]);
    let hole = array(&[Value::Integer(1), Value::Undefined, Value::Integer(2)]);
    check([
        (map, tagged(259, Value::Map(entries))),
        ("d90103a0", tagged(259, Value::Map(vec![]))),
        ("d9010283016374776ff6", tagged(258, set)),
        ("d9010280", tagged(258, array(&[]))),
        ("d81b836652656745787063612b62626769", tagged(27, regexp)),
        ("d81b8269547970654572726f7264626f6f6d", tagged(27, error)),
        ("8301f702", hole), // [1, , 2]
    ]);
    let by_number: BTreeMap<i64, String> = read(map);
    assert_eq!(by_number[&(1 << 40)], "c");
    assert_eq!(read::<BTreeSet<u8>>("d90102820102"), BTreeSet::from([1, 2]));
}

#[test]
fn objects_are_read_as_structs_and_as_maps() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Wanted {
        a: Option<u8>,
        b: u8,
        missing: Option<u8>,
    }
    // {a: undefined, b: 1, more: new Set()}
    let wanted: Wanted = read("b900036161f7616201646d6f7265d9010280");
    let expected = Wanted {
        a: None,
        b: 1,
        missing: None,
    };
    assert_eq!(wanted, expected);
    // {2: true, 10: false}: an object's keys are texts.
    let by_digits: BTreeMap<u32, bool> = read("b900026132f5623130f4");
    assert_eq!(by_digits, BTreeMap::from([(2, true), (10, false)]));
}

/// new String("s"), a generator: whatever has an iterator.
#[test]
fn what_javascript_iterates_comes_as_an_array_of_no_said_length() {
    assert_eq!(read::<Vec<String>>("9f6173ff"), ["s"]);
    let value = Value::decode(&bytes("9f016374776fff")).unwrap();
    assert_eq!(value, Value::Array(vec![Value::Integer(1), text("two")]));
}

#[test]
fn objects_have_a_count_of_16_bits_whatever_their_size() {
    assert_eq!(read::<BTreeMap<String, u8>>("b90001616101").len(), 1);
    assert_eq!(Value::decode(&bytes("b90000")).unwrap(), Value::Map(vec![]));
    read::<()>("b90000");
}

/// `"hi 🎈".slice(0, 4)` ends in half of a surrogate pair, and the encoder writes what no text may hold.
#[test]
fn half_a_character_is_handed_through_but_not_read_as_text() {
    let half = "66686920eda0bc";
    let payload = payload(half);
    assert_eq!(payload.as_bytes()[..], bytes(half));
    assert!(matches!(
        payload.decode::<String>(),
        Err(PayloadError::InvalidUtf8 { .. })
    ));
    // Only who reads that very text is refused: {a: <that>, b: 1}.
    #[derive(Deserialize)]
    struct Other {
        b: u8,
    }
    assert_eq!(read::<Other>(&format!("b900026161{half}616201")).b, 1);
}
