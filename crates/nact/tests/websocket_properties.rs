//! Any bytes, in any portions, from either side: what is right arrives, what is wrong ends the channel, nothing panics
//! and nothing hangs.
#![cfg(feature = "web")]

use nact::websocket::{self, Role};
use nact::{Options, Outbound, ReceiveError};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// The bytes that a channel sends for these messages, and its farewell.
async fn sent(role: Role, sizes: &[usize]) -> Vec<u8> {
    let (here, mut there) = tokio::io::duplex(1 << 20);
    let options = Options {
        chunk_size: 300,
        ..Options::default()
    };
    let mut channel = websocket::channel(here, role, "there", &options);
    for (token, size) in sizes.iter().enumerate() {
        channel.sender.push(Outbound {
            token: token as u64,
            head: vec![1; size / 2].into(),
            body: vec![token as u8; size - size / 2].into(),
        });
    }
    channel.sender.close().await.unwrap();
    drop(channel);
    let mut bytes = Vec::new();
    there.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// What a channel of this role makes of the bytes: sizes of messages, reason of the end.
async fn received(role: Role, bytes: &[u8], portion: usize) -> (Vec<usize>, String) {
    let (here, mut there) = tokio::io::duplex(1 << 20);
    let mut channel = websocket::channel(here, role, "there", &Options::default());
    let writing = async {
        for part in bytes.chunks(portion) {
            // It fails when the channel has had enough.
            let _ = there.write_all(part).await;
            tokio::task::yield_now().await;
        }
        there.shutdown().await.unwrap();
    };
    let reading = async {
        let mut messages = Vec::new();
        let error = loop {
            if let Err(error) = channel.receiver.receive(&mut messages).await {
                break error;
            }
        };
        let again = channel.receiver.receive(&mut messages).await;
        assert!(matches!(again, Err(ReceiveError::Closed)));
        let sizes = messages.iter().map(bytes::Bytes::len).collect();
        (sizes, error.reason().to_owned())
    };
    tokio::join!(writing, reading).1
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

const BOTH: [(Role, Role); 2] = [(Role::Client, Role::Server), (Role::Server, Role::Client)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_of_the_stream_gives_the_same_messages(
        sizes in proptest::collection::vec(0usize..2000, 1..6),
        portion in 1usize..700,
    ) {
        for (from, to) in BOTH {
            let (mut got, reason) = run(async {
                received(to, &sent(from, &sizes).await, portion).await
            });
            got.sort_unstable();
            let mut expected = sizes.clone();
            expected.sort_unstable();
            prop_assert_eq!((got, reason.as_str()), (expected, "closed"));
        }
    }

    #[test]
    fn no_mutation_panics_or_hangs(
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        for (from, role) in BOTH {
            run(async {
                let mut bytes = sent(from, &[0, 40, 700]).await;
                let at = at.index(bytes.len());
                bytes[at] = to;
                bytes.truncate(cut.index(bytes.len()) + 1);
                received(role, &bytes, 64).await;
            });
        }
    }

    #[test]
    fn no_bytes_panic_or_hang(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for (_, role) in BOTH {
            run(received(role, &bytes, 16));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_remote_that_takes_no_farewell_is_given_five_seconds() {
    let (here, mut there) = tokio::io::duplex(64);
    let mut channel = websocket::channel(here, Role::Client, "there", &Options::default());
    channel.sender.push(Outbound {
        body: vec![7; 1000].into(),
        ..Outbound::default()
    });
    std::future::poll_fn(|cx| {
        while channel.sender.poll_send(cx, &mut Vec::new()).is_ready() {}
        std::task::Poll::Ready(())
    })
    .await;
    there.write_all(b"\x81\x02hi").await.unwrap();
    let start = Instant::now();
    let error = channel.receiver.receive(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.reason(), "non-binary-frame");
    assert_eq!(start.elapsed().as_secs(), 5);
}
