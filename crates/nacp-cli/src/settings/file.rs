//! Settings in a TOML file.
//!
//! What this module keeps true: every complaint says file, line and column; nothing in a file is passed over.

use std::fs;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::setting::Setting;
use super::slot::Slot;
use super::who::Who;
use super::{Given, Origin, known};
use crate::failure::Failure;

pub(super) fn read(who: Who, path: &Path) -> Result<Vec<Given>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(format_args!(
            "--config: cannot read {}: {error}",
            path.display()
        ))
    })?;
    parse(who, &path.display().to_string(), &text)
}

fn parse(who: Who, path: &str, text: &str) -> Result<Vec<Given>, Failure> {
    let place = |span: Range<usize>| place(path, text, span.start);
    let table = DeTable::parse(text).map_err(|error| {
        let at = place(error.span().unwrap_or_default());
        Failure::usage(format_args!("{at}: no valid TOML: {}", error.message()))
    })?;
    let mut given = Vec::new();
    for (key, value) in table.get_ref() {
        let setting = known(who, key.get_ref())
            .map_err(|wrong| Failure::usage(format_args!("{}: {wrong}", place(key.span()))))?;
        let words = words(setting, value).map_err(|(at, wrong)| {
            let at = place(at);
            Failure::usage(format_args!("{at}: {}: {wrong}", setting.name))
        })?;
        given.push(Given {
            setting,
            words,
            origin: Origin::File(place(value.span())),
        });
    }
    Ok(given)
}

/// The value as the words that a flag would have.
fn words(
    setting: &Setting,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<String>, (Range<usize>, String)> {
    match value.get_ref() {
        DeValue::Table(table) if matches!(setting.slot, Slot::Identities(_)) => {
            let mut words = Vec::new();
            for (name, apps) in table {
                let wrong = || format!("{}: write [\"APP\", …]", name.get_ref());
                let texts = texts(apps.get_ref()).ok_or_else(|| (apps.span(), wrong()))?;
                words.extend(texts.iter().map(|app| format!("{}={app}", name.get_ref())));
            }
            Ok(words)
        }
        plain => plain_words(&setting.slot, plain).map_err(|wrong| (value.span(), wrong)),
    }
}

fn plain_words(slot: &Slot, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        _ if matches!(slot, Slot::Identities(_)) => {
            Err("write a table, NAME = [\"APP\", …]".to_owned())
        }
        _ if slot.is_list() => texts(value).ok_or_else(|| "write [\"…\", …]".to_owned()),
        DeValue::Boolean(value) if matches!(slot, Slot::Switch(_)) => Ok(vec![value.to_string()]),
        DeValue::Integer(value) if slot.is_number() => match value.radix() {
            10 => Ok(vec![value.as_str().to_owned()]),
            _ => Err("write it in decimal".to_owned()),
        },
        DeValue::String(_) if matches!(slot, Slot::Switch(_)) => {
            Err("write true or false, without quotes".to_owned())
        }
        DeValue::String(text) => Ok(vec![text.to_string()]),
        DeValue::Integer(_) if matches!(slot.value_name(), "TIME" | "TIME|off") => {
            Err("write a number and a unit in quotes: \"500ms\", \"5s\", \"2m\", \"1h\"".to_owned())
        }
        other => Err(format!(
            "write {}, not {}",
            if slot.is_number() {
                "a whole number"
            } else if matches!(slot, Slot::Switch(_)) {
                "true or false"
            } else {
                "a text in quotes"
            },
            other.type_str()
        )),
    }
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::String(text) => Some(vec![text.to_string()]),
        DeValue::Array(items) => items
            .iter()
            .map(|item| item.get_ref().as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

/// `file:line:column`, both from 1 on; columns are characters.
fn place(path: &str, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].chars().count() + 1;
    format!("{path}:{line}:{column}")
}
