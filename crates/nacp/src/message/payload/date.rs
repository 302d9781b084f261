//! Points in time, as JavaScript has them: whole milliseconds since the Unix epoch.
//!
//! What this module keeps true: milliseconds survive the way through CBOR's seconds, in both directions.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::super::cbor::{Sink, put_float, put_head, put_signed};
use super::Value;

/// A point in time, in milliseconds since the Unix epoch: a JavaScript Date, tag 1 on the wire. In formats for people
/// (JSON) it is that number.
///
/// ```
/// use nacp::Payload;
/// use nacp::message::payload::Date;
/// let date = Date { ms: 2_193_495_755_792 };
/// assert_eq!(Payload::encode(&date).unwrap().decode::<Date>().unwrap(), date);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Date {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub ms: i64,
}

/// Beyond this, a float64 of seconds cannot hold milliseconds; JavaScript's dates end earlier (8.64e15).
const MS_MAX: f64 = 8.64e15;

impl Date {
    /// The nearest date to a number of seconds.
    pub(super) fn from_seconds(seconds: f64) -> Option<Self> {
        let nearest = (seconds * 1000.0).round();
        if nearest.is_nan() || nearest.abs() > MS_MAX {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)] // whole and in range
        let ms = nearest as i64;
        // Seconds of two dates always differ; but beyond the year 141,000 the product is rounded so coarsely that it may
        // name the neighbour of the date that was meant.
        let exact = [ms, ms - 1, ms + 1]
            .into_iter()
            .map(|ms| Self { ms })
            .find(|date| date.seconds() == seconds);
        Some(exact.unwrap_or(Self { ms }))
    }

    /// As [`from_seconds`](Self::from_seconds), but only if nothing is lost by it.
    pub(super) fn from_seconds_exactly(seconds: f64) -> Option<Self> {
        Self::from_seconds(seconds).filter(|date| date.seconds() == seconds)
    }

    #[allow(clippy::cast_precision_loss)] // dates are within ±2^53 ms
    fn seconds(self) -> f64 {
        self.ms as f64 / 1000.0
    }

    pub(super) fn put(self, sink: &mut impl Sink) {
        put_head(sink, 6, 1);
        if self.ms % 1000 == 0 {
            put_signed(sink, self.ms / 1000)
        } else {
            put_float(sink, self.seconds())
        }
    }

    /// Reads `2039-07-05T16:22:35.792Z` and the like (RFC 3339).
    fn from_text(text: &str) -> Option<Self> {
        let digits = |from: usize, to: usize| -> Option<i64> {
            let digits = text.get(from..to)?;
            digits
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| digits.parse().ok())?
        };
        let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
        let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
        let bytes = text.as_bytes();
        let separators = [
            bytes[4],
            bytes[7],
            bytes[10].to_ascii_uppercase(),
            bytes[13],
            bytes[16],
        ];
        let in_range = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60;
        if separators != *b"--T::" || !in_range {
            return None;
        }
        let (mut ms, mut at) = (0, 19);
        if bytes.get(at) == Some(&b'.') {
            let end = (20..bytes.len()).find(|&at| !bytes[at].is_ascii_digit())?;
            let mut thousandths = text[20..end].bytes().chain(*b"000");
            for _ in 0..3 {
                ms = ms * 10 + i64::from(thousandths.next()? - b'0');
            }
            at = end;
        }
        let offset_minutes = match *bytes.get(at)? {
            b'Z' | b'z' if at + 1 == bytes.len() => 0,
            sign @ (b'+' | b'-') if at + 6 == bytes.len() && bytes[at + 3] == b':' => {
                let minutes = digits(at + 1, at + 3)? * 60 + digits(at + 4, at + 6)?;
                if sign == b'+' { minutes } else { -minutes }
            }
            _ => return None,
        };
        let minutes =
            (days_since_epoch(year, month, day) * 24 + hour) * 60 + minute - offset_minutes;
        Some(Self {
            ms: (minutes * 60 + second) * 1000 + ms,
        })
    }

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Date(date) => Some(*date),
            Value::Tagged(1, seconds) => Self::from_seconds(seconds.as_f64()?),
            Value::Tagged(0, text) => Self::from_text(text.as_str()?),
            _ => None,
        }
    }
}

/// Days of the proleptic Gregorian calendar; the year is taken to begin in March, so that the leap day is its last.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::Date(*self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let for_people = deserializer.is_human_readable();
        let value = Value::deserialize(deserializer)?;
        if for_people && let Some(ms) = value.as_i64() {
            return Ok(Self { ms });
        }
        Self::from_value(&value).ok_or_else(|| de::Error::custom("invalid type: expected a date"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_in_text_are_read_with_their_offset() {
        let ms = |text: &str| Date::from_text(text).map(|date| date.ms);
        assert_eq!(ms("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(ms("2039-07-05T16:22:35.792Z"), Some(2_193_495_755_792));
        assert_eq!(
            ms("2039-07-05T18:22:35.7921+02:00"),
            Some(2_193_495_755_792)
        );
        assert_eq!(ms("1969-12-31t23:59:59.5z"), Some(-500));
        for odd in [
            "",
            "2039",
            "2039-07-05",
            "2039-07-05T16:22:35",
            "2039-07-05T16:22:35.Z!",
            "2039-13-05T16:22:35Z",
        ] {
            assert_eq!(ms(odd), None, "{odd}");
        }
        assert_eq!(ms("２０３９-07-05T16:22:35Z"), None);
    }
}
