//! What a setting is: a name, from which flag, variable and key are made; whose it is; what it says; and where its value
//! lies.

use super::slot::Slot;
use super::who::Who;

/// Where help and files show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    App,
    Links,
    Queues,
    Forwarding,
    Messages,
    Connections,
    Web,
    Security,
}

impl Group {
    /// The heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::App => "This App",
            Self::Links => "Links",
            Self::Queues => "Queues",
            Self::Forwarding => "Forwarding",
            Self::Messages => "Messages and frames",
            Self::Connections => "Connections",
            Self::Web => "WebSocket and HTTP",
            Self::Security => "Security",
        }
    }
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The key in a file. With `-` for `_` it is the flag, in capitals behind `NACP_` the variable.
    pub name: &'static str,
    /// A shorter flag.
    pub short: Option<&'static str>,
    pub group: Group,
    pub who: Who,
    /// What it is, or what it bounds. One line.
    pub what: &'static str,
    /// What happens at the limit, or else what there is to know.
    pub then: &'static str,
    pub slot: Slot,
}

impl Setting {
    /// Without dashes in front.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn variable(&self) -> String {
        format!("NACP_{}", self.name.to_ascii_uppercase())
    }

    /// A secret is neither in a command line, which everybody on the machine can read, nor in a file that is shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.slot, Slot::Secret(_))
    }
}

/// A setting without a short flag.
pub const fn of(
    group: Group,
    who: Who,
    name: &'static str,
    slot: Slot,
    what: &'static str,
    then: &'static str,
) -> Setting {
    Setting {
        name,
        short: None,
        group,
        who,
        what,
        then,
        slot,
    }
}
