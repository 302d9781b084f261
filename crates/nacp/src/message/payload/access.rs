//! The elements of containers, for serde.
//!
//! What this module keeps true: a visitor that stops early leaves an error, not a reader in the middle of nowhere; a
//! size hint never exceeds what the bytes can hold, since the reader has compared each count with them.

use std::borrow::Cow;

use serde::de::{self, DeserializeSeed, VariantAccess, Visitor};

use super::super::cbor::{put_float, put_head};
use super::de::{Deserializer, Node, unfit};
use super::typed::{self, Element};
use super::{PayloadError, number};

const MORE_ELEMENTS: &str = "more elements than are wanted";

/// The elements of an array, or the entries of a map.
pub(super) struct Items<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    /// How many are left, unless a break says so.
    left: Option<usize>,
    is_done: bool,
    /// Whether a key was read and its value was not.
    owes_value: bool,
}

impl<'a, 'de> Items<'a, 'de> {
    pub(super) fn new(de: &'a mut Deserializer<'de>, left: Option<usize>) -> Self {
        Self {
            de,
            left,
            is_done: false,
            owes_value: false,
        }
    }

    fn has_next(&mut self) -> bool {
        match &mut self.left {
            Some(0) => self.is_done = true,
            Some(left) => *left -= 1,
            None => self.is_done = self.is_done || self.de.reader.take_break(),
        }
        !self.is_done
    }

    /// Checks that nothing is left.
    pub(super) fn finish(mut self) -> Result<(), PayloadError> {
        if self.owes_value || self.has_next() {
            Err(unfit(0, MORE_ELEMENTS))
        } else {
            Ok(())
        }
    }
}

impl<'de> de::SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = PayloadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, PayloadError> {
        if self.has_next() {
            seed.deserialize(&mut *self.de).map(Some)
        } else {
            Ok(None)
        }
    }

    fn size_hint(&self) -> Option<usize> {
        self.left
    }
}

impl<'de> de::MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = PayloadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, PayloadError> {
        if !self.has_next() {
            return Ok(None);
        }
        self.de.is_key = true;
        let key = seed.deserialize(&mut *self.de);
        self.de.is_key = false;
        self.owes_value = true;
        key.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, PayloadError> {
        self.owes_value = false;
        seed.deserialize(&mut *self.de)
    }

    fn size_hint(&self) -> Option<usize> {
        self.left
    }
}

/// The elements of a typed array or byte string.
pub(super) struct Packed<'a, 'de> {
    de: &'a mut Deserializer<'de>,
    tag: u8,
    size: usize,
    bytes: Cow<'de, [u8]>,
    at: usize,
}

impl<'a, 'de> Packed<'a, 'de> {
    pub(super) fn new(
        de: &'a mut Deserializer<'de>,
        tag: u8,
        bytes: Cow<'de, [u8]>,
    ) -> Result<Self, PayloadError> {
        match typed::element_size(tag) {
            Some(size) if bytes.len().is_multiple_of(size) => Ok(Self {
                de,
                tag,
                size,
                bytes,
                at: 0,
            }),
            Some(_) => Err(unfit(0, "a typed array that ends inside an element")),
            None => Err(unfit(
                0,
                "a typed array of a kind that only a Value can take",
            )),
        }
    }
}

impl Packed<'_, '_> {
    /// Checks that nothing is left.
    pub(super) fn finish(&self) -> Result<(), PayloadError> {
        if self.at < self.bytes.len() {
            Err(unfit(0, MORE_ELEMENTS))
        } else {
            Ok(())
        }
    }
}

impl<'de> de::SeqAccess<'de> for &mut Packed<'_, 'de> {
    type Error = PayloadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, PayloadError> {
        let Some(bytes) = self.bytes.get(self.at..self.at + self.size) else {
            return Ok(None);
        };
        self.at += self.size;
        self.de.pending = Some(match typed::element(self.tag, bytes) {
            Element::Unsigned(n) => Node::Unsigned(n.into()),
            Element::Signed(n) if n < 0 => Node::Negative((-1 - n).unsigned_abs().into()),
            Element::Signed(n) => Node::Unsigned(n.unsigned_abs().into()),
            Element::Float(n) => Node::Float(n),
        });
        let value = seed.deserialize(&mut *self.de);
        self.de.pending = None;
        value.map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some((self.bytes.len() - self.at) / self.size)
    }
}

/// The CBOR of an element, for one who wants bytes.
pub(super) fn element_bytes(node: &Node<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9);
    match node {
        Node::Unsigned(n) => number::put_u128(&mut bytes, *n),
        Node::Negative(n) => put_head(&mut bytes, 1, u64::try_from(*n).unwrap_or(u64::MAX)),
        Node::Float(n) => put_float(&mut bytes, *n),
        _ => bytes.push(0xf7), // elements are numbers
    }
    bytes
}

/// An enum's only entry: the variant's name and its content.
pub(super) struct Enum<'a, 'de>(pub(super) &'a mut Deserializer<'de>);

impl<'de> de::EnumAccess<'de> for Enum<'_, 'de> {
    type Error = PayloadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), PayloadError> {
        let variant = seed.deserialize(&mut *self.0)?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for Enum<'_, 'de> {
    type Error = PayloadError;

    fn unit_variant(self) -> Result<(), PayloadError> {
        de::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, PayloadError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        de::Deserializer::deserialize_seq(self.0, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PayloadError> {
        de::Deserializer::deserialize_map(self.0, visitor)
    }
}
