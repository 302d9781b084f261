//! The command line of a measured program: a role, then pairs of `--key value`. The driver writes them all, so anything
//! unexpected is a mistake of ours and ends the program with its reason.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::Failure;

/// A parsed command line.
#[derive(Debug, Clone)]
pub struct Args {
    /// The first argument: `server`, `client`, …
    pub role: String,
    pairs: BTreeMap<String, String>,
}

impl Args {
    /// Reads the command line of this process.
    pub fn from_env() -> Result<Self, Failure> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let role = words.next().ok_or("a role is wanted")?;
        let mut pairs = BTreeMap::new();
        while let Some(key) = words.next() {
            let name = key
                .strip_prefix("--")
                .ok_or_else(|| format!("not a --key: {key}"))?;
            let value = words
                .next()
                .ok_or_else(|| format!("--{name} has no value"))?;
            pairs.insert(name.to_owned(), value);
        }
        Ok(Self { role, pairs })
    }

    /// The value of `key`, or `default`.
    pub fn text<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.pairs.get(key).map_or(default, String::as_str)
    }

    /// The value of `key`, which must be there.
    pub fn required(&self, key: &str) -> Result<&str, Failure> {
        let value = self.pairs.get(key).map(String::as_str);
        value.ok_or_else(|| format!("--{key} is wanted").into())
    }

    /// The number under `key`, or `default`.
    pub fn number<T: FromStr>(&self, key: &str, default: T) -> Result<T, Failure> {
        match self.pairs.get(key) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("--{key} {text} is not a number of its kind").into()),
        }
    }

    /// The milliseconds under `key`, or `default`.
    pub fn millis(&self, key: &str, default: u64) -> Result<Duration, Failure> {
        Ok(Duration::from_millis(self.number(key, default)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_and_pairs_are_read() {
        let words = ["client", "--payload", "16"].map(String::from);
        let args = Args::parse(words.into_iter()).unwrap();
        assert_eq!(args.role, "client");
        assert_eq!(args.number("payload", 0usize).unwrap(), 16);
        assert_eq!(args.number("absent", 7u64).unwrap(), 7);
        assert!(args.required("absent").is_err());
    }
}
