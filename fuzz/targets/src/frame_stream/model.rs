//! The receiver as naively as it can be written: one byte at a time, everything kept. What it keeps true is the text of
//! the format, in the order of its checks; of the limits it leaves out the bytes held and the pieces out of order.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use nact::{FrameError, Options};

use super::End;

/// Empty frames that may come while no frame with a body passes.
const EMPTY_FRAMES_MAX: u32 = 1024;

struct Open {
    total: u32,
    bytes: BTreeMap<u32, u8>,
}

struct Header {
    packet: [u8; 16],
    offset: u32,
    total: u32,
    body: u32,
}

/// What a receiver makes of `wire`.
pub(super) fn receive(wire: &[u8], options: &Options) -> (Vec<Bytes>, End) {
    let mut messages = Vec::new();
    let mut open: HashMap<[u8; 16], Open> = HashMap::new();
    let mut empty_frames = 0;
    let mut rest = wire;
    let end = loop {
        if rest.is_empty() && open.is_empty() {
            break End::Closed;
        }
        let Some((header, after)) = rest.split_first_chunk::<32>() else {
            break End::Cut;
        };
        let header = match parse(header, options) {
            Ok(header) => header,
            Err(error) => break End::Broken(error),
        };
        if let Err(error) = admit(&header, &open, options, &mut empty_frames) {
            break End::Broken(error);
        }
        let Some((body, after)) = after.split_at_checked(header.body as usize) else {
            break End::Cut;
        };
        rest = after;
        if header.body == 0 {
            if header.total == 0 {
                messages.push(Bytes::new());
            }
            continue;
        }
        if !is_small(&header, options) {
            empty_frames = 0;
        }
        let message = open.entry(header.packet).or_insert_with(|| Open {
            total: header.total,
            bytes: BTreeMap::new(),
        });
        message
            .bytes
            .extend((header.offset..).zip(body.iter().copied()));
        if message.bytes.len() == message.total as usize {
            messages.push(message.bytes.values().copied().collect());
            open.remove(&header.packet);
        }
    };
    (messages, end)
}

fn parse(bytes: &[u8; 32], options: &Options) -> Result<Header, FrameError> {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
    let (offset, total, frame) = (word(16), word(20), word(24));
    if bytes[31] != 1 {
        Err(FrameError::VersionMismatch)
    } else if bytes[30] != 0xcf {
        Err(FrameError::BadMagic)
    } else if frame < 32 {
        Err(FrameError::TooSmall)
    } else if frame > options.frame_size_max {
        Err(FrameError::TooLarge)
    } else if u64::from(offset) + u64::from(frame - 32) > u64::from(total) {
        Err(FrameError::OutOfBounds)
    } else {
        Ok(Header {
            packet: bytes[..16].try_into().expect("sixteen"),
            offset,
            total,
            body: frame - 32,
        })
    }
}

/// A whole message that is taken from the read buffer as it is.
fn is_small(header: &Header, options: &Options) -> bool {
    header.body == header.total && header.body as usize + 32 <= options.read_buffer_size
}

fn admit(
    header: &Header,
    open: &HashMap<[u8; 16], Open>,
    options: &Options,
    empty_frames: &mut u32,
) -> Result<(), FrameError> {
    if header.total > options.message_size_max {
        return Err(FrameError::MessageTooLarge);
    }
    if let Some(message) = open.get(&header.packet) {
        if message.total != header.total {
            return Err(FrameError::TotalMismatch);
        }
        let mut range = message
            .bytes
            .range(header.offset..header.offset + header.body);
        if range.next().is_some() {
            return Err(FrameError::Overlapping);
        }
    }
    if header.body == 0 && header.total > 0 {
        *empty_frames += 1;
        if *empty_frames > EMPTY_FRAMES_MAX {
            return Err(FrameError::ReassemblyOverflow);
        }
        return Ok(());
    }
    let opens = !open.contains_key(&header.packet) && !is_small(header, options);
    if opens && open.len() >= options.reassembly_count_max {
        return Err(FrameError::ReassemblyOverflow);
    }
    Ok(())
}
