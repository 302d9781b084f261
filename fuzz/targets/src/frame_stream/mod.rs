//! A byte stream of frames, cut anywhere. What is asserted of any stream:
//! - the receiver does not panic; every split gives the same messages and the same end;
//! - both are those of a naive [model] of the format;
//! - what [`Reassembly`] counts is bounded by what came, and so is the memory that is really used;
//! - what was accepted, framed again at any chunk size, arrives again.
//!
//! The first byte chooses between raw bytes and [crafted] frames, the second the limits; then come the splits.

mod crafted;
mod model;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use arbitrary::Unstructured;
use bytes::Bytes;
use nact::frame::{HEADER_SIZE, Header};
use nact::{FrameError, Options, Outbound, Reassembly, ReceiveError, SendQueue, stream};
use tokio::io::{AsyncRead, ReadBuf};

use crate::counting::peak_of;

/// Runs the target.
pub fn run(input: &[u8]) {
    // No input is too short: what is missing reads as zero.
    let _ = check(&mut Unstructured::new(input));
}

fn check(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (form, limits): (u8, u8) = (u.arbitrary()?, u.arbitrary()?);
    let options = options(limits);
    let splits: Vec<u16> = (0..form >> 4)
        .map(|_| u.arbitrary())
        .collect::<arbitrary::Result<_>>()?;
    let wire = if form & 1 == 1 {
        crafted::wire(u)?
    } else {
        u.bytes(u.len())?.to_vec()
    };
    let wire = Bytes::from(wire);

    let whole = arrive(wire.clone(), &[], &options);
    assert_eq!(whole, arrive(wire.clone(), &splits, &options), "split");
    if form & 2 != 0 {
        let every: Vec<u16> = (0..wire.len().min(1000)).map(|at| at as u16).collect();
        assert_eq!(
            whole,
            arrive(wire.clone(), &every, &options),
            "byte by byte"
        );
    }
    assert_like_the_model(&whole, &wire, &options);
    bytes_are_bounded(&wire, &options);
    framed_again(&whole.0, &options);
    Ok(())
}

fn options(limits: u8) -> Options {
    Options {
        chunk_size: [64, 100, 4096, 64 * 1024][usize::from(limits & 3)],
        reassembly_count_max: if limits & 4 == 0 { 64 } else { 2 },
        reassembly_bytes_max: if limits & 8 == 0 { 4 << 30 } else { 1000 },
        message_size_max: if limits & 16 == 0 { u32::MAX } else { 500 },
        frame_size_max: if limits & 32 == 0 { 1 << 31 } else { 300 },
        read_buffer_size: if limits & 64 == 0 { 4096 } else { 64 * 1024 },
        ..Options::default()
    }
}

/// Gives its portions one by one, then ends.
struct Portions(VecDeque<Bytes>);

impl AsyncRead for Portions {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(front) = self.0.front_mut() {
            let portion = front.split_to(front.len().min(buffer.remaining()));
            buffer.put_slice(&portion);
            if front.is_empty() {
                self.0.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Closed,
    Cut,
    Broken(FrameError),
}

/// What arrives of a byte stream that is split at these places.
fn arrive(mut wire: Bytes, splits: &[u16], options: &Options) -> (Vec<Bytes>, End) {
    let length = wire.len();
    let mut places: Vec<usize> = splits
        .iter()
        .map(|&split| usize::from(split) % (length + 1))
        .collect();
    places.sort_unstable();
    let mut portions = VecDeque::new();
    let mut taken = 0;
    for place in places {
        portions.push_back(wire.split_to(place - taken));
        taken = place;
    }
    portions.push_back(wire);
    portions.retain(|portion| !portion.is_empty());

    let receive = || {
        let mut channel = stream::channel(Portions(portions), tokio::io::sink(), "", options);
        let (mut messages, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
        loop {
            match channel.receiver.poll_receive(&mut cx, &mut messages) {
                Poll::Ready(Err(error)) => return (messages, error),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
    };
    let ((messages, error), peak) = peak_of(receive);
    // Each frame may cost a record; the read buffer is the constant.
    let bound = 64 * length + 3 * options.read_buffer_size + 64 * 1024;
    assert!(peak <= bound, "{peak} bytes for {length}");
    let end = match error {
        ReceiveError::Closed => End::Closed,
        ReceiveError::Cut => End::Cut,
        ReceiveError::Frame(error) => End::Broken(error),
        other => panic!("a memory stream cannot fail so: {other}"),
    };
    (messages, end)
}

fn assert_like_the_model(came: &(Vec<Bytes>, End), wire: &[u8], options: &Options) {
    let (messages, end) = model::receive(wire, options);
    let counts_bytes = options.reassembly_bytes_max < 1 << 20;
    if counts_bytes && came.1 == End::Broken(FrameError::ReassemblyOverflow) {
        // The model does not count bytes: what came before is the same.
        assert!(messages.iter().zip(&came.0).all(|(a, b)| a == b));
        assert!(came.0.len() <= messages.len());
        return;
    }
    assert_eq!(came.0, messages);
    assert_eq!(came.1, end);
}

/// Feeds [`Reassembly`] by hand and watches its count.
#[allow(
    clippy::disallowed_methods,
    reason = "the type wants a std time; it stands still here"
)]
fn bytes_are_bounded(wire: &[u8], options: &Options) {
    let mut reassembly = Reassembly::new(options);
    let (mut at, mut frames, now) = (0, 0, Instant::now());
    while let Some(bytes) = wire[at..].first_chunk::<HEADER_SIZE>() {
        let Ok(header) = Header::parse(bytes, options.frame_size_max) else {
            return;
        };
        at += HEADER_SIZE;
        frames += 1;
        if reassembly.begin(&header, now).is_err() {
            return;
        }
        let body = (header.body as usize).min(wire.len() - at);
        let half = at + body / 2;
        for part in [&wire[at..half], &wire[half..at + body]] {
            if !part.is_empty() && reassembly.extend(part, now).is_err() {
                return;
            }
            assert!(reassembly.bytes() <= at as u64 + body as u64 + 384 * frames);
            assert!(reassembly.bytes() <= options.reassembly_bytes_max);
        }
        at += body;
        if reassembly.remaining() > 0 {
            return;
        }
        assert_eq!(reassembly.is_idle(), reassembly.next_timeout().is_none());
        assert_eq!(reassembly.is_idle(), reassembly.bytes() == 0);
    }
}

fn framed_again(messages: &[Bytes], options: &Options) {
    let mut queue = SendQueue::new(options);
    for message in messages {
        let half = message.len() / 2;
        queue.push(Outbound {
            token: 0,
            head: message.slice(..half),
            body: message.slice(half..),
        });
    }
    queue.check().expect("what came can be sent");
    let mut wire = Vec::new();
    while let Some(piece) = queue.next_piece(true) {
        wire.extend_from_slice(&piece.header.encode());
        wire.extend_from_slice(&piece.head);
        wire.extend_from_slice(&piece.body);
    }
    let wide = Options {
        read_buffer_size: options.read_buffer_size,
        ..Options::default()
    };
    let (mut came, end) = arrive(wire.into(), &[], &wide);
    let mut sent = messages.to_vec();
    sent.sort();
    came.sort();
    assert_eq!((came, end), (sent, End::Closed));
}
