//! The types that users read payloads as. What this module keeps true: reading as any of them ends in a value or an
//! error; a value is written, and read again as an equal one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;

use nacp::Payload;
use nacp::message::payload::Date;
use nacp::message::{Declaration, Registration};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    a: u32,
    b: Option<String>,
    #[serde(default)]
    c: Vec<i16>,
    d: Option<Box<Record>>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Pair(u8, String);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Choice {
    Unit,
    New(u64),
    Tuple(u8, bool),
    Struct { a: i64, b: String },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Loose {
    Flag(bool),
    Number(u64),
    Text(String),
    Many(Vec<u32>),
    Named(BTreeMap<String, u32>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "a")]
enum Tagged {
    A { b: u8 },
    B { c: String },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    a: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, u16>,
}

fn once<T: DeserializeOwned>(payload: &Payload) -> Option<T> {
    match payload.decode::<T>() {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn again<T: DeserializeOwned + Serialize + PartialEq + Debug>(payload: &Payload) {
    if let Some(value) = once::<T>(payload) {
        let written = Payload::encode(&value).expect("what was read can be written");
        let read: T = written.decode().expect("what is written can be read");
        assert_eq!(read, value);
    }
}

pub(super) fn read_as_everything(payload: &Payload) {
    numbers(payload);
    again::<bool>(payload);
    again::<char>(payload);
    again::<String>(payload);
    again::<()>(payload);
    again::<Date>(payload);
    again::<ByteBuf>(payload);
    again::<Option<u8>>(payload);
    again::<Option<String>>(payload);
    sequences(payload);
    maps(payload);
    again::<Record>(payload);
    again::<Pair>(payload);
    again::<Choice>(payload);
    again::<Loose>(payload);
    again::<Tagged>(payload);
    again::<Flat>(payload);
    again::<Declaration>(payload);
    once::<Registration>(payload);
    once::<serde::de::IgnoredAny>(payload);
    once::<serde_json::Value>(payload);
    let _ = payload.decode_borrowed::<&str>();
    let _ = payload.decode_borrowed::<&[u8]>();
    let _ = payload.decode_borrowed::<BTreeMap<&str, &str>>();
}

fn numbers(payload: &Payload) {
    again::<u8>(payload);
    again::<i8>(payload);
    again::<u16>(payload);
    again::<i16>(payload);
    again::<u32>(payload);
    again::<i32>(payload);
    again::<u64>(payload);
    again::<i64>(payload);
    again::<u128>(payload);
    again::<i128>(payload);
    if let Some(n) = once::<f64>(payload) {
        let written = Payload::encode(&n).expect("a float is written");
        let read: f64 = written.decode().expect("and read");
        assert!(read.to_bits() == n.to_bits() || (read.is_nan() && n.is_nan()));
    }
    if let Some(n) = once::<f32>(payload) {
        let written = Payload::encode(&n).expect("a float is written");
        let read: f32 = written.decode().expect("and read");
        assert!(read.to_bits() == n.to_bits() || (read.is_nan() && n.is_nan()));
    }
}

fn sequences(payload: &Payload) {
    again::<Vec<u8>>(payload);
    again::<Vec<i32>>(payload);
    again::<Vec<u64>>(payload);
    again::<Vec<String>>(payload);
    again::<Vec<Vec<u8>>>(payload);
    again::<Vec<Option<bool>>>(payload);
    again::<Vec<(u8, i64)>>(payload);
    again::<BTreeSet<u16>>(payload);
    again::<(u8, String)>(payload);
    again::<[u8; 4]>(payload);
    once::<Vec<f64>>(payload);
    once::<Vec<f32>>(payload);
}

fn maps(payload: &Payload) {
    again::<BTreeMap<String, u32>>(payload);
    again::<BTreeMap<i64, String>>(payload);
    again::<BTreeMap<u64, u8>>(payload);
    again::<BTreeMap<bool, u8>>(payload);
    again::<BTreeMap<String, Vec<u8>>>(payload);
    again::<BTreeMap<String, Option<u8>>>(payload);
    again::<HashMap<String, Choice>>(payload);
    again::<BTreeMap<ByteBuf, ByteBuf>>(payload);
    // Some of an empty map is written as None is: what is read may differ.
    once::<Option<BTreeMap<String, ()>>>(payload);
}
