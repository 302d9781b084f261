//! The reading side of a WebSocket connection, as the byte stream that its messages are: NACT frames back to back.
//!
//! What it keeps true:
//! - A byte goes on only after the header of its NACT frame was found to agree with the message that carries it; a
//!   fragmented message is measured as it comes.
//! - What came before a failure is given out before it.
//! - Control frames are seen to wherever they stand between the fragments.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::Role;
use super::mask::apply;
use super::write::Shared;
use crate::error::TransportFailure;
use crate::frame::{FrameError, HEADER_SIZE, Header};

/// What is read at once, when it does not go straight to its place.
const BUFFER_SIZE: usize = 8 * 1024;
/// Payload from this size on is read straight to its place.
const DIRECT_SIZE_MIN: usize = 2 * 1024;
/// What is read straight to its place at once. The room must be zeroed each time, so it is not the whole place.
const DIRECT_SIZE_MAX: usize = 64 * 1024;
const CONTROL_SIZE_MAX: u64 = 125;

pub(super) struct FrameRead<R, W> {
    io: R,
    shared: Arc<Shared<W>>,
    role: Role,
    frame_size_max: u32,
    buffer: BytesMut,
    /// The data frame whose payload is being read.
    payload: Option<Payload>,
    /// The message that is being read, while its last fragment is not.
    message: Option<Message>,
    /// The NACT header that was checked and is not given out yet.
    checked: Bytes,
    ended: Option<io::Result<()>>,
}

struct Payload {
    remaining: u64,
    mask: Option<[u8; 4]>,
    phase: usize,
    is_final: bool,
}

struct Message {
    head: [u8; HEADER_SIZE],
    head_size: usize,
    /// Bytes of the NACT frame still to come, once its header is known.
    remaining: Option<u64>,
    /// Known from the start when the message is not fragmented.
    size: Option<u64>,
}

/// What to do next.
enum Step {
    /// Try again: something was consumed.
    Again,
    /// More bytes are needed in the buffer.
    Fill,
    /// Body bytes of a NACT frame are next.
    Body,
}

fn protocol_error() -> io::Error {
    io::Error::other(TransportFailure::new("websocket-protocol-error"))
}

impl<R, W> FrameRead<R, W> {
    pub(super) fn new(io: R, shared: Arc<Shared<W>>, role: Role, frame_size_max: u32) -> Self {
        Self {
            io,
            shared,
            role,
            frame_size_max,
            buffer: BytesMut::new(),
            payload: None,
            message: None,
            checked: Bytes::new(),
            ended: None,
        }
    }

    fn step(&mut self) -> io::Result<Step> {
        let Some(payload) = &mut self.payload else {
            return self.frame_header();
        };
        let Some(message) = &mut self.message else {
            return Err(protocol_error());
        };
        if payload.remaining == 0 {
            let is_final = payload.is_final;
            self.payload = None;
            if is_final {
                message.check_end()?;
                self.message = None;
            }
            return Ok(Step::Again);
        }
        if let Some(remaining) = message.remaining {
            if payload.remaining > remaining {
                return Err(io::Error::other(FrameError::SizeMismatch));
            }
            return Ok(Step::Body);
        }
        if self.buffer.is_empty() {
            return Ok(Step::Fill);
        }
        let wanted = (HEADER_SIZE - message.head_size) as u64;
        let count = wanted.min(payload.remaining).min(self.buffer.len() as u64) as usize;
        let end = message.head_size + count;
        let part = &mut message.head[message.head_size..end];
        part.copy_from_slice(&self.buffer[..count]);
        self.buffer.advance(count);
        payload.unmask(part);
        message.head_size = end;
        if end == HEADER_SIZE {
            message.check_head(self.frame_size_max)?;
            self.checked = Bytes::copy_from_slice(&message.head);
        }
        Ok(Step::Again)
    }

    fn frame_header(&mut self) -> io::Result<Step> {
        let mut cursor = Cursor::new(&self.buffer[..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| protocol_error())?;
        let Some((header, size)) = parsed else {
            return Ok(Step::Fill);
        };
        let header_size = cursor.position() as usize;
        let is_masked = header.mask.is_some();
        let is_well_formed = !(header.rsv1 || header.rsv2 || header.rsv3)
            && is_masked == (self.role == Role::Server)
            && header.len(size) == header_size
            && size >> 63 == 0;
        if !is_well_formed {
            return Err(protocol_error());
        }
        match header.opcode {
            OpCode::Control(control) => self.control_frame(control, &header, header_size, size),
            OpCode::Data(data) => {
                self.data_frame(data, &header, size)?;
                self.buffer.advance(header_size);
                Ok(Step::Again)
            }
        }
    }

    fn data_frame(&mut self, data: Data, header: &FrameHeader, size: u64) -> io::Result<()> {
        match (data, self.message.is_some()) {
            (Data::Binary, false) => {
                self.message = Some(Message {
                    head: [0; HEADER_SIZE],
                    head_size: 0,
                    remaining: None,
                    size: header.is_final.then_some(size),
                });
            }
            (Data::Continue, true) => {}
            (Data::Text, false) => return Err(io::Error::other(FrameError::NonBinary)),
            _ => return Err(protocol_error()),
        }
        self.payload = Some(Payload {
            remaining: size,
            mask: header.mask,
            phase: 0,
            is_final: header.is_final,
        });
        Ok(())
    }

    fn control_frame(
        &mut self,
        control: Control,
        header: &FrameHeader,
        header_size: usize,
        size: u64,
    ) -> io::Result<Step> {
        if !header.is_final || size > CONTROL_SIZE_MAX {
            return Err(protocol_error());
        }
        // At most 125, as was just checked.
        let size = size as usize;
        if self.buffer.len() < header_size + size {
            return Ok(Step::Fill);
        }
        self.buffer.advance(header_size);
        let mut payload = self.buffer.split_to(size);
        if let Some(mask) = header.mask {
            apply(&mut payload, mask, 0);
        }
        match control {
            Control::Ping => self.shared.answer_ping(Bytes::copy_from_slice(&payload)),
            Control::Close => {
                self.shared.answer_close(close_answer(&payload)?);
                self.ended = Some(match self.message {
                    None => Ok(()),
                    Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                });
            }
            _ => {}
        }
        Ok(Step::Again)
    }
}

/// The same code, without the text.
fn close_answer(payload: &[u8]) -> io::Result<Bytes> {
    let Some((code, text)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() {
            Ok(Bytes::new())
        } else {
            Err(protocol_error())
        };
    };
    let is_legal = CloseCode::from(u16::from_be_bytes(*code)).is_allowed();
    if !is_legal || std::str::from_utf8(text).is_err() {
        return Err(protocol_error());
    }
    Ok(Bytes::copy_from_slice(code))
}

impl Payload {
    fn unmask(&mut self, part: &mut [u8]) {
        if let Some(mask) = self.mask {
            apply(part, mask, self.phase);
        }
        self.phase = (self.phase + part.len()) % 4;
        self.remaining -= part.len() as u64;
    }
}

impl Message {
    /// The checks of the protocol, in its order.
    fn check_head(&mut self, frame_size_max: u32) -> io::Result<()> {
        let size = self
            .size
            .map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let header =
            Header::parse_checked(&self.head, frame_size_max, size).map_err(io::Error::other)?;
        self.remaining = Some(u64::from(header.body));
        Ok(())
    }

    fn check_end(&self) -> io::Result<()> {
        match self.remaining {
            Some(0) => Ok(()),
            Some(_) => Err(io::Error::other(FrameError::SizeMismatch)),
            None => Err(io::Error::other(FrameError::TooSmall)),
        }
    }
}

impl<R: AsyncRead + Unpin, W> FrameRead<R, W> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.buffer.reserve(BUFFER_SIZE);
        let read = std::pin::pin!(tokio::io::AsyncReadExt::read_buf(
            &mut self.io,
            &mut self.buffer
        ));
        match ready!(std::future::Future::poll(read, cx))? {
            // Without a close frame the end is no farewell.
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Gives out body bytes: from the buffer, or straight from the connection. False when the buffer must be filled.
    fn poll_body(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<bool>> {
        let (Some(payload), Some(message)) = (&mut self.payload, &mut self.message) else {
            return Poll::Ready(Ok(false));
        };
        let room = payload.remaining.min(out.remaining() as u64) as usize;
        let before = out.filled().len();
        if !self.buffer.is_empty() {
            let count = room.min(self.buffer.len());
            out.put_slice(&self.buffer[..count]);
            self.buffer.advance(count);
        } else if room >= DIRECT_SIZE_MIN {
            let room = room.min(DIRECT_SIZE_MAX);
            let mut part = ReadBuf::new(out.initialize_unfilled_to(room));
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut part))?;
            let count = part.filled().len();
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            out.advance(count);
        } else {
            return Poll::Ready(Ok(false));
        }
        let part = &mut out.filled_mut()[before..];
        payload.unmask(part);
        message.remaining = message.remaining.map(|left| left - part.len() as u64);
        Poll::Ready(Ok(true))
    }

    fn poll_once(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.step()? {
            Step::Again => return Poll::Ready(Ok(())),
            Step::Body if ready!(self.poll_body(cx, out))? => return Poll::Ready(Ok(())),
            Step::Body | Step::Fill => {}
        }
        self.poll_fill(cx)
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> AsyncRead for FrameRead<R, W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = out.filled().len();
        loop {
            let count = this.checked.len().min(out.remaining());
            out.put_slice(&this.checked.split_to(count));
            let has_output = out.filled().len() > before;
            if out.remaining() == 0 || (has_output && this.ended.is_some()) {
                return Poll::Ready(Ok(()));
            }
            if let Some(ended) = &mut this.ended {
                // An error is told once, then it is the end.
                return Poll::Ready(std::mem::replace(ended, Ok(())));
            }
            match this.poll_once(cx, out) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => this.ended = Some(Err(error)),
                Poll::Pending if has_output => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
