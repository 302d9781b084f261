//! What the fuzzer found, once each, as a script that a person can read. The inputs themselves are in `fuzz/corpus`.
#![allow(
    clippy::disallowed_methods,
    reason = "some time to start from; nothing is measured"
)]

use std::time::Instant;

use bytes::Bytes;
use nact::{Options, Outbound, Reassembly, SendQueue};

/// More large messages than a receiver holds open (64) were all begun at once when their sender did not ask
/// `wants_more` first, and the receiver closed the channel (`reassembly-overflow`).
#[test]
fn a_hundred_large_messages_pushed_at_once_arrive() {
    let options = Options {
        chunk_size: 64,
        ..Options::default()
    };
    let mut queue = SendQueue::new(&options);
    for token in 0..100 {
        queue.push(Outbound {
            token,
            head: Bytes::new(),
            body: vec![token as u8; 100].into(),
        });
    }
    let (mut reassembly, now) = (Reassembly::new(&options), Instant::now());
    let mut came = Vec::new();
    while let Some(piece) = queue.next_piece(true) {
        assert_eq!(reassembly.begin(&piece.header, now).unwrap(), None);
        came.extend(reassembly.extend(&piece.body, now).unwrap());
    }
    let firsts: Vec<u8> = came.iter().map(|message| message[0]).collect();
    assert!(
        firsts.iter().copied().eq(0..100),
        "in push order: {firsts:?}"
    );
    assert!(reassembly.is_idle());
}
