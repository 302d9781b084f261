//! `nacp decode`: captured bytes as readable messages.
//!
//! What this module keeps true: what is right is printed even when what follows is wrong, and then the exit code says
//! that something was.

use std::io::Read as _;

use nacp::Value;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::captured::{self, Found, Message};
use crate::failure::{Failure, say};
use crate::notation::{Notation, to_json};
use crate::output;

/// What to decode, and how to print it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The captured bytes: a file, or - for stdin
    #[arg(default_value = "-")]
    file: String,
    /// Take the input for hexadecimal text (otherwise only if it looks like it)
    #[arg(long)]
    hex: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The input cannot be read, or not all of it is right.
pub fn run(args: &Args) -> Result<(), Failure> {
    let input = binary(read(&args.file)?, args.hex)?;
    let mut is_right = true;
    for found in captured::read(&input) {
        match found {
            Found::Message(message) if args.json => {
                let json = serde_json::to_string(&*message).map_err(Failure::failed)?;
                output::line(&json)?;
            }
            Found::Message(message) => print(&message)?,
            Found::Wrong { offset, text } => {
                is_right = false;
                say(&crate::failure::one_line(&format!(
                    "{} at byte {offset}: {text}",
                    name_of(&args.file)
                )));
            }
        }
    }
    if is_right { Ok(()) } else { Err(Failure::Said) }
}

fn name_of(file: &str) -> &str {
    if file == "-" { "stdin" } else { file }
}

fn read(file: &str) -> Result<Vec<u8>, Failure> {
    let mut input = Vec::new();
    let outcome = match file {
        "-" => std::io::stdin().lock().read_to_end(&mut input).map(drop),
        path => std::fs::read(path).map(|content| input = content),
    };
    match outcome {
        Ok(()) => Ok(input),
        Err(error) => Err(Failure::failed(format_args!(
            "cannot read {}: {error}",
            name_of(file)
        ))),
    }
}

/// A binary frame is never all hexadecimal digits: its magic byte is none.
fn binary(input: Vec<u8>, must_be_hex: bool) -> Result<Vec<u8>, Failure> {
    let odd = |byte: &u8| !byte.is_ascii_hexdigit() && !byte.is_ascii_whitespace();
    match input.iter().position(odd) {
        Some(at) if must_be_hex => {
            return Err(Failure::failed(format_args!(
                "byte {at} of the input is no hexadecimal digit; without --hex it is taken as binary"
            )));
        }
        Some(_) => return Ok(input),
        None => {}
    }
    let digits: Vec<u8> = input
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| (char::from(*byte).to_digit(16).unwrap_or(0) & 0xf) as u8)
        .collect();
    if digits.len() % 2 == 1 {
        return Err(Failure::failed(
            "the input has an odd number of hexadecimal digits; a byte has two",
        ));
    }
    Ok(digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect())
}

fn print(message: &Message) -> Result<(), Failure> {
    let Message {
        kind,
        from,
        to,
        id,
        size,
        ..
    } = message;
    let place = match &message.frames {
        Some(frames) if frames.count == 1 => format!("at byte {}", frames.offset),
        Some(frames) => format!("at byte {}, in {} frames", frames.offset, frames.count),
        None => "without a frame".to_owned(),
    };
    // Names come from the capture: debug notation shows their control characters instead of obeying them.
    output::line(&format!(
        "{kind} {from:?} -> {to:?}  ({size} bytes, {place})"
    ))?;
    let (major, minor) = message.version;
    output::line(&format!(
        "  id {id:?}, version {major}.{minor}, t {}",
        utc(message.t_ms)
    ))?;
    output::line(&format!("  meta    {}", to_json(&message.meta)))?;
    match &message.payload {
        Some(payload) => output::line(&format!("  payload {}", to_json(payload))),
        None => Ok(()),
    }
}

/// `2026-12-01T04:48:49.440Z`; beyond the year 9999, the number.
fn utc(ms: u64) -> String {
    let (days, ms_of_day) = (ms / 86_400_000, ms % 86_400_000);
    if days > 2_932_896 {
        return ms.to_string();
    }
    // The proleptic Gregorian calendar in eras of 400 years that begin on 1 March.
    let z = days + 719_468;
    let day_of_era = z % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + z / 146_097 * 400 + u64::from(month <= 2);
    let (s, ms) = (ms_of_day / 1000, ms_of_day % 1000);
    let (h, min, s) = (s / 3600, s / 60 % 60, s % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{min:02}:{s:02}.{ms:03}Z")
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(frames) = &self.frames {
            let packet: String = frames.packet.0.iter().map(|b| format!("{b:02x}")).collect();
            map.serialize_entry("offset", &frames.offset)?;
            map.serialize_entry("frames", &frames.count)?;
            map.serialize_entry("packet", &packet)?;
        }
        map.serialize_entry("bytes", &self.size)?;
        let (major, minor) = self.version;
        map.serialize_entry(
            "message",
            &Content {
                message: self,
                version: Value::Map(vec![
                    (
                        "major".into(),
                        Value::Integer(major.try_into().unwrap_or(i64::MAX)),
                    ),
                    (
                        "minor".into(),
                        Value::Integer(minor.try_into().unwrap_or(i64::MAX)),
                    ),
                ]),
            },
        )?;
        map.end()
    }
}

struct Content<'a> {
    message: &'a Message,
    version: Value,
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.message;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("v", &Notation(&self.version))?;
        map.serialize_entry("type", message.kind)?;
        map.serialize_entry("id", &message.id)?;
        map.serialize_entry("from", &message.from)?;
        map.serialize_entry("to", &message.to)?;
        map.serialize_entry("t", &message.t_ms)?;
        map.serialize_entry("meta", &Notation(&message.meta))?;
        if let Some(payload) = &message.payload {
            map.serialize_entry("payload", &Notation(payload))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(utc(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(utc(2_193_495_755_792), "2039-07-05T16:22:35.792Z");
        assert_eq!(utc(253_402_300_799_999), "9999-12-31T23:59:59.999Z");
        assert_eq!(utc(u64::MAX), u64::MAX.to_string());
    }

    #[test]
    fn hexadecimal_is_noticed_and_checked() {
        assert_eq!(binary(b"CF 01\n".to_vec(), false).unwrap(), [0xcf, 1]);
        assert_eq!(binary(vec![0xcf, 1], false).unwrap(), [0xcf, 1]);
        assert!(binary(vec![0xcf], true).is_err());
        assert!(binary(b"123".to_vec(), true).is_err());
    }
}
