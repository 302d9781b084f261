//! `mem://name`: channels within one process, without sockets or framing.
//!
//! What it keeps true: the same as every transport. Pieces of messages pass through a bounded pipe, so back pressure,
//! the passing of small messages between chunks, and acceptance at the last byte are those of a real connection. A
//! message that is one segment and small is handed over without a copy.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::channel::{BoxFuture, Channel, Listener, Outbound, Provider, Receiver, Sender};
use crate::error::{AcceptError, DialError, ListenError, ReceiveError, SendError};
use crate::frame::HEADER_SIZE;
use crate::options::Options;
use crate::reassembly::Reassembly;
use crate::reassembly_timer::{ReassemblyTimer, now};
use crate::send_queue::{Piece, SendQueue};
use crate::url::{Url, UrlError};

/// Who listens, in this process.
static LISTENING: Mutex<BTreeMap<String, mpsc::Sender<Connection>>> = Mutex::new(BTreeMap::new());

/// The in-process transport. Names are one space for the whole process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory;

impl Provider for Memory {
    fn schemes(&self) -> &[&str] {
        &["mem"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            let name = name(url)?;
            let refused = || DialError::Refused {
                url: url.to_string(),
            };
            let listener = lock(&LISTENING).get(name).cloned().ok_or_else(refused)?;
            let (near, far) = Connection::pair(options);
            let limit = options.connect_timeout;
            timeout(limit, listener.send(far))
                .await
                .map_err(|_| DialError::Timeout {
                    url: url.to_string(),
                    limit,
                })?
                .map_err(|_| refused())?;
            Ok(near.into_channel(url.to_string(), options))
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        Box::pin(async move {
            let name = name(url)?;
            let mut listening = lock(&LISTENING);
            if listening.contains_key(name) {
                return Err(ListenError::AlreadyListening {
                    url: url.to_string(),
                });
            }
            let (sender, connections) =
                mpsc::channel(options.accept_queue_max.clamp(1, 1 << 16) as usize);
            listening.insert(name.to_owned(), sender);
            Ok(Box::new(Listening {
                connections,
                url: url.clone(),
                options: options.clone(),
            }) as Box<dyn Listener>)
        })
    }
}

fn name(url: &Url) -> Result<&str, UrlError> {
    url.expect_no_path()?;
    if url.port().is_some() {
        return Err(UrlError::new("mem:// takes no port; write mem://name"));
    }
    Ok(url.host())
}

/// No code that can panic runs under these locks, so what they guard is sound even if one was poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Listening {
    connections: mpsc::Receiver<Connection>,
    url: Url,
    options: Options,
}

impl Listener for Listening {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>> {
        let connection = ready!(self.connections.poll_recv(cx)).ok_or(AcceptError::Closed)?;
        let remote = format!("a dialler of {}", self.url);
        Poll::Ready(Ok(connection.into_channel(remote, &self.options)))
    }

    fn local_url(&self) -> Url {
        self.url.clone()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The name is ours alone while it is there.
        lock(&LISTENING).remove(self.url.host());
    }
}

/// One end, both directions.
struct Connection {
    writer: Writer,
    reader: Reader,
}

impl Connection {
    fn pair(options: &Options) -> (Self, Self) {
        let pipe = || {
            Arc::new(Pipe {
                bytes_max: options.unsent_bytes_max as usize,
                state: Mutex::default(),
            })
        };
        let (there, back) = (pipe(), pipe());
        let near = Self {
            writer: Writer(Arc::clone(&there)),
            reader: Reader(Arc::clone(&back)),
        };
        (
            near,
            Self {
                writer: Writer(back),
                reader: Reader(there),
            },
        )
    }

    fn into_channel(self, remote: String, options: &Options) -> Channel {
        let sender = MemorySender {
            queue: SendQueue::new(options),
            writer: Some(self.writer),
            has_failed: false,
        };
        let receiver = MemoryReceiver {
            reader: self.reader,
            reassembly: Reassembly::new(options),
            timer: ReassemblyTimer::default(),
            failure: None,
            is_over: false,
            bytes_received: 0,
        };
        Channel::new(Box::new(sender), Box::new(receiver), remote)
    }
}

/// One direction. It takes a piece while it holds less than its bound, so it holds at most one piece more.
struct Pipe {
    bytes_max: usize,
    state: Mutex<PipeState>,
}

#[derive(Default)]
struct PipeState {
    pieces: VecDeque<Piece>,
    bytes: usize,
    writer_gone: bool,
    reader_gone: bool,
    writer_waker: Option<Waker>,
    reader_waker: Option<Waker>,
}

struct Writer(Arc<Pipe>);

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.writer_gone = true;
        let waker = state.reader_waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

struct Reader(Arc<Pipe>);

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.reader_gone = true;
        let pieces = std::mem::take(&mut state.pieces);
        let waker = state.writer_waker.take();
        drop(state);
        drop(pieces);
        waker.into_iter().for_each(Waker::wake);
    }
}

struct MemorySender {
    queue: SendQueue,
    /// Gone when the channel was closed or failed.
    writer: Option<Writer>,
    has_failed: bool,
}

impl MemorySender {
    fn fail(&mut self, error: SendError) -> SendError {
        self.has_failed = true;
        self.writer = None;
        self.queue.clear();
        error
    }
}

impl Sender for MemorySender {
    fn push(&mut self, message: Outbound) {
        if self.writer.is_some() {
            self.queue.push(message);
        }
    }

    fn wants_more(&self) -> bool {
        self.writer.is_some() && self.queue.wants_more()
    }

    fn wants_small(&self) -> bool {
        self.writer.is_some() && self.queue.wants_small()
    }

    fn small_size_max(&self) -> usize {
        self.queue.small_size_max()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.queue.check().is_ok()
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        let Some(Writer(pipe)) = &self.writer else {
            return Poll::Ready(Err(SendError::Closed));
        };
        if let Err(error) = self.queue.check() {
            return Poll::Ready(Err(self.fail(error)));
        }
        let mut state = lock(&pipe.state);
        if state.reader_gone {
            drop(state);
            return Poll::Ready(Err(
                self.fail(io::Error::from(io::ErrorKind::BrokenPipe).into())
            ));
        }
        let mut is_full = state.bytes > 0 && state.bytes >= pipe.bytes_max;
        if is_full && !self.queue.is_empty() {
            state.writer_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        while !is_full && let Some(piece) = self.queue.next_piece(true) {
            state.bytes += HEADER_SIZE + piece.header.body as usize;
            is_full = state.bytes >= pipe.bytes_max;
            accepted.extend(piece.finishes);
            state.pieces.push_back(piece);
        }
        let waker = state.reader_waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        if self.has_failed {
            return Poll::Ready(Err(SendError::Closed));
        }
        while self.writer.is_some() && !self.is_idle() {
            ready!(self.poll_send(cx, accepted))?;
        }
        self.writer = None;
        Poll::Ready(Ok(()))
    }
}

struct MemoryReceiver {
    reader: Reader,
    reassembly: Reassembly,
    timer: ReassemblyTimer,
    failure: Option<ReceiveError>,
    is_over: bool,
    bytes_received: u64,
}

impl MemoryReceiver {
    /// Takes everything the pipe holds.
    fn poll_pieces(&mut self, cx: &mut Context<'_>) -> Poll<Result<VecDeque<Piece>, ReceiveError>> {
        let mut state = lock(&self.reader.0.state);
        if !state.pieces.is_empty() {
            let pieces = std::mem::take(&mut state.pieces);
            state.bytes = 0;
            let waker = state.writer_waker.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(pieces));
        }
        if state.writer_gone {
            let is_between = self.reassembly.is_idle();
            return Poll::Ready(Err(if is_between {
                ReceiveError::Closed
            } else {
                ReceiveError::Cut
            }));
        }
        state.reader_waker = Some(cx.waker().clone());
        drop(state);
        self.timer
            .poll(cx, &mut self.reassembly)
            .map(|error| Err(error.into()))
    }

    fn poll_once(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        for Piece {
            header, head, body, ..
        } in ready!(self.poll_pieces(cx))?
        {
            self.bytes_received += u64::from(header.body) + HEADER_SIZE as u64;
            if header.body == header.total {
                self.reassembly.check_whole(&header)?;
                messages.push(join(head, body));
                continue;
            }
            let now = now();
            messages.extend(self.reassembly.begin(&header, now)?);
            messages.extend(self.reassembly.extend(&head, now)?);
            messages.extend(self.reassembly.extend(&body, now)?);
        }
        Poll::Ready(Ok(()))
    }
}

fn join(head: Bytes, body: Bytes) -> Bytes {
    if head.is_empty() {
        return body;
    }
    if body.is_empty() {
        return head;
    }
    let mut message = BytesMut::with_capacity(head.len() + body.len());
    message.extend_from_slice(&head);
    message.extend_from_slice(&body);
    message.freeze()
}

impl Receiver for MemoryReceiver {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        if self.is_over {
            return Poll::Ready(Err(self.failure.take().unwrap_or(ReceiveError::Closed)));
        }
        let messages_before = messages.len();
        // One turn is bounded by what the pipe holds; without a complete message the next turn waits.
        loop {
            let outcome = ready!(self.poll_once(cx, messages));
            let has_messages = messages.len() > messages_before;
            match outcome {
                Ok(()) if has_messages => return Poll::Ready(Ok(())),
                Ok(()) => {}
                Err(error) => {
                    self.is_over = true;
                    if !has_messages {
                        return Poll::Ready(Err(error));
                    }
                    self.failure = Some(error);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    fn bytes_received(&self) -> u64 {
        self.bytes_received
    }
}
