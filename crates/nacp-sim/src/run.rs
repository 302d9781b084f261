//! Runs worlds. What this module keeps true: a run is its settings and its Ops, so a failure carries both and replays;
//! and a panic of the core is a failure like any other.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::broken::Broken;
use crate::op::Op;
use crate::rng::Rng;
use crate::settings::Settings;
use crate::world::World;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Ops done.
    pub ops: u64,
    /// Messages that the cores handed out.
    pub messages: u64,
    /// Everything that every core said and sent, folded: equal runs have equal hashes.
    pub hash: u64,
}

/// A run in which a promise was not kept.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The world.
    pub settings: Settings,
    /// What happened in it, up to the failure.
    pub ops: Vec<Op>,
    /// Which promise, and how.
    pub broken: Broken,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ops, seed) = (self.ops.len(), self.settings.seed);
        write!(f, "seed {seed}, after {ops} ops: {}", self.broken)
    }
}

impl std::error::Error for Failure {}

/// Makes up `ops` Ops from `seed`, in a world of `settings`, whose own seed becomes `seed`.
///
/// # Errors
/// The first promise that was not kept.
pub fn run(seed: u64, ops: u64, settings: Settings) -> Result<Summary, Box<Failure>> {
    record(seed, ops, settings).1
}

/// As [`run`], and what happened.
pub fn record(seed: u64, ops: u64, settings: Settings) -> (Vec<Op>, Result<Summary, Box<Failure>>) {
    let settings = Settings { seed, ..settings };
    let mut rng = Rng::new(seed ^ 0x0b5e_55ed);
    let mut made = Vec::new();
    let result = drive(settings, None, &mut |world| {
        let op = (made.len() as u64) < ops;
        let op = op.then(|| world.generate(&mut rng));
        made.extend(op);
        op
    });
    (made, result)
}

/// Does exactly `ops`.
///
/// # Errors
/// The first promise that was not kept.
pub fn replay(settings: &Settings, ops: &[Op]) -> Result<Summary, Box<Failure>> {
    let mut rest = ops.iter();
    drive(settings.clone(), None, &mut |_| rest.next().copied())
}

/// As [`replay`], and everything that every core said, line by line.
pub fn replay_logged(
    settings: &Settings,
    ops: &[Op],
) -> (Result<Summary, Box<Failure>>, Vec<String>) {
    let mut rest = ops.iter();
    let mut log = Vec::new();
    let result = drive(settings.clone(), Some(&mut log), &mut |_| {
        rest.next().copied()
    });
    (result, log)
}

fn drive(
    settings: Settings,
    mut log: Option<&mut Vec<String>>,
    next: &mut dyn FnMut(&World) -> Option<Op>,
) -> Result<Summary, Box<Failure>> {
    let mut ops = Vec::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(settings.clone());
        world.model.log = log.is_some().then(Vec::new);
        let mut verdict = Ok(());
        while let Some(op) = next(&world).filter(|_| verdict.is_ok()) {
            ops.push(op);
            if let Some(log) = &mut world.model.log {
                log.push(format!("-- {op}"));
            }
            verdict = world.apply(op);
        }
        let verdict = verdict.and_then(|()| world.calm_down());
        if let Some(log) = &mut log {
            log.append(world.model.log.as_mut().expect("put there above"));
        }
        verdict.map(|()| Summary {
            ops: world.ops,
            messages: world.messages,
            hash: world.model.hash,
        })
    }));
    let broken = match outcome {
        Ok(Ok(summary)) => return Ok(summary),
        Ok(Err(broken)) => broken,
        Err(panic) => Broken::new("PANIC", panic_text(panic.as_ref())),
    };
    Err(Box::new(Failure {
        settings,
        ops,
        broken,
    }))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "without a word".to_owned())
}

/// Ops in one world of a swarm.
const OPS_PER_WORLD: u64 = 4_000;

/// What a swarm came to.
#[derive(Clone, Debug, Default)]
pub struct Swarm {
    /// Worlds that were run.
    pub worlds: u64,
    /// Ops done.
    pub ops: u64,
    /// Messages that the cores handed out.
    pub messages: u64,
}

/// Runs worlds of random mixes until `total_ops` are done; `progress` is told after each, and stops it with false.
///
/// # Errors
/// The first promise that was not kept.
pub fn swarm(
    total_ops: u64,
    base_seed: u64,
    progress: &mut dyn FnMut(&Swarm) -> bool,
) -> Result<Swarm, Box<Failure>> {
    let mut swarm = Swarm::default();
    while swarm.ops < total_ops {
        let seed = base_seed.wrapping_add(swarm.worlds);
        let ops = OPS_PER_WORLD.min(total_ops - swarm.ops);
        let summary = run(seed, ops, Settings::mixed(seed))?;
        swarm.worlds += 1;
        swarm.ops += summary.ops;
        swarm.messages += summary.messages;
        if !progress(&swarm) {
            break;
        }
    }
    Ok(swarm)
}
