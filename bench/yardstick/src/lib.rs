//! What every client and server under measurement shares, so that nothing but the peer differs: the command line, the
//! dialogue with the driver, the closed loop of callers, the histogram and the runtime.
//!
//! A measured program is a *server* (says `ready`, then serves until its standard input ends) or a *client* (warms up,
//! says `warm`, waits for `go`, measures, says `done` with its figures). See [`control`].

pub mod args;
pub mod closed_loop;
pub mod control;
pub mod histogram;
pub mod own;
pub mod runtime;

pub use args::Args;
pub use closed_loop::{Call, Load, measure};
pub use control::{Control, Figures};
pub use histogram::Histogram;

/// What went wrong, for the results; a failed run is reported with it, not judged.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

#[global_allocator]
static ALLOC: counting_alloc::CountingAlloc = counting_alloc::CountingAlloc;
