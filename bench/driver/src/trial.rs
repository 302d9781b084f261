//! What a trial is: the programs that run together, in the order in which they start, and what the client is asked.
//!
//! Arguments and files may hold `{port}` and `{dir}`, which are filled in anew for each run: no run meets the leftovers
//! of another.

use std::path::PathBuf;

/// The cores that all programs of a trial share. Everybody gets the same ones: who runs as three processes (a broker,
/// a responder, a client) has no more of them than who runs as two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    /// One and the same core.
    One,
    /// Every core that the driver may use.
    All,
}

/// What a program is in its trial; decides how its readiness is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Somebody else's program, which is ready when it accepts on `{port}`.
    Broker,
    /// Ours; says `ready`.
    Server,
    /// Ours; says `warm`, is told `go`, and says `done` with the figures.
    Client,
    /// A second client, which runs for as long as the first; its figures are taken along.
    Bystander,
}

/// One program.
#[derive(Clone, Debug)]
pub struct Program {
    /// How its figures are named.
    pub label: &'static str,
    /// What it is in the trial.
    pub part: Part,
    /// The executable.
    pub path: PathBuf,
    /// Its command line.
    pub args: Vec<String>,
    /// A file that it wants in `{dir}`: name and content.
    pub file: Option<(&'static str, String)>,
}

/// One contender in one case of one measure.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The measure: `a` to `i`.
    pub measure: char,
    /// What is done: the same text for all contenders that are compared.
    pub case: String,
    /// Who does it.
    pub contender: String,
    /// The programs, in start order; or why they cannot be had.
    pub programs: Result<Vec<Program>, String>,
    /// Where they run.
    pub cores: Cores,
    /// Whether allocations and system calls are counted; that slows everybody down, so such a run is not timed.
    pub is_counted: bool,
    /// Bytes of payload of a unit.
    pub payload: u64,
}
