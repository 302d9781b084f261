//! Frames that are mostly right: random bytes alone would hardly get past the magic byte. Every way to be wrong is
//! still within reach of one flag.

use arbitrary::Unstructured;
use nact::frame::{Header, PacketId};

const WIRE_MAX: usize = 16 * 1024;

/// What has been sent of a message, to go on from there.
#[derive(Clone, Copy, Default)]
struct Begun {
    next: u32,
    total: u32,
}

/// A byte stream of frames.
pub(super) fn wire(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let mut wire = Vec::new();
    let mut begun = [Begun::default(); 8];
    while !u.is_empty() && wire.len() < WIRE_MAX {
        frame(u, &mut begun, &mut wire)?;
    }
    Ok(wire)
}

fn frame(
    u: &mut Unstructured<'_>,
    begun: &mut [Begun; 8],
    wire: &mut Vec<u8>,
) -> arbitrary::Result<()> {
    let flags: u8 = u.arbitrary()?;
    let packet: u8 = u.arbitrary()?;
    let state = &mut begun[usize::from(packet & 7)];
    let body: u32 = match flags & 3 {
        0 => u32::from(u.arbitrary::<u8>()?) & 63,
        1 => u32::from(u.arbitrary::<u8>()?),
        2 => u32::from(u.arbitrary::<u16>()?) & 0x1fff,
        _ => 0,
    };
    let (offset, total) = match (flags >> 2) & 3 {
        0 => (0, body),
        1 => {
            if state.next >= state.total {
                let more = u32::from(u.arbitrary::<u8>()?);
                *state = Begun {
                    next: 0,
                    total: body + more,
                };
            }
            (state.next, state.total)
        }
        2 => (u.arbitrary::<u8>()?.into(), u.arbitrary::<u8>()?.into()),
        _ => (u.arbitrary()?, u.arbitrary()?),
    };
    // Going on where a message is, no further than its end, unless the frame is to lie.
    let body = if flags & 16 == 0 && offset <= total {
        body.min(total - offset)
    } else {
        body
    };
    state.next = offset.saturating_add(body);
    let mut header = Header {
        packet: PacketId([packet & 7; 16]),
        offset,
        total,
        body,
    }
    .encode();
    if flags & 0x40 != 0 {
        header[usize::from(u.arbitrary::<u8>()?) & 31] = u.arbitrary()?;
    }
    let cut = if flags & 0x20 != 0 {
        u32::from(u.arbitrary::<u8>()?)
    } else {
        0
    };
    wire.extend_from_slice(&header);
    wire.extend((0..body.saturating_sub(cut)).map(|at| (offset.wrapping_add(at) as u8) ^ packet));
    Ok(())
}
