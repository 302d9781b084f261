//! How a command fails: one line on stderr, and an exit code.
//!
//! What this module keeps true: a failure is one line, whatever text went into it; it names what failed, where, and what
//! to do.

use std::fmt;
use std::process::ExitCode;

/// Why a command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// The command line cannot be meant: exit code 2.
    Usage(String),
    /// It was meant, and failed: exit code 1.
    Failed(String),
    /// It failed, and all about it was said: exit code 1.
    Said,
    /// Nobody reads our output any more (`nacp … | head`): not a failure of ours, exit code 0, no text.
    OutputClosed,
    /// A second Ctrl-C: exit code 130, as of a program that the signal ended.
    Interrupted,
}

impl Failure {
    /// Exit code 2.
    pub fn usage(text: impl fmt::Display) -> Self {
        Self::Usage(one_line(&text.to_string()))
    }

    /// Exit code 1.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::Failed(one_line(&text.to_string()))
    }

    /// Prints the line and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Usage(text) => {
                say(&format!("{text}; try --help"));
                ExitCode::from(2)
            }
            Self::Failed(text) => {
                say(text);
                ExitCode::FAILURE
            }
            Self::Said => ExitCode::FAILURE,
            Self::OutputClosed => ExitCode::SUCCESS,
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usage(text) | Self::Failed(text) => text,
            Self::Said => "failed",
            Self::OutputClosed => "nobody reads the output",
            Self::Interrupted => "interrupted",
        })
    }
}

/// A line on stderr; that stderr is closed is no reason to die of it.
pub fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "nacp: {text}");
}

/// A text on one line and without control characters: it may come from a remote program.
pub fn one_line(text: &str) -> String {
    let lines: Vec<_> = text.split_whitespace().collect();
    lines
        .join(" ")
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
