//! The system allocator with a counter, for "allocations per request".
//!
//! Counting is off until [`enable`] is called: timed runs pay one relaxed load per allocation, the same under every
//! peer, and only the runs that are made for counting pay for the shared counter. A reallocation counts as one.
//!
//! This is the only crate of the workspace with `unsafe`: the trait of global allocators cannot be implemented without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ENABLED: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The system allocator; counts while counting is on.
#[derive(Debug)]
pub struct CountingAlloc;

/// Starts counting.
pub fn enable() {
    ENABLED.store(true, Ordering::Relaxed);
}

/// Allocations since counting was started; `None` if it never was.
pub fn count() -> Option<u64> {
    ENABLED
        .load(Ordering::Relaxed)
        .then(|| COUNT.load(Ordering::Relaxed))
}

fn note() {
    if ENABLED.load(Ordering::Relaxed) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every method hands its arguments to `System` unchanged and returns what that returns, so `System` keeps the
// contract; `note` touches two atomics and never allocates.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: our caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: our caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: our caller keeps the contract of `realloc`; `System` made the block.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: our caller keeps the contract of `dealloc`; `System` made the block.
        unsafe { System.dealloc(block, layout) }
    }
}
