//! A proxy in front of a TCP or Unix socket that breaks connections on command.
//!
//! What this module keeps true: it never changes, drops or reorders a byte of a connection that lives; what it takes
//! away, it takes away as networks do. A cut is a reset in both directions, at an exact byte if that is asked for. A
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

pub use crate::socket::Place;
use crate::socket::{ReadEnd, Socket, SocketListener, WriteEnd};

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
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok(dialler) => {
                    // Before the task runs: a cut that comes between now and then is meant for it too.
                    let cuts = shared.cuts.subscribe();
                    connections.spawn(connection(Arc::clone(&shared), dialler, cuts));
                }
                // No file descriptors, or a connection that was gone at once: the next one may do better.
                Err(_) => tokio::time::sleep(SLOW_TICK).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(shared: Arc<Shared>, mut dialler: Socket, mut cuts: watch::Receiver<u64>) {
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
        let there = pump(&shared, Direction::ToTarget, from_dialler, into_target);
        let back = pump(&shared, Direction::ToDialler, from_target, into_dialler);
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

/// Forwards one direction until its end, which it forwards too.
async fn pump(
    shared: &Shared,
    direction: Direction,
    mut from: ReadEnd<'_>,
    mut to: WriteEnd<'_>,
) -> io::Result<()> {
    let mut condition = shared.conditions[direction as usize].subscribe();
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
                let held = Held::new(shared, direction, count);
                forward(held, &mut condition, &mut to, &buffer[..count]).await?;
            }
        }
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
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    async fn dial(proxy: &Proxy) -> io::Result<TcpStream> {
        match proxy.local() {
            Place::Tcp(address) => TcpStream::connect(address).await,
            #[cfg(unix)]
            Place::Unix(path) => panic!("not TCP: {path:?}"),
        }
    }

    /// A proxy, and both ends of a connection through it.
    async fn connected() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let near = dial(&proxy).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        (proxy, near, far)
    }

    async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn bytes_and_ends_pass_both_ways() {
        let (proxy, mut near, mut far) = connected().await;
        near.write_all(b"there").await.unwrap();
        assert_eq!(read(&mut far, 5).await, b"there");
        far.write_all(b"back").await.unwrap();
        assert_eq!(read(&mut near, 4).await, b"back");
        near.shutdown().await.unwrap();
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
        far.write_all(b"!").await.unwrap(); // half-closed is not closed
        assert_eq!(read(&mut near, 1).await, b"!");
        assert_eq!(
            proxy.progress(Direction::ToDialler),
            Progress {
                forwarded: 5,
                held: 0
            }
        );
    }

    #[tokio::test]
    async fn a_cut_is_a_reset_for_both_sides() {
        let (proxy, mut near, mut far) = connected().await;
        proxy.cut();
        for stream in [&mut near, &mut far] {
            let error = stream.read(&mut [0; 8]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn a_cut_hits_the_byte_that_was_meant() {
        let (proxy, mut near, mut far) = connected().await;
        near.write_all(b"1").await.unwrap();
        read(&mut far, 1).await;
        proxy.cut_after(Direction::ToTarget, 10);
        near.write_all(&[7; 4]).await.unwrap();
        assert_eq!(read(&mut far, 4).await, [7; 4]);
        near.write_all(&[8; 100]).await.unwrap();
        proxy.cuts(1).await;
        assert_eq!(proxy.progress(Direction::ToTarget).forwarded, 11);
        assert!(near.read(&mut [0; 8]).await.is_err());
    }

    #[tokio::test]
    async fn a_black_hole_holds_bytes_and_ends_back_and_then_lets_them_go() {
        let (proxy, mut near, mut far) = connected().await;
        proxy.set_both(Condition::BlackHole);
        near.write_all(b"late").await.unwrap();
        drop(near);
        proxy
            .until(Direction::ToTarget, |progress| progress.held == 4)
            .await;
        assert_eq!(proxy.progress(Direction::ToTarget).forwarded, 0);
        proxy.set_both(Condition::Open);
        assert_eq!(read(&mut far, 4).await, b"late");
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn unix_sockets_pass_and_are_cut_too() {
        let dir = tempfile::tempdir().unwrap();
        let (there, here) = (dir.path().join("there"), dir.path().join("here"));
        let listener = tokio::net::UnixListener::bind(&there).unwrap();
        let proxy = Proxy::between(&Place::Unix(here.clone()), Place::Unix(there))
            .await
            .unwrap();
        let mut near = tokio::net::UnixStream::connect(here).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        proxy.cut_after(Direction::ToTarget, 3);
        near.write_all(b"there").await.unwrap();
        let mut came = Vec::new();
        let _ = far.read_to_end(&mut came).await; // an end or a reset, as the system has it
        assert_eq!(came, b"the");
    }

    #[tokio::test]
    async fn one_direction_can_be_bad_alone() {
        let (proxy, mut near, mut far) = connected().await;
        proxy.set(Direction::ToTarget, Condition::BlackHole);
        far.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut near, 1).await, b"x");
    }

    #[tokio::test]
    async fn slow_and_late_take_their_time_and_lose_nothing() {
        let (proxy, mut near, mut far) = connected().await;
        let sent: Vec<u8> = (0..=255).cycle().take(4_000).collect();
        proxy.set(
            Direction::ToTarget,
            Condition::Slow {
                bytes_per_s: 40_000,
            },
        );
        let start = Instant::now();
        near.write_all(&sent).await.unwrap();
        assert_eq!(read(&mut far, sent.len()).await, sent);
        assert!(
            start.elapsed() >= Duration::from_millis(90),
            "{:?}",
            start.elapsed()
        );

        let delay = Duration::from_millis(50);
        proxy.set(Direction::ToTarget, Condition::Late { delay });
        let start = Instant::now();
        near.write_all(b"x").await.unwrap();
        read(&mut far, 1).await;
        assert!(start.elapsed() >= delay);
    }

    #[tokio::test]
    async fn nobody_at_the_target_is_a_reset() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let target = listener.local_addr().unwrap();
        drop(listener);
        let proxy = Proxy::start(target).await.unwrap();
        let mut near = dial(&proxy).await.unwrap();
        assert!(near.read(&mut [0; 8]).await.is_err());
    }
}
