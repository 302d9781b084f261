//! A network that can fail on command: `net://name` dials `mem://name` over a [`Line`] that can be cut, black-holed or
//! held. No test here sleeps for real: time is paused, or what is waited for is an event.

#![allow(dead_code)] // each test file uses its own part

pub mod frames;

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use nact::memory::Memory;
use nact::{
    BoxFuture, Channel, DialError, ListenError, Listener, Options, Outbound, Provider,
    ReceiveError, Receiver, SendError, Sender, Transports, Url,
};
use napp::{App, Builder, LinkStatus};

/// What happens to the bytes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They pass.
    #[default]
    Open,
    /// The connection is broken; both sides see it.
    Cut,
    /// They vanish in both directions, and nobody sees it.
    BlackHole,
    /// What the dialler sends is not taken.
    HoldUp,
    /// What the acceptor sends is not read.
    HoldDown,
}

#[derive(Default)]
struct LineState {
    mode: Mode,
    wakers: Vec<Waker>,
}

/// One connection.
#[derive(Clone, Default)]
pub struct Line(Arc<Mutex<LineState>>);

impl Line {
    pub fn set(&self, mode: Mode) {
        let mut state = self.0.lock().unwrap();
        state.mode = mode;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn mode(&self, cx: &Context<'_>) -> Mode {
        let mut state = self.0.lock().unwrap();
        if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.wakers.push(cx.waker().clone());
        }
        state.mode
    }

    fn mode_now(&self) -> Mode {
        self.0.lock().unwrap().mode
    }
}

/// The provider of `net://`, and the lines that were dialled through it.
#[derive(Clone, Default)]
pub struct Net {
    lines: Arc<Mutex<Vec<Line>>>,
    /// Dials that are to fail.
    refusals: Arc<AtomicUsize>,
    dials: Arc<AtomicUsize>,
}

impl Net {
    /// Transports that know this network.
    pub fn transports(&self) -> Transports {
        self.transports_with(Options::default())
    }

    pub fn transports_with(&self, options: Options) -> Transports {
        let mut transports = Transports::new(options);
        transports.register(self.clone());
        transports
    }

    /// The newest connection.
    pub fn line(&self) -> Line {
        self.lines.lock().unwrap().last().unwrap().clone()
    }

    /// How many connections came about.
    pub fn lines(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    pub fn dials(&self) -> usize {
        self.dials.load(Ordering::SeqCst)
    }

    pub fn refuse(&self, dials: usize) {
        self.refusals.store(dials, Ordering::SeqCst);
    }
}

impl Provider for Net {
    fn schemes(&self) -> &[&str] {
        &["net"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            self.dials.fetch_add(1, Ordering::SeqCst);
            let refused = || DialError::Refused {
                url: url.to_string(),
            };
            let refuses = self
                .refusals
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                });
            if refuses.is_ok() {
                return Err(refused());
            }
            let inner = Memory
                .dial(&Url::new("mem", url.host(), None), options)
                .await
                .map_err(|_| refused())?;
            let line = Line::default();
            self.lines.lock().unwrap().push(line.clone());
            let sender = Up {
                inner: Some(inner.sender),
                line: line.clone(),
                swallowed: Vec::new(),
            };
            let receiver = Down {
                inner: Some(inner.receiver),
                line,
                lost: Vec::new(),
            };
            Ok(Channel::new(
                Box::new(sender),
                Box::new(receiver),
                inner.remote,
            ))
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        _: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        let source = io::Error::other("listen at mem://");
        Box::pin(async move {
            Err(ListenError::Io {
                url: url.to_string(),
                source,
            })
        })
    }
}

struct Up {
    inner: Option<Box<dyn Sender>>,
    line: Line,
    /// Tokens of messages that the black hole took.
    swallowed: Vec<u64>,
}

impl Sender for Up {
    fn push(&mut self, message: Outbound) {
        match (&mut self.inner, self.line.mode_now()) {
            (Some(_), Mode::BlackHole) => self.swallowed.push(message.token),
            (Some(inner), _) => inner.push(message),
            (None, _) => {}
        }
    }

    fn wants_more(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.wants_more())
    }

    fn wants_small(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.wants_small())
    }

    fn small_size_max(&self) -> usize {
        self.inner
            .as_ref()
            .map_or(0, |inner| inner.small_size_max())
    }

    fn is_idle(&self) -> bool {
        self.swallowed.is_empty() && self.inner.as_ref().is_some_and(|inner| inner.is_idle())
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        accepted.append(&mut self.swallowed);
        match self.line.mode(cx) {
            Mode::Cut => {
                self.inner = None;
                Poll::Ready(Err(io::Error::from(io::ErrorKind::ConnectionReset).into()))
            }
            Mode::HoldUp => Poll::Pending,
            Mode::BlackHole => Poll::Ready(Ok(())),
            Mode::Open | Mode::HoldDown => match &mut self.inner {
                Some(inner) => inner.poll_send(cx, accepted),
                None => Poll::Ready(Err(SendError::Closed)),
            },
        }
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        match (&mut self.inner, self.line.mode(cx)) {
            (Some(inner), Mode::Open) => inner.poll_close(cx, accepted),
            (_, Mode::HoldUp | Mode::BlackHole) => Poll::Pending,
            _ => Poll::Ready(Err(SendError::Closed)),
        }
    }
}

struct Down {
    inner: Option<Box<dyn Receiver>>,
    line: Line,
    lost: Vec<Bytes>,
}

impl Receiver for Down {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        let mode = self.line.mode(cx);
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(Err(ReceiveError::Closed));
        };
        match mode {
            Mode::Open | Mode::HoldUp => inner.poll_receive(cx, messages),
            Mode::HoldDown => Poll::Pending,
            Mode::BlackHole => {
                while inner.poll_receive(cx, &mut self.lost).is_ready() {
                    if self.lost.is_empty() {
                        break;
                    }
                    self.lost.clear();
                }
                Poll::Pending
            }
            Mode::Cut => {
                self.inner = None;
                Poll::Ready(Err(ReceiveError::Io(io::ErrorKind::ConnectionReset.into())))
            }
        }
    }

    fn bytes_received(&self) -> u64 {
        self.inner
            .as_ref()
            .map_or(0, |inner| inner.bytes_received())
    }
}

/// A virtual hour is long enough for whatever a test waits for.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3_600), future)
        .await
        .expect("it happens within an hour")
}

/// A builder for tests: no heartbeats, so that time only passes when something waits.
pub fn quiet(id: &str) -> Builder {
    App::builder(id).heartbeat_interval(None)
}

/// Lets everything that can run without time passing run.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Reads the changes of a link until it is what is wanted.
pub async fn until(link: &mut napp::LinkWatch, wanted: fn(&LinkStatus) -> bool) -> LinkStatus {
    within(async {
        loop {
            let status = link.next().await.expect("the App lives");
            if wanted(&status) {
                return status;
            }
        }
    })
    .await
}

pub fn is_online(status: &LinkStatus) -> bool {
    matches!(status, LinkStatus::Online { .. })
}

pub fn is_offline(status: &LinkStatus) -> bool {
    matches!(status, LinkStatus::Offline { .. })
}

pub fn is_dropped(status: &LinkStatus) -> bool {
    matches!(status, LinkStatus::Dropped { .. })
}
