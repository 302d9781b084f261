//! What a remote can do wrong, from raw bytes: each has its reason, each ends the channel, none takes memory.

use std::time::Duration;

use bytes::Bytes;
use nact::frame::{Header, PacketId};
use nact::{Channel, Options, ReceiveError, stream};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

/// A channel, and the raw end of its stream.
fn raw(options: &Options) -> (Channel, DuplexStream) {
    let (here, there) = tokio::io::duplex(1 << 20);
    let (read, write) = tokio::io::split(here);
    (stream::channel(read, write, "a stranger", options), there)
}

fn header(packet: u8, offset: u32, total: u32, body: u32) -> Header {
    Header {
        packet: PacketId([packet; 16]),
        offset,
        total,
        body,
    }
}

fn frame(packet: u8, offset: u32, total: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = header(packet, offset, total, body.len() as u32)
        .encode()
        .to_vec();
    bytes.extend_from_slice(body);
    bytes
}

/// What the receiver says to these bytes, then to the end of the stream.
async fn outcome(options: &Options, bytes: &[u8]) -> (Vec<Bytes>, ReceiveError) {
    let (mut channel, mut stranger) = raw(options);
    let writing = async move {
        // It fails when the receiver has had enough; that is what is judged here.
        let _ = stranger.write_all(bytes).await;
    };
    let reading = async move {
        let mut messages = Vec::new();
        loop {
            if let Err(error) = channel.receiver.receive(&mut messages).await {
                let again = channel.receiver.receive(&mut messages).await;
                assert!(
                    matches!(again, Err(ReceiveError::Closed)),
                    "an error is told once"
                );
                return (messages, error);
            }
        }
    };
    tokio::join!(writing, reading).1
}

async fn reason(bytes: &[u8]) -> String {
    let (messages, error) = outcome(&Options::default(), bytes).await;
    assert_eq!(messages.len(), 0);
    assert!(error.is_violation());
    error.reason().to_owned()
}

fn broken(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = frame(1, 0, 8, b"12345678");
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

#[tokio::test(start_paused = true)]
async fn every_broken_header_has_its_reason() {
    assert_eq!(reason(&broken(31, &[2])).await, "version-mismatch");
    assert_eq!(reason(&broken(30, &[0xCE])).await, "bad-magic");
    assert_eq!(
        reason(&broken(24, &31u32.to_be_bytes())).await,
        "frame-too-small"
    );
    assert_eq!(
        reason(&broken(24, &0x8000_0001u32.to_be_bytes())).await,
        "frame-too-large"
    );
    assert_eq!(
        reason(&broken(16, &1u32.to_be_bytes())).await,
        "frame-out-of-bounds"
    );
    assert_eq!(
        reason(&broken(20, &7u32.to_be_bytes())).await,
        "frame-out-of-bounds"
    );
    assert_eq!(
        reason(&broken(16, &u32::MAX.to_be_bytes())).await,
        "frame-out-of-bounds"
    );
}

#[tokio::test(start_paused = true)]
async fn the_checks_run_in_the_order_of_the_protocol() {
    let mut bytes = broken(16, &[0xFF; 16]);
    assert_eq!(reason(&bytes).await, "version-mismatch");
    bytes[31] = 1;
    assert_eq!(reason(&bytes).await, "bad-magic");
    bytes[30] = 0xCF;
    assert_eq!(reason(&bytes).await, "frame-too-large");
    bytes[24..28].copy_from_slice(&40u32.to_be_bytes());
    bytes[20..24].copy_from_slice(&8u32.to_be_bytes());
    assert_eq!(reason(&bytes).await, "frame-out-of-bounds");
}

#[test]
fn a_delivered_frame_must_have_the_size_it_says() {
    let bytes = frame(1, 0, 8, b"12345678");
    assert_eq!(
        Header::parse_delivered(&bytes, u32::MAX),
        Ok(header(1, 0, 8, 8))
    );
    assert_eq!(
        Header::parse_delivered(&bytes[..39], u32::MAX)
            .unwrap_err()
            .reason(),
        "frame-size-mismatch"
    );
    assert_eq!(
        Header::parse_delivered(&bytes[..31], u32::MAX)
            .unwrap_err()
            .reason(),
        "frame-too-small"
    );
}

#[tokio::test(start_paused = true)]
async fn frames_of_one_message_must_fit_together() {
    let start = frame(1, 0, 10, b"12345");
    let with = |next: Vec<u8>| [start.clone(), next].concat();
    assert_eq!(
        reason(&with(frame(1, 4, 10, b"x"))).await,
        "overlapping-frame"
    );
    assert_eq!(
        reason(&with(frame(1, 0, 10, b"0123456789"))).await,
        "overlapping-frame"
    );
    assert_eq!(
        reason(&with(frame(1, 5, 11, b"12345"))).await,
        "frame-total-mismatch"
    );
    assert_eq!(
        reason(&with(frame(1, 0, 0, b""))).await,
        "frame-total-mismatch"
    );
    assert_eq!(
        reason(&with(
            [frame(1, 7, 10, b"78"), frame(1, 6, 10, b"67")].concat()
        ))
        .await,
        "overlapping-frame"
    );
}

#[tokio::test(start_paused = true)]
async fn frames_may_come_in_any_order_and_mixed() {
    let bytes = [
        frame(1, 6, 8, b"78"),
        frame(2, 0, 2, b"a"),
        frame(1, 2, 8, b"34"),
        frame(3, 0, 0, b""),
        frame(1, 0, 8, b"12"),
        frame(2, 1, 2, b"b"),
        frame(1, 4, 8, b"56"),
        frame(1, 0, 3, b"new"),
    ];
    let (messages, error) = outcome(&Options::default(), &bytes.concat()).await;
    assert_eq!(messages, ["", "ab", "12345678", "new"]);
    assert!(matches!(error, ReceiveError::Closed));
}

#[tokio::test(start_paused = true)]
async fn what_was_complete_before_a_broken_frame_is_given_out_first() {
    let (messages, error) = outcome(
        &Options::default(),
        &[
            frame(1, 0, 2, b"ok"),
            broken(31, &[9]),
            frame(3, 0, 2, b"no"),
        ]
        .concat(),
    )
    .await;
    assert_eq!(messages, ["ok"]);
    assert_eq!(error.reason(), "version-mismatch");
}

#[tokio::test(start_paused = true)]
async fn an_end_inside_a_frame_or_between_chunks_is_a_cut_b11() {
    let bytes = [
        frame(1, 0, 4, b"whole"[..4].as_ref()),
        frame(2, 0, 10, b"12345"),
        frame(2, 5, 10, b"67890"),
    ]
    .concat();
    for length in 0..=bytes.len() {
        let (messages, error) = outcome(&Options::default(), &bytes[..length]).await;
        let is_between = matches!(length, 0 | 36) || length == bytes.len();
        assert_eq!(
            error.reason(),
            if is_between {
                "closed"
            } else {
                "connection-cut"
            },
            "after {length} bytes"
        );
        assert_eq!(
            messages.len(),
            usize::from(length >= 36) + usize::from(length == bytes.len())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn limits_on_frames_and_messages_hold() {
    let options = Options {
        frame_size_max: 100,
        message_size_max: 150,
        ..Options::default()
    };
    let (_, error) = outcome(&options, &frame(1, 0, 69, &[0; 69])).await;
    assert_eq!(error.reason(), "frame-too-large");
    let (_, error) = outcome(&options, &frame(1, 0, 151, &[0; 50])).await;
    assert_eq!(error.reason(), "message-too-large");
    let (messages, _) = outcome(&options, &frame(1, 0, 68, &[0; 68])).await;
    assert_eq!(messages.len(), 1);
    let whole = Options {
        message_size_max: 10,
        ..Options::default()
    };
    assert_eq!(
        outcome(&whole, &frame(1, 0, 11, &[0; 11])).await.1.reason(),
        "message-too-large"
    );
}

#[tokio::test(start_paused = true)]
async fn open_messages_are_bounded_in_number_and_bytes_b54() {
    let many: Vec<u8> = (0..=64)
        .flat_map(|packet| frame(packet, 0, u32::MAX, b"x"))
        .collect();
    assert_eq!(reason(&many).await, "reassembly-overflow");
    assert_eq!(
        outcome(&Options::default(), &many[..64 * 33])
            .await
            .1
            .reason(),
        "connection-cut"
    );
    let options = Options {
        reassembly_bytes_max: 1000,
        ..Options::default()
    };
    assert_eq!(
        outcome(&options, &frame(1, 0, u32::MAX, &[0; 1000]))
            .await
            .1
            .reason(),
        "reassembly-overflow"
    );
}

#[tokio::test(start_paused = true)]
async fn endless_empty_chunks_are_refused_b54() {
    let empty = frame(1, 3, 10, b"");
    assert_eq!(reason(&empty.repeat(10_000)).await, "reassembly-overflow");
    let (messages, _) = outcome(
        &Options::default(),
        &[empty.repeat(10), frame(1, 0, 10, b"0123456789")].concat(),
    )
    .await;
    assert_eq!(messages, ["0123456789"]);
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_message_ends_the_channel_30_s_after_its_last_progress_b54() {
    let (mut channel, mut stranger) = raw(&Options::default());
    let start = Instant::now();
    stranger.write_all(&frame(1, 0, 3, b"a")).await.unwrap();
    let trickle = async {
        sleep(Duration::from_secs(20)).await;
        stranger.write_all(&frame(1, 1, 3, b"b")).await.unwrap();
        // Other traffic is no progress of this message.
        sleep(Duration::from_secs(20)).await;
        stranger.write_all(&frame(2, 0, 5, b"other")).await.unwrap();
    };
    let mut messages = Vec::new();
    let (received, ()) = tokio::join!(channel.receiver.receive(&mut messages), trickle);
    received.unwrap();
    assert_eq!(messages, ["other"]);
    let error = channel.receiver.receive(&mut messages).await.unwrap_err();
    assert_eq!(error.reason(), "reassembly-timeout");
    assert_eq!(
        start.elapsed().as_secs(),
        50,
        "20 s until the last progress, and 30 s"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_channel_without_unfinished_messages_never_times_out() {
    let (mut channel, mut stranger) = raw(&Options::default());
    let later = async {
        sleep(Duration::from_secs(100_000)).await;
        stranger.write_all(&frame(1, 0, 1, b"a")).await.unwrap();
    };
    let mut messages = Vec::new();
    tokio::join!(channel.receiver.receive(&mut messages), later)
        .0
        .unwrap();
    assert_eq!(messages, ["a"]);
}
