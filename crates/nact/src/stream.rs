//! A channel over any byte stream: TCP, Unix sockets, and whatever is wrapped around them (TLS).
//!
//! What it keeps true:
//! - Frames leave back to back and whole, whatever is dropped and however the stream splits its writes.
//! - One gathered write carries many small messages; large ones are written from the caller's own memory.
//! - One read is parsed to its end before anything else is read. Small messages are slices of the read buffer, large
//!   ones are read straight into the buffer that becomes the message.
//! - After a failure nothing more is read or written.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::channel::{Channel, Outbound, Receiver, Sender};
use crate::error::{ReceiveError, SendError};
use crate::frame::{FrameError, HEADER_SIZE, Header};
use crate::options::Options;
use crate::reassembly::Reassembly;
use crate::reassembly_timer::{ReassemblyTimer, now};
use crate::send_queue::SendQueue;
use crate::write_batch::{SLICES_MAX, WriteBatch};

/// Reads of one poll at most, while no message is complete. Then the task yields to others.
const READS_PER_POLL: usize = 16;
/// What the read buffer starts with; it doubles up to `read_buffer_size` when reads fill it.
const READ_BUFFER_START: usize = 2 * 1024;

/// A channel over the two directions of a byte stream. `remote` describes the other side for people.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nact::{Options, Outbound, ReceiveError, stream};
/// let (here, there) = tokio::io::duplex(4096);
/// let ((here_read, here_write), (there_read, there_write)) = (tokio::io::split(here), tokio::io::split(there));
/// let mut here = stream::channel(here_read, here_write, "there", &Options::default());
/// let mut there = stream::channel(there_read, there_write, "here", &Options::default());
///
/// here.sender.push(Outbound { token: 7, body: "hello".into(), ..Outbound::default() });
/// assert_eq!(here.sender.close().await?, [7]);
/// let mut messages = Vec::new();
/// there.receiver.receive(&mut messages).await?;
/// assert_eq!(messages, ["hello"]);
/// assert!(matches!(there.receiver.receive(&mut messages).await, Err(ReceiveError::Closed)));
/// # Ok(()) }
/// ```
pub fn channel<R, W>(read: R, write: W, remote: impl Into<String>, options: &Options) -> Channel
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    Channel::new(
        Box::new(StreamSender::new(write, options)),
        Box::new(StreamReceiver::new(read, options)),
        remote,
    )
}

pub(crate) struct StreamSender<W> {
    io: W,
    queue: SendQueue,
    batch: WriteBatch,
    batch_bytes_max: usize,
    needs_flush: bool,
    state: SendState,
}

#[derive(Clone, Copy, PartialEq)]
enum SendState {
    Open,
    Closed,
    Failed,
}

impl<W: AsyncWrite + Unpin> StreamSender<W> {
    pub(crate) fn new(io: W, options: &Options) -> Self {
        Self {
            io,
            queue: SendQueue::new(options),
            batch: WriteBatch::default(),
            batch_bytes_max: options.batch_bytes_max.max(1),
            needs_flush: false,
            state: SendState::Open,
        }
    }

    /// Chooses what is written next. A chunk is staged only when less than a chunk is left to write: what comes later
    /// and is small then waits for two chunks at most.
    fn stage(&mut self) {
        while self.batch.has_room(self.batch_bytes_max) {
            let may_chunk = self.batch.unwritten() <= self.queue.small_size_max();
            let Some(piece) = self.queue.next_piece(may_chunk) else {
                break;
            };
            self.batch.stage(piece);
        }
        self.batch.seal();
    }

    fn poll_progress(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        self.queue.check()?;
        self.stage();
        if self.batch.unwritten() == 0 {
            return self.poll_flush(cx);
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = self.batch.slices(&mut slices);
        let io = Pin::new(&mut self.io);
        let written = match &slices[..count] {
            // Mostly it is one, and a plain write is a little cheaper for the system.
            [slice] => ready!(io.poll_write(cx, slice))?,
            slices => ready!(io.poll_write_vectored(cx, slices))?,
        };
        if written == 0 {
            return Poll::Ready(Err(SendError::Io(io::ErrorKind::WriteZero.into())));
        }
        self.batch.advance(written, accepted);
        self.needs_flush = true;
        if self.batch.unwritten() == 0 && self.queue.is_empty() {
            // Written is progress; a flush that is not done yet has registered its waker and goes on at the next call.
            if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.needs_flush {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Frees what can no longer be sent.
    fn fail(&mut self, error: SendError) -> SendError {
        self.state = SendState::Failed;
        self.queue.clear();
        self.batch = WriteBatch::default();
        error
    }
}

impl<W: AsyncWrite + Send + Unpin> Sender for StreamSender<W> {
    fn push(&mut self, message: Outbound) {
        if self.state == SendState::Open {
            self.queue.push(message);
        }
    }

    fn wants_more(&self) -> bool {
        self.state == SendState::Open && self.queue.wants_more()
    }

    fn wants_small(&self) -> bool {
        self.state == SendState::Open && self.queue.wants_small()
    }

    fn small_size_max(&self) -> usize {
        self.queue.small_size_max()
    }

    fn is_idle(&self) -> bool {
        self.batch.unwritten() == 0
            && self.queue.is_empty()
            && !self.needs_flush
            && self.queue.check().is_ok()
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        if self.state != SendState::Open {
            return Poll::Ready(Err(SendError::Closed));
        }
        self.poll_progress(cx, accepted)
            .map_err(|error| self.fail(error))
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        match self.state {
            SendState::Closed => return Poll::Ready(Ok(())),
            SendState::Failed => return Poll::Ready(Err(SendError::Closed)),
            SendState::Open => {}
        }
        while !self.is_idle() {
            ready!(self.poll_send(cx, accepted))?;
        }
        match ready!(Pin::new(&mut self.io).poll_shutdown(cx)) {
            Ok(()) => self.state = SendState::Closed,
            Err(error) => return Poll::Ready(Err(self.fail(error.into()))),
        }
        Poll::Ready(Ok(()))
    }
}

pub(crate) struct StreamReceiver<R> {
    io: R,
    buffer: BytesMut,
    /// Room that the next read offers; grows with the remote's appetite.
    read_size: usize,
    read_size_max: usize,
    /// Bytes that a frame waits for in the buffer.
    frame_wanted: usize,
    /// The last frame was filled in place: its successor likely will be, so only its header is read before it.
    reads_header: bool,
    frame_size_max: u32,
    reassembly: Reassembly,
    timer: ReassemblyTimer,
    failure: Option<ReceiveError>,
    is_over: bool,
    bytes_received: u64,
}

impl<R: AsyncRead + Unpin> StreamReceiver<R> {
    pub(crate) fn new(io: R, options: &Options) -> Self {
        let read_size_max = options.read_buffer_size.max(4 * 1024);
        Self {
            io,
            buffer: BytesMut::new(),
            read_size: READ_BUFFER_START.min(read_size_max),
            read_size_max,
            frame_wanted: 0,
            reads_header: false,
            frame_size_max: options.frame_size_max,
            reassembly: Reassembly::new(options),
            timer: ReassemblyTimer::default(),
            failure: None,
            is_over: false,
            bytes_received: 0,
        }
    }

    /// Reads once. Gives the bytes read; 0 at the end of the stream.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<usize, ReceiveError>> {
        if let Some(mut spare) = self.reassembly.spare() {
            let count = ready!(pin!(self.io.read_buf(&mut spare)).poll(cx))?;
            if count > 0 {
                messages.extend(self.reassembly.filled(count, now())?);
                self.reads_header = self.reassembly.expects_chunk();
            }
            return Poll::Ready(Ok(count));
        }
        let room = self.room();
        let count = ready!(pin!(self.io.read_buf(&mut (&mut self.buffer).limit(room))).poll(cx))?;
        self.reads_header = false;
        if count == self.read_size {
            self.read_size = (2 * self.read_size).min(self.read_size_max);
        }
        Poll::Ready(Ok(count))
    }

    /// Makes room in the buffer; returns how much of it to use.
    fn room(&mut self) -> usize {
        if self.reads_header && self.buffer.is_empty() {
            self.buffer.reserve(HEADER_SIZE);
            return HEADER_SIZE;
        }
        let wanted = self
            .read_size
            .max(self.frame_wanted.saturating_sub(self.buffer.len()));
        let spare = self.buffer.capacity() - self.buffer.len();
        // A fresh buffer is taken only when the old one is nearly used up: messages that are kept then share one.
        if spare < wanted
            && !self.buffer.try_reclaim(wanted)
            && (spare < wanted / 4 || self.frame_wanted > 0)
        {
            self.buffer.reserve(wanted);
        }
        (self.buffer.capacity() - self.buffer.len()).min(wanted)
    }

    /// Takes apart everything in the buffer.
    fn parse(&mut self, messages: &mut Vec<Bytes>) -> Result<(), FrameError> {
        self.frame_wanted = 0;
        loop {
            let body = self.reassembly.remaining().min(self.buffer.len());
            if body > 0 {
                messages.extend(self.reassembly.extend(&self.buffer[..body], now())?);
                self.buffer.advance(body);
            }
            if self.reassembly.remaining() > 0 {
                return Ok(());
            }
            let Some(header) = self.buffer.first_chunk() else {
                return Ok(());
            };
            let header = Header::parse(header, self.frame_size_max)?;
            let (body, frame) = (header.body as usize, header.body as usize + HEADER_SIZE);
            if header.body == header.total && frame <= self.read_size_max {
                self.reassembly.check_whole(&header)?;
                if self.buffer.len() < frame {
                    self.frame_wanted = frame;
                    return Ok(());
                }
                self.buffer.advance(HEADER_SIZE);
                messages.push(self.buffer.split_to(body).freeze());
            } else {
                self.buffer.advance(HEADER_SIZE);
                messages.extend(self.reassembly.begin(&header, now())?);
            }
        }
    }

    fn poll_once(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        let Poll::Ready(count) = self.poll_read(cx, messages)? else {
            return self
                .timer
                .poll(cx, &mut self.reassembly)
                .map(|error| Err(error.into()));
        };
        if count == 0 {
            let is_between = self.buffer.is_empty() && self.reassembly.is_idle();
            return Poll::Ready(Err(if is_between {
                ReceiveError::Closed
            } else {
                ReceiveError::Cut
            }));
        }
        self.bytes_received += count as u64;
        Poll::Ready(Ok(self.parse(messages)?))
    }
}

/// Has the task polled again, but not before the runtime has looked at its other connections: waking it plainly would
/// let one firehose run some sixty turns before any of them is heard.
pub(crate) fn give_way(cx: &mut Context<'_>) {
    let turn = std::pin::pin!(tokio::task::yield_now());
    // Its first poll hands the waker to the runtime; that is all that is wanted of it.
    let _ = turn.poll(cx);
}

impl<R: AsyncRead + Send + Unpin> Receiver for StreamReceiver<R> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        if self.is_over {
            return Poll::Ready(Err(self.failure.take().unwrap_or(ReceiveError::Closed)));
        }
        let messages_before = messages.len();
        for _ in 0..READS_PER_POLL {
            let outcome = ready!(self.poll_once(cx, messages));
            let has_messages = messages.len() > messages_before;
            if let Err(error) = outcome {
                self.is_over = true;
                self.buffer = BytesMut::new();
                if !has_messages {
                    return Poll::Ready(Err(error));
                }
                self.failure = Some(error);
            }
            if has_messages {
                return Poll::Ready(Ok(()));
            }
        }
        give_way(cx);
        Poll::Pending
    }

    fn bytes_received(&self) -> u64 {
        self.bytes_received
    }
}
