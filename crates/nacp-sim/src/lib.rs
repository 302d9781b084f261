//! A deterministic world for the protocol core: Apps with random programs, a network with faults, and a judge that
//! knows the promises and nothing of the code.
//!
//! What this crate keeps true: the same settings and the same [`Op`]s give the same run, byte for byte, on every
//! machine; and whatever a core says is judged before anything else happens.
//!
//! ```
//! use nacp_sim::{Settings, run};
//! let settings = Settings { nodes: 2, ..Settings::default() };
//! let summary = run(7, 500, settings).unwrap();
//! assert_eq!(summary.ops, 500);
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `op`, `generate` | what can happen, and what happens next |
//! | `world`, `wire`, `net`, `apps` | time, connections, bytes, programs |
//! | `model`, `judge`, `order`, `ends` | the promises |
//! | `check`, `calm` | pictures of the cores, and what must be true when the faults stop |
//! | `run`, `trace`, `shrink` | runs, kept failures, small failures |
//! | `mutant` | deliberate faults in the core, which the judge and the core's tests must notice |
//!
//! A judge that cannot fail proves nothing. `cargo run -p nacp-sim --example mutants` builds the core with one fault of
//! `mutants/` after the other, runs two million Ops and then the core's own tests, and fails if nobody notices. What
//! caught a mutant here is made small; the telling ones are kept in `tests/traces` beside the failures that were real,
//! and must pass on the core as it is.

mod admission;
mod apps;
mod broken;
mod calm;
mod check;
mod ends;
mod generate;
mod judge;
mod model;
mod mutant;
mod net;
mod op;
mod order;
mod rng;
mod run;
mod settings;
mod shrink;
mod tag;
mod trace;
mod wire;
mod world;

pub use broken::Broken;
pub use mutant::{BadMutant, Mutant};
pub use op::{BadOp, Op};
pub use rng::Rng;
pub use run::{Failure, Summary, Swarm, record, replay, replay_logged, run, swarm};
pub use settings::{BadSetting, Settings};
pub use shrink::shrink;
pub use trace::{BadTrace, Trace};
