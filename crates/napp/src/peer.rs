//! One connection = one task that polls both halves. What this module keeps true:
//! - Everything that has come in is handled before anything is written, so an ACK and a quick response leave in one write.
//! - A message is pulled from the core only when the transport can take it (MSG-10).
//! - What the transport accepted is reported before the connection is reported down.
//! - A register is decided on without the lock, before anything that came after it is looked at.
//! - One turn is bounded, so that a busy remote does not starve others.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use nacp::message::Encoded;
use nacp::{AppId, CloseReason, PeerId, PeerViolation, Report, Role};
use nact::{Channel, Outbound, ReceiveError, Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Sleep;

use crate::admission::{Caller, Registration};
use crate::driver::{Acts, Shared, Visit, entropy};
use crate::feed::register;
use crate::serving::run_starts;

/// Messages handled under one hold of the lock.
const BATCH_MAX: usize = 128;
/// Rounds of receiving and sending in one poll of the task.
const ROUNDS_MAX: usize = 8;
/// Writes in a row before it looks for input again.
const WRITES_MAX: usize = 16;
/// For the remote to read our last words and close its end.
const LINGER: Duration = Duration::from_secs(1);

/// Wakes a connection's task. While the task runs, or is woken already, a wake is one atomic swap.
#[derive(Debug, Default)]
pub(crate) struct PeerSignal {
    /// The core has something for it. Written under the lock only.
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
        self.due.store(true, Ordering::Release);
    }

    fn is_due(&self) -> bool {
        self.due.load(Ordering::Acquire)
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    pub(crate) fn wake(&self) {
        if self.attention.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            let waker = self.lock_waker().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }

    // No code that can panic runs under this lock.
    fn lock_waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A swap, not a store: what was due before the wake that is taken here must be seen after it.
    fn run(&self) {
        self.attention.swap(RUNNING, Ordering::AcqRel);
    }

    /// False when something came since [`run`](Self::run).
    fn park(&self, cx: &Context<'_>) -> bool {
        register(&mut self.lock_waker(), cx);
        self.attention
            .compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// What the lock guards of a connection.
#[derive(Debug)]
pub(crate) struct PeerEntry {
    pub(crate) signal: Arc<PeerSignal>,
    /// Set when the connection is to be closed.
    close: Option<CloseReason>,
    /// Who dialled wants to know how the register went.
    outcome: Option<oneshot::Sender<Registered>>,
    /// Held while no App is bound: their number is bounded.
    unregistered: Option<OwnedSemaphorePermit>,
}

/// How the handshake over a dialled connection went.
#[derive(Debug)]
pub(crate) enum Registered {
    Online,
    Closed(CloseReason),
    /// The connection ended, with the transport's reason.
    Down(String),
}

pub(crate) type Handshake = oneshot::Receiver<Registered>;

impl Shared {
    /// Takes a connection over. `None` when this App has ended, or the system gives no randomness.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        channel: Channel,
        role: Role,
        unregistered: Option<OwnedSemaphorePermit>,
        listener: Option<Arc<str>>,
    ) -> Option<(PeerId, Handshake)> {
        let entropy = entropy()
            .inspect_err(|error| tracing::error!(%error, "no randomness: a connection is refused"))
            .ok()?;
        let (outcome, handshake) = oneshot::channel();
        let signal = Arc::new(PeerSignal::default());
        let dialled = matches!(role, Role::Dialer { .. });
        let peer = self.visit(|visit| {
            if visit.state.terminated {
                return None;
            }
            visit.state.last_peer += 1;
            let peer = PeerId(visit.state.last_peer);
            let entry = PeerEntry {
                signal: Arc::clone(&signal),
                close: None,
                outcome: Some(outcome).filter(|_| dialled),
                unregistered,
            };
            visit.state.peers.insert(peer, entry);
            visit.announce_peer("connect", peer, None);
            let now = visit.now;
            visit.nacp().mix_entropy(entropy);
            visit.nacp().handle_peer_up(now, peer, role);
            Some(peer)
        })?;
        self.metrics.peers_connected.increment(1);
        let Channel {
            sender,
            receiver,
            remote,
            address,
            identity,
            ..
        } = channel;
        let span = tracing::debug_span!("peer", id = peer.0, remote, dialled);
        span.in_scope(|| tracing::debug!("connected"));
        self.spawn(Peer {
            shared: Arc::clone(self),
            id: peer,
            caller: Arc::new(Caller {
                remote,
                address,
                identity,
                listener,
            }),
            sender,
            receiver,
            signal,
            span,
            inbound: Vec::new(),
            accepted: Vec::new(),
            acts: Acts::default(),
            bytes_known: 0,
            has_yielded: false,
            is_idle: true,
            linger: None,
        });
        Some((peer, handshake))
    }

    /// Ends a connection from our side, whatever state it is in.
    pub(crate) fn hang_up(self: &Arc<Self>, peer: PeerId) {
        self.visit(|visit| {
            let now = visit.now;
            visit.nacp().handle_peer_down(now, peer);
            visit.close_peer(peer, CloseReason::Terminated);
        });
    }
}

impl Visit<'_> {
    pub(crate) fn peer_online(&mut self, peer: PeerId, app: &AppId) {
        tracing::debug!(peer = peer.0, %app, "bound");
        if let Some(entry) = self.state.peers.get_mut(&peer) {
            entry.unregistered = None;
            if let Some(outcome) = entry.outcome.take() {
                // The dialler may have been given up.
                let _ = outcome.send(Registered::Online);
            }
        }
    }

    pub(crate) fn hold_peer(&mut self, peer: PeerId, held: bool) {
        if let Some(entry) = self.state.peers.get(&peer) {
            entry.signal.held.store(held, Ordering::Release);
            self.acts.wake(&entry.signal);
        }
    }

    pub(crate) fn close_peer(&mut self, peer: PeerId, reason: CloseReason) {
        if let Some(entry) = self.state.peers.get_mut(&peer) {
            if let Some(outcome) = entry.outcome.take() {
                let _ = outcome.send(Registered::Closed(reason.clone()));
            }
            entry.close.get_or_insert(reason);
            entry.signal.closing.store(true, Ordering::Release);
            self.acts.wake(&entry.signal);
        }
    }
}

/// The task of one connection.
struct Peer {
    shared: Arc<Shared>,
    id: PeerId,
    caller: Arc<Caller>,
    sender: Box<dyn Sender>,
    receiver: Box<dyn Receiver>,
    signal: Arc<PeerSignal>,
    span: tracing::Span,
    inbound: Vec<Bytes>,
    accepted: Vec<u64>,
    acts: Acts,
    /// Bytes that the core knows of.
    bytes_known: u64,
    /// It gave way once since it last wrote.
    has_yielded: bool,
    /// It had nothing to do when it was last polled.
    is_idle: bool,
    /// Set when only our last words are still to be read by the remote.
    linger: Option<Pin<Box<Sleep>>>,
}

/// What a half of a turn came to.
enum Turn {
    Progress,
    Idle,
    /// Others first: what they add goes out in the same write.
    GiveWay,
    /// The connection is over, with the transport's reason.
    Over(String),
}

impl Future for Peer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let span = this.span.clone();
        let _entered = span.enter();
        this.signal.run();
        let was_idle = std::mem::take(&mut this.is_idle);
        for _ in 0..ROUNDS_MAX {
            if this.signal.closing.load(Ordering::Acquire) {
                if this.poll_closing(cx).is_ready() {
                    return Poll::Ready(());
                }
            } else {
                match this.round(cx) {
                    Turn::Over(reason) => {
                        this.end(&reason);
                        return Poll::Ready(());
                    }
                    // The tasks that are ready come first. One that was idle need not have the runtime look at its
                    // other connections: that is a system call, a tenth of a round trip.
                    Turn::GiveWay if was_idle => {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Turn::GiveWay => break,
                    Turn::Progress => continue,
                    Turn::Idle => {}
                }
            }
            if this.signal.park(cx) {
                this.is_idle = true;
                return Poll::Pending;
            }
            this.signal.run();
        }
        // Not before the runtime has looked at its other connections: a plain wake would let this one run on.
        let turn = std::pin::pin!(tokio::task::yield_now());
        let _ = turn.poll(cx);
        Poll::Pending
    }
}

impl Peer {
    fn round(&mut self, cx: &mut Context<'_>) -> Turn {
        let received = self.receive(cx);
        if matches!(received, Turn::Over(_)) {
            return received;
        }
        match self.send(cx) {
            Turn::Over(reason) => {
                // What the remote said before it hung up is still heard: it may say why.
                for _ in 0..ROUNDS_MAX {
                    if !matches!(self.receive(cx), Turn::Progress) {
                        break;
                    }
                }
                Turn::Over(reason)
            }
            Turn::Idle => received,
            turn => turn,
        }
    }

    /// Takes in what is there, a batch under one hold of the lock, and starts its handlers.
    fn receive(&mut self, cx: &mut Context<'_>) -> Turn {
        if self.signal.held.load(Ordering::Acquire) {
            return Turn::Idle;
        }
        let polled = self.receiver.poll_receive(cx, &mut self.inbound);
        let bytes = self.receiver.bytes_received();
        let grown = bytes > std::mem::replace(&mut self.bytes_known, bytes);
        match polled {
            Poll::Ready(Ok(())) => self.take_in(),
            Poll::Ready(Err(error)) => return Turn::Over(self.receiving_failed(&error)),
            Poll::Pending => {
                if grown {
                    let id = self.id;
                    // Part of a large message: proof of life (HB-7).
                    self.shared.visit(|visit| {
                        let now = visit.now;
                        visit.nacp().handle_progress(now, id);
                    });
                }
                return Turn::Idle;
            }
        }
        Turn::Progress
    }

    fn take_in(&mut self) {
        let shared = Arc::clone(&self.shared);
        let metrics = &shared.metrics;
        metrics
            .messages_received
            .increment(self.inbound.len() as u64);
        let bytes: usize = self.inbound.iter().map(Bytes::len).sum();
        metrics.bytes_received.increment(bytes as u64);
        let mut messages = self.inbound.drain(..);
        while messages.len() > 0 {
            shared.visit_into(&mut self.acts, |visit| {
                for message in messages.by_ref().take(BATCH_MAX) {
                    visit.message_came(self.id, &message);
                    if visit.acts.asked.is_some() {
                        break;
                    }
                }
            });
            if !self.acts.starts.is_empty() {
                run_starts(&shared, &mut self.acts);
            }
            if let Some(asked) = self.acts.asked.take() {
                let registration = Registration::new(asked, &self.caller);
                let verdict = shared.admission.decide(&registration);
                shared.visit_into(&mut self.acts, |visit| {
                    let now = visit.now;
                    visit.nacp().admit_register(now, self.id, verdict);
                });
            }
        }
    }

    fn receiving_failed(&mut self, error: &ReceiveError) -> String {
        if error.is_violation() {
            tracing::warn!(%error, "the connection broke the rules");
            self.shared.visit(|visit| {
                crate::metrics::report("nact:peer:error", "frame-error");
                visit.announce_peer("error", self.id, Some(error.reason()));
            });
        } else {
            tracing::debug!(%error, "the connection ended");
        }
        error.reason().to_owned()
    }

    /// Writes what the core has for this connection, as far as the transport takes it.
    fn send(&mut self, cx: &mut Context<'_>) -> Turn {
        if !self.signal.is_due() && self.sender.is_idle() {
            return Turn::Idle;
        }
        if self.signal.is_due() && self.sender.is_idle() && !self.has_yielded {
            self.has_yielded = true;
            return Turn::GiveWay;
        }
        self.has_yielded = false;
        let mut turn = Turn::Idle;
        for _ in 0..WRITES_MAX {
            self.exchange();
            if self.sender.is_idle() {
                return turn;
            }
            match self.sender.poll_send(cx, &mut self.accepted) {
                Poll::Ready(Ok(())) => turn = Turn::Progress,
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "the connection takes no more");
                    return Turn::Over(error.reason().to_owned());
                }
                Poll::Pending => {
                    if !self.accepted.is_empty() {
                        self.exchange();
                    }
                    return turn;
                }
            }
        }
        Turn::Progress
    }

    /// One turn with the core: reports what was accepted, pulls what the transport can take.
    fn exchange(&mut self) {
        if self.accepted.is_empty() && !(self.signal.is_due() && self.sender.wants_small()) {
            return;
        }
        let (id, sender, signal) = (self.id, &mut *self.sender, &*self.signal);
        let metrics = &self.shared.metrics;
        metrics.messages_sent.increment(self.accepted.len() as u64);
        let accepted = self.accepted.drain(..);
        self.shared.visit_into(&mut self.acts, |visit| {
            visit.report_accepted(id, accepted);
            visit.settle();
            visit.pull(id, sender, signal);
        });
    }

    /// Where somebody may still read our last words they get the time to; a connection that is given up just ends.
    fn poll_closing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let id = self.id;
        if self.linger.is_none() {
            let reason = self.shared.look(|state| {
                let entry = state.peers.get(&id);
                entry.and_then(|entry| entry.close.clone())
            });
            let reason = reason.unwrap_or(CloseReason::Terminated);
            tracing::debug!(reason = reason.reason(), "closed from this side");
            match reason {
                CloseReason::LinkOffline(_)
                | CloseReason::Violation(_)
                | CloseReason::Terminated => {
                    self.end(reason.reason());
                    return Poll::Ready(());
                }
                _ => self.linger = Some(Box::pin(tokio::time::sleep(LINGER))),
            }
        }
        // The core has forgotten this connection: what is accepted now concerns nobody.
        let mut accepted = Vec::new();
        let sent = self.sender.poll_close(cx, &mut accepted);
        let mut read = self.receiver.poll_receive(cx, &mut self.inbound);
        for _ in 0..ROUNDS_MAX {
            self.inbound.clear();
            if !matches!(read, Poll::Ready(Ok(()))) {
                break;
            }
            read = self.receiver.poll_receive(cx, &mut self.inbound);
        }
        if matches!(read, Poll::Ready(Ok(()))) {
            cx.waker().wake_by_ref();
        }
        let is_over = matches!(read, Poll::Ready(Err(_))) && sent.is_ready();
        let linger = self.linger.as_mut();
        if is_over || linger.is_none_or(|linger| linger.as_mut().poll(cx).is_ready()) {
            self.end("closed");
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// The connection is over: the core learns what was accepted, then that it is down.
    fn end(&mut self, reason: &str) {
        let (id, accepted) = (self.id, std::mem::take(&mut self.accepted));
        self.shared.visit(|visit| {
            visit.report_accepted(id, accepted);
            if let Some(entry) = visit.state.peers.remove(&id)
                && let Some(outcome) = entry.outcome
            {
                let _ = outcome.send(Registered::Down(reason.to_owned()));
            }
            visit.announce_peer("disconnect", id, None);
            let now = visit.now;
            visit.nacp().handle_peer_down(now, id);
            visit.shared.progress.notify_waiters();
        });
        self.shared.metrics.peers_disconnected.increment(1);
    }
}

impl Visit<'_> {
    fn message_came(&mut self, peer: PeerId, message: &Bytes) {
        self.announce_inbound(peer, message);
        let now = self.now;
        let result = self.nacp().handle_message(now, peer, message);
        // So that what this message caused comes before what the next one causes.
        self.settle();
        match result {
            Ok(()) | Err(PeerViolation::UnknownPeer) => {}
            Err(violation) => {
                tracing::warn!(%violation, peer = peer.0, "dropped a message");
                crate::metrics::report("nact:peer:error", violation.reason());
                self.announce_peer("error", peer, Some(violation.reason()));
                // Whoever watches routes wants to see the message itself (GW-4).
                if let PeerViolation::FromMismatch { .. } = violation {
                    self.report(Report {
                        name: "nacp:internal:route:error",
                        reason: violation.reason(),
                        said: None,
                        peer: Some(peer),
                        app: None,
                        message: Some(Encoded::from(message.clone())),
                    });
                }
            }
        }
    }

    fn report_accepted(&mut self, peer: PeerId, tokens: impl IntoIterator<Item = u64>) {
        let now = self.now;
        for token in tokens {
            // 0 = an ack, whose acceptance nobody waits for.
            if token != 0 {
                self.nacp().handle_accepted(now, peer, token);
            }
        }
    }

    /// Hands over messages as long as the transport can take them.
    fn pull(&mut self, peer: PeerId, sender: &mut dyn Sender, signal: &PeerSignal) {
        let now = self.now;
        let mut bytes = 0;
        loop {
            let (transmit, is_all) = if sender.wants_more() {
                (self.nacp().poll_transmit(now, peer), true)
            } else if sender.wants_small() {
                (self.nacp().poll_urgent(now, peer), false)
            } else {
                (None, false)
            };
            let Some(transmit) = transmit else {
                signal.due.store(!is_all, Ordering::Release);
                signal.crowded.store(!is_all, Ordering::Relaxed);
                break;
            };
            self.announce_outbound(peer, &transmit.message);
            bytes += transmit.message.len() as u64;
            sender.push(Outbound {
                token: transmit.token,
                head: transmit.message.head().clone(),
                body: transmit.message.payload().clone(),
            });
        }
        self.shared.metrics.bytes_sent.increment(bytes);
    }
}
