//! The authorisation hook: first of all, at every request, with bounded work.
#![cfg(feature = "web")]

mod raw;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nact::web::{Refusal, Web, WebConfig, WebLimits};
use nact::{Identity, Options, Provider, Transports};
use raw::{Server, post_head};

/// Lets in who has the token `good`.
fn guarded(asked: &Arc<AtomicU32>) -> WebConfig {
    let asked = Arc::clone(asked);
    WebConfig::default().with_authorisation(move |request| {
        asked.fetch_add(1, Ordering::Relaxed);
        assert!(request.remote().is_some() && !format!("{request:?}").contains("good"));
        match request.bearer() {
            Some("good") => Ok(Some(Identity::new("reports"))),
            Some("also-in") => Ok(Some(Identity::new("billing"))),
            Some(_) => Err(Refusal::Forbidden),
            None => Err(Refusal::Unauthorised),
        }
    })
}

const AUTHORISED: &str = "authorization: Bearer good\r\nhost";

#[tokio::test]
async fn refusal_comes_before_every_other_answer() {
    let mut server = Server::start(guarded(&Arc::default())).await;
    let get = "GET /nacp HTTP/1.1\r\nhost: x\r\n\r\n";
    for request in [
        get.to_owned(),
        get.replace("/nacp", "/other"),
        get.replace("GET", "PUT"),
        post_head("unknown", 0),
        get.replace("host", "connection: upgrade\r\nupgrade: websocket\r\nhost"),
    ] {
        let answer = server.ask(&request).await;
        assert_eq!(answer.status, 401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.header("x-nact-session"), None);
        let wrong = request.replace("host", "authorization: bearer wrong\r\nhost");
        assert_eq!(server.ask(&wrong).await.status, 403);
    }
    let mut raw = server.connect().await;
    raw.send(&get.replace("host", AUTHORISED)).await;
    let answer = raw.answer().await;
    assert_eq!(answer.status, 200);
    let channel = server.accept().await;
    assert!(channel.identity.unwrap().has_name("reports"));
    // The session's token does not spare the hook.
    let post = post_head(answer.header("x-nact-session").unwrap(), 0);
    assert_eq!(server.ask(&post).await.status, 401);
    let authorised = post.replace("host", AUTHORISED);
    assert_eq!(server.ask(&authorised).await.status, 204);
    // And serves nobody but who opened the session.
    let another = post.replace("host", "authorization: Bearer also-in\r\nhost");
    assert_eq!(server.ask(&another).await.status, 404);
}

#[tokio::test]
async fn who_is_refused_too_often_is_not_even_asked() {
    let asked = Arc::default();
    let config = guarded(&asked).with_limits(WebLimits {
        refusals_max: 3,
        ..WebLimits::default()
    });
    let server = Server::start(config).await;
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let answer = server.ask("GET /nacp HTTP/1.1\r\nhost: x\r\n\r\n").await;
        statuses.push(answer.status);
        if answer.status == 429 {
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429, 429]);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn our_client_shows_its_token_in_both_transports() {
    let mut server = Server::start(guarded(&Arc::default())).await;
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:{}", server.port);
        let mut transports = Transports::default();
        let error = transports.dial(&url).await.unwrap_err();
        assert!(error.reason().ends_with("-401"), "{error}");
        let bearer = WebConfig::default().with_bearer("good").unwrap();
        transports.register(Web::new(bearer));
        let (dialled, accepted) = tokio::join!(transports.dial(&url), server.accept());
        dialled.unwrap();
        assert_eq!(accepted.identity, Some(Identity::new("reports")));
    }
}

#[tokio::test]
async fn a_token_that_no_header_can_carry_is_an_error_that_does_not_repeat_it() {
    let error = WebConfig::default().with_bearer("se\ncret").unwrap_err();
    assert!(!error.to_string().contains("cret"));
}

#[test]
fn a_listener_open_to_everybody_is_told() {
    let mut transports = Transports::default();
    let is_open = |transports: &Transports, url| transports.is_public_plaintext(url).unwrap();
    for url in [
        "tcp://0.0.0.0:1",
        "ws://[::]:1",
        "http://example.org",
        "tcp://10.1.2.3:1",
    ] {
        assert!(is_open(&transports, url), "{url}");
    }
    for url in [
        "tcp://127.0.0.1:1",
        "ws://LOCALHOST:1",
        "http://[::1]",
        "http://[::ffff:127.0.0.1]",
        "https://0.0.0.0",
        "unix:///run/x",
        "mem://x",
    ] {
        assert!(!is_open(&transports, url), "{url}");
    }
    transports.register(Web::new(guarded(&Arc::default())));
    assert!(!is_open(&transports, "ws://0.0.0.0:1"));
}

#[tokio::test]
async fn a_listener_takes_no_query() {
    let url = "http://127.0.0.1:0/nacp?x".parse().unwrap();
    let error = Web::default()
        .listen(&url, &Options::default())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "bad-url");
}
