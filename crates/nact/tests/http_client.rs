//! The client of Streamable HTTP against servers written by hand: what it sends, and what it says to wrong answers.
#![cfg(feature = "web")]

mod raw;

use nact::web::{Web, WebConfig, WebLimits};
use nact::{Channel, DialError, Options, Outbound, Provider, Url};
use raw::{Raw, drain, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const OPENED: &str =
    "HTTP/1.1 200 OK\r\nx-nact-session: tok-1\r\ntransfer-encoding: chunked\r\n\r\n";

struct Stage {
    listener: TcpListener,
    url: Url,
}

impl Stage {
    async fn new(scheme: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("{scheme}://127.0.0.1:{port}/nacp?key=1");
        Self {
            listener,
            url: url.parse().unwrap(),
        }
    }

    async fn accept(&self) -> Raw {
        Raw::new(self.listener.accept().await.unwrap().0)
    }

    async fn dial(&self, web: &Web) -> Result<Channel, DialError> {
        web.dial(&self.url, &Options::default()).await
    }

    /// Dials, and answers the first request with these bytes.
    async fn dial_answered(&self, answer: &str) -> Result<Channel, DialError> {
        let web = Web::default();
        let serving = async {
            let mut raw = self.accept().await;
            // The connection of the POSTs comes first.
            let _posts = match self.url.scheme() {
                "http" => Some(std::mem::replace(&mut raw, self.accept().await)),
                _ => None,
            };
            raw.answer().await;
            raw.send(answer).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            result = self.dial(&web) => result,
            () = serving => unreachable!(),
        }
    }

    /// A channel, the connections of its POSTs and of its GET.
    async fn open(&self, web: &Web) -> (Channel, Raw, Raw) {
        let serving = async {
            let posts = self.accept().await;
            let mut get = self.accept().await;
            get.answer().await;
            get.send(OPENED).await;
            get.send("2\r\n\u{1}").await;
            get.send_bytes(&[0xCF]).await;
            get.send("\r\n").await;
            (posts, get)
        };
        let (channel, (posts, get)) = tokio::join!(self.dial(web), serving);
        (channel.unwrap(), posts, get)
    }
}

fn outbound(token: u64, size: usize) -> Outbound {
    Outbound {
        token,
        body: vec![7; size].into(),
        ..Outbound::default()
    }
}

async fn reason(scheme: &str, answer: &str) -> String {
    let stage = Stage::new(scheme).await;
    let error = stage.dial_answered(answer).await.unwrap_err();
    assert!(!error.to_string().contains("key=1"), "{error}");
    error.reason().to_owned()
}

#[tokio::test]
async fn what_is_no_session_is_named() {
    assert_eq!(
        reason("http", &format!("{OPENED}2\r\nno\r\n")).await,
        "invalid-http-preface"
    );
    assert_eq!(
        reason("http", &format!("{OPENED}0\r\n\r\n")).await,
        "invalid-http-preface"
    );
    let no_token = OPENED.replace("x-nact-session", "x-other");
    assert_eq!(reason("http", &no_token).await, "http-session-missing");
    for (status, expected) in [
        ("301 Moved\r\nlocation: /elsewhere", "http-get-301"),
        ("403 Forbidden", "http-get-403"),
        ("503 Unavailable", "http-get-503"),
        ("204 No Content", "http-get-204"),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(reason("http", &answer).await, expected);
    }
    assert_eq!(
        reason("http", "SSH-2.0-OpenSSH_9\r\n\r\n").await,
        "not-http"
    );
}

#[tokio::test]
async fn what_is_no_websocket_is_named() {
    for (status, expected) in [
        ("302 Found\r\nlocation: /elsewhere", "websocket-upgrade-302"),
        ("401 Unauthorized", "websocket-upgrade-401"),
        ("200 OK", "websocket-upgrade-200"),
    ] {
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(reason("ws", &answer).await, expected);
    }
    let wrong_key = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\
        connection: upgrade\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    assert_eq!(reason("ws", wrong_key).await, "websocket-handshake-invalid");
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_timeout() {
    for scheme in ["ws", "http"] {
        let stage = Stage::new(scheme).await;
        let error = stage.dial(&Web::default()).await.unwrap_err();
        assert_eq!(error.reason(), "connect-timeout");
    }
}

#[tokio::test]
async fn posts_go_one_at_a_time_in_order_within_their_size_with_token_and_bearer() {
    let limits = WebLimits {
        sent_post_bytes_max: 1000,
        ..WebLimits::default()
    };
    let config = WebConfig::default().with_limits(limits);
    let web = Web::new(config.with_bearer("tok-9f2").unwrap());
    assert!(!format!("{web:?}").contains("tok-9f2"));
    let stage = Stage::new("http").await;
    let (mut channel, mut posts, _get) = stage.open(&web).await;
    channel.sender.push(outbound(1, 2500));
    let serving = async {
        let mut received = Vec::new();
        while received.len() < 2532 {
            let request = posts.answer().await;
            let expected = [
                ("x-nact-session", "tok-1"),
                ("content-type", "application/octet-stream"),
                ("authorization", "Bearer tok-9f2"),
            ];
            for (name, value) in expected {
                assert_eq!(request.header(name), Some(value));
            }
            let size: usize = request.header("content-length").unwrap().parse().unwrap();
            assert!((1..=1000).contains(&size));
            received.extend(posts.bytes(size).await);
            assert!(
                posts.stream.buffer().is_empty(),
                "nothing before the answer"
            );
            posts.send("HTTP/1.1 204 No Content\r\n\r\n").await;
        }
        received
    };
    let (accepted, received) = tokio::join!(channel.sender.flush(), serving);
    assert_eq!(accepted.unwrap(), [1]);
    assert_eq!(received[32..], [7; 2500]);
}

#[tokio::test]
async fn a_post_that_is_refused_ends_both_directions_by_its_status() {
    for status in [
        "404 Not Found",
        "409 Conflict",
        "413 Too Large",
        "302 Found",
    ] {
        let stage = Stage::new("http").await;
        let (mut channel, mut posts, mut get) = stage.open(&Web::default()).await;
        channel.sender.push(outbound(1, 10));
        channel.sender.flush().await.unwrap();
        posts.answer().await;
        posts.bytes(42).await;
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        posts.send(&answer).await;
        let expected = format!("http-post-{}", &status[..3]);
        assert_eq!(drain(&mut channel).await.1, expected);
        channel.sender.push(outbound(2, 10));
        assert_eq!(channel.sender.flush().await.unwrap_err().reason(), expected);
        assert!(get.is_closed().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_post_without_an_answer_is_a_timeout() {
    let stage = Stage::new("http").await;
    let (mut channel, _posts, _get) = stage.open(&Web::default()).await;
    channel.sender.push(outbound(1, 10));
    channel.sender.flush().await.unwrap();
    let start = tokio::time::Instant::now();
    assert_eq!(drain(&mut channel).await.1, "connect-timeout");
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_between_posts_is_replaced() {
    let stage = Stage::new("http").await;
    let (mut channel, mut posts, _get) = stage.open(&Web::default()).await;
    for token in 0..3 {
        channel.sender.push(outbound(token, 10));
        let serving = async {
            posts.answer().await;
            posts.bytes(42).await;
            posts
                .send("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
                .await;
        };
        let (accepted, ()) = tokio::join!(channel.sender.flush(), serving);
        accepted.unwrap();
        posts.stream.shutdown().await.unwrap();
        assert!(posts.is_closed().await);
        channel.sender.push(outbound(10 + token, 10));
        let (accepted, next) = tokio::join!(channel.sender.flush(), stage.accept());
        accepted.unwrap();
        posts = next;
        posts.answer().await;
        posts.bytes(42).await;
        posts.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    }
}

#[tokio::test]
async fn the_downlink_may_be_cut_anywhere_and_its_end_tells_a_farewell_from_a_cut() {
    let stage = Stage::new("http").await;
    for ends_in_order in [true, false] {
        let (mut channel, _posts, mut get) = stage.open(&Web::default()).await;
        for byte in frame(b"bit by bit") {
            get.send_bytes(&[b"1\r\n", &[byte][..], b"\r\n"].concat())
                .await;
        }
        if ends_in_order {
            get.send("0\r\n\r\n").await;
        }
        drop(get);
        let (messages, reason) = drain(&mut channel).await;
        assert_eq!(messages, ["bit by bit"]);
        assert_eq!(
            reason,
            if ends_in_order {
                "closed"
            } else {
                "connection-cut"
            }
        );
    }
}

#[tokio::test]
async fn closing_waits_for_the_last_answer_and_then_aborts_the_get() {
    let stage = Stage::new("http").await;
    let (mut channel, mut posts, mut get) = stage.open(&Web::default()).await;
    channel.sender.push(outbound(1, 10));
    let serving = async {
        posts.answer().await;
        posts.bytes(42).await;
        let mut byte = [0];
        let still_open = std::future::poll_fn(|cx| {
            let mut buffer = tokio::io::ReadBuf::new(&mut byte);
            let read = std::pin::Pin::new(get.stream.get_mut());
            std::task::Poll::Ready(
                tokio::io::AsyncRead::poll_read(read, cx, &mut buffer).is_pending(),
            )
        });
        assert!(
            still_open.await,
            "the GET lives until everything has arrived"
        );
        posts.send("HTTP/1.1 204 No Content\r\n\r\n").await;
        let mut rest = Vec::new();
        let _ = get.stream.read_to_end(&mut rest).await;
    };
    let (accepted, ()) = tokio::join!(channel.sender.close(), serving);
    assert_eq!(accepted.unwrap(), [1]);
    assert_eq!(drain(&mut channel).await, (Vec::new(), "closed".into()));
}
