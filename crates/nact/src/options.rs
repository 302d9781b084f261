//! Every limit and interval of the transports, with its default.
//!
//! Nothing in this crate grows without one of these bounds.

use std::time::Duration;

/// Limits and intervals of a channel. Handed to [`Transports`](crate::Transports) once; a provider gets it with each
/// dial and listen.
///
/// ```
/// let options = nact::Options { chunk_size: 16 * 1024, ..nact::Options::default() };
/// assert_eq!(options.connect_timeout.as_secs(), 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of one frame at most when sending, header (32 bytes) included. A message that does not fit in one frame is
    /// *large*: it is cut, and small messages may pass between its chunks. Default 64 KiB: 64 ms at 1 MB/s.
    /// Larger chunks bring little: 256 KiB moved large messages a tenth faster over loopback at most. Values below 64
    /// count as 64.
    pub chunk_size: usize,
    /// Bytes of one frame at most when receiving, header included. Default 2 GiB, the protocol's own bound.
    pub frame_size_max: u32,
    /// Bytes of one message at most, in both directions. Default 4 GiB − 1, the largest the wire can say.
    pub message_size_max: u32,

    /// Messages of which a part has come, per channel, at most. Default 64.
    pub reassembly_count_max: usize,
    /// Received bytes of unfinished messages, per channel, at most, bookkeeping included. Default 4 GiB.
    pub reassembly_bytes_max: u64,
    /// An unfinished message of which nothing more comes for this long ends the channel. Default 30 s.
    pub reassembly_timeout: Duration,

    /// Unwritten bytes of small messages, up to which the sender wants more. Also what one write gathers. Default
    /// 256 KiB.
    pub batch_bytes_max: usize,
    /// Large messages in progress, up to which the sender wants more. Default 4.
    pub large_count_max: usize,
    /// Bytes that the kernel may hold unsent (TCP, where the system can), or a memory pipe may hold unread. Default
    /// 128 KiB.
    pub unsent_bytes_max: u32,
    /// Bytes of the buffer that is read into. It starts smaller and grows to this when a peer sends a lot. A small
    /// message that is kept for long may keep one such buffer alive. Default 64 KiB. Values below 4 KiB count as 4 KiB.
    pub read_buffer_size: usize,

    /// From the start of a dial, name look-up included, to a usable channel. Default 10 s.
    pub connect_timeout: Duration,
    /// Connections that may wait to be accepted. Default 1,024.
    pub accept_queue_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chunk_size: 64 * 1024,
            frame_size_max: 2 * 1024 * 1024 * 1024,
            message_size_max: u32::MAX,
            reassembly_count_max: 64,
            reassembly_bytes_max: 4 * 1024 * 1024 * 1024,
            reassembly_timeout: Duration::from_secs(30),
            batch_bytes_max: 256 * 1024,
            large_count_max: 4,
            unsent_bytes_max: 128 * 1024,
            read_buffer_size: 64 * 1024,
            connect_timeout: Duration::from_secs(10),
            accept_queue_max: 1024,
        }
    }
}
