//! CBOR for people: RFC 8949's diagnostic notation, cut short.
//!
//! What this module keeps true: printing neither copies nor shows more of a large payload than of one that fills a few
//! lines.

use std::cell::Cell;
use std::fmt::{self, Write as _};

use super::super::cbor::{DEPTH_MAX, Item, Reader};

/// How many items are shown.
const ITEMS_MAX: u32 = 32;
/// How much of a string is shown, in bytes.
const STRING_MAX: usize = 64;

/// Shows one item.
pub(super) struct Diagnostic<'a>(pub(super) &'a [u8]);

impl fmt::Display for Diagnostic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer {
            reader: Reader::new(self.0),
            left: Cell::new(ITEMS_MAX),
        };
        printer.item(f, DEPTH_MAX + 1)
    }
}

struct Printer<'a> {
    reader: Reader<'a>,
    left: Cell<u32>,
}

impl Printer<'_> {
    /// Whether the budget has room for one more item.
    fn spend(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    fn item(&mut self, f: &mut fmt::Formatter<'_>, levels: usize) -> fmt::Result {
        let (true, Some(levels)) = (self.spend(), levels.checked_sub(1)) else {
            return f.write_char('…');
        };
        let Ok(item) = self.reader.item() else {
            return f.write_char('?');
        };
        match item {
            Item::Unsigned(n) => write!(f, "{n}"),
            Item::Negative(n) => write!(f, "{}", -1 - i128::from(n)),
            Item::Float(n) => write!(f, "{n:?}"),
            Item::Bool(value) => write!(f, "{value}"),
            Item::Null => f.write_str("null"),
            Item::Undefined => f.write_str("undefined"),
            Item::Simple(value) => write!(f, "simple({value})"),
            Item::Bytes(bytes) => bytes_of(f, bytes),
            Item::Text(bytes) => text_of(f, bytes),
            Item::BytesOpen => bytes_of(f, &self.beginning(2)),
            Item::TextOpen => text_of(f, &self.beginning(3)),
            Item::Array(count) => self.items(f, Some(count), false, levels),
            Item::ArrayOpen => self.items(f, None, false, levels),
            Item::Map(count) => self.items(f, Some(count), true, levels),
            Item::MapOpen => self.items(f, None, true, levels),
            Item::Tag(tag) => {
                write!(f, "{tag}(")?;
                self.item(f, levels)?;
                f.write_char(')')
            }
            Item::Break => f.write_char('?'),
        }
    }

    /// The first chunks of an indefinite string; a byte more than is shown tells that there is more.
    fn beginning(&mut self, major: u8) -> Vec<u8> {
        let mut shown = Vec::new();
        let _ = self.reader.chunks(major, |chunk| {
            let room = (STRING_MAX + 1).saturating_sub(shown.len());
            shown.extend_from_slice(&chunk[..chunk.len().min(room)]);
        }); // an error shows as what came before it
        shown
    }

    fn items(
        &mut self,
        f: &mut fmt::Formatter<'_>,
        count: Option<usize>,
        is_map: bool,
        levels: usize,
    ) -> fmt::Result {
        let (open, close) = if is_map { ('{', '}') } else { ('[', ']') };
        f.write_char(open)?;
        let mut printed = 0;
        while count.map_or_else(|| !self.reader.take_break(), |count| printed < count) {
            if printed > 0 {
                f.write_str(", ")?;
            }
            if self.left.get() == 0 {
                // From here on the reader is out of step, but nothing more is read.
                f.write_char('…')?;
                break;
            }
            self.item(f, levels)?;
            if is_map {
                f.write_str(": ")?;
                self.item(f, levels)?;
            }
            printed += 1;
        }
        f.write_char(close)
    }
}

fn bytes_of(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("h'")?;
    bytes
        .iter()
        .take(STRING_MAX / 2)
        .try_for_each(|byte| write!(f, "{byte:02x}"))?;
    f.write_str(if bytes.len() > STRING_MAX / 2 {
        "…'"
    } else {
        "'"
    })
}

fn text_of(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(STRING_MAX)]);
    write!(
        f,
        "{shown:?}{}",
        if bytes.len() > STRING_MAX { "…" } else { "" }
    )
}
