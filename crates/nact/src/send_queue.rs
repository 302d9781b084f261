//! The send window: which piece of which message is written next.
//!
//! Pure. What it keeps true:
//! - Small messages (those that fit in one frame) leave whole and in push order, between the chunks of large ones.
//! - A large message never starts before a small one that was pushed earlier has left, so a message is never overtaken
//!   by a *larger* one that was pushed after it.
//! - Several large messages alternate, chunk by chunk; no more than `large_count_max` of them are begun at a time, however
//!   many were pushed, for the receiver has a limit too.
//! - Neither kind starves the other: after a batch of small messages one chunk is due.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::channel::Outbound;
use crate::error::SendError;
use crate::frame::{HEADER_SIZE, Header, PacketIds};
use crate::options::Options;

/// What one frame is to carry. The frame's body is `head ++ body`.
#[derive(Debug)]
pub struct Piece {
    /// The frame's header.
    pub header: Header,
    /// First part of the frame's body.
    pub head: Bytes,
    /// Second part of the frame's body.
    pub body: Bytes,
    /// The token of the message, if this is its last piece.
    pub finishes: Option<u64>,
}

/// Messages that were pushed and are not yet cut into frames.
///
/// For authors of transports. [`stream::channel`](crate::stream::channel) uses it for byte streams; a transport that
/// carries one frame per message of its own takes the pieces from here.
#[derive(Debug)]
pub struct SendQueue {
    chunk_body_max: usize,
    batch_bytes_max: usize,
    large_count_max: usize,
    message_size_max: u32,
    packets: PacketIds,
    pushed: u64,
    small: VecDeque<(u64, Outbound)>,
    small_bytes: usize,
    /// Bytes of small messages that left since the last chunk.
    small_run_bytes: usize,
    large: VecDeque<Large>,
    refused: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Large {
    pushed: u64,
    message: Outbound,
    header: Header,
    sent: usize,
}

impl SendQueue {
    /// An empty queue with the chunk size and bounds of `options`.
    pub fn new(options: &Options) -> Self {
        Self {
            chunk_body_max: options.chunk_size.clamp(2 * HEADER_SIZE, 1 << 31) - HEADER_SIZE,
            batch_bytes_max: options.batch_bytes_max.max(1),
            large_count_max: options.large_count_max.max(1),
            message_size_max: options.message_size_max,
            packets: PacketIds::new(),
            pushed: 0,
            small: VecDeque::new(),
            small_bytes: 0,
            small_run_bytes: 0,
            large: VecDeque::new(),
            refused: None,
        }
    }

    /// Takes a message. A message over `message_size_max` is not taken; [`SendQueue::check`] then tells of it.
    pub fn push(&mut self, message: Outbound) {
        let size = message.size();
        if size > self.message_size_max as usize {
            self.refused.get_or_insert((message.token, size as u64));
            return;
        }
        self.pushed += 1;
        if size <= self.chunk_body_max {
            self.small_bytes += HEADER_SIZE + size;
            self.small.push_back((self.pushed, message));
        } else {
            // The cast holds: the size was compared with a u32 above.
            let header = Header {
                packet: self.packets.next(),
                offset: 0,
                total: size as u32,
                body: 0,
            };
            self.large.push_back(Large {
                pushed: self.pushed,
                message,
                header,
                sent: 0,
            });
        }
    }

    /// # Errors
    /// [`SendError::MessageTooLarge`] when a pushed message was not taken.
    pub fn check(&self) -> Result<(), SendError> {
        let size_max = self.message_size_max;
        self.refused.map_or(Ok(()), |(token, size)| {
            Err(SendError::MessageTooLarge {
                token,
                size,
                size_max,
            })
        })
    }

    /// As [`Sender::wants_more`](crate::Sender::wants_more).
    pub fn wants_more(&self) -> bool {
        self.wants_small() && self.large.len() < self.large_count_max
    }

    /// As [`Sender::wants_small`](crate::Sender::wants_small).
    pub fn wants_small(&self) -> bool {
        self.small_bytes < self.batch_bytes_max
    }

    /// As [`Sender::small_size_max`](crate::Sender::small_size_max).
    pub fn small_size_max(&self) -> usize {
        self.chunk_body_max
    }

    /// True when every message was cut and handed out to its last piece.
    pub fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    /// Drops what is left: the channel is over.
    pub fn clear(&mut self) {
        self.small.clear();
        self.small_bytes = 0;
        self.large.clear();
    }

    /// The next piece to write. With `may_chunk` false no chunk of a large message is given, and when one is due,
    /// nothing: the transport has enough to write and small messages may still come to pass it.
    pub fn next_piece(&mut self, may_chunk: bool) -> Option<Piece> {
        let first_small = self.small.front().map(|(pushed, _)| *pushed);
        let chunk = self
            .large
            .iter()
            .take(self.large_count_max)
            .position(|large| first_small.is_none_or(|small| large.pushed < small));
        let chunk_is_due = first_small.is_none() || self.small_run_bytes >= self.batch_bytes_max;
        match chunk {
            Some(index) if chunk_is_due => may_chunk.then(|| self.next_chunk(index)).flatten(),
            _ => self.next_small(),
        }
    }

    fn next_small(&mut self) -> Option<Piece> {
        let (_, message) = self.small.pop_front()?;
        let size = message.size();
        self.small_bytes -= HEADER_SIZE + size;
        self.small_run_bytes = self.small_run_bytes.saturating_add(HEADER_SIZE + size);
        let header = Header {
            packet: self.packets.next(),
            offset: 0,
            total: size as u32,
            body: size as u32,
        };
        Some(Piece {
            header,
            head: message.head,
            body: message.body,
            finishes: Some(message.token),
        })
    }

    fn next_chunk(&mut self, index: usize) -> Option<Piece> {
        let mut large = self.large.remove(index)?;
        self.small_run_bytes = 0;
        let start = large.sent;
        let end = large.message.size().min(start + self.chunk_body_max);
        let head_size = large.message.head.len();
        let head = large
            .message
            .head
            .slice(start.min(head_size)..end.min(head_size));
        let body = large
            .message
            .body
            .slice(start.saturating_sub(head_size)..end.saturating_sub(head_size));
        let header = Header {
            offset: start as u32,
            body: (end - start) as u32,
            ..large.header
        };
        let finishes = (end == large.message.size()).then_some(large.message.token);
        if finishes.is_none() {
            large.sent = end;
            // Behind those that are begun, before those that must wait until one of them is done.
            let turn = self.large.len().min(self.large_count_max - 1);
            self.large.insert(turn, large);
        }
        Some(Piece {
            header,
            head,
            body,
            finishes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> SendQueue {
        SendQueue::new(&Options {
            chunk_size: 132,
            batch_bytes_max: 300,
            ..Options::default()
        })
    }

    fn message(token: u64, size: usize) -> Outbound {
        Outbound {
            token,
            head: Bytes::from(vec![1; size / 3]),
            body: Bytes::from(vec![2; size - size / 3]),
        }
    }

    /// Token of the last piece or 0, offset and size of each piece.
    fn drain(queue: &mut SendQueue) -> Vec<(u64, u32, u32)> {
        std::iter::from_fn(|| queue.next_piece(true))
            .inspect(|piece| {
                assert_eq!(
                    piece.header.body as usize,
                    piece.head.len() + piece.body.len()
                )
            })
            .map(|piece| {
                (
                    piece.finishes.unwrap_or(0),
                    piece.header.offset,
                    piece.header.body,
                )
            })
            .collect()
    }

    #[test]
    fn a_small_message_passes_between_the_chunks_of_a_large_one() {
        let mut queue = queue();
        queue.push(message(1, 250));
        assert_eq!(
            queue.next_piece(true).map(|piece| piece.header.offset),
            Some(0)
        );
        queue.push(message(2, 10));
        queue.push(message(3, 0));
        assert_eq!(
            drain(&mut queue),
            [(2, 0, 10), (3, 0, 0), (0, 100, 100), (1, 200, 50)]
        );
        assert!(queue.is_empty());
    }

    #[test]
    fn a_large_message_waits_for_small_ones_that_were_pushed_before_it() {
        let mut queue = queue();
        (1..=20).for_each(|token| queue.push(message(token, 100)));
        queue.push(message(21, 101));
        queue.push(message(22, 1));
        let order: Vec<u64> = drain(&mut queue).into_iter().map(|piece| piece.0).collect();
        assert_eq!(order[..20], (1..=20).collect::<Vec<_>>());
        assert_eq!(order.len(), 23);
    }

    #[test]
    fn large_messages_alternate_chunk_by_chunk() {
        let mut queue = queue();
        queue.push(message(1, 201));
        queue.push(message(2, 150));
        assert_eq!(
            drain(&mut queue),
            [
                (0, 0, 100),
                (0, 0, 100),
                (0, 100, 100),
                (2, 100, 50),
                (1, 200, 1)
            ]
        );
    }

    #[test]
    fn an_endless_run_of_small_messages_does_not_starve_a_large_one() {
        let mut queue = queue();
        queue.push(message(1, 201));
        let mut small = 0;
        let mut chunks = 0;
        for token in 2..1000 {
            queue.push(message(token, 100));
            if queue
                .next_piece(true)
                .is_some_and(|piece| piece.header.total == 201)
            {
                chunks += 1;
            } else {
                small += 1;
            }
            if chunks == 3 {
                break;
            }
        }
        assert_eq!(
            (chunks, small),
            (3, 9),
            "a chunk after each 300 bytes of small messages"
        );
    }

    #[test]
    fn it_wants_no_more_at_its_bounds_but_room_for_small_ones_is_told_apart() {
        let mut queue = queue();
        (0..4).for_each(|token| queue.push(message(token, 1000)));
        assert!(!queue.wants_more());
        assert!(queue.wants_small());
        (4..7).for_each(|token| queue.push(message(token, 100)));
        assert!(!queue.wants_small());
        drain(&mut queue);
        assert!(queue.wants_more());
    }

    #[test]
    fn a_message_over_the_bound_is_refused_and_named() {
        let mut queue = SendQueue::new(&Options {
            message_size_max: 10,
            ..Options::default()
        });
        queue.push(message(7, 11));
        assert!(matches!(
            queue.check(),
            Err(SendError::MessageTooLarge {
                token: 7,
                size: 11,
                size_max: 10
            })
        ));
        assert!(queue.is_empty());
    }
}
