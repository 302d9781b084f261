//! Where a setting's value lies in the plan, and how it is read and written.
//!
//! What this module keeps true: flag, variable and file are read by the same code, so the same text means the same
//! everywhere; what [`Slot::show`] writes can be read back.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use nacp::{AppId, Overflow};

use super::plan::{Plan, Secret};
use crate::duration::{self, OrOff};
use crate::{size, target};

/// A number of whatever width the library wants.
#[derive(Debug)]
pub enum Cell<'a> {
    U32(&'a mut u32),
    U64(&'a mut u64),
    Usize(&'a mut usize),
}

impl Cell<'_> {
    fn get(&self) -> u64 {
        match self {
            Self::U32(cell) => u64::from(**cell),
            Self::U64(cell) => **cell,
            Self::Usize(cell) => **cell as u64,
        }
    }

    /// TOML's integers end at 2⁶³ − 1, and what was printed must be readable.
    fn most(&self) -> u64 {
        match self {
            Self::U32(_) => u64::from(u32::MAX),
            Self::U64(_) | Self::Usize(_) => i64::MAX as u64,
        }
    }

    /// The value is at most [`most`](Self::most).
    fn set(self, value: u64) {
        match self {
            Self::U32(cell) => *cell = u32::try_from(value).unwrap_or(u32::MAX),
            Self::U64(cell) => *cell = value,
            Self::Usize(cell) => *cell = usize::try_from(value).unwrap_or(usize::MAX),
        }
    }
}

type At<T> = fn(&mut Plan) -> &mut T;

/// What kind of value, and where it lies.
#[derive(Clone, Copy)]
pub enum Slot {
    Id(At<Option<AppId>>),
    Urls(At<Vec<String>>),
    /// Pairs `app=url`.
    Links(At<Vec<(AppId, String)>>),
    Time(At<Duration>),
    /// `off` is `None`.
    TimeOrOff(At<Option<Duration>>),
    /// `off` is zero.
    TimeOrZero(At<Duration>),
    /// A count, at least this much.
    Count(u64, fn(&mut Plan) -> Cell<'_>),
    /// A number of bytes, at least this many.
    Bytes(u64, fn(&mut Plan) -> Cell<'_>),
    Switch(At<bool>),
    Overflow(At<Overflow>),
    File(At<Option<PathBuf>>),
    Secret(At<Option<Secret>>),
    /// Pairs `name=app`.
    Identities(At<BTreeMap<String, Vec<AppId>>>),
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.value_name())
    }
}

impl Slot {
    /// As help calls it.
    pub fn value_name(&self) -> &'static str {
        match self {
            Self::Id(_) => "APP",
            Self::Urls(_) => "URL",
            Self::Links(_) => "APP=URL",
            Self::Time(_) => "TIME",
            Self::TimeOrOff(_) | Self::TimeOrZero(_) => "TIME|off",
            Self::Count(..) => "COUNT",
            Self::Bytes(..) => "BYTES",
            Self::Switch(_) => "true|false",
            Self::Overflow(_) => "evict|wait",
            Self::File(_) => "FILE",
            Self::Secret(_) => "TEXT",
            Self::Identities(_) => "NAME=APP",
        }
    }

    /// Whether it takes more than one word.
    pub fn is_list(&self) -> bool {
        matches!(self, Self::Urls(_) | Self::Links(_) | Self::Identities(_))
    }

    /// Whether a file may give it as a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Count(..) | Self::Bytes(..))
    }

    /// Takes the value from these words: one, or for a list any number.
    ///
    /// # Errors
    /// What is wrong, and what is allowed. A secret is not repeated.
    pub fn write(&self, plan: &mut Plan, words: &[String]) -> Result<(), String> {
        let word = words.first().map_or("", String::as_str);
        match self {
            Self::Id(at) => *at(plan) = Some(target::app_id(word)?),
            Self::Urls(at) => {
                *at(plan) = words
                    .iter()
                    .map(|word| target::url(word))
                    .collect::<Result<_, _>>()?;
            }
            Self::Links(at) => {
                *at(plan) = words
                    .iter()
                    .map(|word| link(word))
                    .collect::<Result<_, _>>()?;
            }
            Self::Time(at) => *at(plan) = duration::parse(word)?,
            Self::TimeOrOff(at) => *at(plan) = duration::parse_or_off(word)?.0,
            Self::TimeOrZero(at) => {
                *at(plan) = duration::parse_or_off(word)?.0.unwrap_or_default();
            }
            Self::Count(least, at) => {
                let digits = word.replace('_', "");
                let number = digits
                    .parse()
                    .map_err(|_| format!("write a whole number, not {word:?}"))?;
                set(at(plan), number, *least)?;
            }
            Self::Bytes(least, at) => set(at(plan), size::parse(word)?, *least)?,
            Self::Switch(at) => {
                *at(plan) = word
                    .parse()
                    .map_err(|_| format!("write true or false, not {word:?}"))?;
            }
            Self::Overflow(at) => {
                *at(plan) = match word {
                    "evict" => Overflow::Evict,
                    "wait" => Overflow::Wait,
                    _ => return Err(format!("write evict or wait, not {word:?}")),
                };
            }
            Self::File(at) if word.is_empty() => {
                let _ = at;
                return Err("write the path of a file".to_owned());
            }
            Self::File(at) => *at(plan) = Some(PathBuf::from(word)),
            Self::Secret(at) => *at(plan) = Some(Secret(word.to_owned())),
            Self::Identities(at) => *at(plan) = identities(words)?,
        }
        Ok(())
    }

    /// The value as it stands in a TOML file; nothing when it is not set, or must not be shown.
    pub fn show(&self, plan: &mut Plan) -> Option<String> {
        Some(match self {
            Self::Id(at) => quoted(at(plan).as_ref()?.as_str()),
            Self::Urls(at) => list(at(plan).iter().map(String::as_str))?,
            Self::Links(at) => {
                let words: Vec<_> = at(plan)
                    .iter()
                    .map(|(app, url)| format!("{app}={url}"))
                    .collect();
                list(words.iter().map(String::as_str))?
            }
            Self::Time(at) => quoted(&duration::show(*at(plan))),
            Self::TimeOrOff(at) => time_or_off(OrOff(*at(plan))),
            Self::TimeOrZero(at) => {
                time_or_off(OrOff(Some(*at(plan)).filter(|time| !time.is_zero())))
            }
            Self::Count(_, at) => at(plan).get().to_string(),
            Self::Bytes(_, at) => bytes(at(plan).get()),
            Self::Switch(at) => at(plan).to_string(),
            Self::Overflow(at) => quoted(match at(plan) {
                Overflow::Evict => "evict",
                Overflow::Wait => "wait",
            }),
            Self::File(at) => quoted(&at(plan).as_ref()?.to_string_lossy()),
            Self::Secret(_) => return None,
            Self::Identities(at) => {
                let pairs = at(plan).iter().filter_map(|(name, apps)| {
                    let apps = list(apps.iter().map(AppId::as_str))?;
                    Some(format!("{} = {apps}", quoted(name)))
                });
                let lines: Vec<_> = pairs.collect();
                (!lines.is_empty()).then(|| lines.join("\n"))?
            }
        })
    }
}

fn set(cell: Cell<'_>, value: u64, least: u64) -> Result<(), String> {
    let most = cell.most();
    if value < least || value > most {
        return Err(format!("at least {least}, at most {most}, not {value}"));
    }
    cell.set(value);
    Ok(())
}

fn link(word: &str) -> Result<(AppId, String), String> {
    // Not repeated: a URL may hold a secret.
    let (app, url) = word
        .split_once('=')
        .ok_or("write APP=URL, gateway=tcp://host:port")?;
    Ok((target::app_id(app)?, target::url(url)?))
}

fn identities(words: &[String]) -> Result<BTreeMap<String, Vec<AppId>>, String> {
    let mut all: BTreeMap<String, Vec<AppId>> = BTreeMap::new();
    for word in words {
        let (name, app) = word
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| {
                format!("write the name of an identity and an App ID, NAME=APP, not {word:?}")
            })?;
        all.entry(name.to_owned())
            .or_default()
            .push(target::app_id(app)?);
    }
    Ok(all)
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: Vec<_> = words.map(quoted).collect();
    (!words.is_empty()).then(|| format!("[{}]", words.join(", ")))
}

fn time_or_off(time: OrOff) -> String {
    quoted(&time.0.map_or_else(|| "off".to_owned(), duration::show))
}

fn bytes(number: u64) -> String {
    let text = size::show(number);
    if text.ends_with('B') {
        quoted(&text)
    } else {
        text
    }
}
