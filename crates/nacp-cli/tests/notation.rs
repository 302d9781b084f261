//! The JSON notation loses nothing, and says what is wrong with what it cannot read.

use nacp::Value;
use nacp::message::payload::{BigInt, Date};
use nacp_cli::notation::{from_json, to_json};
use proptest::prelude::*;

/// Equality by bits, so that a NaN is itself.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| same(&a.0, &b.0) && same(&a.1, &b.1))
        }
        (Value::Tagged(a, x), Value::Tagged(b, y)) => a == b && same(x, y),
        _ => a == b,
    }
}

fn big_int() -> impl Strategy<Value = Value> {
    (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(is_negative, bytes)| {
        let mut item = vec![if is_negative { 0xc3 } else { 0xc2 }];
        item.extend_from_slice(nacp::Payload::bytes(&bytes).as_bytes());
        Value::decode(&item).unwrap()
    })
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>(),
        "[$]{0,3}(undefined|bytes|map|pairs|tag|x)?",
        Just("$bytes".to_owned()),
    ]
    .prop_map(Value::Text)
}

fn leaf() -> impl Strategy<Value = Value> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        Just(Value::Undefined),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Simple),
        any::<i64>().prop_map(Value::Integer),
        (-300_i64..300).prop_map(Value::Integer),
        big_int(),
        any::<i128>().prop_map(|n| Value::BigInt(BigInt::from(n))),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        any::<i32>().prop_map(|n| Value::Float(n.into())),
        Just(Value::Float(f64::NAN)),
        Just(Value::Float(f64::INFINITY)),
        Just(Value::Float(f64::NEG_INFINITY)),
        Just(Value::Float(-0.0)),
        bytes().prop_map(Value::Bytes),
        (64_u8..=87, bytes()).prop_map(|(tag, bytes)| Value::Typed { tag, bytes }),
        text(),
        any::<i64>().prop_map(|ms| Value::Date(Date { ms })),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(8, 64, 4, |inner| {
        let key = prop_oneof![3 => text(), 1 => inner.clone()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((text(), inner.clone()), 0..4).prop_map(Value::Map),
            prop::collection::vec((key, inner.clone()), 0..4).prop_map(Value::Map),
            (
                prop_oneof![
                    Just(258),
                    Just(259),
                    Just(1),
                    Just(2),
                    Just(64),
                    any::<u64>()
                ],
                inner
            )
                .prop_map(|(tag, value)| Value::Tagged(tag, value.into())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn every_value_survives_the_notation(value in tree()) {
        let json = to_json(&value);
        let back = from_json(&json).unwrap();
        prop_assert!(same(&value, &back), "{value:?}\n{json}\n{back:?}");
        prop_assert!(!json.contains('\n'));
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}$\":,0-9a-z .-]{0,40}") {
        let _ = from_json(&text);
    }
}

#[test]
fn plain_json_means_what_it_says() {
    for json in [
        r#"{"text":"hi","n":[1,-2,1.5,true,null]}"#,
        r#"{"b":1,"a":2}"#,
        "[]",
        "\"\"",
        r#"{"$a":1,"$b":2}"#,
    ] {
        assert_eq!(to_json(&from_json(json).unwrap()), json);
    }
    let lone_dollar = from_json(r#"{"$$bytes":1}"#).unwrap();
    assert_eq!(lone_dollar.get("$bytes"), Some(&Value::Integer(1)));
    assert_eq!(
        from_json("18446744073709551615").unwrap(),
        Value::BigInt(BigInt::from(u128::from(u64::MAX)))
    );
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let error = |json: &str| from_json(json).unwrap_err().to_string();
    assert!(
        error(r#"{"a":"#).contains("line 1 column 5"),
        "{}",
        error(r#"{"a":"#)
    );
    assert!(error(r#"{"$bytes":"%"}"#).contains("$bytes wants base64"));
    assert!(error(r#"{"$byte":""}"#).contains("has no $byte; write \"$$byte\""));
    assert!(error(r#"{"a":1,"a":2}"#).contains("\"a\" comes twice"));
    assert!(error(&"[".repeat(1_000_000)).contains("nested deeper"));
    for form in [
        "undefined",
        "bytes",
        "bigint",
        "number",
        "date",
        "typed",
        "set",
        "map",
        "pairs",
        "simple",
        "tag",
    ] {
        let json = format!(r#"{{"${form}":[["x"]]}}"#);
        if form != "set" {
            assert!(error(&json).contains("wants"), "{form}");
        }
    }
}

#[test]
fn a_payload_of_the_deepest_nesting_is_written_and_read() {
    let mut value = Value::Null;
    for _ in 0..63 {
        value = Value::Map(vec![(Value::Integer(1), value)]);
    }
    assert!(value.encode().is_ok());
    assert!(same(&from_json(&to_json(&value)).unwrap(), &value));
}
