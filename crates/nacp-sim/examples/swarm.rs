//! Runs many worlds of random mixes: `cargo run --release -p nacp-sim --example swarm -- 5m [seed] [file]`. Prints how
//! fast, and for a failure its seed, what was broken, and a small trace of it, to the file if one is named.

#![allow(
    clippy::disallowed_methods,
    reason = "how fast it is; the worlds have their own clock"
)]

use std::time::Instant;

use nacp_sim::{Failure, Op, Trace, replay, shrink, swarm};

/// Runs that making a failure small may take.
const SHRINK_RUNS_MAX: u32 = 1_500;

fn main() {
    let mut args = std::env::args().skip(1);
    let total = args.next().map_or(1_000_000, |text| number(&text));
    let seed = args.next().map_or(1, |text| number(&text));
    let file = args.next();
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let mut told = 0;
    let result = swarm(total, seed, &mut |swarm| {
        if start.elapsed().as_secs() >= told + 10 {
            told = start.elapsed().as_secs();
            eprintln!("{} worlds, {} ops", swarm.worlds, swarm.ops);
        }
        true
    });
    let seconds = start.elapsed().as_secs_f64();
    match result {
        Ok(done) => println!(
            "{} worlds, {} ops, {} messages in {seconds:.1} s: {:.0} ops/s",
            done.worlds,
            done.ops,
            done.messages,
            done.ops as f64 / seconds
        ),
        Err(failure) => report(*failure, file.as_deref()),
    }
}

fn report(failure: Failure, file: Option<&str>) {
    // Said before it is made small, which may take its time, or not end where a core hangs.
    println!("{failure}");
    let settings = failure.settings.clone();
    let mut fails = |ops: &[Op]| replay(&settings, ops).err().map(|failure| *failure);
    let small = shrink(failure, SHRINK_RUNS_MAX, &mut fails);
    let trace = Trace::from(&small).to_string();
    match file {
        Some(file) => std::fs::write(file, trace).expect("the file can be written"),
        None => println!("\nsmall: {small}\n\n{trace}"),
    }
    std::process::exit(1);
}

fn number(text: &str) -> u64 {
    let (digits, unit) = match text.strip_suffix(['k', 'm']) {
        Some(digits) if text.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (text, 1),
    };
    digits
        .parse::<u64>()
        .expect("a number, with k or m behind it or nothing")
        * unit
}
