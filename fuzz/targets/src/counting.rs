//! A global allocator that counts, so that "memory is bounded by the input" can be asserted and not only hoped for.
//!
//! What it keeps true: the counts are those of the current thread, exact, and a reallocation counts old and new at
//! once, as it may be in memory. The only `unsafe` of the fuzzing code: an allocator cannot be written without.
#![allow(
    unsafe_code,
    reason = "GlobalAlloc is an unsafe trait; every call goes to System unchanged"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // Without a destructor and without lazy initialisation: reading them never allocates.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: usize) {
    let live = LIVE.get() + bytes.cast_signed();
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

fn sub(bytes: usize) {
    LIVE.set(LIVE.get() - bytes.cast_signed());
}

// SAFETY: each method hands its arguments to `System`, which keeps the trait's promises, and gives back what it gives.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        sub(layout.size());
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        sub(layout.size());
        unsafe { System.realloc(place, layout, size) }
    }
}

/// Bytes that this thread holds, minus what other threads freed for it.
pub fn live() -> isize {
    LIVE.get()
}

/// What `work` gives, and how many bytes more than before were held at its worst moment.
pub fn peak_of<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before).max(0).cast_unsigned())
}
