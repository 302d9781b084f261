//! Value → JSON.
//!
//! What this module keeps true: an object of one key beginning with a single `$` is never a user's map.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nacp::Value;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{NAN_BITS, Notation, TAG_MAP, TAG_SET, TYPED};

impl Serialize for Notation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Undefined => form(serializer, "$undefined", &true),
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Simple(value) => form(serializer, "$simple", value),
            Value::Integer(n) => serializer.serialize_i64(*n),
            Value::BigInt(n) => form(serializer, "$bigint", &n.to_string()),
            Value::Float(n) if n.is_finite() => serializer.serialize_f64(*n),
            Value::Float(n) => form(serializer, "$number", &odd_number(*n)),
            Value::Bytes(bytes) => form(serializer, "$bytes", &STANDARD.encode(bytes)),
            Value::Typed { tag, bytes } => {
                let bytes = STANDARD.encode(bytes);
                match TYPED.iter().find(|(known, _)| known == tag) {
                    Some((_, name)) => form(serializer, "$typed", &(name, bytes)),
                    None => form(serializer, "$typed", &(tag, bytes)),
                }
            }
            Value::Text(text) => serializer.serialize_str(text),
            Value::Array(values) => serializer.collect_seq(values.iter().map(Notation)),
            Value::Map(entries) => match text_keys(entries) {
                Some(keys) => object(serializer, &keys, entries),
                None => form(serializer, "$pairs", &Pairs(entries)),
            },
            Value::Date(date) => form(serializer, "$date", &date.ms),
            Value::Tagged(tag, value) => match (*tag, &**value) {
                (TAG_SET, Value::Array(_)) => form(serializer, "$set", &Notation(value)),
                (TAG_MAP, Value::Map(entries)) => form(serializer, "$map", &Pairs(entries)),
                (tag, value) => form(serializer, "$tag", &(tag, Notation(value))),
            },
        }
    }
}

fn form<S: Serializer, T: Serialize>(
    serializer: S,
    name: &'static str,
    content: &T,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(name, content)?;
    map.end()
}

fn odd_number(n: f64) -> String {
    match n {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ if n.to_bits() == NAN_BITS => "NaN".to_owned(),
        _ => format!("NaN:{:016x}", n.to_bits()),
    }
}

/// The keys, if a JSON object can have them: all text, none twice.
fn text_keys(entries: &[(Value, Value)]) -> Option<Vec<&str>> {
    let keys: Vec<_> = entries
        .iter()
        .map(|(key, _)| key.as_str())
        .collect::<Option<_>>()?;
    let distinct: HashSet<_> = keys.iter().collect();
    (distinct.len() == keys.len()).then_some(keys)
}

fn object<S: Serializer>(
    serializer: S,
    keys: &[&str],
    entries: &[(Value, Value)],
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(keys.len()))?;
    let is_ambiguous = keys.len() == 1 && keys[0].starts_with('$');
    for (key, (_, value)) in keys.iter().zip(entries) {
        if is_ambiguous {
            map.serialize_key(&format!("${key}"))?;
        } else {
            map.serialize_key(key)?;
        }
        map.serialize_value(&Notation(value))?;
    }
    map.end()
}

struct Pairs<'a>(&'a [(Value, Value)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0
                .iter()
                .map(|(key, value)| (Notation(key), Notation(value))),
        )
    }
}
