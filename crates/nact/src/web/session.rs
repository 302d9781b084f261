//! The server's HTTP sessions: a downlink that one GET reads, an uplink that POSTs fill, one channel.
//!
//! ```text
//!            open (GET)                         first of: GET gone, channel dropped or closed,
//!   nothing ───────────▶ open ─ POST, POST, … ─▶ a broken rule, idle for too long ─▶ over, token unknown
//! ```
//!
//! What it keeps true: a session ends once, with one reason; its token is random, unknown to others and never printed;
//! their number is bounded; one that nobody uses goes away by itself, even if its client stalls for ever.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::PREFACE;
use super::authorisation::remote_text;
use super::pipe::{Over, Pipe, PipeReader, Taken};
use super::session_sender::{Endable, SessionSender};
use crate::channel::Channel;
use crate::identity::Identity;
use crate::options::Options;
use crate::stream::StreamReceiver;

/// Closes the connection of a request, whatever it is doing. In the request's extensions, if our listener serves it.
#[derive(Clone, Default)]
pub(super) struct ConnectionCut(pub(super) Arc<Notify>);

/// The sessions of one listener, by token. The map's hash is keyed, and a token has 256 random bits: finding one by
/// timing is hopeless.
#[derive(Default)]
pub(super) struct Sessions {
    by_token: Mutex<HashMap<String, Arc<Session>>>,
}

pub(super) struct Session {
    token: String,
    sessions: Weak<Sessions>,
    downlink: Arc<Pipe>,
    uplink: Arc<Pipe>,
    is_posting: AtomicBool,
    traffic: Mutex<Instant>,
    /// Who opened it; nobody else may post.
    identity: Option<Identity>,
    connection: Option<ConnectionCut>,
    watch: Mutex<Option<AbortHandle>>,
}

impl Sessions {
    /// A new session, if there is room for one.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(super) fn open(
        self: &Arc<Self>,
        sessions_max: usize,
        idle_timeout: Duration,
        identity: Option<Identity>,
        connection: Option<ConnectionCut>,
        options: &Options,
    ) -> io::Result<Option<Arc<Session>>> {
        let session = Arc::new(Session {
            token: token()?,
            sessions: Arc::downgrade(self),
            downlink: Pipe::new(options.unsent_bytes_max as usize),
            uplink: Pipe::new(options.read_buffer_size),
            is_posting: AtomicBool::new(false),
            traffic: Mutex::new(Instant::now()),
            identity,
            connection,
            watch: Mutex::new(None),
        });
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        if by_token.len() >= sessions_max {
            return Ok(None);
        }
        by_token.insert(session.token.clone(), Arc::clone(&session));
        drop(by_token);
        if !idle_timeout.is_zero() {
            let watch = tokio::spawn(watch(Arc::downgrade(&session), idle_timeout));
            session.set_watch(watch.abort_handle());
        }
        Ok(Some(session))
    }

    /// The session of this token, for whoever opened it.
    pub(super) fn find(&self, token: &str, identity: &Option<Identity>) -> Option<Arc<Session>> {
        let by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let session = by_token.get(token);
        session
            .filter(|session| session.identity == *identity)
            .cloned()
    }
}

fn token() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Ends the session when it has been idle for too long.
async fn watch(session: Weak<Session>, idle_timeout: Duration) {
    loop {
        let Some(traffic) = session.upgrade().map(|session| session.last_traffic()) else {
            return;
        };
        let deadline = traffic + idle_timeout;
        sleep_until(deadline).await;
        if let Some(session) = session.upgrade()
            && session.last_traffic() == traffic
        {
            session.end(Over::broken("idle-timeout"));
            return;
        }
    }
}

impl Session {
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn channel(
        self: &Arc<Self>,
        remote: Option<SocketAddr>,
        excess_max: usize,
        options: &Options,
    ) -> Channel {
        let endable: Arc<dyn Endable> = Arc::clone(self) as _;
        let sender = SessionSender::new(&self.downlink, endable, excess_max, options);
        let reader = PipeReader::new(Arc::clone(&self.uplink));
        let receiver = StreamReceiver::new(reader, options);
        Channel::new(Box::new(sender), Box::new(receiver), remote_text(remote))
            .with_address(remote)
            .with_identity(self.identity.clone())
    }

    fn set_watch(&self, watch: AbortHandle) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
    }

    fn last_traffic(&self) -> Instant {
        *self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.traffic.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The right to post. `None` while another has it.
    pub(super) fn begin_post(self: &Arc<Self>) -> Option<Post> {
        if self.is_posting.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.touch();
        Some(Post {
            session: Arc::clone(self),
            size: 0,
            is_complete: false,
        })
    }
}

impl Endable for Session {
    fn end(&self, over: Over) {
        if let Some(sessions) = self.sessions.upgrade() {
            let mut by_token = sessions
                .by_token
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if by_token.remove(&self.token).is_none() {
                // It ended before.
                return;
            }
        }
        // Orderly ends still have to be written by the connection; after others it may be stuck for ever.
        if let (true, Some(ConnectionCut(cut))) = (over != Over::Closed, &self.connection) {
            cut.notify_one();
        }
        self.downlink.end(over.clone());
        self.uplink.end(over);
        let watch = self
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        watch.inspect(AbortHandle::abort);
    }
}

/// One POST that is being read. Dropped before it is complete, it ends the session: a part of the uplink is missing.
pub(super) struct Post {
    session: Arc<Session>,
    size: usize,
    is_complete: bool,
}

/// Why the rest of a POST is not read.
#[derive(Debug, PartialEq)]
pub(super) enum PostError {
    TooLarge,
    /// The session is over.
    Over,
}

impl Post {
    /// Judges the size that the rest of the POST claims, or that has come.
    ///
    /// # Errors
    /// Too large. The session is over.
    pub(super) fn check_size(&mut self, more: u64, size_max: usize) -> Result<(), PostError> {
        if self.size as u64 + more <= size_max as u64 {
            return Ok(());
        }
        self.is_complete = true;
        self.session.end(Over::broken("body-too-large"));
        Err(PostError::TooLarge)
    }

    /// Hands over a piece of the body; waits while the channel's reader is behind.
    ///
    /// # Errors
    /// The session is over.
    pub(super) async fn push(&mut self, piece: Bytes) -> Result<(), PostError> {
        self.session.touch();
        self.size += piece.len();
        let pushing = std::future::poll_fn(|cx| self.session.uplink.poll_push(cx, &piece));
        if pushing.await.is_err() {
            self.is_complete = true;
            return Err(PostError::Over);
        }
        self.session.touch();
        Ok(())
    }

    /// The body has come to its end.
    pub(super) fn complete(mut self) {
        self.is_complete = true;
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if !self.is_complete {
            self.session.end(Over::broken("upload-aborted"));
        }
        self.session.is_posting.store(false, Ordering::Release);
    }
}

/// The body of the answer to GET: preface, then frames, until the session is over.
pub(super) struct Downlink {
    session: Arc<Session>,
    has_preface: bool,
    is_over: bool,
}

impl Downlink {
    pub(super) fn new(session: Arc<Session>) -> Self {
        Self {
            session,
            has_preface: false,
            is_over: false,
        }
    }
}

impl Body for Downlink {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if !self.has_preface {
            self.has_preface = true;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&PREFACE)))));
        }
        let taken = std::task::ready!(self.session.downlink.poll_take(cx, usize::MAX));
        if let Taken::Piece(piece) = taken {
            self.session.touch();
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        self.is_over = true;
        self.session.end(Over::Closed);
        Poll::Ready(match taken {
            Taken::Over(over) if over != Over::Closed => {
                // Not an end that a client could take for an orderly one.
                Some(Err(io::Error::other("the session was cut")))
            }
            _ => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}

impl Drop for Downlink {
    fn drop(&mut self) {
        // The client went, or everything is said.
        self.session.end(Over::Closed);
    }
}
