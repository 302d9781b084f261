//! Runs many worlds of random mixes: `cargo run --release -p nacp-sim --example swarm -- 5m [seed] [quick]`. Prints how
//! fast, and for a failure its seed, what was broken, and, unless it should be quick, a small trace of it.

#![allow(
    clippy::disallowed_methods,
    reason = "how fast it is; the worlds have their own clock"
)]

use std::time::Instant;

use nacp_sim::{Failure, Op, Trace, replay, shrink, swarm};

fn main() {
    let mut args = std::env::args().skip(1);
    let total = args.next().map_or(1_000_000, |text| number(&text));
    let seed = args.next().map_or(1, |text| number(&text));
    let quick = args.next().is_some();
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
        Err(failure) => report(*failure, quick),
    }
}

fn report(failure: Failure, quick: bool) {
    println!("{failure}");
    if quick {
        std::process::exit(1);
    }
    let settings = failure.settings.clone();
    let mut fails = |ops: &[Op]| replay(&settings, ops).err().map(|failure| *failure);
    let small = shrink(failure, 3_000, &mut fails);
    println!("\nsmall: {small}\n\n{}", Trace::from(&small));
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
