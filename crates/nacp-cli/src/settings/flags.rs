//! Settings as flags, and what all sources come to.
//!
//! What this module keeps true: flags and their help are made from the table; nothing is read or opened before
//! [`Flags::resolve`].

use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::plan::Plan;
use super::setting::Setting;
use super::slot::Slot;
use super::who::Who;
use super::{Given, Origin, Resolved, environment, file, table};
use crate::failure::Failure;

/// A command that has settings.
pub trait Audience: Clone + std::fmt::Debug + Send + Sync + 'static {
    const WHO: Who;
}

/// `nacp serve`.
#[derive(Clone, Debug)]
pub struct Serve;
/// `nacp gateway`.
#[derive(Clone, Debug)]
pub struct Gateway;
/// The commands that call.
#[derive(Clone, Debug)]
pub struct Caller;

impl Audience for Serve {
    const WHO: Who = Who::SERVE;
}
impl Audience for Gateway {
    const WHO: Who = Who::GATEWAY;
}
impl Audience for Caller {
    const WHO: Who = Who::CALLER;
}

/// What the command line gave.
#[derive(Clone, Debug)]
pub struct Flags<A> {
    given: Vec<Given>,
    config: Option<PathBuf>,
    print_config: bool,
    audience: PhantomData<A>,
}

const CONFIG: &str = "config";
const CONFIG_VARIABLE: &str = "NACP_CONFIG";
const PRINT_CONFIG: &str = "print-config";

/// Programs that run for long have a file; a command that is typed has flags and variables.
fn has_file(who: Who) -> bool {
    who.includes(Who::LISTENER)
}

impl<A: Audience> Flags<A> {
    /// Whether to show the settings instead of running.
    pub fn print_config(&self) -> bool {
        self.print_config
    }

    /// Takes all sources together.
    ///
    /// # Errors
    /// Whatever is wrong, with its place.
    pub fn resolve(self) -> Result<Resolved, Failure> {
        let variables = std::env::vars_os().collect::<Vec<_>>();
        self.resolve_in(&variables)
    }

    fn resolve_in(self, variables: &[(OsString, OsString)]) -> Result<Resolved, Failure> {
        let mut given = Vec::new();
        let from_variable = || {
            let found = variables.iter().find(|(name, _)| name == CONFIG_VARIABLE);
            let path = found
                .map(|(_, value)| value)
                .filter(|path| !path.is_empty());
            path.map(PathBuf::from)
        };
        if has_file(A::WHO)
            && let Some(path) = self.config.or_else(from_variable)
        {
            given.extend(file::read(A::WHO, &path)?);
        }
        given.extend(environment::read(A::WHO, variables)?);
        given.extend(self.given);
        Resolved::new(A::WHO, given)
    }
}

impl<A: Audience> clap::FromArgMatches for Flags<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for setting in flagged(A::WHO) {
            if let Some(words) = matches.get_many::<String>(setting.name) {
                given.push(Given {
                    setting,
                    words: words.cloned().collect(),
                    origin: Origin::Flag(setting.flag()),
                });
            }
        }
        let has_file = has_file(A::WHO);
        Ok(Self {
            given,
            config: has_file
                .then(|| matches.get_one::<PathBuf>(CONFIG).cloned())
                .flatten(),
            print_config: has_file && matches.get_flag(PRINT_CONFIG),
            audience: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<A: Audience> clap::Args for Flags<A> {
    fn augment_args(mut command: Command) -> Command {
        let mut plan = Plan::new(A::WHO);
        for setting in flagged(A::WHO) {
            command = command.arg(argument(setting, &mut plan));
        }
        if has_file(A::WHO) {
            command = command.arg(config()).arg(print_config());
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn flagged(who: Who) -> impl Iterator<Item = &'static Setting> {
    table::settings(who).filter(|setting| !setting.is_secret())
}

fn config() -> Arg {
    Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help_heading("Settings")
        .help(
            "A TOML file with settings; NACP_CONFIG names one, too. A flag comes before a variable, a variable before \
             the file",
        )
}

fn print_config() -> Arg {
    Arg::new(PRINT_CONFIG)
        .long(PRINT_CONFIG)
        .action(ArgAction::SetTrue)
        .help_heading("Settings")
        .help("Print all settings, with where each came from, as a file for --config; and do nothing else")
}

fn argument(setting: &'static Setting, plan: &mut Plan) -> Arg {
    let mut arg = Arg::new(setting.name)
        .long(setting.flag())
        .value_name(setting.slot.value_name())
        .help_heading(setting.group.heading())
        .help(brief(setting, plan))
        .long_help(whole(setting, plan));
    if let Some(short) = setting.short {
        arg = arg.visible_alias(short);
    }
    if setting.slot.is_list() {
        arg = arg.action(ArgAction::Append);
    }
    if matches!(setting.slot, Slot::Switch(_)) {
        // The flag alone means yes; a value must cling to it, or it would take the next word of the command line.
        arg = arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true");
    }
    arg
}

fn default(setting: &Setting, plan: &mut Plan) -> String {
    let default = setting.slot.show(plan);
    default.map_or_else(String::new, |default| {
        format!("[default: {}] ", default.trim_matches('"'))
    })
}

fn brief(setting: &Setting, plan: &mut Plan) -> String {
    let text = format!("{} {}", setting.what, default(setting, plan));
    text.trim_end().to_owned()
}

fn whole(setting: &Setting, plan: &mut Plan) -> String {
    format!(
        "{}. {}\n{}[variable: {}]",
        setting.what,
        setting.then,
        default(setting, plan),
        setting.variable()
    )
}
