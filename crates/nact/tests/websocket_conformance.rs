//! RFC 6455 over raw sockets, along the case groups of the Autobahn test suite: framing, pings and pongs, reserved bits,
//! opcodes, fragmentation, close handling.
#![cfg(feature = "web")]

mod raw;

use nact::web::WebConfig;
use nact::{Channel, Outbound};
use raw::{Raw, Server, drain, frame, part, receive_one};

const UPGRADE: &str = "GET /nacp HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\n\
    upgrade: WebSocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

const BINARY: u8 = 0x82;
const CLOSE: u8 = 0x88;
const PING: u8 = 0x89;
const PONG: u8 = 0x8A;

async fn open() -> (Server, Raw, Channel) {
    let mut server = Server::start(WebConfig::default()).await;
    let mut raw = server.connect().await;
    raw.send(UPGRADE).await;
    let answer = raw.answer().await;
    assert_eq!(answer.status, 101);
    // The example of RFC 6455, section 1.3.
    let accept = answer.header("sec-websocket-accept");
    assert_eq!(accept, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    let channel = server.accept().await;
    (server, raw, channel)
}

/// A frame as a client sends it.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [0x37, 0xFA, 0x21, 0x3D];
    let mut bytes = vec![first];
    match payload.len() {
        size @ 0..126 => bytes.push(0x80 | size as u8),
        size @ 126..65_536 => {
            bytes.push(0x80 | 126);
            bytes.extend((size as u16).to_be_bytes());
        }
        size => {
            bytes.push(0x80 | 127);
            bytes.extend((size as u64).to_be_bytes());
        }
    }
    bytes.extend(key);
    bytes.extend(
        payload
            .iter()
            .zip(key.iter().cycle())
            .map(|(byte, key)| byte ^ key),
    );
    bytes
}

/// The next frame from the server: first byte, payload.
async fn server_frame(raw: &mut Raw) -> (u8, Vec<u8>) {
    let head = raw.bytes(2).await;
    assert!(head[1] < 0x80, "a server does not mask");
    let size = match head[1] {
        126 => {
            let bytes = raw.bytes(2).await;
            usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
        }
        127 => {
            let bytes = raw.bytes(8).await;
            u64::from_be_bytes(bytes.try_into().unwrap()) as usize
        }
        size => usize::from(size),
    };
    (head[0], raw.bytes(size).await)
}

/// What the channel says to these bytes, and the code of the close frame that the server sends.
async fn outcome(bytes: &[u8]) -> (Vec<bytes::Bytes>, String, u16) {
    let (_server, mut raw, mut channel) = open().await;
    raw.send_bytes(bytes).await;
    let (drained, (first, payload)) = tokio::join!(drain(&mut channel), server_frame(&mut raw));
    assert_eq!(first, CLOSE);
    assert!(raw.is_closed().await, "nothing follows the close frame");
    let code = payload
        .first_chunk()
        .map_or(0, |code| u16::from_be_bytes(*code));
    (drained.0, drained.1, code)
}

async fn is_protocol_error(bytes: &[u8]) {
    let (messages, reason, code) = outcome(bytes).await;
    assert_eq!(
        (messages.len(), reason.as_str(), code),
        (0, "websocket-protocol-error", 1002)
    );
}

#[tokio::test]
async fn one_binary_message_is_one_frame_in_every_form_of_length() {
    let (_server, mut raw, mut channel) = open().await;
    for size in [0, 1, 93, 94, 95, 65_503, 65_504, 300_000] {
        let body: Vec<u8> = (0..size).map(|at| at as u8).collect();
        raw.send_bytes(&masked(BINARY, &frame(&body))).await;
        assert_eq!(receive_one(&mut channel).await, body);
    }
    for size in [0, 93, 94, 65_504] {
        channel.sender.push(Outbound {
            token: 1,
            body: vec![9; size].into(),
            ..Outbound::default()
        });
        channel.sender.flush().await.unwrap();
        let (first, payload) = server_frame(&mut raw).await;
        assert_eq!((first, payload.len()), (BINARY, 32 + size));
        assert_eq!(&payload[32..], vec![9; size]);
    }
}

#[tokio::test]
async fn bytes_may_come_one_by_one() {
    let (_server, mut raw, mut channel) = open().await;
    for byte in masked(BINARY, &frame(&[5; 200])) {
        raw.send_bytes(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(receive_one(&mut channel).await, vec![5; 200]);
}

#[tokio::test]
async fn fragments_are_one_message_and_control_frames_may_stand_between() {
    let (_server, mut raw, mut channel) = open().await;
    let bytes = frame(&[6; 100]);
    for cuts in [
        [0, 0],
        [1, 2],
        [10, 31],
        [31, 33],
        [32, 132],
        [40, 100],
        [132, 132],
    ] {
        raw.send_bytes(&masked(0x02, &bytes[..cuts[0]])).await;
        raw.send_bytes(&masked(PING, b"between")).await;
        raw.send_bytes(&masked(0x00, &bytes[cuts[0]..cuts[1]]))
            .await;
        raw.send_bytes(&masked(PONG, b"unasked")).await;
        raw.send_bytes(&masked(0x80, &bytes[cuts[1]..])).await;
        assert_eq!(receive_one(&mut channel).await, vec![6; 100], "{cuts:?}");
        let answer = tokio::select! {
            frame = server_frame(&mut raw) => frame,
            _ = drain(&mut channel) => panic!("no pong"),
        };
        assert_eq!(answer, (PONG, b"between".to_vec()));
    }
}

#[tokio::test]
async fn a_ping_is_answered_though_nothing_is_sent_and_only_the_latest_of_many() {
    let (_server, mut raw, mut channel) = open().await;
    for payload in [&b""[..], b"hello", &[0xFF; 125]] {
        raw.send_bytes(&masked(PING, payload)).await;
        let answer = tokio::select! {
            frame = server_frame(&mut raw) => frame,
            _ = drain(&mut channel) => panic!("no pong"),
        };
        assert_eq!(answer, (PONG, payload.to_vec()));
    }
    let pings: Vec<u8> = (0..10u8).flat_map(|at| masked(PING, &[at])).collect();
    raw.send_bytes(&[pings, masked(BINARY, &frame(b"x")), masked(PING, b"last")].concat())
        .await;
    let seeing_the_last =
        async { while server_frame(&mut raw).await != (PONG, b"last".to_vec()) {} };
    tokio::select! {
        () = seeing_the_last => {}
        _ = drain(&mut channel) => panic!("no pong"),
    }
}

#[tokio::test]
async fn a_flood_of_pings_to_one_who_does_not_read_holds_no_memory() {
    let (_server, mut raw, mut channel) = open().await;
    let pings = masked(PING, &[1; 125]).repeat(100);
    let flooding = async {
        for _ in 0..1000 {
            raw.send_bytes(&pings).await;
        }
        raw.send_bytes(&masked(BINARY, &frame(b"after 13 MB")))
            .await;
    };
    // It comes to an end though no pong is taken: reading does not wait for writing.
    let (message, ()) = tokio::join!(receive_one(&mut channel), flooding);
    assert_eq!(message, "after 13 MB");
}

#[tokio::test]
async fn text_is_no_frame() {
    for bytes in [
        masked(0x81, b"hello"),
        masked(0x81, b""),
        masked(0x01, b"hel"),
    ] {
        let (_, reason, code) = outcome(&bytes).await;
        assert_eq!((reason.as_str(), code), ("non-binary-frame", 1003));
    }
    let bytes = [masked(BINARY, &frame(b"good")), masked(0x81, b"bad")].concat();
    let (messages, reason, _) = outcome(&bytes).await;
    assert_eq!(
        (&messages[0][..], reason.as_str()),
        (&b"good"[..], "non-binary-frame")
    );
}

#[tokio::test]
async fn a_message_is_exactly_one_nact_frame() {
    let good = frame(&[1; 100]);
    let fragmented = |first: &[u8], last: &[u8]| [masked(0x02, first), masked(0x80, last)].concat();
    let cases: [(Vec<u8>, &str); 8] = [
        (masked(BINARY, &good[..131]), "frame-size-mismatch"),
        (
            masked(BINARY, &[&good[..], &[0]].concat()),
            "frame-size-mismatch",
        ),
        (masked(BINARY, &good.repeat(2)), "frame-size-mismatch"),
        (masked(BINARY, &good[..31]), "frame-too-small"),
        (masked(BINARY, b""), "frame-too-small"),
        (
            fragmented(&good[..50], &good[50..131]),
            "frame-size-mismatch",
        ),
        (fragmented(&good[..20], &good[20..30]), "frame-too-small"),
        (
            masked(BINARY, &part(90, 99, &[0; 10])),
            "frame-out-of-bounds",
        ),
    ];
    for (bytes, expected) in cases {
        let (messages, reason, code) = outcome(&bytes).await;
        assert_eq!((messages.len(), reason.as_str(), code), (0, expected, 1002));
    }
    // What is whole is given out as it comes; the surplus in a later fragment is found then.
    let (messages, reason, _) = outcome(&fragmented(&good, &[0])).await;
    assert_eq!(
        (messages.len(), reason.as_str()),
        (1, "frame-size-mismatch")
    );
}

#[tokio::test]
async fn the_checks_keep_the_order_of_the_protocol() {
    let mut bytes = part(90, 99, &[0; 10]);
    bytes.push(0);
    assert_eq!(
        outcome(&masked(BINARY, &bytes)).await.1,
        "frame-size-mismatch"
    );
    bytes[24] = 0xFF;
    assert_eq!(outcome(&masked(BINARY, &bytes)).await.1, "frame-too-large");
    bytes[30] = 0;
    assert_eq!(outcome(&masked(BINARY, &bytes)).await.1, "bad-magic");
    bytes[31] = 0;
    assert_eq!(outcome(&masked(BINARY, &bytes)).await.1, "version-mismatch");
}

#[tokio::test]
async fn reserved_bits_and_opcodes_are_refused() {
    for first in [0x80 | 0x40, 0x80 | 0x20, 0x80 | 0x10] {
        is_protocol_error(&masked(first | 0x02, &frame(b"x"))).await;
        is_protocol_error(&masked(first | 0x09, b"")).await;
    }
    for opcode in (3..8).chain(11..16) {
        is_protocol_error(&masked(0x80 | opcode, b"")).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_mask_is_refused() {
    let mut bytes = vec![BINARY, 33];
    bytes.extend(frame(b"x"));
    is_protocol_error(&bytes).await;
    is_protocol_error(&[PING, 0]).await;
}

#[tokio::test]
async fn control_frames_are_short_and_whole() {
    is_protocol_error(&masked(PING, &[0; 126])).await;
    is_protocol_error(&masked(CLOSE, &[0x03; 126])).await;
    is_protocol_error(&masked(0x09, b"")).await;
    is_protocol_error(&masked(0x08, b"")).await;
}

#[tokio::test]
async fn fragments_come_in_order_and_do_not_interleave() {
    let bytes = frame(&[1; 10]);
    is_protocol_error(&masked(0x80, &bytes)).await;
    is_protocol_error(&masked(0x00, &bytes)).await;
    let opened = masked(0x02, &bytes[..35]);
    is_protocol_error(&[opened.clone(), masked(BINARY, &bytes)].concat()).await;
    is_protocol_error(&[opened.clone(), masked(0x02, &bytes)].concat()).await;
    is_protocol_error(&[opened, masked(0x81, b"text")].concat()).await;
}

#[tokio::test]
async fn a_length_has_one_form() {
    let with_length = |length: &[u8]| [&[BINARY][..], length, &[0; 4], &[0; 40]].concat();
    is_protocol_error(&with_length(&[0x80 | 126, 0, 40])).await;
    is_protocol_error(&with_length(&[0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 40])).await;
    is_protocol_error(&with_length(&[0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 40])).await;
}

#[tokio::test]
async fn a_claim_of_any_size_is_judged_by_its_first_bytes() {
    let mut bytes = vec![BINARY, 0x80 | 127];
    bytes.extend((1u64 << 62).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(frame(b""));
    assert_eq!(outcome(&bytes).await.1, "frame-size-mismatch");
}

#[tokio::test]
async fn a_close_frame_is_answered_in_kind_and_ends_both_directions() {
    let payloads: [&[u8]; 6] = [
        b"",
        &[3, 0xE8],
        &[3, 0xE9, b'b', b'y', b'e'],
        &[3, 0xF3],
        &[0x0B, 0xB8],
        &[0x13, 0x87],
    ];
    for payload in payloads {
        let (_server, mut raw, mut channel) = open().await;
        raw.send_bytes(
            &[
                masked(BINARY, &frame(b"before")),
                masked(CLOSE, payload),
                masked(BINARY, &frame(b"after")),
            ]
            .concat(),
        )
        .await;
        let (drained, answer) = tokio::join!(drain(&mut channel), server_frame(&mut raw));
        assert_eq!(drained, (vec!["before".into()], "closed".into()));
        assert_eq!(answer, (CLOSE, payload[..payload.len().min(2)].to_vec()));
        assert!(raw.is_closed().await);
        channel.sender.push(Outbound::default());
        assert_eq!(channel.sender.flush().await.unwrap_err().reason(), "closed");
    }
}

#[tokio::test]
async fn invalid_close_frames_are_refused() {
    is_protocol_error(&masked(CLOSE, &[3])).await;
    for code in [
        0u16, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535,
    ] {
        is_protocol_error(&masked(CLOSE, &code.to_be_bytes())).await;
    }
    is_protocol_error(&masked(CLOSE, &[3, 0xE8, 0xFF, 0xFE])).await;
}

#[tokio::test]
async fn our_own_farewell_is_a_close_frame_and_waits_for_the_answer() {
    let (_server, mut raw, mut channel) = open().await;
    channel.sender.push(Outbound {
        token: 4,
        body: "last".into(),
        ..Outbound::default()
    });
    assert_eq!(channel.sender.close().await.unwrap(), [4]);
    assert_eq!(server_frame(&mut raw).await.1[32..], *b"last");
    assert_eq!(server_frame(&mut raw).await, (CLOSE, vec![3, 0xE8]));
    // Until it answers, the remote may finish what it is sending.
    raw.send_bytes(&masked(BINARY, &frame(b"too"))).await;
    assert_eq!(receive_one(&mut channel).await, "too");
    raw.send_bytes(&masked(CLOSE, &[3, 0xE8])).await;
    assert_eq!(drain(&mut channel).await, (Vec::new(), "closed".into()));
    assert!(raw.is_closed().await);
}

#[tokio::test]
async fn an_end_without_farewell_is_a_cut() {
    let (_server, raw, mut channel) = open().await;
    drop(raw);
    assert_eq!(drain(&mut channel).await.1, "connection-cut");
    let (_server, mut raw, mut channel) = open().await;
    raw.send_bytes(&[masked(0x02, &frame(b"half")[..33]), masked(CLOSE, b"")].concat())
        .await;
    assert_eq!(
        drain(&mut channel).await.1,
        "connection-cut",
        "a farewell amid a message"
    );
}

#[tokio::test]
async fn a_bad_handshake_is_refused_by_what_is_wrong_with_it() {
    let server = Server::start(WebConfig::default()).await;
    let status = async |from: &str, to: &str| {
        assert!(UPGRADE.contains(from));
        server.ask(&UPGRADE.replace(from, to)).await.status
    };
    assert_eq!(status("sec-websocket-key", "x-key").await, 400);
    assert_eq!(status("dGhlIHNhbXBsZSBub25jZQ==", "short").await, 400);
    assert_eq!(
        status("dGhlIHNhbXBsZSBub25jZQ==", "!GhlIHNhbXBsZSBub25jZQ==").await,
        400
    );
    assert_eq!(status("keep-alive, Upgrade", "keep-alive").await, 400);
    assert_eq!(status("GET /nacp", "GET /other").await, 404);
    assert_eq!(status("GET", "PUT").await, 405);
    let answer = server
        .ask(&UPGRADE.replace("version: 13", "version: 8"))
        .await;
    assert_eq!(answer.status, 426);
    assert_eq!(answer.header("sec-websocket-version"), Some("13"));
    // An extension or sub-protocol that is offered is not taken up.
    let offer =
        "sec-websocket-extensions: permessage-deflate\r\nsec-websocket-protocol: chat\r\nhost";
    let answer = server.ask(&UPGRADE.replacen("host", offer, 1)).await;
    assert_eq!(answer.status, 101);
    assert_eq!(answer.header("sec-websocket-extensions"), None);
    assert_eq!(answer.header("sec-websocket-protocol"), None);
}
