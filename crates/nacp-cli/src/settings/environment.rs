//! Settings as variables of the environment: `NACP_` and the key in capitals.
//!
//! What this module keeps true: a variable that is almost one of ours is refused, not passed over; others that begin
//! with `NACP_` are left alone, for systems invent some (Kubernetes has `NACP_SERVICE_HOST` for a service of that name).
//! One that is empty counts as not set.

use std::ffi::OsString;

use super::nearest::distance;
use super::who::Who;
use super::{Given, Origin, table};
use crate::failure::Failure;

/// So few letters away from one of ours, it is a mistake.
const SLIP: usize = 2;

pub(super) fn read(who: Who, variables: &[(OsString, OsString)]) -> Result<Vec<Given>, Failure> {
    let mut given = Vec::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with("NACP_")) else {
            continue;
        };
        let all = || table::settings(Who::EVERYBODY);
        if let Some(setting) = all().find(|setting| setting.variable() == name) {
            if !setting.who.includes(who) || value.is_empty() {
                continue;
            }
            let value = value
                .to_str()
                .ok_or_else(|| Failure::usage(format_args!("{name}: this is no Unicode text")))?;
            let words = if setting.slot.is_list() {
                value.split_whitespace().map(str::to_owned).collect()
            } else {
                vec![value.to_owned()]
            };
            given.push(Given {
                setting,
                words,
                origin: Origin::Variable(name.to_owned()),
            });
        } else if name != "NACP_CONFIG" {
            let near = all()
                .map(|setting| setting.variable())
                .find(|known| distance(known, name) <= SLIP);
            if let Some(near) = near {
                return Err(Failure::usage(format_args!(
                    "{name}: no setting has this variable; did you mean {near}?"
                )));
            }
        }
    }
    Ok(given)
}
