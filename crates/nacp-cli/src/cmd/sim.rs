//! `nacp sim`: attacks the protocol from a seed, and judges it by its promises.
//!
//! What this module keeps true: a failure ends with exit code 1, prints its seed, is made small and kept as a file that
//! `--replay` plays; the same seed always gives the same run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nacp_sim::{Op, Settings, Swarm, Trace, replay, run as run_world, shrink, swarm};
use tokio::time::Instant;

use crate::duration;
use crate::failure::{Failure, say};
use crate::output;

/// Ops of one world, where none are given.
const OPS: u64 = 4_000;
/// Runs that making a failure small may take.
const SHRINK_RUNS_MAX: u32 = 3_000;
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacp sim --swarm 5m                  worlds of random mixes until five million Ops are done
  nacp sim --swarm 60s                 the same, for a minute
  nacp sim --swarm 100m --time 60s     the same, until the first of both
  nacp sim --seed 42                   one world
  nacp sim --replay failure.trace      a failure that was kept

An Op is one thing that happens: a call, a signal, a cut, a restart, time that passes. After each, a model that was
written from the promises says whether what the Apps did was right.")]
pub struct Args {
    /// One world of this seed
    #[arg(long, conflicts_with_all = ["replay", "swarm"])]
    seed: Option<u64>,
    /// Plays a kept failure
    #[arg(long, value_name = "FILE", conflicts_with = "swarm")]
    replay: Option<PathBuf>,
    /// Worlds of random mixes until this many Ops are done (a number, or 100k, or 5m), or for this time (60s)
    #[arg(long, value_name = "OPS|TIME", value_parser = extent)]
    swarm: Option<Extent>,
    /// The first seed of a swarm [default: random, and printed]
    #[arg(long, requires = "swarm")]
    from: Option<u64>,
    /// Ends a swarm after this time
    #[arg(long, requires = "swarm", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
    /// Ops of the world of --seed
    #[arg(long, default_value_t = OPS, value_parser = count)]
    ops: u64,
    /// Where a failure is kept
    #[arg(long, value_name = "FILE", default_value = "nacp-sim-failure.trace")]
    keep: PathBuf,
}

/// How long a swarm goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Ops(u64),
    Time(Duration),
}

/// A count, or a time in seconds: a plain m is a million.
fn extent(text: &str) -> Result<Extent, String> {
    if text.ends_with('s') {
        duration::parse(text).map(Extent::Time)
    } else {
        count(text).map(Extent::Ops)
    }
}

/// A count, with k or m behind it or nothing.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'm') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .and_then(|digits| digits.checked_mul(unit));
    number
        .filter(|&number| number > 0)
        .ok_or_else(|| "a count is a number above 0, such as 2000, 100k or 5m".to_owned())
}

/// Runs the command.
///
/// # Errors
/// A promise was not kept, or the trace cannot be read.
pub fn run(args: &Args) -> Result<(), Failure> {
    // A panic of the core is a failure like any other, and told as one.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(file) = &args.replay {
        return play(file);
    }
    match (args.swarm, args.seed) {
        (Some(extent), _) => run_swarm(args, extent),
        (None, Some(seed)) => {
            let summary = run_world(seed, args.ops, Settings::mixed(seed))
                .map_err(|failure| keep(*failure, &args.keep))?;
            let (ops, messages, hash) = (summary.ops, summary.messages, summary.hash);
            output::line(&format!(
                "seed {seed}: {ops} ops, {messages} messages, every promise kept; hash {hash:016x}"
            ))
        }
        (None, None) => Err(Failure::usage(
            "nothing to run: give --swarm, --seed or --replay",
        )),
    }
}

fn play(file: &Path) -> Result<(), Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::failed(format_args!("cannot read {name}: {error}")))?;
    let trace: Trace = text
        .parse()
        .map_err(|error| Failure::failed(format_args!("{name} is no trace: {error}")))?;
    match trace.replay() {
        Ok(summary) => output::line(&format!("{name}: {} ops, every promise kept", summary.ops)),
        Err(failure) => Err(Failure::failed(format_args!("{name}: {failure}"))),
    }
}

fn run_swarm(args: &Args, extent: Extent) -> Result<(), Failure> {
    let (total, time) = match extent {
        Extent::Ops(total) => (total, args.time),
        Extent::Time(time) => (
            u64::MAX,
            Some(args.time.map_or(time, |limit| limit.min(time))),
        ),
    };
    let from = args.from.unwrap_or_else(crate::random::word);
    output::line(&format!("swarm from seed {from}"))?;
    let start = Instant::now();
    let mut told = start;
    let mut progress = |swarm: &Swarm| {
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            say(&format!("{} worlds, {} ops", swarm.worlds, swarm.ops));
        }
        time.is_none_or(|limit| start.elapsed() < limit)
    };
    let done = swarm(total, from, &mut progress).map_err(|failure| keep(*failure, &args.keep))?;
    let seconds = start.elapsed().as_secs_f64();
    let (worlds, ops, messages) = (done.worlds, done.ops, done.messages);
    #[allow(clippy::cast_precision_loss)] // for people
    let rate = ops as f64 / seconds.max(1e-9);
    output::line(&format!(
        "{worlds} worlds, {ops} ops, {messages} messages in {seconds:.1} s ({rate:.0} ops/s): every promise kept"
    ))
}

/// Makes a failure small, and keeps it.
fn keep(failure: nacp_sim::Failure, file: &Path) -> Failure {
    let first = failure.to_string();
    let settings = failure.settings.clone();
    let mut fails = |ops: &[Op]| replay(&settings, ops).err().map(|failure| *failure);
    let small = shrink(failure, SHRINK_RUNS_MAX, &mut fails);
    let name = file.display();
    match std::fs::write(file, Trace::from(&small).to_string()) {
        Ok(()) => {
            let ops = small.ops.len();
            Failure::failed(format_args!(
                "{first}; {ops} ops of it are kept in {name}: nacp sim --replay {name}"
            ))
        }
        Err(error) => Failure::failed(format_args!(
            "{first}; it could not be kept in {name}: {error}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_numbers_with_a_unit_or_none() {
        assert_eq!(
            (count("7"), count("100k"), count("5m")),
            (Ok(7), Ok(100_000), Ok(5_000_000))
        );
        for wrong in ["", "0", "m", "1g", "-1", "99999999999999999999m", "é"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_swarm_goes_on_for_a_count_or_for_a_time() {
        assert_eq!(extent("5m"), Ok(Extent::Ops(5_000_000)));
        assert_eq!(extent("60s"), Ok(Extent::Time(Duration::from_secs(60))));
        assert!(extent("s").is_err() && extent("0").is_err());
    }
}
