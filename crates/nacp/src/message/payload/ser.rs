//! serde → CBOR.
//!
//! What this module keeps true: the bytes are one well-formed item of definite lengths whatever a `Serialize` does:
//! counts are those of what was written, not those that were promised, and one that carries on after an error gets
//! the error at the end.

use serde::ser::{self, Serialize};

use super::super::cbor::{
    DEPTH_MAX, Malformed, Reader, put_float, put_head, put_signed, put_text, put_unsigned,
};
use super::embed::TOKEN;
use super::{PayloadError, number};

/// Encodes a value as one item.
pub(super) fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, PayloadError> {
    into_vec(Vec::new(), value)
}

/// As [`to_vec`], into the memory of `out`, which is emptied first.
pub(super) fn into_vec<T: Serialize + ?Sized>(
    mut out: Vec<u8>,
    value: &T,
) -> Result<Vec<u8>, PayloadError> {
    out.clear();
    let mut serializer = Serializer {
        out,
        levels: 0,
        wrappers: 0,
        is_whole: true,
        embeds: false,
        failure: None,
    };
    value.serialize(&mut serializer)?;
    match serializer.failure {
        None => Ok(serializer.out),
        Some(error) => Err(error),
    }
}

pub(super) struct Serializer {
    out: Vec<u8>,
    /// How many containers stand around the next item.
    levels: usize,
    /// How many options and newtypes stand directly around it: these recurse without a level.
    wrappers: usize,
    /// Whether the next item is the whole payload.
    is_whole: bool,
    /// Whether the next bytes are CBOR to be taken as such.
    embeds: bool,
    /// The first error inside a container: what was written is of no use.
    failure: Option<PayloadError>,
}

impl Serializer {
    /// Nothing: the empty map as a whole payload, null elsewhere.
    fn put_unit(&mut self) {
        self.out.push(if self.is_whole { 0xa0 } else { 0xf6 });
    }

    fn open(&mut self, major: u8, promised: Option<usize>) -> Result<Container<'_>, PayloadError> {
        if self.levels == DEPTH_MAX {
            return Err(PayloadError::TooDeep);
        }
        self.levels += 1;
        self.is_whole = false;
        let wrappers = std::mem::take(&mut self.wrappers);
        let start = self.out.len();
        let promised = promised.unwrap_or(0) as u64;
        put_head(&mut self.out, major, promised);
        let head_length = self.out.len() - start;
        Ok(Container {
            serializer: self,
            major,
            start,
            head_length,
            promised,
            count: 0,
            awaits_value: false,
            levels: 1,
            wrappers,
        })
    }

    /// Opens the content of a variant: a map of one entry around it.
    fn open_variant(
        &mut self,
        name: &str,
        major: u8,
        length: usize,
    ) -> Result<Container<'_>, PayloadError> {
        if self.levels == DEPTH_MAX {
            return Err(PayloadError::TooDeep);
        }
        put_head(&mut self.out, 5, 1);
        put_text(&mut self.out, name);
        self.levels += 1;
        let mut container = self.open(major, Some(length))?;
        container.levels = 2;
        Ok(container)
    }

    fn wrapped<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
        if self.wrappers == DEPTH_MAX {
            return Err(PayloadError::TooDeep);
        }
        self.wrappers += 1;
        value.serialize(&mut *self)?;
        self.wrappers -= 1;
        Ok(())
    }

    fn embed(&mut self, item: &[u8]) -> Result<(), PayloadError> {
        let mut reader = Reader::new(item);
        reader
            .skip_nested(DEPTH_MAX - self.levels)
            .map_err(|error| match error {
                Malformed::TooDeep { .. } => PayloadError::TooDeep,
                error => error.into(),
            })?;
        reader.finish()?;
        self.out.extend_from_slice(item);
        Ok(())
    }
}

/// An open array or map. Its head is corrected at the end if the promised length was another.
pub(super) struct Container<'a> {
    serializer: &'a mut Serializer,
    major: u8,
    start: usize,
    head_length: usize,
    promised: u64,
    count: u64,
    awaits_value: bool,
    /// How many levels its end closes.
    levels: usize,
    wrappers: usize,
}

impl Container<'_> {
    fn put<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
        let result = value.serialize(&mut *self.serializer);
        if let Err(error) = &result {
            self.serializer.failure.get_or_insert_with(|| error.clone());
        }
        result
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
        self.count += 1;
        self.put(value)
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), PayloadError> {
        self.alternate(false)?;
        self.count += 1;
        self.put(key)
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
        self.alternate(true)?;
        self.put(value)
    }

    /// Keys and values take turns.
    fn alternate(&mut self, is_value: bool) -> Result<(), PayloadError> {
        if self.awaits_value == is_value {
            self.awaits_value = !is_value;
            return Ok(());
        }
        let error = PayloadError::Unwritable(
            "a map's key without a value, or a value without a key".to_owned(),
        );
        self.serializer.failure.get_or_insert_with(|| error.clone());
        Err(error)
    }

    fn close(mut self) -> Result<(), PayloadError> {
        self.alternate(false)?;
        if self.count != self.promised {
            let mut head = Vec::with_capacity(9);
            put_head(&mut head, self.major, self.count);
            self.serializer
                .out
                .splice(self.start..self.start + self.head_length, head);
        }
        self.serializer.levels -= self.levels;
        self.serializer.wrappers = self.wrappers;
        Ok(())
    }
}

impl ser::Error for PayloadError {
    fn custom<T: std::fmt::Display>(reason: T) -> Self {
        Self::Unwritable(reason.to_string())
    }
}

macro_rules! serialize_integer {
    ($($method:ident: $type:ty => $put:path as $wide:ty;)*) => {$(
        fn $method(self, n: $type) -> Result<(), PayloadError> {
            $put(&mut self.out, <$wide>::from(n));
            Ok(())
        }
    )*};
}

impl<'a> ser::Serializer for &'a mut Serializer {
    type Ok = ();
    type Error = PayloadError;
    type SerializeSeq = Container<'a>;
    type SerializeTuple = Container<'a>;
    type SerializeTupleStruct = Container<'a>;
    type SerializeTupleVariant = Container<'a>;
    type SerializeMap = Container<'a>;
    type SerializeStruct = Container<'a>;
    type SerializeStructVariant = Container<'a>;

    serialize_integer! {
        serialize_i8: i8 => put_signed as i64;
        serialize_i16: i16 => put_signed as i64;
        serialize_i32: i32 => put_signed as i64;
        serialize_i64: i64 => put_signed as i64;
        serialize_i128: i128 => number::put_i128 as i128;
        serialize_u8: u8 => put_unsigned as u64;
        serialize_u16: u16 => put_unsigned as u64;
        serialize_u32: u32 => put_unsigned as u64;
        serialize_u64: u64 => put_unsigned as u64;
        serialize_u128: u128 => number::put_u128 as u128;
        serialize_f64: f64 => put_float as f64;
    }

    fn serialize_f32(self, n: f32) -> Result<(), PayloadError> {
        self.out.push(0xfa);
        self.out.extend_from_slice(&n.to_bits().to_be_bytes());
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Result<(), PayloadError> {
        self.out.push(0xf4 + u8::from(value));
        Ok(())
    }

    fn serialize_char(self, c: char) -> Result<(), PayloadError> {
        self.serialize_str(c.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), PayloadError> {
        put_text(&mut self.out, text);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), PayloadError> {
        if std::mem::take(&mut self.embeds) {
            return self.embed(bytes);
        }
        put_head(&mut self.out, 2, bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), PayloadError> {
        self.put_unit();
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), PayloadError> {
        self.wrapped(value)
    }

    fn serialize_unit(self) -> Result<(), PayloadError> {
        self.put_unit();
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), PayloadError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), PayloadError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<(), PayloadError> {
        self.embeds = name == TOKEN;
        let result = self.wrapped(value);
        self.embeds = false;
        result
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), PayloadError> {
        let mut container = self.open(5, Some(1))?;
        container.key(variant)?;
        container.value(value)?;
        container.close()
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Container<'a>, PayloadError> {
        self.open(4, length)
    }

    fn serialize_tuple(self, length: usize) -> Result<Container<'a>, PayloadError> {
        self.open(4, Some(length))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        length: usize,
    ) -> Result<Container<'a>, PayloadError> {
        self.open(4, Some(length))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Container<'a>, PayloadError> {
        self.open_variant(variant, 4, length)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Container<'a>, PayloadError> {
        self.open(5, length)
    }

    fn serialize_struct(
        self,
        _name: &'static str,
        length: usize,
    ) -> Result<Container<'a>, PayloadError> {
        self.open(5, Some(length))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Container<'a>, PayloadError> {
        self.open_variant(variant, 5, length)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! serialize_elements {
    ($($trait:ident $method:ident;)*) => {$(
        impl ser::$trait for Container<'_> {
            type Ok = ();
            type Error = PayloadError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
                self.element(value)
            }

            fn end(self) -> Result<(), PayloadError> {
                self.close()
            }
        }
    )*};
}

serialize_elements! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

macro_rules! serialize_fields {
    ($($trait:ident)*) => {$(
        impl ser::$trait for Container<'_> {
            type Ok = ();
            type Error = PayloadError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), PayloadError> {
                self.key(name)?;
                self.value(value)
            }

            fn end(self) -> Result<(), PayloadError> {
                self.close()
            }
        }
    )*};
}

serialize_fields! { SerializeStruct SerializeStructVariant }

impl ser::SerializeMap for Container<'_> {
    type Ok = ();
    type Error = PayloadError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), PayloadError> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
        self.value(value)
    }

    fn end(self) -> Result<(), PayloadError> {
        self.close()
    }
}
