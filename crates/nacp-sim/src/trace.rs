//! Failures that are kept: a text file with the settings and the Ops of a run. What this module keeps true: a trace
//! that was written is read back the same, and one that a person edits stays playable.

use std::fmt;
use std::str::FromStr;

use crate::op::Op;
use crate::run::{Failure, Summary, replay};
use crate::settings::Settings;

/// The settings and the Ops of a run, and what a person should know of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// For people; each line begins with `#` in the file.
    pub notes: String,
    /// The world.
    pub settings: Settings,
    /// What happens in it.
    pub ops: Vec<Op>,
}

/// A file that is no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTrace(pub String);

impl fmt::Display for BadTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTrace {}

impl Trace {
    /// Runs it.
    ///
    /// # Errors
    /// The first promise that was not kept.
    pub fn replay(&self) -> Result<Summary, Box<Failure>> {
        replay(&self.settings, &self.ops)
    }
}

impl From<&Failure> for Trace {
    fn from(failure: &Failure) -> Self {
        let first = failure.broken.to_string();
        Self {
            notes: first.lines().next().unwrap_or_default().to_owned(),
            settings: failure.settings.clone(),
            ops: failure.ops.clone(),
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.notes.lines() {
            writeln!(f, "# {line}")?;
        }
        write!(f, "{}", self.settings)?;
        writeln!(f, "---")?;
        for op in &self.ops {
            writeln!(f, "{op}")?;
        }
        Ok(())
    }
}

impl FromStr for Trace {
    type Err = BadTrace;
    fn from_str(text: &str) -> Result<Self, BadTrace> {
        let (head, body) = text.split_once("---\n").ok_or_else(|| {
            BadTrace("no line of three dashes between settings and ops".to_owned())
        })?;
        let (notes, settings): (Vec<_>, Vec<_>) =
            head.lines().partition(|line| line.starts_with('#'));
        let settings = settings.join("\n").parse();
        let settings: Settings = settings.map_err(|bad| BadTrace(format!("{bad}")))?;
        let lines = body.lines().map(str::trim);
        let ops = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|bad: crate::op::BadOp| BadTrace(bad.to_string()))?;
        let notes: Vec<_> = notes.iter().map(|line| line[1..].trim()).collect();
        Ok(Self {
            notes: notes.join("\n"),
            settings,
            ops,
        })
    }
}
