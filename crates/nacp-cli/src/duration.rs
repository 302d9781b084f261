//! Durations as people write them: `5s`, `500ms`, `2m`; `off` where something can be switched off.
//!
//! What this module keeps true: a number without a unit is refused, so nobody waits a thousand times too long.

use std::time::Duration;

/// Reads a duration.
///
/// # Errors
/// What to write instead.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit_s = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "write a number and a unit: 500ms, 5s, 2m, 1h, not {text:?}"
            ));
        }
    };
    let seconds = number
        .parse::<f64>()
        .map_err(|_| format!("{number:?} is no number"))?
        * unit_s;
    // A year is as good as for ever, and no sum with a clock overflows.
    if !(0.001..=31_536_000.0).contains(&seconds) {
        return Err("at least 1ms, at most 8760h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Writes a duration so that [`parse`] reads it as the same.
pub fn show(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_secs_f64() * 1000.0)
    }
}

/// A duration, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrOff(pub Option<Duration>);

/// Reads a duration or `off`.
///
/// # Errors
/// What to write instead.
pub fn parse_or_off(text: &str) -> Result<OrOff, String> {
    match text {
        "off" => Ok(OrOff(None)),
        _ => parse(text)
            .map(|duration| OrOff(Some(duration)))
            .map_err(|error| format!("{error}; or off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_wanted_and_understood() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_or_off("off"), Ok(OrOff(None)));
        for text in ["500ms", "1.5ms", "120s"] {
            assert_eq!(parse(text).map(show).as_deref(), Ok(text));
        }
        for odd in [
            "", "5", "s", "-1s", "0s", "5 s", "1e3s", "1..2s", "99999h", "NaNs", "off",
        ] {
            assert!(parse(odd).is_err(), "{odd}");
        }
    }
}
