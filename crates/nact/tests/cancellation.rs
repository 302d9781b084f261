//! Dropping futures at any point tears no frame, loses no message and keeps the order (B56).
//!
//! The stream below splits every read and write where its dice say, inside headers too, and often takes or gives
//! nothing. Nothing here waits for time.

use std::collections::{BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use nact::{Options, Outbound, Receiver, Sender, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A small seeded generator (xorshift): the same seed, the same run.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

#[derive(Clone)]
struct Wire {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    dice: Dice,
}

impl Wire {
    const CAPACITY: usize = 3000;

    /// How many of `possible` bytes move now.
    fn portion(&mut self, possible: usize, cx: &mut Context<'_>) -> Poll<usize> {
        if possible == 0 || self.dice.below(3) == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let bound = if self.dice.below(2) == 0 { 40 } else { 2000 };
        Poll::Ready(1 + self.dice.below(possible.min(bound)))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let possible = self.bytes.lock().unwrap().len().min(buffer.remaining());
        let Poll::Ready(count) = self.portion(possible, cx) else {
            return Poll::Pending;
        };
        let taken: Vec<u8> = self.bytes.lock().unwrap().drain(..count).collect();
        buffer.put_slice(&taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        let room = Self::CAPACITY - self.bytes.lock().unwrap().len();
        let Poll::Ready(count) = self.portion(offered.min(room), cx) else {
            return Poll::Pending;
        };
        self.bytes
            .lock()
            .unwrap()
            .extend(slices.iter().flat_map(|slice| slice.iter()).take(count));
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.portion(1, cx).map(|_| Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn content(token: u64, size: usize) -> Bytes {
    let bytes = (0..size).map(|at| (at as u64 * 7 + token) as u8);
    token.to_be_bytes().into_iter().chain(bytes).collect()
}

/// What a driver's task does until it is dropped.
async fn drive(sender: &mut dyn Sender, accepted: &mut Vec<u64>) {
    loop {
        poll_fn(|cx| sender.poll_send(cx, accepted)).await.unwrap();
        if sender.is_idle() {
            return;
        }
    }
}

async fn collect(receiver: &mut dyn Receiver, messages: &mut Vec<Bytes>) {
    loop {
        receiver.receive(messages).await.unwrap();
    }
}

/// Polls a few times and drops.
fn poll_and_drop(future: impl Future<Output = ()>, times: usize) {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..times {
        if future.as_mut().poll(&mut cx).is_ready() {
            return;
        }
    }
}

fn judge(sent: &[usize], accepted: &[u64], messages: &[Bytes], small_size_max: usize) {
    assert_eq!(
        accepted.iter().collect::<BTreeSet<_>>().len(),
        accepted.len(),
        "each is accepted once"
    );
    assert!(
        accepted.len() == sent.len() && messages.len() == sent.len(),
        "nothing is lost, nothing comes twice"
    );
    let mut small = Vec::new();
    for message in messages {
        let token = u64::from_be_bytes(*message.first_chunk().unwrap());
        assert!(
            *message == content(token, sent[token as usize]),
            "message {token} came as it was sent"
        );
        if message.len() <= small_size_max {
            small.push(token);
        }
    }
    assert!(small.is_sorted(), "small messages keep their order");
    assert_eq!(
        messages
            .iter()
            .map(|m| u64::from_be_bytes(*m.first_chunk().unwrap()))
            .collect::<Vec<_>>(),
        accepted
    );
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_random_cancellations_tear_no_frame_b56() {
    for seed in 1..=4u64 {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ seed);
        let wire = Wire {
            bytes: Arc::default(),
            dice: dice.clone(),
        };
        let options = Options {
            chunk_size: 700,
            batch_bytes_max: 2000,
            read_buffer_size: 4096,
            ..Options::default()
        };
        let mut channel = stream::channel(wire.clone(), wire, "itself", &options);
        let (mut sent, mut accepted, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..2500 {
            if channel.sender.wants_more() {
                let size = [0, 5, 60, 500, 3000, 6000][dice.below(6)];
                let bytes = content(sent.len() as u64, size);
                let cut = dice.below(bytes.len() + 1);
                let (head, body) = (bytes.slice(..cut), bytes.slice(cut..));
                channel.sender.push(Outbound {
                    token: sent.len() as u64,
                    head,
                    body,
                });
                sent.push(size);
            }
            if dice.below(2) == 0 {
                poll_and_drop(
                    drive(channel.sender.as_mut(), &mut accepted),
                    1 + dice.below(3),
                );
            } else {
                poll_and_drop(
                    collect(channel.receiver.as_mut(), &mut messages),
                    1 + dice.below(3),
                );
            }
        }
        let mut polls = 0;
        while messages.len() < sent.len() || !channel.sender.is_idle() {
            poll_and_drop(drive(channel.sender.as_mut(), &mut accepted), 3);
            poll_and_drop(collect(channel.receiver.as_mut(), &mut messages), 3);
            polls += 1;
            assert!(polls < 1_000_000, "seed {seed}: it stands still");
        }
        assert!(sent.len() > 100, "seed {seed}: the run is worth something");
        judge(&sent, &accepted, &messages, channel.sender.small_size_max());
    }
}
