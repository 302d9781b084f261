//! Numbers of bytes as people write them: `65536`, `64KiB`, `4MiB`, `1GiB`.
//!
//! What this module keeps true: what [`show`] writes, [`parse`] reads as the same number.

const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Reads a number of bytes.
///
/// # Errors
/// What to write instead.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let factor = match unit {
        "" | "B" => Some(1),
        _ => UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor),
    };
    let (Ok(number), Some(factor)) = (number.parse::<u64>(), factor) else {
        return Err(format!(
            "write a number of bytes: 65536, 64KiB, 4MiB, 1GiB, not {text:?}"
        ));
    };
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("{text} is more than can be counted"))
}

/// Writes a number of bytes, in the largest unit that shows it exactly.
pub fn show(bytes: u64) -> String {
    let exact = UNITS
        .iter()
        .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match exact {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood_and_shown() {
        for (text, bytes) in [
            ("0", 0),
            ("1023", 1023),
            ("64KiB", 65_536),
            ("4MiB", 4 << 20),
            ("4GiB", 4 << 30),
            ("4294967295", u64::from(u32::MAX)),
        ] {
            assert_eq!(parse(text), Ok(bytes));
            assert_eq!(show(bytes), text);
        }
        assert_eq!(parse("5B"), Ok(5));
        for odd in ["", "KiB", "-1", "1.5MiB", "1kb", "1 KiB", "99999999999GiB"] {
            assert!(parse(odd).is_err(), "{odd}");
        }
    }
}
