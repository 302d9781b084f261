//! Settings: from flags, from variables of the environment, from a file, and by default; in this order of precedence.
//!
//! What this module keeps true: there is one list of them ([`table`]), and one way to read each; of every value it is
//! known where it came from; whatever is wrong is refused with its place and with what is allowed, also where a value of
//! higher precedence stands above it.

mod environment;
mod file;
mod flags;
mod nearest;
pub mod plan;
mod print;
mod security;
mod setting;
mod slot;
mod table;
mod who;

use std::fmt;

pub use flags::{Audience, Caller, Flags, Gateway, Serve};
pub use plan::Plan;
pub use print::print;
pub use who::Who;

use crate::failure::Failure;
use setting::Setting;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    /// `path:line:column`.
    File(String),
    Variable(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => f.write_str(place),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// A value as somebody wrote it.
#[derive(Clone, Debug)]
struct Given {
    setting: &'static Setting,
    /// One, or for a list any number.
    words: Vec<String>,
    origin: Origin,
}

/// Everything that was given, taken together.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub who: Who,
    pub plan: Plan,
    given: Vec<Given>,
}

impl Resolved {
    fn new(who: Who, given: Vec<Given>) -> Result<Self, Failure> {
        let mut plan = Plan::new(who);
        for Given {
            setting,
            words,
            origin,
        } in &given
        {
            setting.slot.write(&mut plan, words).map_err(|wrong| {
                let key = match origin {
                    Origin::File(_) => format!(" {}:", setting.name),
                    _ => String::new(),
                };
                Failure::usage(format_args!("{origin}:{key} {wrong}"))
            })?;
        }
        Ok(Self { who, plan, given })
    }

    /// Where the value of a setting came from: the last one that was given counts.
    fn origin(&self, setting: &Setting) -> &Origin {
        let mut found = self.given.iter().rev();
        found
            .find(|given| given.setting.name == setting.name)
            .map_or(&Origin::Default, |given| &given.origin)
    }
}

/// The setting with that key, or else what to say of it.
fn known(who: Who, name: &str) -> Result<&'static Setting, String> {
    let all = || table::settings(who).filter(|setting| !setting.is_secret());
    if let Some(setting) = all().find(|setting| setting.name == name) {
        return Ok(setting);
    }
    if let Some(other) = table::settings(Who::EVERYBODY).find(|setting| setting.name == name) {
        return Err(if other.is_secret() {
            format!(
                "a secret does not belong here; write {name}_file = \"FILE\", or set the variable {}",
                other.variable()
            )
        } else {
            format!("{name:?} is not for this command")
        });
    }
    let names = all().map(|setting| setting.name);
    Err(
        match nearest::nearest(&name.replace('-', "_").to_lowercase(), names) {
            Some(near) => format!("no setting is called {name:?}; did you mean {near:?}?"),
            None => format!("no setting is called {name:?}; --print-config shows all there are"),
        },
    )
}
