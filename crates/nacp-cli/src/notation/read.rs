//! JSON → Value.
//!
//! What this module keeps true: it recurses no deeper than a payload can need; an object that begins like a form of
//! the notation is one, or an error that says how to write it otherwise.

use std::collections::HashSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nacp::Value;
use nacp::message::payload::{BigInt, Date};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{LEVELS_MAX, NAN_BITS, TAG_MAP, TAG_SET, TYPED, bigint};

pub(super) fn value(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    // Our own count of levels stands in for the limit that is switched off here.
    deserializer.disable_recursion_limit();
    let value = Level(0).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads a value that many levels down.
#[derive(Clone, Copy)]
struct Level(u32);

impl Level {
    fn next<E: de::Error>(self) -> Result<Self, E> {
        if self.0 < LEVELS_MAX {
            Ok(Self(self.0 + 1))
        } else {
            Err(E::custom("nested deeper than a message can be"))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Integer(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(i64::try_from(n).map_or_else(
            |_| Value::BigInt(BigInt::from(u128::from(n))),
            Value::Integer,
        ))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Value::Float(n))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let level = self.next()?;
        let mut values = Vec::new();
        while let Some(value) = access.next_element_seed(level)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let level = self.next()?;
        let mut keys = HashSet::new();
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom(format_args!("key {key:?} comes twice")));
            }
            entries.push((key, access.next_value_seed(level)?));
        }
        if let [(key, _)] = &mut entries[..]
            && key.starts_with('$')
        {
            key.remove(0);
            if !key.starts_with('$') {
                let (name, content) = entries.remove(0);
                return form(&name, content).map_err(de::Error::custom);
            }
        }
        Ok(Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        ))
    }
}

/// The value that `{"$name": content}` stands for.
fn form(name: &str, content: Value) -> Result<Value, String> {
    let (value, wanted) = match name {
        "undefined" => (
            (content == Value::Bool(true)).then_some(Value::Undefined),
            "true",
        ),
        "bytes" => (base64(&content).map(Value::Bytes), "base64"),
        "bigint" => (
            content.as_str().and_then(bigint::parse).map(Value::BigInt),
            "a text of decimal digits, or 0x and hexadecimal ones",
        ),
        "number" => (
            content.as_str().and_then(odd_number).map(Value::Float),
            "\"NaN\", \"Infinity\" or \"-Infinity\"",
        ),
        "date" => (
            milliseconds(&content).map(|ms| Value::Date(Date { ms })),
            "whole milliseconds since 1970",
        ),
        "typed" => (
            typed(&content),
            "[name, base64], such as [\"Uint8Array\", \"AQI=\"]",
        ),
        "set" => (
            matches!(content, Value::Array(_)).then(|| Value::Tagged(TAG_SET, content.into())),
            "an array",
        ),
        "map" => (
            pairs(content).map(|map| Value::Tagged(TAG_MAP, map.into())),
            "an array of [key, value]",
        ),
        "pairs" => (pairs(content), "an array of [key, value]"),
        "simple" => (simple(&content).map(Value::Simple), "0 to 255"),
        "tag" => (tagged(content), "[number, value]"),
        _ => {
            return Err(format!(
                "the notation has no ${name}; write \"$${name}\" for a lone key of that name"
            ));
        }
    };
    value.ok_or_else(|| {
        format!("${name} wants {wanted}; write \"$${name}\" for a lone key of that name")
    })
}

fn base64(content: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(content.as_str()?).ok()
}

fn odd_number(text: &str) -> Option<f64> {
    match text {
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::from_bits(NAN_BITS)),
        _ => {
            let bits = u64::from_str_radix(text.strip_prefix("NaN:")?, 16).ok()?;
            Some(f64::from_bits(bits)).filter(|n| n.is_nan())
        }
    }
}

fn milliseconds(content: &Value) -> Option<i64> {
    match content {
        Value::Integer(ms) => Some(*ms),
        _ => None,
    }
}

fn simple(content: &Value) -> Option<u8> {
    content.as_i64().and_then(|n| n.try_into().ok())
}

fn typed(content: &Value) -> Option<Value> {
    let Value::Array(parts) = content else {
        return None;
    };
    let [kind, bytes] = &parts[..] else {
        return None;
    };
    let tag = match kind {
        Value::Text(name) => TYPED.iter().find(|(_, known)| known == name)?.0,
        tag => u8::try_from(tag.as_i64()?)
            .ok()
            .filter(|tag| (64..=87).contains(tag))?,
    };
    Some(Value::Typed {
        tag,
        bytes: base64(bytes)?,
    })
}

fn pairs(content: Value) -> Option<Value> {
    let Value::Array(pairs) = content else {
        return None;
    };
    pairs
        .into_iter()
        .map(|pair| match pair {
            Value::Array(pair) => <[Value; 2]>::try_from(pair)
                .ok()
                .map(<(Value, Value)>::from),
            _ => None,
        })
        .collect::<Option<_>>()
        .map(Value::Map)
}

fn tagged(content: Value) -> Option<Value> {
    let Value::Array(parts) = content else {
        return None;
    };
    let [tag, value] = <[Value; 2]>::try_from(parts).ok()?;
    let tag = match tag {
        Value::Integer(n) => u64::try_from(n).ok()?,
        Value::BigInt(n) => n.to_u128()?.try_into().ok()?,
        _ => return None,
    };
    Some(Value::Tagged(tag, value.into()))
}
