//! A proxy in front of a TCP or Unix socket that breaks connections on command.
//!
//! What this module keeps true: unless frames are judged, it never changes, drops or reorders a byte of a connection that
//! lives; what it takes away, it takes away as networks do. A cut is a reset in both directions, at an exact byte if that is asked for. A
//! black hole holds everything back, the ends of connections included, and lets it go when it is over, as
//! retransmission would: whoever gave a connection up meanwhile meets its late bytes. Progress is counted in forwarded
//! bytes and can be waited for, so that a fault hits where it is meant to.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::frames::{Fate, Frame, Judge, read_frame};
use crate::socket::{Place, ReadEnd, Socket, SocketListener, WriteEnd};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From who connected to the target.
    ToTarget,
    /// From the target to who connected.
    ToDialler,
}

/// How a direction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Bytes pass at once.
    #[default]
    Open,
    /// Nothing passes, and nobody is told.
    BlackHole,
    /// Bytes trickle.
    Slow {
        /// At this rate.
        bytes_per_s: u64,
    },
    /// What comes in one piece waits, then passes; the next piece is taken after it.
    Late {
        /// That long.
        delay: Duration,
    },
    /// Bytes pass in small pieces, each written on its own. The reader's system may join what its program does not read
    /// at once.
    Split {
        /// Bytes of a piece, at least 1.
        bytes: usize,
    },
}

/// Bytes of one direction, since the proxy began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Handed to the receiving side's system.
    pub forwarded: u64,
    /// Taken from the sending side, and not handed on yet.
    pub held: u64,
}

/// A running proxy. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    local: Place,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: Place,
    conditions: [watch::Sender<Condition>; 2],
    progress: [watch::Sender<Progress>; 2],
    /// The forwarded byte at which everything is cut, once.
    cut_at: [watch::Sender<Option<u64>>; 2],
    /// How often everything was cut.
    cuts: watch::Sender<u64>,
    judges: [Judge; 2],
}

const PIECE_BYTES: usize = 16 * 1024;
const SLOW_TICK: Duration = Duration::from_millis(20);
/// Connections at once; what comes beyond waits to be accepted.
const CONNECTIONS_MAX: usize = 256;

impl Proxy {
    /// Listens at a free loopback port and forwards to `target`.
    ///
    /// # Errors
    /// The system has no port.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::between(&Place::Tcp(anywhere), Place::Tcp(target)).await
    }

    /// Listens at `listen` and forwards to `target`.
    ///
    /// # Errors
    /// The system does not let it listen there.
    pub async fn between(listen: &Place, target: Place) -> io::Result<Self> {
        let listener = SocketListener::bind(listen).await?;
        let shared = Arc::new(Shared {
            target,
            conditions: Default::default(),
            progress: Default::default(),
            cut_at: Default::default(),
            cuts: watch::Sender::new(0),
            judges: Default::default(),
        });
        Ok(Self {
            local: listener.place()?,
            acceptor: tokio::spawn(accept(listener, Arc::clone(&shared))),
            shared,
        })
    }

    /// Where to connect to.
    pub fn local(&self) -> &Place {
        &self.local
    }

    /// Changes how one direction is, for every connection, also those that come.
    pub fn set(&self, direction: Direction, condition: Condition) {
        self.shared.conditions[direction as usize].send_replace(condition);
    }

    /// As [`set`](Self::set), for both directions.
    pub fn set_both(&self, condition: Condition) {
        self.set(Direction::ToTarget, condition);
        self.set(Direction::ToDialler, condition);
    }

    /// Resets every connection now.
    pub fn cut(&self) {
        self.shared.cut();
    }

    /// Resets every connection when so many more bytes have passed in that direction, exactly there.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        let at = self.progress(direction).forwarded + bytes;
        self.shared.cut_at[direction as usize].send_replace(Some(at));
    }

    /// Waits until everything was cut so often since the proxy began.
    pub async fn cuts(&self, count: u64) {
        // It fails only when the sender is gone, and that is a part of us.
        let _ = self
            .shared
            .cuts
            .subscribe()
            .wait_for(|cuts| *cuts >= count)
            .await;
    }

    /// Has every frame of one direction judged, of connections that come from now on. The closure is called between the
    /// arrival of a frame and its departure, and must not wait; it may keep what it sees.
    pub fn judge(&self, direction: Direction, decide: impl FnMut(&Frame) -> Fate + Send + 'static) {
        self.shared.judges[direction as usize].put(decide);
    }

    /// How far one direction has come.
    pub fn progress(&self, direction: Direction) -> Progress {
        *self.shared.progress[direction as usize].borrow()
    }

    /// Waits until one direction has come so far.
    pub async fn until(&self, direction: Direction, reached: impl FnMut(&Progress) -> bool) {
        let mut progress = self.shared.progress[direction as usize].subscribe();
        let _ = progress.wait_for(reached).await; // as in `cuts`
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort(); // its JoinSet aborts the connections
    }
}

impl Shared {
    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    fn record(&self, direction: Direction, change: impl FnOnce(&mut Progress)) {
        self.progress[direction as usize].send_modify(change);
    }
}

async fn accept(listener: SocketListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok(dialler) => {
                    // Before the task runs: a cut that comes between now and then is meant for it too.
                    let cuts = shared.cuts.subscribe();
                    number += 1;
                    connections.spawn(connection(Arc::clone(&shared), number, dialler, cuts));
                }
                // No file descriptors, or a connection that was gone at once: the next one may do better.
                Err(_) => tokio::time::sleep(SLOW_TICK).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(
    shared: Arc<Shared>,
    number: u64,
    mut dialler: Socket,
    mut cuts: watch::Receiver<u64>,
) {
    let mut to_target = shared.conditions[Direction::ToTarget as usize].subscribe();
    not_black_hole(&mut to_target).await;
    let Ok(mut target) = Socket::connect(&shared.target).await else {
        dialler.reset_at_end();
        return;
    };
    dialler.hurry();
    target.hurry();
    let is_over = {
        let (from_dialler, into_dialler) = dialler.split();
        let (from_target, into_target) = target.split();
        let way = |direction| Way {
            shared: &shared,
            direction,
            number,
        };
        let there = way(Direction::ToTarget).pump(from_dialler, into_target);
        let back = way(Direction::ToDialler).pump(from_target, into_dialler);
        tokio::select! {
            biased;
            _ = cuts.changed() => false,
            ended = async { tokio::try_join!(there, back) } => ended.is_ok(),
        }
    };
    if !is_over {
        // With no time to linger, closing is a reset.
        dialler.reset_at_end();
        target.reset_at_end();
    }
}

/// One direction of one connection.
struct Way<'a> {
    shared: &'a Shared,
    direction: Direction,
    number: u64,
}

impl Way<'_> {
    /// Forwards until its end, which it forwards too.
    async fn pump(self, from: ReadEnd<'_>, to: WriteEnd<'_>) -> io::Result<()> {
        if self.shared.judges[self.direction as usize].is_there() {
            self.pump_frames(from, to).await
        } else {
            self.pump_bytes(from, to).await
        }
    }

    async fn pump_bytes(self, mut from: ReadEnd<'_>, mut to: WriteEnd<'_>) -> io::Result<()> {
        let mut condition = self.condition();
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let read = from.read(&mut buffer).await;
            if !matches!(read, Ok(1..)) {
                // Nobody learns of an end through a black hole.
                not_black_hole(&mut condition).await;
            }
            match read? {
                0 => return to.shutdown().await,
                count => {
                    self.forward(&mut condition, &mut to, &buffer[..count])
                        .await?
                }
            }
        }
    }

    async fn pump_frames(self, mut from: ReadEnd<'_>, mut to: WriteEnd<'_>) -> io::Result<()> {
        let mut condition = self.condition();
        loop {
            let read = read_frame(self.number, &mut from).await;
            if !matches!(read, Ok(Some(_))) {
                not_black_hole(&mut condition).await;
            }
            let Some((frame, bytes)) = read? else {
                return to.shutdown().await;
            };
            match self.shared.judges[self.direction as usize].of(&frame) {
                Fate::Passes => self.forward(&mut condition, &mut to, &bytes).await?,
                Fate::Lost => {}
                Fate::Torn { after } => {
                    let bytes = &bytes[..after.min(bytes.len())];
                    self.forward(&mut condition, &mut to, bytes).await?;
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
    }

    fn condition(&self) -> watch::Receiver<Condition> {
        self.shared.conditions[self.direction as usize].subscribe()
    }

    async fn forward(
        &self,
        condition: &mut watch::Receiver<Condition>,
        to: &mut WriteEnd<'_>,
        bytes: &[u8],
    ) -> io::Result<()> {
        let held = Held::new(self.shared, self.direction, bytes.len());
        forward(held, condition, to, bytes).await
    }
}

async fn not_black_hole(condition: &mut watch::Receiver<Condition>) {
    let _ = condition
        .wait_for(|condition| *condition != Condition::BlackHole)
        .await;
}

/// Bytes on their way through. What is left of them when a cut ends the way is held no longer.
struct Held<'a> {
    shared: &'a Shared,
    direction: Direction,
    count: u64,
}

impl<'a> Held<'a> {
    fn new(shared: &'a Shared, direction: Direction, count: usize) -> Self {
        let count = count as u64;
        shared.record(direction, |progress| progress.held += count);
        Self {
            shared,
            direction,
            count,
        }
    }

    fn forwarded(&mut self, count: u64) {
        self.count -= count;
        self.shared.record(self.direction, |progress| {
            progress.forwarded += count;
            progress.held -= count;
        });
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let count = self.count;
        if count > 0 {
            self.shared
                .record(self.direction, |progress| progress.held -= count);
        }
    }
}

async fn forward(
    mut held: Held<'_>,
    condition: &mut watch::Receiver<Condition>,
    to: &mut WriteEnd<'_>,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let (count, wait) = match *condition.borrow_and_update() {
            Condition::Open => (bytes.len(), None),
            Condition::BlackHole => (0, Some(Duration::MAX)),
            Condition::Late { delay } => (bytes.len(), Some(delay)),
            Condition::Split { bytes: piece } => (bytes.len().min(piece.max(1)), None),
            Condition::Slow { bytes_per_s } => {
                let per_tick = u128::from(bytes_per_s) * SLOW_TICK.as_millis() / 1000;
                (bytes.len().min(per_tick.max(1) as usize), Some(SLOW_TICK))
            }
        };
        if let Some(wait) = wait {
            tokio::select! {
                _ = condition.changed() => continue,
                () = tokio::time::sleep(wait) => {}
            }
        }
        let (now, rest) = bytes.split_at(count);
        write(&mut held, to, now).await?;
        bytes = rest;
        // So that a reader in this process may take each piece alone.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Writes, up to where a cut is due.
async fn write(held: &mut Held<'_>, to: &mut WriteEnd<'_>, bytes: &[u8]) -> io::Result<()> {
    let (shared, direction) = (held.shared, held.direction as usize);
    let cut_at = &shared.cut_at[direction];
    let forwarded = shared.progress[direction].borrow().forwarded;
    let left = cut_at.borrow().map(|at| at.saturating_sub(forwarded));
    let is_cut = left.is_some_and(|left| left <= bytes.len() as u64);
    let count = match left {
        Some(left) if is_cut => left as usize,
        _ => bytes.len(),
    };
    to.write_all(&bytes[..count]).await?;
    held.forwarded(count as u64);
    if is_cut {
        cut_at.send_replace(None);
        shared.cut();
        // The cut ends this task where it waits next; until then nothing more may pass.
        std::future::pending::<()>().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
