//! The server of Streamable HTTP, from raw sockets: every line of the transport's table.
#![cfg(feature = "web")]

mod raw;

use std::time::Duration;

use nact::web::{WebConfig, WebLimits};
use nact::{Options, Outbound};
use raw::{Server, drain, frame, part, post_head, receive_one};

async fn server() -> Server {
    Server::start(WebConfig::default()).await
}

fn limited(limits: WebLimits) -> WebConfig {
    WebConfig::default().with_limits(limits)
}

fn outbound(token: u64, body: Vec<u8>) -> Outbound {
    Outbound {
        token,
        body: body.into(),
        ..Outbound::default()
    }
}

#[tokio::test]
async fn get_opens_a_session_whose_downlink_is_preface_and_frames() {
    let mut server = server().await;
    let mut raw = server.connect().await;
    raw.send("GET /nacp HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = raw.answer().await;
    assert_eq!(answer.status, 200);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("cache-control", "no-store, no-transform"),
        ("x-accel-buffering", "no"),
        ("transfer-encoding", "chunked"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
    let token = answer.header("x-nact-session").unwrap();
    assert!(token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(raw.chunk().await.unwrap()[..], [0x01, 0xCF]);

    let mut channel = server.accept().await;
    channel.sender.push(outbound(1, b"hello".to_vec()));
    channel.sender.flush().await.unwrap();
    let chunk = raw.chunk().await.unwrap();
    assert_eq!(&chunk[32..], b"hello");
    // The server ends the body.
    channel.sender.close().await.unwrap();
    assert_eq!(raw.chunk().await.unwrap().len(), 0);
    assert_eq!(server.post(token, &frame(b"late")).await.status, 404);
    assert_eq!(drain(&mut channel).await, (Vec::new(), "closed".into()));
}

#[tokio::test]
async fn posts_are_the_uplink_and_a_frame_may_span_them() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let bytes = [frame(b"one"), frame(b"two")].concat();
    for piece in [&bytes[..10], &bytes[10..50], &[], &bytes[50..]] {
        let answer = server.post(&token, piece).await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("content-type"), None);
    }
    assert_eq!(receive_one(&mut channel).await, "one");
    assert_eq!(receive_one(&mut channel).await, "two");
}

#[tokio::test]
async fn a_post_may_be_chunked_and_name_a_parameter_of_its_type() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let mut post = server.connect().await;
    post.send(&format!(
        "POST /nacp HTTP/1.1\r\nhost: x\r\nX-NACT-Session: {token}\r\n\
         content-type: Application/Octet-Stream; x=y\r\ntransfer-encoding: chunked\r\n\r\n"
    ))
    .await;
    let bytes = frame(b"chunked");
    for piece in bytes.chunks(13) {
        post.send(&format!("{:x}\r\n", piece.len())).await;
        post.send_bytes(piece).await;
        post.send("\r\n").await;
    }
    post.send("0\r\n\r\n").await;
    assert_eq!(post.answer().await.status, 204);
    assert_eq!(receive_one(&mut channel).await, "chunked");
}

#[tokio::test]
async fn what_is_not_in_the_table_is_refused() {
    let mut server = server().await;
    let (_raw, token, _channel) = server.open().await;
    let status = async |request: String| server.ask(&request).await.status;
    let other_path = "GET /other HTTP/1.1\r\nhost: x\r\n\r\n";
    assert_eq!(status(other_path.into()).await, 404);
    assert_eq!(status(other_path.replace("/other", "/nacp/")).await, 404);
    assert_eq!(status(post_head("unknown", 0)).await, 404);
    assert_eq!(
        status("POST /nacp HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".into()).await,
        404,
        "a POST without a session"
    );
    let json = post_head(&token, 0).replace("octet-stream", "json");
    assert_eq!(status(json).await, 415);
    let no_type = post_head(&token, 0).replace("content-type", "x-type");
    assert_eq!(status(no_type).await, 415);
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH"] {
        let answer = server
            .ask(&format!("{method} /nacp HTTP/1.1\r\nhost: x\r\n\r\n"))
            .await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.header("allow"), Some("GET, POST"));
    }
    assert_eq!(server.post(&token, &[]).await.status, 204, "none did harm");
}

#[tokio::test]
async fn headers_have_a_bound() {
    let server = server().await;
    let long = format!(
        "GET /nacp HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n",
        "y".repeat(70_000)
    );
    assert_eq!(server.ask(&long).await.status, 431);
    let many = format!(
        "GET /nacp HTTP/1.1\r\nhost: x\r\n{}\r\n",
        "x-many: y\r\n".repeat(100)
    );
    assert_eq!(server.ask(&many).await.status, 431);
}

#[tokio::test]
async fn of_two_posts_at_once_the_second_is_refused_and_the_first_goes_on() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let bytes = frame(b"first");
    let mut first = server.connect().await;
    first.send(&post_head(&token, bytes.len())).await;
    first.send_bytes(&bytes[..20]).await;
    // Until the first is being read, the second may be the first.
    while server.post(&token, &[]).await.status != 409 {}
    assert_eq!(server.post(&token, &frame(b"second")).await.status, 409);
    first.send_bytes(&bytes[20..]).await;
    assert_eq!(first.answer().await.status, 204);
    assert_eq!(receive_one(&mut channel).await, "first");
    assert_eq!(server.post(&token, &frame(b"third")).await.status, 204);
    assert_eq!(receive_one(&mut channel).await, "third");
}

#[tokio::test]
async fn a_body_over_the_limit_ends_the_session() {
    let config = limited(WebLimits {
        received_post_bytes_max: 1000,
        ..WebLimits::default()
    });
    let mut server = Server::start(config).await;
    for claims_it in [true, false] {
        let (mut raw, token, mut channel) = server.open().await;
        let answer = if claims_it {
            server.ask(&post_head(&token, 1001)).await
        } else {
            let head =
                post_head(&token, 0).replace("content-length: 0", "transfer-encoding: chunked");
            let body = format!("3e9\r\n{}\r\n0\r\n\r\n", "x".repeat(1001));
            server.ask(&(head + &body)).await
        };
        assert_eq!(answer.status, 413);
        assert_eq!(drain(&mut channel).await.1, "body-too-large");
        assert_eq!(raw.chunk().await, None, "not an orderly end");
        assert_eq!(server.post(&token, &[]).await.status, 404);
    }
}

#[tokio::test]
async fn a_broken_upload_ends_the_session_after_what_was_whole() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let mut post = server.connect().await;
    post.send(&post_head(&token, 1000)).await;
    post.send_bytes(&[frame(b"whole"), part(0, 100, b"torn")].concat())
        .await;
    assert_eq!(receive_one(&mut channel).await, "whole");
    drop(post);
    assert_eq!(
        drain(&mut channel).await,
        (Vec::new(), "upload-aborted".into())
    );
    assert_eq!(server.post(&token, &[]).await.status, 404);
}

#[tokio::test]
async fn a_malformed_upload_gets_400() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let head = post_head(&token, 0).replace("content-length: 0", "transfer-encoding: chunked");
    let answer = server.ask(&(head + "not a size\r\n")).await;
    assert_eq!(answer.status, 400);
    assert_eq!(drain(&mut channel).await.1, "upload-aborted");
}

#[tokio::test]
async fn sessions_are_limited_and_a_place_is_free_again_when_one_ends() {
    let config = limited(WebLimits {
        sessions_max: 2,
        ..WebLimits::default()
    });
    let mut server = Server::start(config).await;
    let get = "GET /nacp HTTP/1.1\r\nhost: x\r\n\r\n";
    let (first, _, mut channel) = server.open().await;
    let _second = server.open().await;
    assert_eq!(server.ask(get).await.status, 503);
    drop(first);
    assert_eq!(drain(&mut channel).await.1, "closed");
    server.open().await;
}

#[tokio::test]
async fn a_channel_nobody_accepts_is_not_made() {
    let options = Options {
        accept_queue_max: 1,
        ..Options::default()
    };
    let (service, mut listener) =
        nact::web::Web::default().mount(&"http://x".parse().unwrap(), &options);
    let get = || http::Request::get("/").body(String::new()).unwrap();
    let first = service.respond(get()).await;
    assert_eq!(first.status(), 200);
    assert_eq!(
        service.respond(get()).await.status(),
        503,
        "the queue is full"
    );
    listener.accept().await.unwrap();
    assert_eq!(service.respond(get()).await.status(), 200);
    drop(listener);
    assert_eq!(service.respond(get()).await.status(), 503, "nobody listens");
}

#[tokio::test(start_paused = true)]
async fn a_session_without_traffic_ends_and_one_with_traffic_lives() {
    let mut server = server().await;
    let (_raw, token, mut idle) = server.open().await;
    let (_raw, busy_token, mut busy) = server.open().await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(server.post(&busy_token, &frame(b"beat")).await.status, 204);
        assert_eq!(receive_one(&mut busy).await, "beat");
    }
    assert_eq!(drain(&mut idle).await, (Vec::new(), "idle-timeout".into()));
    assert_eq!(server.post(&token, &[]).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn zero_means_that_a_session_never_is_idle_for_too_long() {
    let config = limited(WebLimits {
        idle_timeout: Duration::ZERO,
        ..WebLimits::default()
    });
    let mut server = Server::start(config).await;
    let (_raw, token, mut channel) = server.open().await;
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    assert_eq!(server.post(&token, &frame(b"still")).await.status, 204);
    assert_eq!(receive_one(&mut channel).await, "still");
}

#[tokio::test]
async fn a_slow_consumer_meets_back_pressure_and_one_who_ignores_it_loses_the_session() {
    let mut server = server().await;
    let (mut raw, token, mut channel) = server.open().await;
    let (mut pushed, mut accepted) = (0, Vec::new());
    // The client does not read: the sender fills up and says so.
    loop {
        while channel.sender.wants_more() {
            channel.sender.push(outbound(pushed, vec![7; 60_000]));
            pushed += 1;
        }
        let polled = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(channel.sender.poll_send(cx, &mut accepted).is_pending())
        });
        if polled.await && !channel.sender.wants_more() {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(pushed < 1000, "back pressure came after {pushed} messages");
    // 4 MiB more against its will.
    for _ in 0..70 {
        channel.sender.push(outbound(pushed, vec![7; 60_000]));
    }
    let error = channel.sender.flush().await.unwrap_err();
    assert_eq!(error.reason(), "send-buffer-overflow");
    assert_eq!(drain(&mut channel).await.1, "send-buffer-overflow");
    assert_eq!(server.post(&token, &[]).await.status, 404);
    while let Some(chunk) = raw.chunk().await {
        assert!(!chunk.is_empty(), "not an orderly end");
    }
}

#[tokio::test]
async fn a_reader_that_is_behind_holds_the_post_and_not_the_memory() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let body = vec![7; 3 << 20];
    let bytes = frame(&body);
    let mut post = server.connect().await;
    let posting = async {
        post.send(&post_head(&token, bytes.len())).await;
        post.send_bytes(&bytes).await;
        post.answer().await.status
    };
    let (status, message) = tokio::join!(posting, receive_one(&mut channel));
    assert_eq!((status, message.len()), (204, 3 << 20));
}

#[tokio::test]
async fn broken_frames_are_named() {
    let mut server = server().await;
    let (_raw, token, mut channel) = server.open().await;
    let mut bytes = frame(b"good");
    bytes.extend([0; 32]);
    server.post(&token, &bytes).await;
    let (messages, reason) = drain(&mut channel).await;
    assert_eq!((messages.len(), reason.as_str()), (1, "version-mismatch"));
}
