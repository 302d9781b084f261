//! The network: connections as two byte streams. What this module keeps true: bytes of a direction arrive in order and
//! once, or not at all; the kernel takes no more than its buffer holds before the reader has read; and a message is
//! there only when its last byte is, so that a cut can leave any part of it behind.
//!
//! ```text
//!  core ─► open messages ─► kernel buffer ─► wire ─► unread ─► core
//!          (being written)  (accepted here)          (reader stalled)
//! ```
//!
//! It decides nothing and knows no time: the world tells it when bytes move.

use std::collections::VecDeque;

use bytes::Bytes;

/// A message that the writer has begun, or is about to.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) bytes: Bytes,
    pub(crate) left: usize,
    pub(crate) token: u64,
}

/// Bytes of one message on their way; the last ones bring the message.
#[derive(Debug)]
struct Frame {
    left: usize,
    message: Option<Bytes>,
}

/// One direction.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Messages above one frame, whose frames take turns.
    pub(crate) open: VecDeque<Open>,
    /// The message whose frame is being written; it must end before any other begins.
    pub(crate) current: Option<(Open, usize)>,
    frames: VecDeque<Frame>,
    /// Bytes in `frames`.
    pub(crate) held: usize,
    /// Of these, bytes that an arrival is scheduled for.
    pub(crate) in_flight: usize,
    /// Of these, bytes that arrived and were not read.
    pub(crate) unread: usize,
    pub(crate) blocked: bool,
    pub(crate) stalled: bool,
    /// The writer closed: the reader learns it after the last byte.
    pub(crate) fin: bool,
    /// No arrival is before this time.
    pub(crate) busy_until: u64,
    pub(crate) last_arrival: u64,
}

impl Stream {
    /// Puts `count` bytes into the kernel buffer; `message` comes with the last of them.
    pub(crate) fn write(&mut self, count: usize, message: Option<Bytes>) {
        self.held += count;
        match self.frames.back_mut().filter(|last| last.message.is_none()) {
            Some(last) if message.is_none() => last.left += count,
            _ => self.frames.push_back(Frame {
                left: count,
                message,
            }),
        }
    }

    /// Bytes that nothing has been scheduled for.
    pub(crate) fn unshipped(&self) -> usize {
        self.held - self.in_flight - self.unread
    }

    /// Reads `count` bytes. True if they end within a message.
    pub(crate) fn read(&mut self, mut count: usize, messages: &mut Vec<Bytes>) -> bool {
        count = count.min(self.held);
        self.held -= count;
        while count > 0 {
            let Some(first) = self.frames.front_mut() else {
                break;
            };
            let step = first.left.min(count);
            first.left -= step;
            count -= step;
            if first.left > 0 {
                return true;
            }
            let frame = self.frames.pop_front().expect("looked at above");
            messages.extend(frame.message);
        }
        // Frames without a message are the middle of a large one.
        messages.is_empty()
    }

    /// What the writer had in hand is gone.
    pub(crate) fn forget_unwritten(&mut self) {
        self.open.clear();
        self.current = None;
    }
}

/// One side of a connection.
#[derive(Debug, Default)]
pub(crate) struct End {
    pub(crate) node: usize,
    /// The program that the connection belongs to; a later one knows nothing of it.
    pub(crate) life: u32,
    pub(crate) stage: Stage,
    /// The program was asked who may register: until it answers it looks at nothing else that comes this way.
    pub(crate) asked: bool,
    /// What had been read by then.
    pub(crate) inbox: VecDeque<Bytes>,
    /// Tokens that are accepted and not told yet, with the time to tell them.
    pub(crate) late: VecDeque<(u64, u64)>,
    /// What it writes.
    pub(crate) out: Stream,
}

/// How far a side is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The core was not told of it yet.
    #[default]
    Coming,
    /// The core knows it.
    Up,
    /// Down or closed.
    Gone,
}

/// A connection; side 0 dialled.
#[derive(Debug, Default)]
pub(crate) struct Conn {
    pub(crate) ends: [End; 2],
    /// It was reset: nothing is written any more.
    pub(crate) broken: bool,
}

impl Conn {
    pub(crate) fn new(dialler: (usize, u32), acceptor: (usize, u32)) -> Self {
        let end = |(node, life)| End {
            node,
            life,
            ..End::default()
        };
        Self {
            ends: [end(dialler), end(acceptor)],
            broken: false,
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.ends.iter().any(|end| end.stage != Stage::Gone)
    }
}

/// The connection that a core knows by this name, and the side of it.
pub(crate) fn conn_of(peer: nacp::PeerId) -> (u32, usize) {
    ((peer.0 >> 1) as u32, (peer.0 & 1) as usize)
}

/// The name by which the core on `side` knows the connection.
pub(crate) fn peer_of(conn: u32, side: usize) -> nacp::PeerId {
    nacp::PeerId(u64::from(conn) << 1 | side as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_there_when_its_last_byte_is() {
        let mut stream = Stream::default();
        let message = Bytes::from_static(b"hello");
        stream.write(3, None);
        stream.write(2, Some(message.clone()));
        stream.write(4, Some(Bytes::from_static(b"four")));
        let mut got = Vec::new();
        assert!(stream.read(4, &mut got));
        assert!(got.is_empty());
        assert!(stream.read(2, &mut got));
        assert_eq!(got, [message]);
        got.clear();
        assert!(!stream.read(3, &mut got));
        assert_eq!(
            (got.len(), stream.held, stream.frames.is_empty()),
            (1, 0, true)
        );
    }
}
