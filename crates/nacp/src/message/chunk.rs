//! Memory that many small pieces share, so that each costs no allocation of its own. What this module keeps true: a chunk
//! lives as long as one of its pieces, so what a piece that stays can hold is bounded by the chunk's size.

use bytes::{Bytes, BytesMut};

/// Bytes of a shared chunk.
const CHUNK: usize = 16 * 1024;
/// The largest piece that shares one.
pub(super) const SHARED_MAX: usize = CHUNK / 8;

/// The chunk that pieces are cut from.
#[derive(Debug, Default)]
pub(super) struct SharedChunk(BytesMut);

impl SharedChunk {
    /// A piece with these two parts, of at most [`SHARED_MAX`] bytes together.
    pub(super) fn piece(&mut self, first: &[u8], second: &[u8]) -> Bytes {
        let size = first.len() + second.len();
        debug_assert!(size <= SHARED_MAX);
        if self.0.capacity() < size {
            // Gets the old chunk back if none of its pieces lives any more.
            self.0.reserve(CHUNK);
        }
        self.0.extend_from_slice(first);
        self.0.extend_from_slice(second);
        self.0.split().freeze()
    }
}
