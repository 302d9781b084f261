//! What is small and comes late does not wait behind what is large (HB-7, B37), and waiting has an end.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use nact::frame::{HEADER_SIZE, Header};
use nact::{DialError, Options, Outbound, Transports, stream};
use tokio::io::AsyncReadExt;

const WIRE_SIZE: usize = 1000;

#[tokio::test(start_paused = true)]
async fn a_late_small_message_waits_for_two_chunks_at_most_b37() {
    let options = Options::default();
    let (here, mut there) = tokio::io::duplex(WIRE_SIZE);
    let (read, write) = tokio::io::split(here);
    let mut channel = stream::channel(read, write, "a slow one", &options);
    for token in 0..4 {
        channel.sender.push(Outbound {
            token,
            body: Bytes::from(vec![1; 8 << 20]),
            ..Outbound::default()
        });
    }
    // The wire is full, and stays so.
    while poll_fn(|cx| Poll::Ready(channel.sender.poll_send(cx, &mut Vec::new()).is_ready())).await
    {
    }
    channel.sender.push(Outbound {
        token: 9,
        body: "an ack".into(),
        ..Outbound::default()
    });
    let reading = async move {
        let mut before = 0;
        loop {
            let mut header = [0; HEADER_SIZE];
            there.read_exact(&mut header).await.unwrap();
            let header = Header::parse(&header, u32::MAX).unwrap();
            if header.total == 6 {
                return before;
            }
            before += HEADER_SIZE + header.body as usize;
            there
                .read_exact(&mut vec![0; header.body as usize])
                .await
                .unwrap();
        }
    };
    tokio::pin!(reading);
    let before = tokio::select! {
        before = &mut reading => before,
        _ = channel.sender.flush() => unreachable!("32 MiB were not read"),
    };
    assert!(
        before <= WIRE_SIZE + 2 * options.chunk_size,
        "{before} bytes before it"
    );
}

#[tokio::test(start_paused = true)]
async fn dialling_one_who_does_not_accept_ends_after_the_connect_timeout() {
    let transports = Transports::new(Options {
        accept_queue_max: 1,
        ..Options::default()
    });
    let _listener = transports.listen("mem://busy").await.unwrap();
    let _first = transports.dial("mem://busy").await.unwrap();
    let start = tokio::time::Instant::now();
    let error = transports.dial("mem://busy").await.unwrap_err();
    assert!(matches!(error, DialError::Timeout { .. }));
    assert_eq!(start.elapsed(), transports.options().connect_timeout);
}

#[tokio::test(start_paused = true)]
async fn a_small_message_too_is_accepted_only_with_its_last_byte() {
    let (here, mut there) = tokio::io::duplex(150);
    let (read, write) = tokio::io::split(here);
    let mut channel = stream::channel(read, write, "a narrow one", &Options::default());
    for token in 1..=2 {
        channel.sender.push(Outbound {
            token,
            body: Bytes::from(vec![1; 100]),
            ..Outbound::default()
        });
    }
    let mut accepted = Vec::new();
    while poll_fn(|cx| Poll::Ready(channel.sender.poll_send(cx, &mut accepted).is_ready())).await {}
    assert_eq!(accepted, [1], "132 bytes fit, 264 do not");
    there.read_exact(&mut [0; 114]).await.unwrap();
    poll_fn(|cx| channel.sender.poll_send(cx, &mut accepted))
        .await
        .unwrap();
    assert_eq!(accepted, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_buffers_is_flushed_before_the_sender_is_idle() {
    let (here, mut there) = tokio::io::duplex(1000);
    let (read, write) = tokio::io::split(here);
    let write = tokio::io::BufWriter::with_capacity(4096, write);
    let mut channel = stream::channel(read, write, "a buffered one", &Options::default());
    for token in 1..=3 {
        channel.sender.push(Outbound {
            token,
            body: Bytes::from(vec![1; 500]),
            ..Outbound::default()
        });
    }
    let reading = async move {
        there.read_exact(&mut [0; 3 * 532]).await.unwrap();
        there
    };
    // The time is virtual: it passes at once when nothing moves.
    let both = async { tokio::join!(channel.sender.flush(), reading) };
    let (accepted, _there) = tokio::time::timeout(Duration::from_secs(1), both)
        .await
        .expect("everything arrives");
    assert_eq!(accepted.unwrap(), [1, 2, 3]);
    assert!(channel.sender.is_idle());
}
