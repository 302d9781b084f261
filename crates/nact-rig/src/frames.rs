//! Frames on their way through the proxy, and what becomes of them. What this module keeps true: a judge sees every frame
//! of its direction once, whole and in order; a lost frame leaves no byte behind; and where a frame is torn the
//! connection ends, as in the middle of a write.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nact::frame::{HEADER_SIZE, Header};
use tokio::io::AsyncReadExt as _;

use crate::socket::ReadEnd;

/// A frame that came to the proxy.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Of which connection, counted from 1 in the order in which they came.
    pub connection: u64,
    /// Its header. A message of more than one frame has the same packet id in all of them.
    pub header: Header,
    /// What follows the header.
    pub body: Bytes,
}

impl Frame {
    /// Whether it is only a part of its message.
    pub fn is_chunk(&self) -> bool {
        self.header.body < self.header.total
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passes, as the direction is.
    Passes,
    /// It never was. To lose a message of several frames, lose all of them.
    Lost,
    /// So many bytes of it pass, header included; then its connection is reset.
    Torn {
        /// How many.
        after: usize,
    },
}

type Decide = Box<dyn FnMut(&Frame) -> Fate + Send>;

/// The judge of one direction, if it has one.
#[derive(Default)]
pub(crate) struct Judge(Mutex<Option<Decide>>);

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Judge").field(&self.is_there()).finish()
    }
}

impl Judge {
    // A judge that panicked has failed its test already.
    fn decide(&self) -> MutexGuard<'_, Option<Decide>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, decide: impl FnMut(&Frame) -> Fate + Send + 'static) {
        *self.decide() = Some(Box::new(decide));
    }

    pub(crate) fn is_there(&self) -> bool {
        self.decide().is_some()
    }

    pub(crate) fn of(&self, frame: &Frame) -> Fate {
        let mut decide = self.decide();
        decide.as_mut().map_or(Fate::Passes, |decide| decide(frame))
    }
}

/// The next frame, and its bytes; `None` at an end between two frames.
pub(crate) async fn read_frame(
    connection: u64,
    from: &mut ReadEnd<'_>,
) -> io::Result<Option<(Frame, Vec<u8>)>> {
    let mut bytes = vec![0; HEADER_SIZE];
    let first = from.read(&mut bytes).await?;
    if first == 0 {
        return Ok(None);
    }
    from.read_exact(&mut bytes[first..]).await?;
    let header: [u8; HEADER_SIZE] = bytes[..].try_into().expect("as long as a header");
    let header = Header::parse(&header, u32::MAX)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    bytes.resize(HEADER_SIZE + header.body as usize, 0);
    from.read_exact(&mut bytes[HEADER_SIZE..]).await?;
    let frame = Frame {
        connection,
        header,
        body: Bytes::copy_from_slice(&bytes[HEADER_SIZE..]),
    };
    Ok(Some((frame, bytes)))
}
