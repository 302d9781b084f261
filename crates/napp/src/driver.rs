//! One App = one core behind one short lock. What this module keeps true:
//! - Under the lock there is no user code, no I/O and no await; what must happen outside is noted in [`Acts`] and done
//!   right after unlocking.
//! - Every visit drains the core before it unlocks, so what two visits caused is seen in the order of the visits.
//! - Time comes from tokio's clock only (LINK-18), read under the lock, so it never goes back.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

use foldhash::fast::RandomState;
use nacp::{Answer, AppId, Instant, Nacp, Payload, PeerId, SendId};
use nact::Transports;
use tokio::sync::{Notify, oneshot, watch};

use crate::admission::{Admission, Asked};
use crate::app::Handle;
use crate::bus::Bus;
use crate::call::CallSlot;
use crate::dialer::Dialing;
use crate::event::StreamCell;
use crate::handler::Handlers;
use crate::link::LinkFeeds;
use crate::metrics::Metrics;
use crate::peer::PeerEntry;
use crate::peer_signal::PeerSignal;
use crate::serving::{Arrival, ServingCell, Start};
use crate::subscription::HitFeed;

/// The far end of time: no timer is set.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

pub(crate) type Table<K, V> = HashMap<K, V, RandomState>;

/// What all tasks and handles of an App share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) app: AppId,
    epoch: tokio::time::Instant,
    pub(crate) runtime: tokio::runtime::Handle,
    pub(crate) handlers: Handlers,
    pub(crate) transports: Transports,
    pub(crate) admission: Admission,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    /// A deadline came nearer than what the timer waits for.
    pub(crate) timer: Notify,
    /// There is room for one that waits (CAP-6); passed on from one to the next.
    pub(crate) room: Notify,
    /// The same for the chunks of streams, who all look.
    pub(crate) chunk_room: Notify,
    /// All is delivered, or a connection ended; for a shutdown that waits for that.
    pub(crate) progress: Notify,
    /// True when the App ends: listeners, dialers and the timer stop.
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) tasks: Tasks,
    pub(crate) handle: OnceLock<Weak<Handle>>,
}

/// Limits of the runtime; the protocol's own are in [`nacp::Config`].
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) handlers_max: usize,
    pub(crate) backoff_base: std::time::Duration,
    pub(crate) backoff_ceiling: std::time::Duration,
    pub(crate) queue_count_max: usize,
    pub(crate) stream_window: u64,
    pub(crate) ack_timeout: std::time::Duration,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) nacp: Nacp,
    pub(crate) calls: Table<u64, Waiting>,
    pub(crate) subscriptions: Table<u64, Arc<HitFeed>>,
    /// Requests whose handlers can be steered.
    pub(crate) serving: Table<u64, Arc<ServingCell>>,
    /// Requests that are being served, steered or not.
    pub(crate) handlers: usize,
    pub(crate) sends: Table<SendId, oneshot::Sender<bool>>,
    pub(crate) peers: Table<PeerId, PeerEntry>,
    pub(crate) links: Table<AppId, LinkFeeds>,
    pub(crate) dialing: Table<AppId, Arc<Dialing>>,
    pub(crate) bus: Bus,
    /// What the timer task waits for.
    pub(crate) timer_at: Instant,
    /// A shutdown waits until all is delivered.
    pub(crate) draining: bool,
    pub(crate) terminated: bool,
    pub(crate) last_peer: u64,
}

/// Who waits for the end of a call.
#[derive(Debug)]
pub(crate) enum Waiting {
    Call(CallSlot),
    Stream(Arc<StreamCell>),
    /// An event call that was let go: its chunks count as taken, so that its writer never waits.
    Detached {
        taken: u64,
    },
}

/// What is to be done once the lock is free. Reused from batch to batch.
#[derive(Default)]
pub(crate) struct Acts {
    pub(crate) starts: Vec<Start>,
    /// What the handlers of a batch answered.
    pub(crate) answers: Vec<(Arrival, Option<Answer>)>,
    /// A register to decide on before the next message of its connection is looked at.
    pub(crate) asked: Option<Asked>,
    /// Connections to wake. Mostly there is one.
    wake: Option<Arc<PeerSignal>>,
    wakes: Vec<Arc<PeerSignal>>,
    /// Callers whose calls have ended.
    pub(crate) callers: Vec<Waker>,
    timer: bool,
}

impl Acts {
    pub(crate) fn wake(&mut self, signal: &Arc<PeerSignal>) {
        if self.wake.is_none() {
            self.wake = Some(Arc::clone(signal));
        } else {
            self.wakes.push(Arc::clone(signal));
        }
    }
}

/// One turn with the core.
pub(crate) struct Visit<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) now: Instant,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) acts: &'a mut Acts,
}

impl Visit<'_> {
    pub(crate) fn nacp(&mut self) -> &mut Nacp {
        &mut self.state.nacp
    }

    /// Applies what the core has to tell.
    pub(crate) fn settle(&mut self) {
        while let Some(event) = self.state.nacp.poll_event() {
            self.apply(event);
        }
    }

    /// Sees to everything that the core wants done, in the order in which it came about.
    fn drain(&mut self) {
        loop {
            self.settle();
            let Some(peer) = self.state.nacp.poll_wake() else {
                break;
            };
            if let Some(entry) = self.state.peers.get(&peer) {
                entry.signal.set_due();
                self.acts.wake(&entry.signal);
            }
        }
        if let Some((at, _)) = self.state.nacp.poll_timeout()
            && at < self.state.timer_at
        {
            self.state.timer_at = at;
            self.acts.timer = true;
        }
        if self.state.draining && self.state.nacp.is_drained() {
            self.shared.progress.notify_waiters();
        }
    }
}

impl Shared {
    pub(crate) fn new(
        nacp: Nacp,
        handlers: Handlers,
        transports: Transports,
        admission: Admission,
        settings: Settings,
    ) -> Self {
        let state = State {
            calls: Table::default(),
            subscriptions: Table::default(),
            serving: Table::default(),
            handlers: 0,
            sends: Table::default(),
            peers: Table::default(),
            links: Table::default(),
            dialing: Table::default(),
            bus: Bus::default(),
            timer_at: NEVER,
            draining: false,
            terminated: false,
            last_peer: 0,
            nacp,
        };
        Self {
            app: state.nacp.config().app.clone(),
            state: Mutex::new(state),
            epoch: tokio::time::Instant::now(),
            runtime: tokio::runtime::Handle::current(),
            handlers,
            transports,
            admission,
            settings,
            metrics: Metrics::new(),
            timer: Notify::new(),
            room: Notify::new(),
            chunk_room: Notify::new(),
            progress: Notify::new(),
            stop: watch::Sender::new(false),
            tasks: Tasks::default(),
            handle: OnceLock::new(),
        }
    }

    // Only the core's own assertions can panic under this lock. One that failed has been printed; the others' calls are
    // better served than killed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the core, drains it, unlocks, and does what is to be done outside.
    pub(crate) fn visit<R>(self: &Arc<Self>, act: impl FnOnce(&mut Visit<'_>) -> R) -> R {
        let mut acts = Acts::default();
        let result = self.visit_into(&mut acts, act);
        if !acts.starts.is_empty() {
            crate::serving::run_starts(self, &mut acts);
        }
        result
    }

    /// As [`visit`](Self::visit), but leaves the handlers that are to be started to the caller.
    pub(crate) fn visit_into<R>(
        self: &Arc<Self>,
        acts: &mut Acts,
        act: impl FnOnce(&mut Visit<'_>) -> R,
    ) -> R {
        let mut state = self.lock();
        let now = self.now();
        let mut visit = Visit {
            state: &mut state,
            now,
            shared: self,
            acts,
        };
        let result = act(&mut visit);
        visit.drain();
        drop(state);
        if let Some(signal) = acts.wake.take() {
            signal.wake();
        }
        for signal in acts.wakes.drain(..) {
            signal.wake();
        }
        acts.callers.drain(..).for_each(Waker::wake);
        if std::mem::take(&mut acts.timer) {
            self.timer.notify_one();
        }
        result
    }

    /// A look that changes nothing, so that nothing needs to be drained.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.lock())
    }

    /// As [`look`](Self::look), for what is no business of the core's.
    pub(crate) fn look_mut<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        look(&mut self.lock())
    }

    pub(crate) fn now(&self) -> Instant {
        let elapsed = tokio::time::Instant::now().saturating_duration_since(self.epoch);
        Instant::EPOCH + elapsed
    }

    /// The same point in time on tokio's clock; `None` when that is beyond it.
    pub(crate) fn tokio_time(&self, at: Instant) -> Option<tokio::time::Instant> {
        self.epoch.checked_add(at - Instant::EPOCH)
    }

    /// Starts a task that a shutdown waits for.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let running = Running::new(self);
        self.runtime.spawn(async move {
            let _running = running;
            task.await;
        });
    }
}

/// Counts the App's tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    count: AtomicUsize,
    ended: Notify,
}

struct Running(Arc<Shared>);

impl Running {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.tasks.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(shared))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.tasks.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.tasks.ended.notify_waiters();
        }
    }
}

impl Tasks {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Resolves when none is left.
    pub(crate) async fn all_ended(&self) {
        let mut ended = std::pin::pin!(self.ended.notified());
        loop {
            ended.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            ended.as_mut().await;
            ended.set(self.ended.notified());
        }
    }
}

/// Fresh randomness of the operating system.
pub(crate) fn entropy() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// The payload of a bus event.
pub(crate) fn payload<T: serde::Serialize + ?Sized>(value: &T) -> Payload {
    Payload::encode(value).expect("the runtime's own types encode")
}
