//! Puts messages together from frames that may interleave.
//!
//! Pure; `now` is handed in. What it keeps true:
//! - Memory grows with the bytes that came, never with what a header claims.
//! - At most one frame is being filled at a time; it is filled in place, so a byte is written once.
//! - A byte of a message comes once: a frame that overlaps what came is refused. Any order of frames is accepted.
//! - Unfinished messages are bounded in number, bytes, pieces and time.
//!
//! A message whose frames come in order grows as one buffer. A frame that comes early waits as a piece of its own.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::buf::Limit;
use bytes::{BufMut, Bytes};

use crate::frame::{FrameError, Header, PacketId};
use crate::options::Options;

/// What an unfinished message costs beside its bytes, for the bound on bytes.
const MESSAGE_OVERHEAD: u64 = 256;
/// What a piece out of order costs beside its bytes.
const PIECE_OVERHEAD: u64 = 128;
/// Pieces out of order that one message may have waiting.
const PIECES_MAX: usize = 4096;
/// Frames without body, of messages that are not empty, that may come in a row.
const EMPTY_FRAMES_MAX: u32 = 1024;
/// A buffer that is being filled grows at least by this, if the frame is that long.
const GROWTH_MIN: usize = 64 * 1024;

/// Unfinished messages of one channel.
///
/// For authors of transports: `begin` a frame, then hand its body over in any portions.
///
/// ```
/// use nact::{Options, Reassembly, frame::{Header, PacketId}};
/// let (mut reassembly, now) = (Reassembly::new(&Options::default()), std::time::Instant::now());
/// let first = Header { packet: PacketId([1; 16]), offset: 0, total: 5, body: 3 };
/// assert_eq!(reassembly.begin(&first, now)?, None);
/// assert_eq!(reassembly.extend(b"hel", now)?, None);
/// assert_eq!(reassembly.begin(&Header { offset: 3, body: 2, ..first }, now)?, None);
/// assert_eq!(reassembly.extend(b"lo", now)?, Some("hello".into()));
/// # Ok::<(), nact::FrameError>(())
/// ```
#[derive(Debug)]
pub struct Reassembly {
    count_max: usize,
    bytes_max: u64,
    timeout: Duration,
    message_size_max: u32,
    open: HashMap<PacketId, Message>,
    /// The frame that is being filled; its message is taken out of `open` meanwhile.
    current: Option<Current>,
    /// Bytes of unfinished messages, overhead included.
    bytes: u64,
    empty_frames: u32,
}

#[derive(Debug)]
struct Message {
    total: u32,
    /// The bytes from 0 on, without a gap.
    prefix: Vec<u8>,
    /// What came beyond a gap, by offset.
    pieces: BTreeMap<u32, Vec<u8>>,
    progress: Instant,
}

#[derive(Debug)]
struct Current {
    packet: PacketId,
    message: Message,
    /// Set when the frame lies beyond a gap: the piece and its offset.
    piece: Option<(u32, Vec<u8>)>,
    remaining: usize,
}

impl Reassembly {
    /// Nothing open, with the bounds of `options`.
    pub fn new(options: &Options) -> Self {
        Self {
            count_max: options.reassembly_count_max.max(1),
            bytes_max: options.reassembly_bytes_max,
            timeout: options.reassembly_timeout,
            message_size_max: options.message_size_max,
            open: HashMap::new(),
            current: None,
            bytes: 0,
            empty_frames: 0,
        }
    }

    /// True when no message is half here.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.current.is_none()
    }

    /// Bytes held for unfinished messages, bookkeeping included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Checks the header of a frame that is a whole message and will not pass through here.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn check_whole(&self, header: &Header) -> Result<(), FrameError> {
        if header.total > self.message_size_max {
            return Err(FrameError::MessageTooLarge);
        }
        match self.open.get(&header.packet) {
            Some(message) if message.total != header.total => Err(FrameError::TotalMismatch),
            Some(_) => Err(FrameError::Overlapping),
            None => Ok(()),
        }
    }

    /// Starts a frame. Gives the message if it is complete with that: only one of size 0 is.
    ///
    /// # Errors
    /// What the frame breaks. The channel is to be closed.
    pub fn begin(&mut self, header: &Header, now: Instant) -> Result<Option<Bytes>, FrameError> {
        debug_assert!(
            self.current.is_none(),
            "a frame begins when the one before it is filled"
        );
        if header.total > self.message_size_max {
            return Err(FrameError::MessageTooLarge);
        }
        if let Some(message) = self.open.get(&header.packet) {
            message.check(header)?;
        }
        if header.body == 0 {
            return self.begin_empty(header);
        }
        let (message, cost) = match self.open.remove(&header.packet) {
            Some(message) => (message, 0),
            None if self.open.len() >= self.count_max => {
                return Err(FrameError::ReassemblyOverflow);
            }
            None => (Message::new(header.total, now), MESSAGE_OVERHEAD),
        };
        let piece =
            (header.offset as usize != message.prefix.len()).then(|| (header.offset, Vec::new()));
        if piece.is_some() && message.pieces.len() >= PIECES_MAX {
            return Err(FrameError::ReassemblyOverflow);
        }
        let cost = cost + if piece.is_some() { PIECE_OVERHEAD } else { 0 };
        self.current = Some(Current {
            packet: header.packet,
            message,
            piece,
            remaining: header.body as usize,
        });
        self.charge(cost)?;
        Ok(None)
    }

    /// An empty frame adds nothing to a message that is not empty, so it opens nothing and is no progress.
    fn begin_empty(&mut self, header: &Header) -> Result<Option<Bytes>, FrameError> {
        if header.total == 0 {
            return Ok(Some(Bytes::new()));
        }
        self.empty_frames += 1;
        if self.empty_frames > EMPTY_FRAMES_MAX {
            return Err(FrameError::ReassemblyOverflow);
        }
        Ok(None)
    }

    /// Bytes of the current frame's body that are still to come; 0 between frames.
    pub fn remaining(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.remaining)
    }

    /// True between frames while messages are half here: another chunk is likely next.
    pub fn expects_chunk(&self) -> bool {
        self.current.is_none() && !self.open.is_empty()
    }

    /// Where the current frame's body goes on, to read into; room for at least one byte, and never for more than the
    /// frame's rest. `None` between frames. Tell [`filled`](Self::filled) how many bytes were put there.
    pub fn spare(&mut self) -> Option<Limit<&mut Vec<u8>>> {
        let current = self.current.as_mut()?;
        let total = current.message.total as usize;
        let remaining = current.remaining;
        let (buffer, size_max) = match &mut current.piece {
            Some((offset, piece)) => (piece, total - *offset as usize),
            None => (&mut current.message.prefix, total),
        };
        let filled = buffer.len();
        if buffer.capacity() == filled {
            let capacity = (filled * 2)
                .max(filled + remaining.min(GROWTH_MIN))
                .min(size_max);
            buffer.reserve_exact(capacity - filled);
        }
        let room = (buffer.capacity() - filled).min(remaining);
        Some(buffer.limit(room))
    }

    /// `count` bytes were put into [`spare`](Self::spare). Gives the message if it is complete with them.
    ///
    /// # Errors
    /// [`FrameError::ReassemblyOverflow`]. The channel is to be closed.
    pub fn filled(&mut self, count: usize, now: Instant) -> Result<Option<Bytes>, FrameError> {
        self.charge(count as u64)?;
        let Some(current) = &mut self.current else {
            return Ok(None);
        };
        current.message.progress = now;
        current.remaining -= count;
        if current.remaining > 0 {
            return Ok(None);
        }
        self.empty_frames = 0;
        Ok(self
            .current
            .take()
            .and_then(|current| self.end_frame(current)))
    }

    /// Copies the next bytes of the current frame's body from `bytes`, which must not be longer than
    /// [`remaining`](Self::remaining). Gives the message if it is complete with them.
    ///
    /// # Errors
    /// As [`filled`](Self::filled).
    pub fn extend(&mut self, mut bytes: &[u8], now: Instant) -> Result<Option<Bytes>, FrameError> {
        let mut complete = None;
        while let (false, Some(mut spare)) = (bytes.is_empty(), self.spare()) {
            let count = spare.remaining_mut().min(bytes.len());
            spare.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            complete = self.filled(count, now)?;
        }
        debug_assert!(
            bytes.is_empty(),
            "no more than the frame's rest is handed over"
        );
        Ok(complete)
    }

    /// When [`handle_timeout`](Self::handle_timeout) may have something to say. It moves only later while messages
    /// make progress.
    pub fn next_timeout(&self) -> Option<Instant> {
        let current = self
            .current
            .as_ref()
            .map(|current| current.message.progress);
        let oldest = self
            .open
            .values()
            .map(|message| message.progress)
            .chain(current)
            .min()?;
        oldest.checked_add(self.timeout)
    }

    /// Early and repeated calls are no-ops.
    ///
    /// # Errors
    /// [`FrameError::ReassemblyTimeout`] when a message got nothing for the timeout. The channel is to be closed.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), FrameError> {
        if self.next_timeout().is_some_and(|deadline| now >= deadline) {
            Err(FrameError::ReassemblyTimeout)
        } else {
            Ok(())
        }
    }

    fn charge(&mut self, cost: u64) -> Result<(), FrameError> {
        self.bytes += cost;
        if self.bytes > self.bytes_max {
            Err(FrameError::ReassemblyOverflow)
        } else {
            Ok(())
        }
    }

    fn end_frame(&mut self, current: Current) -> Option<Bytes> {
        let Current {
            packet,
            mut message,
            piece,
            ..
        } = current;
        message.pieces.extend(piece);
        while let Some(piece) = message.next_piece() {
            message.prefix.extend_from_slice(&piece);
            self.bytes = self.bytes.saturating_sub(PIECE_OVERHEAD);
        }
        if message.prefix.len() < message.total as usize {
            self.open.insert(packet, message);
            return None;
        }
        self.bytes = self
            .bytes
            .saturating_sub(MESSAGE_OVERHEAD + u64::from(message.total));
        Some(Bytes::from(message.prefix))
    }
}

impl Message {
    fn new(total: u32, now: Instant) -> Self {
        Self {
            total,
            prefix: Vec::new(),
            pieces: BTreeMap::new(),
            progress: now,
        }
    }

    /// The waiting piece that starts where the prefix ends.
    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let end = u32::try_from(self.prefix.len()).ok()?;
        self.pieces.remove(&end)
    }

    /// The total must be the same, and no byte may come twice. The caller has checked that the body is inside the total.
    fn check(&self, header: &Header) -> Result<(), FrameError> {
        if header.total != self.total {
            return Err(FrameError::TotalMismatch);
        }
        let (start, end) = (
            header.offset as usize,
            header.offset as usize + header.body as usize,
        );
        let before = self
            .pieces
            .range(..=header.offset)
            .next_back()
            .map_or(0, |(at, piece)| *at as usize + piece.len());
        let after = self
            .pieces
            .range(header.offset..)
            .next()
            .map_or(usize::MAX, |(at, _)| *at as usize);
        if header.body > 0 && (start < self.prefix.len() || start < before || end > after) {
            return Err(FrameError::Overlapping);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "some time to start from; the rest is made up"
)]
mod tests {
    use super::*;

    fn header(packet: u8, offset: u32, total: u32, body: u32) -> Header {
        Header {
            packet: PacketId([packet; 16]),
            offset,
            total,
            body,
        }
    }

    #[test]
    fn a_claim_of_4_gib_allocates_nothing_of_it_b50_b54() {
        let (mut reassembly, now) = (Reassembly::new(&Options::default()), Instant::now());
        reassembly.begin(&header(1, 0, u32::MAX, 8), now).unwrap();
        reassembly.extend(b"12345678", now).unwrap();
        assert_eq!(reassembly.bytes(), 8 + MESSAGE_OVERHEAD);
        let capacity = reassembly.open[&PacketId([1; 16])].prefix.capacity();
        assert_eq!(capacity, 8, "room for what came, not for what is claimed");
    }

    #[test]
    fn a_frame_that_claims_2_gib_gets_room_as_its_bytes_come() {
        let (mut reassembly, now) = (Reassembly::new(&Options::default()), Instant::now());
        reassembly
            .begin(&header(1, 0, u32::MAX, 1 << 31), now)
            .unwrap();
        let mut received = 0;
        while received < 1 << 20 {
            let room = reassembly.spare().unwrap().remaining_mut();
            assert!(
                (1..=received.max(GROWTH_MIN)).contains(&room),
                "at most twice of what came"
            );
            let count = room.min(10_000);
            reassembly.extend(&vec![7; count], now).unwrap();
            received += count;
        }
    }

    #[test]
    fn everything_counted_is_given_back() {
        let (mut reassembly, now) = (Reassembly::new(&Options::default()), Instant::now());
        for offset in [6u32, 2, 0, 4] {
            assert!(
                reassembly
                    .begin(&header(1, offset, 8, 2), now)
                    .unwrap()
                    .is_none()
            );
            assert!(!reassembly.is_idle());
            reassembly.extend(b"ab", now).unwrap();
        }
        assert_eq!((reassembly.is_idle(), reassembly.bytes()), (true, 0));
        assert_eq!(reassembly.next_timeout(), None);
    }

    #[test]
    fn pieces_out_of_order_are_bounded() {
        let (mut reassembly, now) = (Reassembly::new(&Options::default()), Instant::now());
        let mut offsets = (1..).map(|index| index * 2);
        let error = loop {
            match reassembly.begin(&header(1, offsets.next().unwrap(), u32::MAX, 1), now) {
                Ok(_) => reassembly.extend(b"x", now).map(drop).unwrap(),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (error, offsets.next()),
            (
                FrameError::ReassemblyOverflow,
                Some(2 * (PIECES_MAX as u32 + 2))
            )
        );
    }

    #[test]
    fn the_timeout_is_early_safe_and_follows_the_oldest_progress() {
        let (mut reassembly, start) = (Reassembly::new(&Options::default()), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        for (packet, at) in [(1, 0), (2, 5)] {
            reassembly
                .begin(&header(packet, 0, 9, 1), after(at))
                .unwrap();
            reassembly.extend(b"x", after(at)).unwrap();
        }
        assert_eq!(reassembly.next_timeout(), Some(after(30)));
        reassembly.begin(&header(1, 1, 9, 1), after(20)).unwrap();
        reassembly.extend(b"x", after(20)).unwrap();
        assert_eq!(reassembly.next_timeout(), Some(after(35)));
        assert_eq!(reassembly.handle_timeout(after(34)), Ok(()));
        assert_eq!(
            reassembly.handle_timeout(after(35)),
            Err(FrameError::ReassemblyTimeout)
        );
    }
}
