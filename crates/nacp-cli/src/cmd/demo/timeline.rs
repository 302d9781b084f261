//! The timeline: what happened when, as lines on stdout.
//!
//! What this module keeps true: the same lines come whether or not a person watches; colour and the moving line at the
//! bottom are for terminals only.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::output;

/// Who a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// What is done to the connection.
    Fault,
    /// The program that hashes.
    Worker,
    /// The program that asked.
    Client,
    /// The one in the middle, if there is one.
    Gateway,
    /// The one that watches.
    Demo,
}

/// How a line is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It just is.
    Plain,
    /// Something was broken.
    Bad,
    /// Something works again.
    Good,
}

/// Prints lines with the time since it began.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
    is_json: bool,
    is_coloured: bool,
    bar: ProgressBar,
}

impl Timeline {
    /// Begins now. `chunks` = how many are to come.
    pub fn new(is_json: bool, chunks: usize) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let target = if is_terminal && !is_json {
            ProgressDrawTarget::stderr() // draws nothing if that is no terminal
        } else {
            ProgressDrawTarget::hidden()
        };
        let style =
            ProgressStyle::with_template("          [{bar:40}] {pos} of {len} chunks  {msg}")
                .expect("a template that is tested")
                .progress_chars("=> ");
        let bar = ProgressBar::with_draw_target(Some(chunks as u64), target).with_style(style);
        Self {
            start: Instant::now(),
            is_json,
            is_coloured: is_terminal && std::env::var_os("NO_COLOR").is_none(),
            bar,
        }
    }

    /// Time since it began.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// One line.
    ///
    /// # Errors
    /// Nobody reads any more.
    pub fn mark(&self, who: Who, tone: Tone, text: &str) -> Result<(), Failure> {
        let at = self.elapsed();
        let line = if self.is_json {
            let at_ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
            json!({"line": "timeline", "at_ms": at_ms, "who": who.name(), "text": text}).to_string()
        } else {
            let (on, off) = self.colour(tone);
            format!(
                "{:8.3} s  {:6}  {on}{text}{off}",
                at.as_secs_f64(),
                who.name()
            )
        };
        self.bar.suspend(|| output::line(&line))
    }

    /// Moves the line at the bottom.
    pub fn progress(&self, chunks: usize, waiting: usize) {
        self.bar.set_position(chunks as u64);
        self.bar.set_message(if waiting > 0 {
            format!("{waiting} waiting")
        } else {
            String::new()
        });
    }

    /// Takes the line at the bottom away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn colour(&self, tone: Tone) -> (&'static str, &'static str) {
        match (self.is_coloured, tone) {
            (true, Tone::Bad) => ("\x1b[31m", "\x1b[0m"),
            (true, Tone::Good) => ("\x1b[32m", "\x1b[0m"),
            _ => ("", ""),
        }
    }
}

impl Who {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Worker => "worker",
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Demo => "demo",
        }
    }
}
