//! `--print-config`: all settings, as a file.
//!
//! What this module keeps true: what is printed is valid TOML, and read back it means the same; a secret is not in it.

use super::setting::Setting;
use super::slot::Slot;
use super::{Origin, Resolved, table};
use crate::failure::{Failure, one_line};
use crate::output;

/// Prints them.
///
/// # Errors
/// Nobody reads.
pub fn print(mut settings: Resolved) -> Result<(), Failure> {
    for line in lines(&mut settings) {
        output::line(&line)?;
    }
    Ok(())
}

fn lines(settings: &mut Resolved) -> Vec<String> {
    let mut lines = vec![
        "# A flag comes before a variable, a variable before the file, the file before the default.".to_owned(),
    ];
    let mut group = None;
    for setting in table::settings(settings.who) {
        if group != Some(setting.group) {
            group = Some(setting.group);
            lines.extend([String::new(), format!("# == {}", setting.group.heading())]);
        }
        // It may hold the name of a file, in which there may be anything.
        let origin = one_line(&settings.origin(setting).to_string());
        let value = setting.slot.show(&mut settings.plan);
        let has_query = matches!(setting.slot, Slot::Links(_))
            && settings
                .plan
                .connect
                .iter()
                .any(|(_, url)| url.contains('?'));
        lines.push(format!("# {}", setting.what));
        lines.extend(if has_query {
            vec![format!(
                "# {} = # {origin}; not shown, for a query may be a secret",
                setting.name
            )]
        } else {
            entry(setting, value, &origin, settings.origin(setting))
        });
    }
    lines
}

fn entry(setting: &Setting, value: Option<String>, text: &str, origin: &Origin) -> Vec<String> {
    let name = setting.name;
    if setting.is_secret() {
        let variable = setting.variable();
        let state = match origin {
            Origin::Default => "not set",
            _ => "set, not shown",
        };
        return vec![format!("# (only as {variable}; {state})")];
    }
    match (value, &setting.slot) {
        (Some(value), Slot::Identities(_)) => {
            let mut lines = vec![format!("[{name}] # {text}")];
            lines.extend(value.lines().map(str::to_owned));
            lines
        }
        (None, Slot::Identities(_)) => vec![format!("# [{name}] # not set")],
        (Some(value), _) => vec![format!("{name} = {value} # {text}")],
        (None, _) => vec![format!("# {name} = # not set")],
    }
}
