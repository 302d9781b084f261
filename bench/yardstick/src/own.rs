//! What a measured program can tell of itself that nobody outside can see.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Set in the environment, it switches the counting of allocations on.
pub const COUNT_ALLOCS: &str = "BENCH_COUNT_ALLOCS";

/// Does what the environment asks for; first thing in `main`.
pub fn begin() {
    if std::env::var_os(COUNT_ALLOCS).is_some() {
        counting_alloc::enable();
    }
}

/// Lets this process open as many files as the system allows it; returns how many that are.
pub fn raise_open_files() -> u64 {
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    // A privileged process may go beyond its hard limit; an ordinary one stays at it.
    let wanted = hard.max(65_536);
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return wanted;
    }
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => 0,
    }
}

/// Allocations so far, if they are counted.
pub fn allocations() -> Option<u64> {
    counting_alloc::count()
}
