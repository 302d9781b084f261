//! Round trips of payloads: serde types and values of any shape survive the way there and back, and an independent
//! reader agrees with ours on what is one item.

use std::collections::BTreeMap;

use nacp::message::payload::Date;
use nacp::{Payload, Value};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Undefined),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![0_u8..20, 32_u8..].prop_map(Value::Simple),
        any::<i64>().prop_map(Value::Integer),
        any::<i32>().prop_map(|n| Value::Integer(n.into())),
        any::<i128>().prop_map(|n| Value::BigInt(n.into())),
        any::<i64>().prop_map(|n| Value::BigInt(i128::from(n).into())),
        any::<f64>().prop_map(Value::Float),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        (64_u8..88, proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(tag, bytes)| Value::Typed { tag, bytes }),
        proptest::collection::vec(any::<char>(), 0..40)
            .prop_map(|text| Value::Text(text.into_iter().collect())),
        (-8_640_000_000_000_000_i64..8_640_000_000_000_000).prop_map(|ms| Value::Date(Date { ms })),
    ];
    leaf.prop_recursive(6, 60, 8, |value| {
        prop_oneof![
            proptest::collection::vec(value.clone(), 0..8).prop_map(Value::Array),
            proptest::collection::vec((value.clone(), value.clone()), 0..8).prop_map(Value::Map),
            (90_u64.., value).prop_map(|(tag, value)| Value::Tagged(tag, Box::new(value))),
        ]
    })
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    integers: (i8, u16, i32, u64, i64, i128, u128),
    float: f64,
    text: Option<String>,
    bytes: ByteBuf,
    map: BTreeMap<i64, Vec<bool>>,
    unit: (),
    shapes: Vec<Option<char>>,
}

fn everything() -> impl Strategy<Value = Everything> {
    (
        any::<(i8, u16, i32, u64, i64, i128, u128)>(),
        any::<f64>().prop_filter("comparable", |n| !n.is_nan()),
        any::<Option<u32>>(),
        proptest::collection::vec(any::<u8>(), 0..300),
        proptest::collection::btree_map(
            any::<i64>(),
            proptest::collection::vec(any::<bool>(), 0..3),
            0..5,
        ),
        proptest::collection::vec(any::<Option<char>>(), 0..30),
    )
        .prop_map(|(integers, float, text, bytes, map, shapes)| Everything {
            integers,
            float,
            text: text.map(|n| n.to_string()),
            bytes: bytes.into(),
            map,
            unit: (),
            shapes,
        })
}

proptest! {
    #[test]
    fn serde_types_survive_the_way_there_and_back(value in everything()) {
        let payload = Payload::encode(&value).unwrap();
        prop_assert!(Payload::from_cbor(payload.as_bytes().clone()).is_ok());
        prop_assert_eq!(payload.decode::<Everything>().unwrap(), value.clone());
        // By way of a tree as well.
        let tree: Value = payload.decode().unwrap();
        prop_assert_eq!(Payload::encode(&tree).unwrap().decode::<Everything>().unwrap(), value);
    }

    #[test]
    fn values_survive_the_way_there_and_back(value in any_value()) {
        // Bytes are compared: they are the meaning, also of NaN.
        let bytes = value.encode().unwrap();
        prop_assert!(Payload::from_cbor(bytes.clone()).is_ok());
        let again = Value::decode(&bytes).unwrap();
        prop_assert_eq!(again.encode().unwrap(), bytes.clone());
        let inside: (u8, Value) = Payload::encode(&(1, &value)).unwrap().decode().unwrap();
        prop_assert_eq!(inside.1.encode().unwrap(), bytes);
    }

    #[test]
    fn an_independent_reader_sees_what_we_wrote(value in any_value()) {
        let bytes = value.encode().unwrap();
        let mut decoder = minicbor::Decoder::new(&bytes);
        decoder.skip().unwrap();
        prop_assert_eq!(decoder.position(), bytes.len());
    }

    #[test]
    fn an_independent_reader_reads_every_well_formed_item_as_we_do(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
        if Payload::from_cbor(bytes.clone().into()).is_ok() {
            let mut decoder = minicbor::Decoder::new(&bytes);
            prop_assert!(decoder.skip().is_err() || decoder.position() == bytes.len(), "{:02x?}", bytes);
        }
    }
}
