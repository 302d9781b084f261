//! CBOR → serde.
//!
//! What this module keeps true: whatever is wanted, the same few forms of it are accepted (see the table in
//! [`payload`](super)); a type that recurses without end meets the limit, not the end of the stack; a refusal names
//! the byte where the item stands that does not fit.

use std::borrow::Cow;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, Visitor};
use serde::forward_to_deserialize_any;

use super::super::cbor::{DEPTH_MAX, Item, Reader};
use super::access::{Enum, Items, Packed};
use super::embed::TOKEN;
use super::{PayloadError, Value, number, typed};

/// Decodes exactly one item.
pub(super) fn from_slice<'de, T: de::Deserialize<'de>>(
    bytes: &'de [u8],
) -> Result<T, PayloadError> {
    let mut deserializer = Deserializer {
        reader: Reader::new(bytes),
        pending: None,
        levels: 0,
        wrappers: 0,
        is_whole: true,
        is_key: false,
    };
    let value = T::deserialize(&mut deserializer)?;
    deserializer.reader.finish()?;
    Ok(value)
}

/// An item with its tags resolved; containers are opened, not read.
#[derive(Debug)]
pub(super) enum Node<'de> {
    Unit,
    Bool(bool),
    Simple(u8),
    Unsigned(u128),
    /// −1 − n.
    Negative(u128),
    Float(f64),
    Bytes(Cow<'de, [u8]>),
    Typed(u8, Cow<'de, [u8]>),
    Text(Cow<'de, str>),
    /// The number of elements, unless indefinite.
    Seq(Option<usize>),
    /// The number of entries, unless indefinite.
    Map(Option<usize>),
}

pub(super) struct Deserializer<'de> {
    pub(super) reader: Reader<'de>,
    /// An element of a typed array or byte string, to be read in place of the next item.
    pub(super) pending: Option<Node<'de>>,
    /// How many containers and tags stand around the next item.
    levels: usize,
    /// How many options and newtypes stand directly around it: these recurse without a level.
    wrappers: usize,
    /// Whether the next item is the whole payload.
    is_whole: bool,
    /// Whether the next item is a map's key.
    pub(super) is_key: bool,
}

impl<'de> Deserializer<'de> {
    /// Reads the next item's tags and head.
    fn node(&mut self) -> Result<Node<'de>, PayloadError> {
        if let Some(node) = self.pending.take() {
            return Ok(node);
        }
        let mut tag = None;
        for _ in 0..=DEPTH_MAX {
            let offset = self.reader.offset();
            match self.reader.item()? {
                Item::Tag(inner) => tag = Some(inner),
                item => return self.resolve(item, tag, offset),
            }
        }
        Err(PayloadError::TooDeep)
    }

    fn resolve(
        &mut self,
        item: Item<'de>,
        tag: Option<u64>,
        offset: usize,
    ) -> Result<Node<'de>, PayloadError> {
        Ok(match item {
            Item::Unsigned(n) => Node::Unsigned(n.into()),
            Item::Negative(n) => Node::Negative(n.into()),
            Item::Bytes(_) | Item::BytesOpen => {
                let bytes = self.reader.string(item, 2)?.unwrap_or_default();
                match tag {
                    Some(tag @ (2 | 3)) => match number::argument(&bytes) {
                        Some(n) if tag == 2 => Node::Unsigned(n),
                        Some(n) => Node::Negative(n),
                        None => {
                            return Err(unfit(
                                offset,
                                "an integer beyond 128 bits; a Value can take it",
                            ));
                        }
                    },
                    #[allow(clippy::cast_possible_truncation)] // 64 to 87
                    Some(tag) if typed::is_typed(tag) => Node::Typed(tag as u8, bytes),
                    _ => Node::Bytes(bytes),
                }
            }
            Item::Text(_) | Item::TextOpen => Node::Text(self.text(item, offset)?),
            Item::Array(count) => Node::Seq(Some(count)),
            Item::ArrayOpen => Node::Seq(None),
            Item::Map(count) => Node::Map(Some(count)),
            Item::MapOpen => Node::Map(None),
            Item::Bool(value) => Node::Bool(value),
            Item::Null | Item::Undefined => Node::Unit,
            Item::Simple(value) => Node::Simple(value),
            Item::Float(n) => Node::Float(n),
            Item::Break | Item::Tag(_) => {
                return Err(super::Malformed::StrayBreak { offset }.into());
            }
        })
    }

    fn text(&mut self, item: Item<'de>, offset: usize) -> Result<Cow<'de, str>, PayloadError> {
        let invalid = |_| PayloadError::InvalidUtf8 { offset };
        match self.reader.string(item, 3)?.unwrap_or_default() {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes)
                .map(Cow::Borrowed)
                .map_err(invalid),
            Cow::Owned(bytes) => String::from_utf8(bytes)
                .map(Cow::Owned)
                .map_err(|error| invalid(error.utf8_error())),
        }
    }

    /// Shows a node to a visitor as what it is.
    fn visit<V: Visitor<'de>>(
        &mut self,
        node: Node<'de>,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        match node {
            Node::Unit => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(value),
            Node::Simple(value) => Err(unfit(
                0,
                format!("simple value {value} has no meaning; a Value can take it"),
            )),
            Node::Unsigned(n) => match u64::try_from(n) {
                Ok(n) => visitor.visit_u64(n),
                Err(_) => visitor.visit_u128(n),
            },
            Node::Negative(n) => match i128::try_from(n).map(|n| -1 - n) {
                Ok(n) => match i64::try_from(n) {
                    Ok(n) => visitor.visit_i64(n),
                    Err(_) => visitor.visit_i128(n),
                },
                Err(_) => Err(unfit(0, "an integer beyond 128 bits; a Value can take it")),
            },
            Node::Float(n) => visitor.visit_f64(n),
            Node::Bytes(Cow::Borrowed(bytes)) => visitor.visit_borrowed_bytes(bytes),
            Node::Bytes(Cow::Owned(bytes)) => visitor.visit_byte_buf(bytes),
            Node::Typed(tag, bytes) => self.within(|de| {
                let mut elements = Packed::new(de, tag, bytes)?;
                let value = visitor.visit_seq(&mut elements)?;
                elements.finish()?;
                Ok(value)
            }),
            Node::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Node::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Node::Seq(count) => self.within(|de| {
                let mut items = Items::new(de, count);
                let value = visitor.visit_seq(&mut items)?;
                items.finish()?;
                Ok(value)
            }),
            Node::Map(count) => self.within(|de| {
                let mut items = Items::new(de, count);
                let value = visitor.visit_map(&mut items)?;
                items.finish()?;
                Ok(value)
            }),
        }
    }

    /// Goes one level down for the length of `read`.
    pub(super) fn within<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, PayloadError>,
    ) -> Result<T, PayloadError> {
        if self.levels == DEPTH_MAX {
            return Err(PayloadError::TooDeep);
        }
        let wrappers = std::mem::take(&mut self.wrappers);
        (self.is_whole, self.is_key) = (false, false);
        self.levels += 1;
        let result = read(self);
        self.levels -= 1;
        self.wrappers = wrappers;
        result
    }

    /// Goes into an option or newtype for the length of `read`.
    fn wrapped<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, PayloadError>,
    ) -> Result<T, PayloadError> {
        if self.wrappers == DEPTH_MAX {
            return Err(PayloadError::TooDeep);
        }
        self.wrappers += 1;
        let result = read(self);
        self.wrappers -= 1;
        result
    }

    /// Reads a node with `read`; an error without a place gets that of the node.
    fn located<T>(
        &mut self,
        read: impl FnOnce(&mut Self, Node<'de>) -> Result<T, PayloadError>,
    ) -> Result<T, PayloadError> {
        let start = self.reader.offset();
        let node = self.node()?;
        read(self, node).map_err(|error| match error {
            PayloadError::Unfit { offset: 0, reason } => unfit(start, reason),
            error => error,
        })
    }

    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, PayloadError> {
        let is_key = self.is_key;
        self.located(|de, node| {
            let node = match node {
                Node::Float(n) => whole(n).unwrap_or(Node::Float(n)),
                Node::Text(text) if is_key => match text.parse::<i128>() {
                    Ok(n) if n < 0 => Node::Negative((-1 - n).cast_unsigned()),
                    Ok(n) => Node::Unsigned(n.cast_unsigned()),
                    Err(_) => Node::Text(text),
                },
                node => node,
            };
            de.visit(node, visitor)
        })
    }

    #[allow(clippy::cast_precision_loss)] // what a float64 can say
    fn float<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, PayloadError> {
        self.located(|de, node| match node {
            Node::Unsigned(n) => visitor.visit_f64(n as f64),
            Node::Negative(n) => visitor.visit_f64(-1.0 - n as f64),
            node => de.visit(node, visitor),
        })
    }

    fn sequence<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, PayloadError> {
        self.located(|de, node| match node {
            // A byte string is read as an array of its bytes.
            Node::Bytes(bytes) => de.visit(Node::Typed(64, bytes), visitor),
            node => de.visit(node, visitor),
        })
    }

    fn byte_string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, PayloadError> {
        self.located(|de, node| match node {
            Node::Typed(tag, bytes) if typed::is_bytes(tag) => {
                de.visit(Node::Bytes(bytes), visitor)
            }
            node => de.visit(node, visitor),
        })
    }

    /// Passes the empty map, which stands for a missing payload, if it comes next.
    fn take_empty_map(&mut self) -> bool {
        let mut reader = self.reader;
        let is_empty = match reader.item() {
            Ok(Item::Map(0)) => true,
            Ok(Item::MapOpen) => reader.take_break(),
            _ => false,
        };
        if is_empty && self.pending.is_none() {
            self.reader = reader;
            return true;
        }
        false
    }
}

/// The integer that a float is, if it is one.
fn whole<'de>(n: f64) -> Option<Node<'de>> {
    let is_whole = n.fract() == 0.0 && n.abs() < 2_f64.powi(127);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // whole and in range
    is_whole.then(|| {
        if n < 0.0 {
            Node::Negative((-1 - n as i128) as u128)
        } else {
            Node::Unsigned(n as u128)
        }
    })
}

/// Offset 0 stands for "not known yet" inside this module; the whole payload's item is at 0 anyway.
pub(super) fn unfit(offset: usize, reason: impl Into<String>) -> PayloadError {
    PayloadError::Unfit {
        offset,
        reason: reason.into(),
    }
}

impl de::Error for PayloadError {
    fn custom<T: std::fmt::Display>(reason: T) -> Self {
        unfit(0, reason.to_string())
    }
}

macro_rules! deserialize_as {
    ($reader:ident: $($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PayloadError> {
            self.$reader(visitor)
        }
    )*};
}

impl<'de> de::Deserializer<'de> for &mut Deserializer<'de> {
    type Error = PayloadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PayloadError> {
        self.located(|de, node| match node {
            Node::Typed(tag, bytes) if typed::is_bytes(tag) => {
                de.visit(Node::Bytes(bytes), visitor)
            }
            // An integer beyond 32 bits is written as float; who asks for anything must get the integer back.
            Node::Float(n) if (2_f64.powi(32)..2_f64.powi(53)).contains(&n.abs()) => {
                de.visit(whole(n).unwrap_or(Node::Float(n)), visitor)
            }
            node => de.visit(node, visitor),
        })
    }

    deserialize_as!(integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128);
    deserialize_as!(float: deserialize_f32 deserialize_f64);
    deserialize_as!(sequence: deserialize_seq);
    deserialize_as!(byte_string: deserialize_bytes deserialize_byte_buf);

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        self.sequence(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        self.sequence(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PayloadError> {
        if self.pending.is_none() && matches!(self.reader.peek(), Some(0xf6 | 0xf7)) {
            self.reader.item()?;
            return visitor.visit_none();
        }
        if self.is_whole && self.take_empty_map() {
            return visitor.visit_none();
        }
        self.wrapped(|de| visitor.visit_some(de))
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PayloadError> {
        if self.take_empty_map() {
            visitor.visit_unit()
        } else {
            self.deserialize_any(visitor)
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        if name != TOKEN {
            return self.wrapped(|de| visitor.visit_newtype_struct(de));
        }
        // A `Value` wants the bytes themselves.
        if let Some(node) = self.pending.take() {
            return visitor.visit_byte_buf(super::access::element_bytes(&node));
        }
        let start = self.reader.offset();
        self.reader.skip()?;
        let bytes = self.reader.since(start);
        visitor
            .visit_borrowed_bytes(bytes)
            .map_err(|error| match Value::decode(bytes) {
                // serde flattens errors to text; the place inside of this payload is worth asking again.
                Err(PayloadError::InvalidUtf8 { offset }) => PayloadError::InvalidUtf8 {
                    offset: start + offset,
                },
                _ => error,
            })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        self.located(|de, node| match node {
            Node::Text(Cow::Borrowed(name)) => {
                visitor.visit_enum(BorrowedStrDeserializer::new(name))
            }
            Node::Text(Cow::Owned(name)) => {
                visitor.visit_enum(de::IntoDeserializer::into_deserializer(name))
            }
            Node::Map(Some(1)) => de.within(|de| visitor.visit_enum(Enum(de))),
            Node::Map(None) => de.within(|de| {
                let value = visitor.visit_enum(Enum(de))?;
                if de.reader.take_break() {
                    Ok(value)
                } else {
                    Err(unfit(0, "an enum's map has one entry"))
                }
            }),
            Node::Map(Some(_)) => Err(unfit(0, "an enum's map has one entry")),
            node => de.visit(node, visitor),
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PayloadError> {
        let start = self.reader.offset();
        match self.node()? {
            node @ Node::Text(_) => self.visit(node, visitor),
            // serde takes a number for the index of a field. No peer means that.
            Node::Unsigned(n) => visitor.visit_string(n.to_string()),
            // A key that no field has, so it is passed over.
            _ => {
                self.reader = self.reader.at(start);
                self.reader.skip()?;
                visitor.visit_bytes(self.reader.since(start))
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(
        self,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        if self.pending.take().is_none() {
            self.reader.skip()?;
        }
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! { bool char str string map struct }
}
