//! One direction of an HTTP session: bytes between a channel's half and the requests that carry them.
//!
//! What it keeps true: it holds at most its bound (plus one piece that was received); it has one end, told to both
//! sides; what was written before the end is read before the end.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::error::TransportFailure;

/// How a direction ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Over {
    /// In order.
    Closed,
    /// The connection under it is gone.
    Cut,
    /// By a rule of the transport.
    Broken(String),
}

impl Over {
    pub(super) fn broken(reason: &str) -> Self {
        Self::Broken(reason.to_owned())
    }

    /// What a reader gets at this end.
    pub(super) fn read_result(&self) -> io::Result<()> {
        match self {
            Self::Closed => Ok(()),
            Self::Cut => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Broken(reason) => Err(io::Error::other(TransportFailure::new(reason))),
        }
    }

    /// What a writer gets who is not at the end yet.
    fn write_error(&self) -> io::Error {
        match self {
            Self::Closed | Self::Cut => io::ErrorKind::BrokenPipe.into(),
            Self::Broken(reason) => io::Error::other(TransportFailure::new(reason)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Pipe {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    /// The writer has nothing more to write.
    is_ended: bool,
    over: Option<Over>,
    writer: Option<Waker>,
    reader: Option<Waker>,
}

/// What a reader finds.
#[derive(Debug)]
pub(super) enum Taken {
    Piece(Bytes),
    /// The writer ended it, and everything was read. To be answered with [`Pipe::end`].
    Ended,
    Over(Over),
}

impl Pipe {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max: bytes_max.max(1),
            state: Mutex::default(),
        })
    }

    /// No code that can panic runs under this lock, so what it guards is sound even if it was poisoned.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end, unless there was one before. Wakes both sides.
    pub(super) fn end(&self, over: Over) {
        let mut state = self.lock();
        state.over.get_or_insert(over);
        let wakers = [state.writer.take(), state.reader.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// The next bytes, at most `size_max` of them.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>, size_max: usize) -> Poll<Taken> {
        let mut state = self.lock();
        if let Some(front) = state.pieces.front_mut() {
            let piece = front.split_to(front.len().min(size_max));
            if front.is_empty() {
                state.pieces.pop_front();
            }
            state.bytes -= piece.len();
            let waker = state.writer.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
            return Poll::Ready(Taken::Piece(piece));
        }
        if let Some(over) = &state.over {
            return Poll::Ready(Taken::Over(over.clone()));
        }
        if state.is_ended {
            return Poll::Ready(Taken::Ended);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Adds a piece that is here already, when there is room for any.
    pub(super) fn poll_push(&self, cx: &mut Context<'_>, piece: &Bytes) -> Poll<Result<(), Over>> {
        let mut state = self.lock();
        if let Some(over) = &state.over {
            return Poll::Ready(Err(over.clone()));
        }
        if state.bytes >= self.bytes_max {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if !piece.is_empty() {
            state.bytes += piece.len();
            state.pieces.push_back(piece.clone());
        }
        let waker = state.reader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }

    fn poll_copy(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        if let Some(over) = &state.over {
            return Poll::Ready(Err(over.write_error()));
        }
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let room = self.bytes_max.saturating_sub(state.bytes).min(total);
        if room == 0 && total > 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut piece = BytesMut::with_capacity(room);
        for slice in slices {
            let count = slice.len().min(room - piece.len());
            piece.extend_from_slice(&slice[..count]);
        }
        if room > 0 {
            state.bytes += room;
            state.pieces.push_back(piece.freeze());
        }
        let waker = state.reader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(room))
    }

    /// Waits until everything was taken; with `ends` until the reader has taken note of the end too.
    fn poll_taken(&self, cx: &mut Context<'_>, ends: bool) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        match &state.over {
            // A reader that answers our end closes; one that goes before it cuts what is left.
            Some(Over::Closed) if state.pieces.is_empty() => return Poll::Ready(Ok(())),
            Some(over) => return Poll::Ready(Err(over.write_error())),
            None if state.pieces.is_empty() && !ends => return Poll::Ready(Ok(())),
            None => {}
        }
        state.is_ended |= ends;
        state.writer = Some(cx.waker().clone());
        let waker = state.reader.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

/// The channel's sending half of a pipe.
pub(super) struct PipeWriter(pub(super) Arc<Pipe>);

impl AsyncWrite for PipeWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_copy(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_copy(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_taken(cx, false)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_taken(cx, true)
    }
}

/// The channel's receiving half of a pipe. Dropping it ends the pipe.
pub(super) struct PipeReader {
    pipe: Arc<Pipe>,
    piece: Bytes,
}

impl PipeReader {
    pub(super) fn new(pipe: Arc<Pipe>) -> Self {
        Self {
            pipe,
            piece: Bytes::new(),
        }
    }
}

impl AsyncRead for PipeReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.piece.is_empty() {
            match std::task::ready!(self.pipe.poll_take(cx, usize::MAX)) {
                Taken::Piece(piece) => self.piece = piece,
                Taken::Ended => return Poll::Ready(Ok(())),
                Taken::Over(over) => return Poll::Ready(over.read_result()),
            }
        }
        let count = self.piece.len().min(out.remaining());
        out.put_slice(&self.piece[..count]);
        self.piece.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.pipe.end(Over::Cut);
    }
}
