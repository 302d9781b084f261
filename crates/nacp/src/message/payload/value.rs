//! Any payload as a tree.
//!
//! What this module keeps true: decoding and encoding again gives bytes of equal meaning, for JavaScript too, whatever
//! the payload was; a decoded tree is at most 64 levels deep, so nothing that recurses over it overflows the stack.

use std::borrow::Cow;

use bytes::Bytes;

use super::super::cbor::{self, Item, Reader, Sink, put_float, put_head, put_signed, put_text};
use super::{BigInt, Date, PayloadError, typed};

/// Any CBOR value. Equality is that of the tree: a NaN differs from itself, an [`Integer`](Self::Integer) from the
/// [`Float`](Self::Float) of its value; to compare meanings, compare what [`encode`](Self::encode) gives.
///
/// ```
/// use nacp::Value;
/// let value = Value::Map(vec![("n".into(), Value::Integer(1)), (Value::Integer(7), Value::Undefined)]);
/// let bytes = value.encode().unwrap();
/// assert_eq!(Value::decode(&bytes).unwrap(), value);
/// assert_eq!(value.get("n").and_then(Value::as_i64), Some(1));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// JavaScript's undefined.
    #[default]
    Undefined,
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// A simple value without a meaning of its own.
    Simple(u8),
    /// An integer of the kind that JavaScript reads as a number. Written as float64 beyond 32 bits, and beyond
    /// 2^53 − 1 in 64 bits, so that it comes back as a [`BigInt`](Self::BigInt).
    Integer(i64),
    /// An integer that JavaScript reads as a BigInt: one in 64 bits, or a bignum.
    BigInt(BigInt),
    /// A number that was written as float, integers beyond 32 bits among them.
    Float(f64),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A typed array: numbers packed into bytes, as the tag says (RFC 8746).
    Typed {
        /// 64 to 87.
        tag: u8,
        /// The elements.
        bytes: Vec<u8>,
    },
    /// A text.
    Text(String),
    /// An array.
    Array(Vec<Value>),
    /// A map, in the order of the wire; whether keys repeat is not checked.
    Map(Vec<(Value, Value)>),
    /// A point in time.
    Date(Date),
    /// Any other tag, such as 258 (Set), 259 (Map) or 27 (RegExp, Error).
    Tagged(u64, Box<Value>),
}

impl Value {
    /// Decodes one item.
    ///
    /// # Errors
    /// [`PayloadError::Malformed`] when the bytes are not one well-formed item of at most 64 levels,
    /// [`PayloadError::InvalidUtf8`] when a text is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, PayloadError> {
        // Checked as a whole first: from here on every count is true, so capacity may be taken by it.
        cbor::check(bytes)?;
        read(&mut Reader::new(bytes))
    }

    /// Encodes the value.
    ///
    /// # Errors
    /// [`PayloadError::TooDeep`] when it has more than 64 levels.
    pub fn encode(&self) -> Result<Bytes, PayloadError> {
        let mut bytes = Vec::new();
        put(&mut bytes, self, cbor::DEPTH_MAX)?;
        Ok(bytes.into())
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[allow(clippy::cast_precision_loss)] // what a float64 can say
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Float(n) => Some(*n),
            Self::Integer(n) => Some(*n as f64),
            Self::BigInt(n) => n
                .to_i128()
                .map(|n| n as f64)
                .or(n.to_u128().map(|n| n as f64)),
            _ => None,
        }
    }

    /// The integer, if it is one, in whatever form, and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(n) => Some(*n),
            Self::BigInt(n) => n.to_i128().and_then(|n| n.try_into().ok()),
            #[allow(clippy::cast_possible_truncation)] // whole and in range
            Self::Float(n) if n.fract() == 0.0 && n.abs() < 2_f64.powi(63) => Some(*n as i64),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The content of a byte string or of an array of unsigned bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Typed { tag, bytes } if typed::is_bytes(*tag) => Some(bytes),
            _ => None,
        }
    }

    /// The value of the first such key, if this is a map, tagged or not, and has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(k, _)| k.as_str() == Some(key))
                .map(|(_, value)| value),
            Self::Tagged(_, value) => value.get(key),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Integer(n)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Float(n)
    }
}

/// Reads one item of checked bytes; the check bounds the recursion.
fn read(reader: &mut Reader<'_>) -> Result<Value, PayloadError> {
    let offset = reader.offset();
    let item = reader.item()?;
    Ok(match item {
        Item::Unsigned(n) => integer(n, false, reader.offset() - offset),
        Item::Negative(n) => integer(n, true, reader.offset() - offset),
        Item::Bytes(_) | Item::BytesOpen => Value::Bytes(content(reader, item, 2)?.into_owned()),
        Item::Text(_) | Item::TextOpen => {
            let bytes = content(reader, item, 3)?.into_owned();
            Value::Text(String::from_utf8(bytes).map_err(|_| PayloadError::InvalidUtf8 { offset })?)
        }
        Item::Array(_) | Item::ArrayOpen => Value::Array(array(reader, item)?),
        Item::Map(_) | Item::MapOpen => Value::Map(map(reader, item)?),
        Item::Tag(tag) => tagged(reader, tag)?,
        Item::Bool(value) => Value::Bool(value),
        Item::Null => Value::Null,
        Item::Undefined => Value::Undefined,
        Item::Simple(value) => Value::Simple(value),
        Item::Float(n) => Value::Float(n),
        Item::Break => return Err(cbor::Malformed::StrayBreak { offset }.into()),
    })
}

/// The width tells a BigInt (a head of nine bytes) from a number.
fn integer(argument: u64, negative: bool, width: usize) -> Value {
    if width == 9 {
        return Value::BigInt(BigInt::from_argument(negative, &argument.to_be_bytes()));
    }
    let n = argument.cast_signed(); // at most 32 bits
    Value::Integer(if negative { -1 - n } else { n })
}

fn content<'a>(
    reader: &mut Reader<'a>,
    item: Item<'a>,
    major: u8,
) -> Result<Cow<'a, [u8]>, PayloadError> {
    Ok(reader.string(item, major)?.unwrap_or_default())
}

fn array(reader: &mut Reader<'_>, item: Item<'_>) -> Result<Vec<Value>, PayloadError> {
    let Item::Array(count) = item else {
        let mut values = Vec::new();
        while !reader.take_break() {
            values.push(read(reader)?);
        }
        return Ok(values);
    };
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(read(reader)?);
    }
    Ok(values)
}

fn map(reader: &mut Reader<'_>, item: Item<'_>) -> Result<Vec<(Value, Value)>, PayloadError> {
    let Item::Map(count) = item else {
        let mut entries = Vec::new();
        while !reader.take_break() {
            entries.push((read(reader)?, read(reader)?));
        }
        return Ok(entries);
    };
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push((read(reader)?, read(reader)?));
    }
    Ok(entries)
}

fn tagged(reader: &mut Reader<'_>, tag: u64) -> Result<Value, PayloadError> {
    let value = read(reader)?;
    Ok(match (tag, value) {
        (2 | 3, Value::Bytes(bytes)) => Value::BigInt(BigInt::from_argument(tag == 3, &bytes)),
        #[allow(clippy::cast_possible_truncation)] // 64 to 87
        (_, Value::Bytes(bytes)) if typed::is_typed(tag) => Value::Typed {
            tag: tag as u8,
            bytes,
        },
        (1, value @ (Value::Integer(_) | Value::Float(_))) => {
            match value.as_f64().and_then(Date::from_seconds_exactly) {
                Some(date) => Value::Date(date),
                None => Value::Tagged(tag, Box::new(value)),
            }
        }
        (_, value) => Value::Tagged(tag, Box::new(value)),
    })
}

/// Writes a value of at most `levels` levels.
pub(super) fn put(sink: &mut impl Sink, value: &Value, levels: usize) -> Result<(), PayloadError> {
    let within = || levels.checked_sub(1).ok_or(PayloadError::TooDeep);
    match value {
        Value::Undefined => sink.put(&[0xf7]),
        Value::Null => sink.put(&[0xf6]),
        Value::Bool(value) => sink.put(&[0xf4 + u8::from(*value)]),
        Value::Simple(value) => put_simple(sink, *value),
        Value::Integer(n) => put_signed(sink, *n),
        Value::BigInt(n) => {
            if n.is_bignum() {
                within()?;
            }
            n.put(sink);
        }
        Value::Float(n) => put_float(sink, *n),
        Value::Bytes(bytes) => put_bytes(sink, bytes),
        Value::Typed { tag, bytes } => {
            within()?;
            put_head(sink, 6, u64::from(*tag));
            put_bytes(sink, bytes);
        }
        Value::Text(text) => put_text(sink, text),
        Value::Array(values) => {
            let levels = within()?;
            put_head(sink, 4, values.len() as u64);
            for value in values {
                put(sink, value, levels)?;
            }
        }
        Value::Map(entries) => {
            let levels = within()?;
            put_head(sink, 5, entries.len() as u64);
            for (key, value) in entries {
                put(sink, key, levels)?;
                put(sink, value, levels)?;
            }
        }
        Value::Date(date) => {
            within()?;
            date.put(sink);
        }
        Value::Tagged(tag, value) => {
            let levels = within()?;
            put_head(sink, 6, *tag);
            put(sink, value, levels)?;
        }
    }
    Ok(())
}

fn put_bytes(sink: &mut impl Sink, bytes: &[u8]) {
    put_head(sink, 2, bytes.len() as u64);
    sink.put(bytes);
}

/// Values below 24 stand in the head, 24 to 31 do not exist: they are written as undefined.
fn put_simple(sink: &mut impl Sink, value: u8) {
    match value {
        0..24 => sink.put(&[0xe0 | value]),
        24..32 => sink.put(&[0xf7]),
        _ => sink.put(&[0xf8, value]),
    }
}
