//! The hand-over to a connection's task (`src/peer_signal.rs`), with primitives that try every interleaving of its threads
//! and every value that the memory order lets a read see. It is the very source that the runtime uses: it takes its
//! primitives from the module above it, and that is here this file.
//!
//! That the tests can fail is shown by hand-overs that are wrong in one place each.

mod primitives {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(dead_code, reason = "what the runtime alone needs")]
#[path = "../src/peer_signal.rs"]
mod peer_signal;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use loom::sync::{Arc, Mutex};
use peer_signal::PeerSignal;
use primitives::{AtomicBool, AtomicU8};

/// What a connection's task needs of it.
trait HandOver: Default + Send + Sync + 'static {
    fn set_due(&self);
    fn is_due(&self) -> bool;
    fn pulled(&self);
    fn wake(&self);
    fn run(&self);
    fn park(&self, cx: &Context<'_>) -> bool;
}

impl HandOver for PeerSignal {
    fn set_due(&self) {
        self.set_due();
    }
    fn is_due(&self) -> bool {
        self.is_due()
    }
    fn pulled(&self) {
        self.pulled(true);
    }
    fn wake(&self) {
        self.wake();
    }
    fn run(&self) {
        self.run();
    }
    fn park(&self, cx: &Context<'_>) -> bool {
        self.park(cx)
    }
}

/// Ways to get it wrong.
const PARKS_BLINDLY: u8 = 0;
const REGISTERS_LATE: u8 = 1;
const STORES_WHEN_IT_RUNS: u8 = 2;
const WAKES_EACH_TIME: u8 = 3;

/// A hand-over with a fault.
#[derive(Default)]
struct Faulty<const FAULT: u8> {
    due: AtomicBool,
    attention: AtomicU8,
    waker: primitives::Mutex<Option<Waker>>,
}

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

impl<const FAULT: u8> Faulty<FAULT> {
    fn register(&self, cx: &Context<'_>) {
        *self.waker.lock().unwrap() = Some(cx.waker().clone());
    }
}

impl<const FAULT: u8> HandOver for Faulty<FAULT> {
    fn set_due(&self) {
        self.due.store(true, Ordering::Release);
    }
    fn is_due(&self) -> bool {
        self.due.load(Ordering::Acquire)
    }
    fn pulled(&self) {
        self.due.store(false, Ordering::Release);
    }
    fn wake(&self) {
        let before = self.attention.swap(NOTIFIED, Ordering::AcqRel);
        if FAULT == WAKES_EACH_TIME {
            let waker = self.waker.lock().unwrap().clone();
            waker.into_iter().for_each(Waker::wake);
        } else if before == PARKED {
            let waker = self.waker.lock().unwrap().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
    fn run(&self) {
        if FAULT == STORES_WHEN_IT_RUNS {
            self.attention.store(RUNNING, Ordering::Release);
        } else {
            self.attention.swap(RUNNING, Ordering::AcqRel);
        }
    }
    fn park(&self, cx: &Context<'_>) -> bool {
        if FAULT != REGISTERS_LATE {
            self.register(cx);
        }
        let parked = if FAULT == PARKS_BLINDLY {
            self.attention.store(PARKED, Ordering::Release);
            true
        } else {
            let (from, to) = (RUNNING, PARKED);
            let swapped =
                self.attention
                    .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
            swapped.is_ok()
        };
        if FAULT == REGISTERS_LATE {
            self.register(cx);
        }
        parked
    }
}

/// What the App's lock guards.
#[derive(Default)]
struct Core {
    queue: Vec<usize>,
}

/// A caller: queues under the lock, wakes outside of it, as `Shared::visit` does.
fn queue(core: &Mutex<Core>, signal: &impl HandOver, work: usize) {
    let mut guard = core.lock().unwrap();
    guard.queue.push(work);
    signal.set_due();
    drop(guard);
    signal.wake();
}

/// The executor's end of a wake.
#[derive(Default)]
struct Woken {
    flag: AtomicBool,
    /// Wakes of a task that was awake or woken. For the test alone: no thread learns anything from it.
    idle: AtomicUsize,
}

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        let already = self.flag.swap(true, Ordering::AcqRel);
        self.idle.fetch_add(usize::from(already), Ordering::SeqCst);
    }
}

/// A connection's task, without its transport: takes what is queued. Polled when it is woken, as an executor does it, by
/// one thread at a time.
struct Task<H> {
    core: Arc<Mutex<Core>>,
    signal: Arc<H>,
    woken: std::sync::Arc<Woken>,
    taken: Vec<usize>,
}

impl<H: HandOver> Task<H> {
    fn poll(&mut self) {
        let waker = Waker::from(std::sync::Arc::clone(&self.woken));
        let cx = &Context::from_waker(&waker);
        self.signal.run();
        loop {
            if self.signal.is_due() {
                let mut core = self.core.lock().unwrap();
                self.taken.append(&mut core.queue);
                self.signal.pulled();
            } else if self.signal.park(cx) {
                return;
            } else {
                self.signal.run();
            }
        }
    }

    fn poll_if_woken(&mut self) {
        if self.woken.flag.swap(false, Ordering::AcqRel) {
            self.poll();
        }
    }
}

/// Every interleaving of so many callers, with so much each, and one task.
fn explore<H: HandOver>(callers: usize, each: usize) {
    let mut model = loom::model::Builder::new();
    // Faults of this kind need one or two switches at the wrong moment.
    model.preemption_bound = Some(3);
    model.check(move || {
        let core = Arc::new(Mutex::new(Core::default()));
        let signal = Arc::new(H::default());
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                let (core, signal) = (Arc::clone(&core), Arc::clone(&signal));
                loom::thread::spawn(move || {
                    for n in 0..each {
                        queue(&core, &*signal, caller * each + n);
                    }
                })
            })
            .collect();
        let mut task = Task {
            core,
            signal,
            woken: std::sync::Arc::default(),
            taken: Vec::new(),
        };
        task.poll();
        task.poll_if_woken();
        for thread in threads {
            thread.join().unwrap();
            task.poll_if_woken();
        }
        let idle = task.woken.idle.load(Ordering::SeqCst);
        assert_eq!(idle, 0, "woken while it was not asleep");
        let mut taken = task.taken;
        assert_eq!(taken.len(), callers * each, "overlooked, or taken twice");
        let in_order = |caller: usize| {
            let of_it = |work: &&usize| **work / each == caller;
            taken.iter().filter(of_it).is_sorted()
        };
        assert!((0..callers).all(in_order), "{taken:?}");
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..callers * each), "each once");
    });
}

#[test]
fn whatever_two_callers_queue_is_seen_and_a_sleeping_task_is_woken_once() {
    explore::<PeerSignal>(2, 1);
}

#[test]
fn what_a_caller_queues_while_the_task_goes_to_sleep_is_seen() {
    explore::<PeerSignal>(1, 3);
}

#[test]
fn a_task_that_is_to_be_closed_while_it_goes_to_sleep_closes() {
    loom::model(|| {
        let signal = Arc::new(PeerSignal::default());
        let closer = Arc::clone(&signal);
        let thread = loom::thread::spawn(move || {
            closer.hold(true);
            closer.close();
            closer.wake();
        });
        let woken: std::sync::Arc<Woken> = std::sync::Arc::default();
        let waker = Waker::from(std::sync::Arc::clone(&woken));
        let cx = &Context::from_waker(&waker);
        let poll = || {
            signal.run();
            while !signal.is_closing() {
                if signal.park(cx) {
                    return false;
                }
                signal.run();
            }
            assert!(signal.is_held(), "what was noted before is seen too");
            true
        };
        let closed = poll();
        thread.join().unwrap();
        assert!(closed || (woken.flag.load(Ordering::Acquire) && poll()));
    });
}

#[test]
#[should_panic(expected = "overlooked")]
fn a_task_that_parks_without_a_last_look_is_caught() {
    explore::<Faulty<PARKS_BLINDLY>>(1, 1);
}

#[test]
#[should_panic(expected = "overlooked")]
fn a_task_that_leaves_its_waker_too_late_is_caught() {
    explore::<Faulty<REGISTERS_LATE>>(1, 1);
}

#[test]
#[should_panic(expected = "overlooked")]
fn a_task_that_forgets_a_wake_without_seeing_what_was_before_it_is_caught() {
    explore::<Faulty<STORES_WHEN_IT_RUNS>>(1, 3);
}

#[test]
#[should_panic(expected = "not asleep")]
fn a_caller_that_wakes_each_time_is_caught() {
    explore::<Faulty<WAKES_EACH_TIME>>(2, 1);
}
