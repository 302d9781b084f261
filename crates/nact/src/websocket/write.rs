//! The writing side of a WebSocket connection, shared by the channel's two halves.
//!
//! What it keeps true:
//! - Whatever half writes, frames leave whole and in the order in which they were staged; nothing follows a close frame.
//! - Both halves are woken when the connection takes more, whichever of them asked last.
//! - A token is given out by the sender even if the receiver wrote its message's last byte.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::Role;
use super::mask::{Keys, apply};
use crate::error::SendError;
use crate::frame::HEADER_SIZE;
use crate::options::Options;
use crate::send_queue::{Piece, SendQueue};
use crate::write_batch::{SLICES_MAX, WriteBatch};

/// Wakes both halves: the connection remembers only who asked last.
#[derive(Default)]
struct Wakers {
    sender: Mutex<Option<Waker>>,
    receiver: Mutex<Option<Waker>>,
}

impl Wakers {
    fn set(slot: &Mutex<Option<Waker>>, cx: &Context<'_>) {
        let mut slot = lock(slot);
        if !slot
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *slot = Some(cx.waker().clone());
        }
    }

    fn wake(slot: &Mutex<Option<Waker>>) {
        let waker = lock(slot).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        Wakers::wake(&self.sender);
        Wakers::wake(&self.receiver);
    }
}

/// No code that can panic runs under these locks, so what they guard is sound even if one was poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Shared<W> {
    wakers: Arc<Wakers>,
    /// Of `wakers`.
    waker: Waker,
    /// Something waits that the receiver must see to: spares it the lock.
    has_control: AtomicBool,
    writer: Mutex<Writer<W>>,
}

struct Writer<W> {
    io: W,
    role: Role,
    keys: Keys,
    batch: WriteBatch,
    batch_bytes_max: usize,
    needs_flush: bool,
    /// Accepted while the receiver wrote.
    accepted: Vec<u64>,
    /// The answer to the latest ping.
    pong: Option<Bytes>,
    close: Option<Bytes>,
    /// Where in the stream the last control frame ends.
    control_end: u64,
    is_closing: bool,
    peer_closed: bool,
    /// The sender was dropped or failed: only a cut is left.
    is_abandoned: bool,
    has_failed: bool,
    is_shut: bool,
}

impl<W> Shared<W> {
    pub(super) fn new(io: W, role: Role, options: &Options) -> Self {
        let wakers = Arc::<Wakers>::default();
        let writer = Writer {
            io,
            role,
            keys: Keys::default(),
            batch: WriteBatch::default(),
            batch_bytes_max: options.batch_bytes_max.max(1),
            needs_flush: false,
            accepted: Vec::new(),
            pong: None,
            close: None,
            control_end: 0,
            is_closing: false,
            peer_closed: false,
            is_abandoned: false,
            has_failed: false,
            is_shut: false,
        };
        Self {
            waker: Waker::from(Arc::clone(&wakers)),
            wakers,
            has_control: AtomicBool::new(false),
            writer: Mutex::new(writer),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let writer = lock(&self.writer);
        writer.batch.unwritten() == 0 && !writer.needs_flush && writer.accepted.is_empty()
    }

    /// The remote wants an answer. Only the latest gets one, if the one before has not left yet.
    pub(super) fn answer_ping(&self, payload: Bytes) {
        lock(&self.writer).pong = Some(payload);
        self.has_control.store(true, Ordering::Release);
    }

    /// The remote said farewell; it gets the same back, unless it had one already.
    pub(super) fn answer_close(&self, payload: Bytes) {
        let mut writer = lock(&self.writer);
        writer.peer_closed = true;
        writer.close.get_or_insert(payload);
        drop(writer);
        self.has_control.store(true, Ordering::Release);
        Wakers::wake(&self.wakers.sender);
    }

    /// Says farewell, unless that was done before.
    pub(super) fn start_close(&self, code: CloseCode) {
        let mut writer = lock(&self.writer);
        if writer.close.is_none() {
            writer.close = Some(Bytes::copy_from_slice(&u16::from(code).to_be_bytes()));
        }
        // Nothing that comes is read any more.
        writer.peer_closed = true;
        drop(writer);
        self.has_control.store(true, Ordering::Release);
        Wakers::wake(&self.wakers.sender);
    }

    /// The sender is gone without a farewell.
    pub(super) fn abandon(&self) {
        lock(&self.writer).is_abandoned = true;
        self.has_control.store(true, Ordering::Release);
        Wakers::wake(&self.wakers.receiver);
    }
}

impl<W: AsyncWrite + Unpin> Shared<W> {
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        Wakers::set(&self.wakers.sender, cx);
        let mut writer = lock(&self.writer);
        accepted.append(&mut writer.accepted);
        if writer.is_over() {
            return Poll::Ready(Err(SendError::Closed));
        }
        writer.stage(queue)?;
        let outcome = writer.poll_progress(&mut Context::from_waker(&self.waker));
        accepted.append(&mut writer.accepted);
        outcome.map_err(SendError::from)
    }

    /// Sends the farewell; `Ready` when it was taken by the connection.
    pub(super) fn poll_close(&self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Wakers::set(&self.wakers.sender, cx);
        let mut writer = lock(&self.writer);
        if writer.close.is_none() {
            let code = u16::from(CloseCode::Normal).to_be_bytes();
            writer.close = Some(Bytes::copy_from_slice(&code));
        }
        let cx = &mut Context::from_waker(&self.waker);
        writer.stage_control()?;
        while !writer.has_failed && !writer.is_written() {
            ready!(writer.poll_progress(cx))?;
        }
        if writer.has_failed && !writer.peer_closed {
            return Poll::Ready(Err(SendError::Closed));
        }
        Poll::Ready(Ok(()))
    }

    /// What the receiver must see to: pongs and close frames leave though nothing is sent; after the farewell of both
    /// sides, or without a sender, the connection's outgoing direction ends. `Ready` when nothing of it is left.
    pub(super) fn poll_control(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_control.load(Ordering::Acquire) {
            // Set anew while this runs, it is seen at the next poll: whoever sets it is the receiver or wakes it.
            Wakers::set(&self.wakers.receiver, cx);
            if !self.has_control.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
        }
        Wakers::set(&self.wakers.receiver, cx);
        let mut writer = lock(&self.writer);
        let outcome = writer.poll_control(&mut Context::from_waker(&self.waker));
        if outcome.is_ready() {
            self.has_control.store(false, Ordering::Release);
        }
        let wakes_sender = !writer.accepted.is_empty() || writer.has_failed;
        drop(writer);
        if wakes_sender {
            Wakers::wake(&self.wakers.sender);
        }
        outcome
    }
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    fn is_over(&self) -> bool {
        self.is_closing || self.peer_closed || self.has_failed || self.is_abandoned
    }

    fn is_written(&self) -> bool {
        self.batch.unwritten() == 0 && !self.needs_flush
    }

    /// Chooses what is written next; see the sender of byte streams.
    fn stage(&mut self, queue: &mut SendQueue) -> io::Result<()> {
        self.stage_control()?;
        while self.batch.has_room(self.batch_bytes_max) {
            let may_chunk = self.batch.unwritten() <= queue.small_size_max();
            let Some(piece) = queue.next_piece(may_chunk) else {
                break;
            };
            self.stage_piece(piece)?;
        }
        Ok(())
    }

    fn stage_control(&mut self) -> io::Result<()> {
        if self.is_closing {
            return Ok(());
        }
        // One at a time: the pong before must have left.
        if self.pong.is_some()
            && self.batch.written_total() >= self.control_end
            && let Some(payload) = self.pong.take()
        {
            self.stage_frame(OpCode::Control(Control::Pong), &[&payload], None)?;
            self.control_end = self.batch.staged_total();
        }
        if let Some(payload) = self.close.clone() {
            self.stage_frame(OpCode::Control(Control::Close), &[&payload], None)?;
            self.control_end = self.batch.staged_total();
            self.is_closing = true;
        }
        Ok(())
    }

    fn stage_piece(&mut self, piece: Piece) -> io::Result<()> {
        let binary = OpCode::Data(Data::Binary);
        if self.role == Role::Client {
            let header = piece.header.encode();
            let parts: [&[u8]; 3] = [&header, &piece.head, &piece.body];
            return self.stage_frame(binary, &parts, piece.finishes);
        }
        let size = HEADER_SIZE + piece.head.len() + piece.body.len();
        let (head, head_size) = header(binary, size, None);
        self.batch.copy(&head[..head_size]);
        self.batch.stage(piece);
        Ok(())
    }

    /// A frame whose payload is copied: masked, or small.
    fn stage_frame(
        &mut self,
        opcode: OpCode,
        parts: &[&[u8]],
        finishes: Option<u64>,
    ) -> io::Result<()> {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let key = match self.role {
            Role::Client => Some(self.keys.next()?),
            Role::Server => None,
        };
        let (head, head_size) = header(opcode, size, key);
        let mut frame = BytesMut::with_capacity(head_size + size);
        frame.extend_from_slice(&head[..head_size]);
        parts.iter().for_each(|part| frame.extend_from_slice(part));
        if let Some(key) = key {
            apply(&mut frame[head_size..], key, 0);
        }
        self.batch.stage_bytes(frame.freeze(), finishes);
        Ok(())
    }

    /// One write, or the flush when all is written.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = self.poll_write(cx);
        if let Poll::Ready(Err(_)) = outcome {
            self.has_failed = true;
            self.batch = WriteBatch::default();
        }
        outcome
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.batch.seal();
        if self.batch.unwritten() > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = self.batch.slices(&mut slices);
            let io = Pin::new(&mut self.io);
            let written = ready!(io.poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.batch.advance(written, &mut self.accepted);
            self.needs_flush = true;
            if self.batch.unwritten() > 0 {
                return Poll::Ready(Ok(()));
            }
            // Written is progress; a flush that is not done yet has registered its waker and goes on at the next call.
            if let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(cx) {
                self.needs_flush = false;
                return Poll::Ready(flushed);
            }
            return Poll::Ready(Ok(()));
        }
        if self.needs_flush {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_control(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.has_failed || self.is_shut {
                return Poll::Ready(());
            }
            let ends = (self.is_closing && self.peer_closed && self.is_written())
                || (self.is_abandoned && !self.peer_closed);
            if ends {
                // Only the attempt counts: the remote may be gone.
                let _ = ready!(Pin::new(&mut self.io).poll_shutdown(cx));
                self.is_shut = true;
                return Poll::Ready(());
            }
            if self.stage_control().is_err() {
                self.has_failed = true;
                return Poll::Ready(());
            }
            let has_control_left = self.batch.written_total() < self.control_end
                || self.pong.is_some()
                || (self.control_end > 0 && self.batch.unwritten() == 0 && self.needs_flush);
            let is_mutual = self.is_closing && self.peer_closed;
            if !(has_control_left || is_mutual) {
                return Poll::Ready(());
            }
            // A failure shows as `has_failed`.
            let _ = ready!(self.poll_progress(cx));
        }
    }
}

/// The header of a whole frame, and its size.
fn header(opcode: OpCode, size: usize, mask: Option<[u8; 4]>) -> ([u8; 14], usize) {
    let header = FrameHeader {
        opcode,
        mask,
        ..FrameHeader::default()
    };
    let mut bytes = [0; 14];
    header
        .format(size as u64, &mut &mut bytes[..])
        .expect("no header is longer");
    (bytes, header.len(size as u64))
}
