//! The hand-over between whoever has something for a connection and the connection's own task. What this module keeps
//! true:
//! - Nothing is overlooked: what was noted before a [`wake`](PeerSignal::wake) is seen by the task, in the turn that it is
//!   in or in one more.
//! - A sleeping task is woken once, however many have something for it; a running one costs each an atomic swap.
//!
//! What it is built of comes from the module above it, so that `tests/hand_over.rs` can put primitives in their place
//! that try every interleaving.

use std::task::{Context, Waker};

use super::primitives::{
    AtomicBool, AtomicU8, Mutex, MutexGuard,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    PoisonError,
};

/// Wakes a connection's task, and says what for.
#[derive(Debug, Default)]
pub(crate) struct PeerSignal {
    /// The core has something for it. Written under the App's lock only.
    due: AtomicBool,
    /// The core has more, but the transport was full: then the core does not name it again.
    crowded: AtomicBool,
    /// A destination behind us is behind: it is not read (a Gateway's back pressure).
    held: AtomicBool,
    /// It is to be closed.
    closing: AtomicBool,
    attention: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

/// The task runs, and will look at everything before it parks.
const RUNNING: u8 = 0;
/// The task sleeps.
const PARKED: u8 = 1;
/// Something came while the task ran, or since it was woken.
const NOTIFIED: u8 = 2;

impl PeerSignal {
    pub(crate) fn set_due(&self) {
        self.due.store(true, Release);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Acquire)
    }

    /// The task took from the core what the transport had room for: everything, or the core has more.
    pub(crate) fn pulled(&self, is_all: bool) {
        self.due.store(!is_all, Release);
        self.crowded.store(!is_all, Relaxed);
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Relaxed)
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Release);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Acquire)
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    /// To be called when what it is woken for is noted.
    pub(crate) fn wake(&self) {
        if self.attention.swap(NOTIFIED, AcqRel) == PARKED {
            let waker = self.lock_waker().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }

    // No code that can panic runs under this lock.
    fn lock_waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task is about to look at everything. A swap, not a store: what was noted before the wake that is taken here
    /// must be seen after it.
    pub(crate) fn run(&self) {
        self.attention.swap(RUNNING, AcqRel);
    }

    /// The task has looked and found nothing. False when something came since [`run`](Self::run): then it must look again.
    pub(crate) fn park(&self, cx: &Context<'_>) -> bool {
        // Before it counts as asleep: whoever wakes it then finds the waker.
        let mut waker = self.lock_waker();
        match &mut *waker {
            Some(waker) => waker.clone_from(cx.waker()), // it costs nothing where it is the same
            None => *waker = Some(cx.waker().clone()),
        }
        drop(waker);
        self.attention
            .compare_exchange(RUNNING, PARKED, AcqRel, Acquire)
            .is_ok()
    }
}
