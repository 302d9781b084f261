//! Round trip, any split of the byte stream, any order of frames, mutation.
#![allow(
    clippy::disallowed_methods,
    reason = "some time to start from; nothing is measured"
)]

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use nact::frame::{Header, PacketId};
use nact::{FrameError, Options, Outbound, Reassembly, ReceiveError, SendQueue, stream};
use proptest::prelude::*;
use proptest::sample::Index;
use tokio::io::{AsyncRead, ReadBuf};

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

fn options() -> Options {
    Options {
        chunk_size: 100,
        read_buffer_size: 4096,
        ..Options::default()
    }
}

/// The byte stream of these messages, as a sender makes it.
fn wire(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut queue = SendQueue::new(&options());
    for message in messages {
        let bytes = Bytes::copy_from_slice(message);
        let half = bytes.len() / 2;
        queue.push(Outbound {
            token: 0,
            head: bytes.slice(..half),
            body: bytes.slice(half..),
        });
    }
    let mut wire = Vec::new();
    while let Some(piece) = queue.next_piece(true) {
        wire.extend_from_slice(&piece.header.encode());
        wire.extend_from_slice(&piece.head);
        wire.extend_from_slice(&piece.body);
    }
    wire
}

/// What arrives of a byte stream that is split at these places.
fn arrive(mut wire: Bytes, splits: &[Index]) -> (Vec<Bytes>, ReceiveError) {
    let mut places: Vec<usize> = splits
        .iter()
        .map(|split| split.index(wire.len() + 1))
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
    let mut channel = stream::channel(Portions(portions), tokio::io::sink(), "nobody", &options());
    let (mut messages, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(Err(error)) = channel.receiver.poll_receive(&mut cx, &mut messages) {
            return (messages, error);
        }
    }
}

fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let small = prop::collection::vec(any::<u8>(), 0..68);
    let large = prop::collection::vec(any::<u8>(), 69..9000);
    prop::collection::vec(prop_oneof![3 => small, 1 => large], 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_header_survives_the_wire(packet: [u8; 16], offset: u32, body in 0..=(1u32 << 31) - 32, more: u32) {
        let total = offset.saturating_add(body).saturating_add(more);
        let header = Header { packet: PacketId(packet), offset, total, body };
        let fits = u64::from(offset) + u64::from(body) <= u64::from(total);
        let expected = if fits { Ok(header) } else { Err(FrameError::OutOfBounds) };
        prop_assert_eq!(Header::parse(&header.encode(), u32::MAX), expected);
    }

    #[test]
    fn any_split_of_the_byte_stream_gives_the_same_messages(
        messages in messages(), splits in prop::collection::vec(any::<Index>(), 0..40),
    ) {
        let wire = Bytes::from(wire(&messages));
        let (whole, _) = arrive(wire.clone(), &[]);
        let (split, end) = arrive(wire, &splits);
        prop_assert!(matches!(end, ReceiveError::Closed));
        prop_assert_eq!(&whole, &split);
        let (mut sent, mut came) = (messages, split);
        sent.sort();
        came.sort();
        prop_assert_eq!(came, sent);
    }

    #[test]
    fn a_mutated_byte_stream_ends_without_a_panic(
        messages in messages(),
        splits in prop::collection::vec(any::<Index>(), 0..10),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..6),
    ) {
        let mut wire = wire(&messages);
        prop_assume!(!wire.is_empty());
        for (place, value) in changes {
            let place = place.index(wire.len());
            wire[place] = value;
        }
        let length = wire.len();
        let (came, _) = arrive(wire.into(), &splits);
        prop_assert!(came.iter().map(Bytes::len).sum::<usize>() <= length);
    }

    #[test]
    fn noise_ends_without_a_panic(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let (came, _) = arrive(noise.into(), &[]);
        prop_assert_eq!(came.len(), 0);
    }

    #[test]
    fn frames_in_any_order_are_accepted_exactly_when_no_byte_comes_twice(
        frames in prop::collection::vec((0u32..40, 1u32..12), 1..30),
    ) {
        let total = 40;
        let now = Instant::now();
        let mut reassembly = Reassembly::new(&Options::default());
        let mut came = [false; 40];
        for (offset, body) in frames {
            let body = body.min(total - offset);
            let range = offset as usize..(offset + body) as usize;
            let bytes: Vec<u8> = range.clone().map(|at| at as u8).collect();
            let header = Header { packet: PacketId([1; 16]), offset, total, body };
            if came[range.clone()].contains(&true) {
                prop_assert_eq!(reassembly.begin(&header, now), Err(FrameError::Overlapping));
                continue;
            }
            came[range].fill(true);
            prop_assert_eq!(reassembly.begin(&header, now), Ok(None));
            let complete = reassembly.extend(&bytes, now).unwrap();
            prop_assert_eq!(complete.is_some(), !came.contains(&false));
            if let Some(message) = complete {
                prop_assert!(message.iter().copied().eq(0..40));
                prop_assert!(reassembly.is_idle() && reassembly.bytes() == 0);
                came.fill(false);
            }
        }
    }
}
