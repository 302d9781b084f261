//! The 32-byte NACT frame header, and every way in which a frame can be wrong.
//!
//! Pure: bytes in, header or [`FrameError`] out. The checks run in the order that the protocol fixes, so that both ends
//! name the same reason: version, magic, frame too small, frame too large, delivered size, body outside the total.
//!
//! | offset | size | field (big-endian) |
//! |---|---|---|
//! | 0 | 16 | packet id, the same in all frames of one message |
//! | 16 | 4 | offset of this body in the whole message |
//! | 20 | 4 | total size of the whole message |
//! | 24 | 4 | size of this frame, header included |
//! | 28 | 2 | reserved, 0 |
//! | 30 | 1 | magic 0xCF |
//! | 31 | 1 | version 1 |

use std::hash::{BuildHasher, RandomState};

/// Bytes of a frame header.
pub const HEADER_SIZE: usize = 32;
/// Byte 30 of every header.
pub const MAGIC: u8 = 0xCF;
/// Byte 31 of every header.
pub const VERSION: u8 = 1;

/// Names one message on one channel and direction while its frames are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PacketId(pub [u8; 16]);

/// Gives packet ids that never repeat on a channel and that another channel's do not meet by chance.
#[derive(Debug)]
pub(crate) struct PacketIds {
    prefix: u64,
    next: u64,
}

impl PacketIds {
    pub(crate) fn new() -> Self {
        // The standard library's hasher keys come from the operating system: randomness enough for a name, without a
        // dependency. The ids are no secret and guard nothing.
        let random = RandomState::new();
        Self {
            prefix: random.hash_one(0u8),
            next: random.hash_one(1u8),
        }
    }

    pub(crate) fn next(&mut self) -> PacketId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.prefix.to_be_bytes());
        id[8..].copy_from_slice(&self.next.to_be_bytes());
        self.next = self.next.wrapping_add(1);
        PacketId(id)
    }
}

/// A frame's header, checked.
///
/// ```
/// use nact::frame::{Header, PacketId};
/// let header = Header { packet: PacketId([7; 16]), offset: 0, total: 5, body: 5 };
/// assert_eq!(Header::parse(&header.encode(), u32::MAX), Ok(header));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message that this frame is a part of.
    pub packet: PacketId,
    /// Where this frame's body starts in the message, in bytes.
    pub offset: u32,
    /// Bytes of the whole message.
    pub total: u32,
    /// Bytes of this frame's body (on the wire: the frame's size, which is 32 more).
    pub body: u32,
}

impl Header {
    /// Writes the header. `body` must be small enough for the frame's size to fit in 32 bits.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let frame = self.body.saturating_add(HEADER_SIZE as u32);
        let mut bytes = [0; HEADER_SIZE];
        bytes[..16].copy_from_slice(&self.packet.0);
        bytes[16..20].copy_from_slice(&self.offset.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.total.to_be_bytes());
        bytes[24..28].copy_from_slice(&frame.to_be_bytes());
        bytes[30] = MAGIC;
        bytes[31] = VERSION;
        bytes
    }

    /// Reads a header that came on a byte stream. `frame_size_max` is in bytes, header included; the protocol's bound
    /// of 2 GiB holds in any case.
    ///
    /// # Errors
    /// The first check that fails, in the order of the protocol.
    pub fn parse(bytes: &[u8; HEADER_SIZE], frame_size_max: u32) -> Result<Self, FrameError> {
        Self::parse_checked(bytes, frame_size_max, None)
    }

    /// Reads the header of a frame that came as one message of `delivered` bytes (WebSocket), header included.
    ///
    /// # Errors
    /// As [`Header::parse`], and [`FrameError::SizeMismatch`]; fewer than 32 bytes are [`FrameError::TooSmall`].
    pub fn parse_delivered(delivered: &[u8], frame_size_max: u32) -> Result<Self, FrameError> {
        let bytes = delivered.first_chunk().ok_or(FrameError::TooSmall)?;
        Self::parse_checked(bytes, frame_size_max, Some(delivered.len()))
    }

    /// With `delivered` as the size of the message that carries the frame, where the transport has such.
    pub(crate) fn parse_checked(
        bytes: &[u8; HEADER_SIZE],
        frame_size_max: u32,
        delivered: Option<usize>,
    ) -> Result<Self, FrameError> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (offset, total, frame) = (word(16), word(20), word(24));
        if bytes[31] != VERSION {
            return Err(FrameError::VersionMismatch);
        }
        if bytes[30] != MAGIC {
            return Err(FrameError::BadMagic);
        }
        if frame < HEADER_SIZE as u32 {
            return Err(FrameError::TooSmall);
        }
        if frame > frame_size_max.min(1 << 31) {
            return Err(FrameError::TooLarge);
        }
        if delivered.is_some_and(|size| size != frame as usize) {
            return Err(FrameError::SizeMismatch);
        }
        let body = frame - HEADER_SIZE as u32;
        if u64::from(offset) + u64::from(body) > u64::from(total) {
            return Err(FrameError::OutOfBounds);
        }
        let mut packet = [0; 16];
        packet.copy_from_slice(&bytes[..16]);
        Ok(Self {
            packet: PacketId(packet),
            offset,
            total,
            body,
        })
    }
}

/// The remote broke the framing rules. Each variant ends the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Byte 31 is not 1: the remote speaks another version, or no NACT at all.
    #[error("the remote speaks another NACT version, or something else")]
    VersionMismatch,
    /// Byte 30 is not 0xCF: not NACT, or the stream lost its alignment.
    #[error("a frame does not carry the NACT magic byte")]
    BadMagic,
    /// The frame claims to be smaller than its header.
    #[error("a frame claims to be smaller than its own header")]
    TooSmall,
    /// The frame claims more than the allowed size.
    #[error("a frame is larger than allowed")]
    TooLarge,
    /// The frame came as a message of another size (message transports only).
    #[error("a frame's size is not the size that was delivered")]
    SizeMismatch,
    /// The body lies outside the message's total size.
    #[error("a frame's body lies outside its message")]
    OutOfBounds,
    /// A part of the message came twice.
    #[error("a frame's body overlaps what came before")]
    Overlapping,
    /// Frames of one message disagree about its total size.
    #[error("frames of one message disagree about its size")]
    TotalMismatch,
    /// The whole message is larger than `message_size_max`.
    #[error("a message is larger than allowed")]
    MessageTooLarge,
    /// Too many unfinished messages, or too many bytes or pieces of them, or an endless run of empty frames.
    #[error("too much of unfinished messages is held for the remote")]
    ReassemblyOverflow,
    /// Nothing more of an unfinished message came in time.
    #[error("the rest of a message did not come in time")]
    ReassemblyTimeout,
    /// A message transport carried something that is not binary.
    #[error("a message of the connection was not binary")]
    NonBinary,
}

impl FrameError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VersionMismatch => "version-mismatch",
            Self::BadMagic => "bad-magic",
            Self::TooSmall => "frame-too-small",
            Self::TooLarge => "frame-too-large",
            Self::SizeMismatch => "frame-size-mismatch",
            Self::OutOfBounds => "frame-out-of-bounds",
            Self::Overlapping => "overlapping-frame",
            Self::TotalMismatch => "frame-total-mismatch",
            Self::MessageTooLarge => "message-too-large",
            Self::ReassemblyOverflow => "reassembly-overflow",
            Self::ReassemblyTimeout => "reassembly-timeout",
            Self::NonBinary => "non-binary-frame",
        }
    }
}
