//! CBOR heads, read and written by hand: the one place that looks at single bytes.
//!
//! What this module keeps true: a length or count is compared with the bytes that are left before anybody can act on
//! it, nesting is counted and never recursed into, and whatever the bytes are, the answer is an item or a
//! [`Malformed`], never a panic. Written by hand because the envelope is on the hot path, and because one reader for
//! envelope and payload means one set of limits.

use std::borrow::Cow;

/// How many containers and tags may stand around an item.
pub(crate) const DEPTH_MAX: usize = 64;

/// A way not to be well-formed CBOR, or to ask for more than the limits give. Every offset counts from the first
/// byte of what was to be decoded.
///
/// ```
/// use nacp::message::{Malformed, decode, DecodeError};
/// let error = decode(&[0x65, 0x61]).unwrap_err();
/// assert!(matches!(error, DecodeError::Malformed(Malformed::LengthBeyondInput { offset: 0, .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end inside an item.
    #[error("the input ends at byte {offset}, inside an item")]
    Truncated {
        /// Where the next byte was wanted.
        offset: usize,
    },
    /// A string longer, or a container with more items, than bytes are left.
    #[error("the head at byte {offset} claims {claimed} bytes or items, more than the input holds")]
    LengthBeyondInput {
        /// Where the head stands.
        offset: usize,
        /// Its length or count.
        claimed: u64,
    },
    /// More than 64 containers and tags inside each other.
    #[error("more than {DEPTH_MAX} levels of nesting at byte {offset}")]
    TooDeep {
        /// Where the 65th begins.
        offset: usize,
    },
    /// Additional information 28 to 30, or an indefinite length where there is none.
    #[error("reserved head {byte:#04x} at byte {offset}")]
    ReservedHead {
        /// Where it stands.
        offset: usize,
        /// The head.
        byte: u8,
    },
    /// A simple value below 32 in two bytes.
    #[error("simple value {value} in two bytes at byte {offset}")]
    BadSimple {
        /// Where its head stands.
        offset: usize,
        /// The value.
        value: u8,
    },
    /// A break outside of an indefinite container, or between a key and its value.
    #[error("stray break at byte {offset}")]
    StrayBreak {
        /// Where it stands.
        offset: usize,
    },
    /// An indefinite string whose chunk is not a definite string of its kind.
    #[error("the item at byte {offset} is no chunk of the string around it")]
    BadChunk {
        /// Where the chunk's head stands.
        offset: usize,
    },
    /// Something follows the item.
    #[error("the item ends at byte {offset}, the input does not")]
    TrailingBytes {
        /// Where the first excess byte stands.
        offset: usize,
    },
}

/// A head with its argument, and the content if it is a definite string.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Item<'a> {
    Unsigned(u64),
    /// −1 − n.
    Negative(u64),
    Bytes(&'a [u8]),
    /// Chunks follow, up to a break.
    BytesOpen,
    /// Not checked to be UTF-8.
    Text(&'a [u8]),
    /// Chunks follow, up to a break.
    TextOpen,
    Array(usize),
    ArrayOpen,
    /// The number of pairs.
    Map(usize),
    MapOpen,
    Tag(u64),
    Bool(bool),
    Null,
    Undefined,
    /// Any other simple value.
    Simple(u8),
    Float(f64),
    Break,
}

impl Item<'_> {
    /// The non-negative integer that this is, if it is one; an integer-valued float is one.
    #[inline]
    pub(crate) fn as_u64(&self) -> Option<u64> {
        match *self {
            Self::Unsigned(n) => Some(n),
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // whole and in range
            Self::Float(n) if n.fract() == 0.0 && (0.0..TWO_POW_64).contains(&n) => Some(n as u64),
            _ => None,
        }
    }
}

const TWO_POW_64: f64 = 18_446_744_073_709_551_616.0;

/// A position in bytes to be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// A reader of the same bytes that stands at `at`.
    pub(crate) fn at(self, at: usize) -> Self {
        Self { at, ..self }
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The initial byte of the next item.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Passes a break, if one comes next.
    pub(crate) fn take_break(&mut self) -> bool {
        let is_break = self.peek() == Some(0xff);
        self.at += usize::from(is_break);
        is_break
    }

    /// The bytes from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Malformed::TrailingBytes`] when bytes are left.
    pub(crate) fn finish(&self) -> Result<(), Malformed> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            Err(Malformed::TrailingBytes { offset: self.at })
        }
    }

    /// The common case in full speed: the head at `at` if it is complete and definite, as (initial byte, argument,
    /// where its content begins).
    #[inline(always)]
    fn head(&self, at: usize) -> Option<(u8, u64, usize)> {
        let rest = self.bytes.get(at..)?;
        let (&initial, rest) = rest.split_first()?;
        let info = initial & 0x1f;
        if info < 24 {
            return Some((initial, u64::from(info), at + 1)); // most heads
        }
        let (argument, length) = match info {
            24 => (u64::from(*rest.first()?), 2),
            25 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 3),
            26 => (u64::from(u32::from_be_bytes(*rest.first_chunk()?)), 5),
            27 => (u64::from_be_bytes(*rest.first_chunk()?), 9),
            _ => return None,
        };
        Some((initial, argument, at + length))
    }

    /// The content of the definite text that comes next, if one does; otherwise nothing is read.
    #[inline(always)]
    pub(crate) fn plain_text(&mut self) -> Option<&'a [u8]> {
        let (&initial, rest) = self.bytes.get(self.at..)?.split_first()?;
        let short = initial.wrapping_sub(0x60);
        if short < 24 {
            let text = rest.get(..usize::from(short))?; // all keys
            self.at += 1 + text.len();
            return Some(text);
        }
        let (initial, length, start) = self.head(self.at)?;
        if initial >> 5 != 3 {
            return None;
        }
        let text = self.bytes[start..].get(..usize::try_from(length).ok()?)?;
        self.at = start + text.len();
        Some(text)
    }

    /// The argument of the definite head of that major type that comes next, if one does; otherwise nothing is read.
    #[inline(always)]
    pub(crate) fn plain_argument(&mut self, major: u8) -> Option<u64> {
        let (initial, argument, next) = self.head(self.at)?;
        if initial >> 5 != major {
            return None;
        }
        self.at = next;
        Some(argument)
    }

    /// The header of a map: the number of its entries, if definite.
    ///
    /// `None`: some other item; where the reader then stands is not defined.
    #[inline(always)]
    pub(crate) fn map_header(&mut self) -> Result<Option<Option<usize>>, Malformed> {
        let start = self.at;
        if let Some(count) = self.plain_argument(5) {
            return self.count(count, 2, start).map(|count| Some(Some(count)));
        }
        Ok(match self.untagged()? {
            Item::Map(count) => Some(Some(count)),
            Item::MapOpen => Some(None),
            _ => None,
        })
    }

    /// Passes an item that contains no other; `false`: it is another or not well-formed, and nothing is read.
    #[inline(always)]
    fn skip_plain(&mut self) -> bool {
        let Some((initial, argument, next)) = self.head(self.at) else {
            return false;
        };
        match initial >> 5 {
            0 | 1 => self.at = next,
            2 | 3 if argument <= (self.bytes.len() - next) as u64 => {
                self.at = next + argument as usize
            }
            7 if initial != 0xf8 => self.at = next,
            _ => return false,
        }
        true
    }

    /// Reads one head, and the content of a definite string.
    #[inline]
    pub(crate) fn item(&mut self) -> Result<Item<'a>, Malformed> {
        let start = self.at;
        let Some((initial, argument, next)) = self.head(start) else {
            return self.open();
        };
        self.at = next;
        Ok(match initial >> 5 {
            0 => Item::Unsigned(argument),
            1 => Item::Negative(argument),
            2 => Item::Bytes(self.take(argument, start)?),
            3 => Item::Text(self.take(argument, start)?),
            4 => Item::Array(self.count(argument, 1, start)?),
            5 => Item::Map(self.count(argument, 2, start)?),
            6 => Item::Tag(argument),
            _ => return simple(initial & 0x1f, argument, start),
        })
    }

    /// A head that is not complete and definite.
    #[cold]
    fn open(&mut self) -> Result<Item<'a>, Malformed> {
        let offset = self.at;
        let Some(initial) = self.peek() else {
            return Err(Malformed::Truncated { offset });
        };
        self.at += 1;
        Ok(match initial {
            0x5f => Item::BytesOpen,
            0x7f => Item::TextOpen,
            0x9f => Item::ArrayOpen,
            0xbf => Item::MapOpen,
            0xff => Item::Break,
            byte if byte & 0x1f >= 28 => return Err(Malformed::ReservedHead { offset, byte }),
            _ => {
                return Err(Malformed::Truncated {
                    offset: self.bytes.len(),
                });
            }
        })
    }

    #[inline]
    fn take(&mut self, length: u64, start: usize) -> Result<&'a [u8], Malformed> {
        let length = self.count(length, 1, start)?;
        let taken = &self.bytes[self.at..self.at + length];
        self.at += length;
        Ok(taken)
    }

    /// A count of things that take at least `each` bytes.
    #[inline]
    fn count(&self, claimed: u64, each: usize, offset: usize) -> Result<usize, Malformed> {
        match usize::try_from(claimed) {
            Ok(count) if count <= self.remaining() / each => Ok(count),
            _ => Err(Malformed::LengthBeyondInput { offset, claimed }),
        }
    }

    /// Passes the tags before an item, and reads it.
    #[inline]
    pub(crate) fn untagged(&mut self) -> Result<Item<'a>, Malformed> {
        for _ in 0..=DEPTH_MAX {
            match self.item()? {
                Item::Tag(_) => {}
                item => return Ok(item),
            }
        }
        Err(Malformed::TooDeep { offset: self.at })
    }

    /// Passes one whole item, however deep, with a stack of fixed size.
    #[inline(always)]
    pub(crate) fn skip(&mut self) -> Result<(), Malformed> {
        if self.skip_plain() {
            return Ok(());
        }
        self.skip_nested(DEPTH_MAX)
    }

    /// As [`skip`](Self::skip), but with another limit of depth, at most [`DEPTH_MAX`].
    #[inline(never)]
    pub(crate) fn skip_nested(&mut self, depth_max: usize) -> Result<(), Malformed> {
        // Most items are flat, and a small stack is cheaper to clear.
        let start = self.at;
        if !self.skip_on_stack::<8>(depth_max)? {
            self.at = start;
            self.skip_on_stack::<{ DEPTH_MAX + 1 }>(depth_max)?;
        }
        Ok(())
    }

    /// `false`: deeper than the stack of `N` levels, the item itself being one.
    #[inline]
    fn skip_on_stack<const N: usize>(&mut self, depth_max: usize) -> Result<bool, Malformed> {
        // How many items each level still awaits. Counts are bounded by the input, so the markers are free.
        const OPEN_ARRAY: usize = usize::MAX;
        const OPEN_MAP_KEY: usize = usize::MAX - 1;
        const OPEN_MAP_VALUE: usize = usize::MAX - 2;
        let mut awaited = [0_usize; N];
        let mut depth = 0;
        awaited[0] = 1; // the item itself
        loop {
            let start = self.at;
            match awaited[depth] {
                0 if depth == 0 => return Ok(true),
                0 => {
                    depth -= 1;
                    continue;
                }
                OPEN_ARRAY | OPEN_MAP_KEY if self.peek() == Some(0xff) => {
                    self.at += 1;
                    depth -= 1;
                    continue;
                }
                OPEN_ARRAY => {}
                OPEN_MAP_KEY => awaited[depth] = OPEN_MAP_VALUE,
                OPEN_MAP_VALUE => awaited[depth] = OPEN_MAP_KEY,
                _ => awaited[depth] -= 1,
            }
            if self.skip_plain() {
                continue;
            }
            let within = match self.item()? {
                Item::Array(count) => count,
                Item::Map(count) => count * 2,
                Item::ArrayOpen => OPEN_ARRAY,
                Item::MapOpen => OPEN_MAP_KEY,
                Item::Tag(_) => 1,
                Item::BytesOpen => {
                    self.chunks(2, |_| ())?;
                    continue;
                }
                Item::TextOpen => {
                    self.chunks(3, |_| ())?;
                    continue;
                }
                Item::Break => return Err(Malformed::StrayBreak { offset: start }),
                _ => continue,
            };
            if depth == depth_max {
                return Err(Malformed::TooDeep { offset: start });
            }
            if depth == N - 1 {
                return Ok(false);
            }
            depth += 1;
            awaited[depth] = within;
        }
    }

    /// Passes the chunks of an indefinite string of that major type, up to its break.
    pub(crate) fn chunks(
        &mut self,
        major: u8,
        mut each: impl FnMut(&'a [u8]),
    ) -> Result<(), Malformed> {
        loop {
            let start = self.at;
            match (self.item()?, major) {
                (Item::Break, _) => return Ok(()),
                (Item::Bytes(chunk), 2) | (Item::Text(chunk), 3) => each(chunk),
                _ => return Err(Malformed::BadChunk { offset: start }),
            }
        }
    }

    /// The content of the string that `item` begins; copied only when it came in chunks. `None`: not a string of
    /// that major type.
    #[inline]
    pub(crate) fn string(
        &mut self,
        item: Item<'a>,
        major: u8,
    ) -> Result<Option<Cow<'a, [u8]>>, Malformed> {
        match (item, major) {
            (Item::Bytes(bytes), 2) | (Item::Text(bytes), 3) => Ok(Some(Cow::Borrowed(bytes))),
            (Item::BytesOpen, 2) | (Item::TextOpen, 3) => {
                let mut joined = Vec::new();
                self.chunks(major, |chunk| joined.extend_from_slice(chunk))?;
                Ok(Some(Cow::Owned(joined)))
            }
            _ => Ok(None),
        }
    }
}

#[inline]
fn simple<'a>(info: u8, argument: u64, start: usize) -> Result<Item<'a>, Malformed> {
    #[allow(clippy::cast_possible_truncation)] // `info` says how many bits were read
    Ok(match info {
        20 => Item::Bool(false),
        21 => Item::Bool(true),
        22 => Item::Null,
        23 => Item::Undefined,
        24 if argument < 32 => {
            return Err(Malformed::BadSimple {
                offset: start,
                value: argument as u8,
            });
        }
        25 => Item::Float(half(argument as u16)),
        26 => Item::Float(f64::from(f32::from_bits(argument as u32))),
        27 => Item::Float(f64::from_bits(argument)),
        _ => Item::Simple(argument as u8),
    })
}

/// The value of an IEEE 754 half-precision float.
pub(crate) fn half(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff);
    let magnitude = match (bits >> 10) & 0x1f {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (fraction + 1024.0) * 2_f64.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Where encoded bytes go: a buffer, or a count of what the buffer must hold.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Sink for usize {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        *self += bytes.len();
    }
}

/// Writes the shortest head.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)] // each cast is guarded by its range
pub(crate) fn put_head(sink: &mut impl Sink, major: u8, argument: u64) {
    let major = major << 5;
    match argument {
        0..24 => sink.put(&[major | argument as u8]),
        24..0x100 => sink.put(&[major | 24, argument as u8]),
        0x100..0x1_0000 => {
            let [a, b] = (argument as u16).to_be_bytes();
            sink.put(&[major | 25, a, b]);
        }
        0x1_0000..0x1_0000_0000 => {
            sink.put(&[major | 26]);
            sink.put(&(argument as u32).to_be_bytes());
        }
        _ => {
            sink.put(&[major | 27]);
            sink.put(&argument.to_be_bytes());
        }
    }
}

/// Writes a definite text.
#[inline]
pub(crate) fn put_text(sink: &mut impl Sink, text: &str) {
    put_head(sink, 3, text.len() as u64);
    sink.put(text.as_bytes());
}

/// Writes an integer in the form that JavaScript reads as a number wherever it can: beyond 32 bits as float64, beyond
/// 2^53 − 1 as a 64-bit integer, which it reads as a BigInt.
#[inline]
pub(crate) fn put_unsigned(sink: &mut impl Sink, n: u64) {
    #[allow(clippy::cast_precision_loss)] // exact in this range
    match n {
        0x1_0000_0000..=SAFE_MAX => put_float(sink, n as f64),
        _ => put_head(sink, 0, n),
    }
}

/// As [`put_unsigned`].
#[inline]
pub(crate) fn put_signed(sink: &mut impl Sink, n: i64) {
    if n >= 0 {
        return put_unsigned(sink, n.unsigned_abs());
    }
    let argument = n.unsigned_abs() - 1;
    #[allow(clippy::cast_precision_loss)] // exact in this range
    match argument {
        0x1_0000_0000..SAFE_MAX => put_float(sink, n as f64),
        _ => put_head(sink, 1, argument),
    }
}

/// The largest integer that a float64, and so a JavaScript number, tells from its neighbours: 2^53 − 1.
pub(crate) const SAFE_MAX: u64 = 0x1f_ffff_ffff_ffff;

/// Writes a float64.
#[inline]
pub(crate) fn put_float(sink: &mut impl Sink, value: f64) {
    sink.put(&[0xfb]);
    sink.put(&value.to_bits().to_be_bytes());
}

/// Whether `bytes` are exactly one well-formed item within the depth limit.
///
/// # Errors
/// How they are not.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Malformed> {
    let mut reader = Reader::new(bytes);
    reader.skip()?;
    reader.finish()
}
