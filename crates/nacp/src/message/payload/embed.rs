//! A [`Value`] inside of serde types.
//!
//! What this module keeps true: within a payload a `Value` stands as its own bytes, so nothing of it is lost. serde's
//! data model has no word for "these bytes, as they are"; a newtype of a name that only this crate knows says so.
//! Formats for people (JSON) get the nearest thing they have, and give it back as such.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::super::cbor::DEPTH_MAX;
use super::{BigInt, Payload, Value};

/// The name of the newtype whose content is encoded CBOR.
pub(super) const TOKEN: &str = "$nacp::Value";

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return Plain(self).serialize(serializer);
        }
        let bytes = self.encode().map_err(serde::ser::Error::custom)?;
        serializer.serialize_newtype_struct(TOKEN, &Encoded(&bytes))
    }
}

/// As its own bytes, so that what a type does not know of can be handed through.
impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let value = Value::decode(self.as_bytes()).map_err(serde::ser::Error::custom)?;
            return Plain(&value).serialize(serializer);
        }
        serializer.serialize_newtype_struct(TOKEN, &Encoded(self.as_bytes()))
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let value = Level(0).deserialize(deserializer)?;
            return Payload::encode(&value).map_err(de::Error::custom);
        }
        deserializer.deserialize_newtype_struct(TOKEN, ItemVisitor)
    }
}

/// Takes an item without looking into it.
struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an encoded value")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Payload, E> {
        Payload::from_cbor(bytes.to_vec().into()).map_err(E::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Payload, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

struct Encoded<'a>(&'a [u8]);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// A value in serde's own terms. A tag is left out, a date is its milliseconds, undefined is null.
struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Undefined | Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Simple(value) => serializer.serialize_u8(*value),
            Value::Integer(n) => serializer.serialize_i64(*n),
            Value::BigInt(n) => match (n.to_i128(), n.to_u128().map(u64::try_from)) {
                (_, Some(Ok(n))) => serializer.serialize_u64(n),
                (Some(n), _) if i64::try_from(n).is_ok() => serializer.serialize_i128(n),
                _ => serializer.collect_str(n),
            },
            Value::Float(n) => serializer.serialize_f64(*n),
            Value::Bytes(bytes) | Value::Typed { bytes, .. } => serializer.serialize_bytes(bytes),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Array(values) => serializer.collect_seq(values.iter().map(Plain)),
            Value::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&Plain(key), &Plain(value))?;
                }
                map.end()
            }
            Value::Date(date) => serializer.serialize_i64(date.ms),
            Value::Tagged(_, value) => Plain(value).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return Level(0).deserialize(deserializer);
        }
        deserializer.deserialize_newtype_struct(TOKEN, EncodedVisitor)
    }
}

struct EncodedVisitor;

impl<'de> Visitor<'de> for EncodedVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an encoded value")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Value::decode(bytes).map_err(E::custom)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = access.next_element::<u8>()? {
            bytes.push(byte);
        }
        self.visit_bytes(&bytes)
    }
}

/// Reads a value in serde's own terms, that many levels down.
#[derive(Clone, Copy)]
struct Level(usize);

impl Level {
    fn next<E: de::Error>(self) -> Result<Self, E> {
        if self.0 < DEPTH_MAX {
            Ok(Self(self.0 + 1))
        } else {
            Err(E::custom(super::PayloadError::TooDeep))
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
        f.write_str("any value")
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

    fn visit_i128<E>(self, n: i128) -> Result<Value, E> {
        Ok(Value::BigInt(n.into()))
    }

    fn visit_u128<E>(self, n: u128) -> Result<Value, E> {
        Ok(Value::BigInt(n.into()))
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

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(bytes.to_vec()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Value, E> {
        Ok(Value::Bytes(bytes))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.next()?.deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        self.next()?.deserialize(deserializer)
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
        let mut entries = Vec::new();
        while let Some(key) = access.next_key_seed(level)? {
            entries.push((key, access.next_value_seed(level)?));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_inside_of_another_keeps_its_bytes() {
        let odd =
            Payload::from_cbor(vec![0xd9, 0x01, 0x02, 0x9f, 0x18, 0x01, 0xff].into()).unwrap();
        let outer = Payload::encode(&("before", &odd, "after")).unwrap();
        let (_, inner, after) = outer.decode::<(String, Payload, String)>().unwrap();
        assert_eq!((inner, after.as_str()), (odd.clone(), "after"));
        assert_eq!(Payload::encode(&odd).unwrap(), odd);
        assert_eq!(odd.decode::<Payload>().unwrap(), odd);
        assert_eq!(serde_json::to_string(&odd).unwrap(), "[1]");
    }
}
