//! Frames that were chosen to be written, as the byte stream that they are: the exact position survives a full
//! transport, a short write and a dropped future.
//!
//! What it keeps true: bytes leave in the order in which they were staged, each once; a token is given out when the last
//! byte of its message was taken.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

use crate::send_queue::Piece;

/// Slices of one gathered write at most.
pub(crate) const SLICES_MAX: usize = 64;
/// Parts up to this are copied together: that is cheaper than a slice of their own in the system call.
const COPY_SIZE_MAX: usize = 4 * 1024;
/// What is copied together is gathered in buffers of this size, which are used again once written.
const SCRATCH_SIZE_MAX: usize = 16 * 1024;
/// The first such buffer. Each that is filled is followed by one of twice its size, so that an idle connection holds little.
const SCRATCH_SIZE_START: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct WriteBatch {
    segments: VecDeque<Bytes>,
    /// Copied parts that are not yet a segment.
    scratch: BytesMut,
    scratch_size: usize,
    unwritten: usize,
    /// Bytes staged and written since the beginning.
    staged_total: u64,
    written_total: u64,
    /// Where in the stream the messages end, and their tokens.
    ends: VecDeque<(u64, u64)>,
}

impl WriteBatch {
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten
    }

    pub(crate) fn has_room(&self, bytes_max: usize) -> bool {
        self.unwritten < bytes_max && self.segments.len() < SLICES_MAX
    }

    pub(crate) fn stage(&mut self, piece: Piece) {
        self.copy(&piece.header.encode());
        self.stage_bytes(piece.head, None);
        self.stage_bytes(piece.body, piece.finishes);
    }

    /// Bytes as they are; `finishes` is the token of a message that ends with them.
    pub(crate) fn stage_bytes(&mut self, part: Bytes, finishes: Option<u64>) {
        if part.len() > COPY_SIZE_MAX {
            self.seal();
            self.count(part.len());
            self.segments.push_back(part);
        } else {
            self.copy(&part);
        }
        if let Some(token) = finishes {
            self.ends.push_back((self.staged_total, token));
        }
    }

    /// Where in the stream the staged bytes end.
    #[cfg_attr(not(feature = "web"), allow(dead_code))]
    pub(crate) fn staged_total(&self) -> u64 {
        self.staged_total
    }

    /// Where in the stream the written bytes end.
    #[cfg_attr(not(feature = "web"), allow(dead_code))]
    pub(crate) fn written_total(&self) -> u64 {
        self.written_total
    }

    /// Fills `slices` from the front; returns how many. Call [`seal`](Self::seal) before.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let count = self.segments.len().min(slices.len());
        for (slice, segment) in slices.iter_mut().zip(&self.segments) {
            *slice = IoSlice::new(segment);
        }
        count
    }

    /// The transport took `count` bytes.
    pub(crate) fn advance(&mut self, mut count: usize, accepted: &mut Vec<u64>) {
        self.unwritten -= count;
        self.written_total += count as u64;
        while let Some(front) = self.segments.front_mut() {
            if front.len() > count {
                front.advance(count);
                break;
            }
            count -= front.len();
            self.segments.pop_front();
        }
        while let Some((end, token)) = self.ends.front()
            && *end <= self.written_total
        {
            accepted.push(*token);
            self.ends.pop_front();
        }
    }

    /// Makes a segment of what was copied.
    pub(crate) fn seal(&mut self) {
        if !self.scratch.is_empty() {
            self.segments.push_back(self.scratch.split().freeze());
        }
    }

    /// Bytes that are copied.
    pub(crate) fn copy(&mut self, part: &[u8]) {
        if self.scratch.capacity() - self.scratch.len() < part.len() {
            // Sealed first, so that nothing staged is copied once more; the old buffer comes back if it was written.
            self.seal();
            let doubled = self.scratch_size * 2;
            self.scratch_size = doubled.clamp(SCRATCH_SIZE_START, SCRATCH_SIZE_MAX);
            self.scratch.reserve(part.len().max(self.scratch_size));
        }
        self.scratch.extend_from_slice(part);
        self.count(part.len());
    }

    fn count(&mut self, size: usize) {
        self.unwritten += size;
        self.staged_total += size as u64;
    }
}
