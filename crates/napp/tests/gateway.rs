//! A Gateway over real sockets: who lies about his name, and who calls somebody that is not there.

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use nacp::message::{Meta, decode};
use nacp::{Payload, RequestKind};
use nact_rig::{Condition, Direction, Fate, Proxy};
use napp::{App, Builder, CallError, LinkStatus};
use support::frames::{RawPeer, address, through};
use support::{is_dropped, quiet, until};

/// Far beyond what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

async fn gateway() -> (App, String) {
    gateway_with(|builder| builder).await
}

async fn gateway_with(more: impl FnOnce(Builder) -> Builder) -> (App, String) {
    let gateway = more(quiet("gateway").gateway(true));
    let gateway = gateway.listen("tcp://127.0.0.1:0").unwrap();
    let gateway = gateway.start().await.unwrap();
    let url = gateway.local_urls()[0].clone();
    (gateway, url)
}

#[tokio::test]
async fn gw_4_a_forged_sender_gets_nothing_through_a_gateway() {
    let (gateway, url) = gateway().await;
    let served = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&served);
    let world = quiet("world").ability_with("double", move |ctx: napp::AbilityContext, n: u32| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { Ok(format!("{} for {}", 2 * n, ctx.from())) }
    });
    let world = world.start().await.unwrap();
    let hello = quiet("hello").start().await.unwrap();
    for app in [&world, &hello] {
        app.connect("gateway", &url).await.unwrap();
    }
    let mut errors = gateway.listen("nacp:internal:route:error").unwrap();
    let mut mallory = RawPeer::register("mallory", "gateway", &url).await;
    let request = Meta::Request {
        kind: RequestKind::Ability,
        target: Some("double".into()),
    };
    let four = Payload::encode(&4u32).unwrap();
    // As somebody who is there, as nobody, as the Gateway itself, and as the receiver.
    for forged in ["hello", "nobody", "gateway", "world"] {
        mallory.pretend(forged, "world");
        mallory.send(request.clone(), Some(&four)).await;
        let error = tokio::time::timeout(LIMIT, errors.next()).await.unwrap();
        let error: std::collections::BTreeMap<String, napp::Value> =
            error.unwrap().decode().unwrap();
        assert_eq!(error["reason"], napp::Value::Text("from-mismatch".into()));
    }
    // In its own name it is served, after all of that on the same connection; and so are others.
    mallory.pretend("mallory", "world");
    mallory.ask(request, &four).await;
    let answer = hello.call::<_, String>("world", "double", &4u32).await;
    assert_eq!(answer.unwrap(), "8 for hello");
    assert_eq!(served.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn gw_6_link_16_a_call_to_an_app_that_the_gateway_does_not_know_ends_at_once() {
    let (_gateway, url) = gateway().await;
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("gateway", &url).await.unwrap();
    let call = hello.call::<_, u32>("nobody", "double", &4u32);
    let error = tokio::time::timeout(LIMIT, call)
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(&error, CallError::NotOk { why, .. } if why == "no-route"),
        "{error:?}"
    );
}

#[tokio::test]
async fn link_16_a_call_through_a_gateway_to_an_app_that_is_silent_ends_with_its_grace() {
    let (_gateway, url) = gateway().await;
    let hello = quiet("hello")
        .ack_timeout(Duration::from_millis(100))
        .reconnect_grace(Duration::from_millis(200));
    let hello = hello.start().await.unwrap();
    hello.connect("gateway", &url).await.unwrap();
    // It reads nothing from now on.
    let _silent = RawPeer::register("silent", "gateway", &url).await;
    let mut link = hello.link("silent").unwrap();
    let call = hello.call::<_, u32>("silent", "double", &4u32);
    let error = tokio::time::timeout(LIMIT, call)
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error, CallError::PeerGone);
    until(&mut link, is_dropped).await;
    assert_eq!(
        hello.connected_apps().len(),
        1,
        "the Gateway is still there"
    );
}

/// Its successor at the same place knows nothing. What was subscribed there is there again, and so is what was subscribed
/// through it; each hit comes once.
#[tokio::test]
async fn b30_link_15_subscriptions_survive_a_gateway_that_restarts_with_empty_memory() {
    let (gateway, url) = gateway().await;
    let impatient = |id| {
        let (first, most) = (Duration::from_millis(1), Duration::from_millis(10));
        quiet(id).reconnect_backoff(first, most)
    };
    let press = impatient("press").start().await.unwrap();
    let reader = impatient("reader").start().await.unwrap();
    for app in [&press, &reader] {
        app.connect("gateway", &url).await.unwrap();
    }
    let mut through = reader.subscribe("press", "news:*").await.unwrap();
    let mut there = reader.subscribe("gateway", "weather:*").await.unwrap();
    let mut links = [&press, &reader].map(|app| app.link("gateway").unwrap());

    drop(gateway);
    let restart = async {
        loop {
            let next = quiet("gateway").gateway(true).listen(&url).unwrap();
            match next.start().await {
                Ok(gateway) => return gateway,
                // The last one has not let go of its port yet.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let gateway = tokio::time::timeout(LIMIT, restart).await.unwrap();
    for link in &mut links {
        let again = until(link, |status| {
            matches!(
                status,
                LinkStatus::Online {
                    restarted: true,
                    ..
                }
            )
        });
        tokio::time::timeout(LIMIT, again).await.unwrap();
    }
    let renewed = async {
        while gateway.snapshot().listens == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, renewed).await.unwrap();
    assert_eq!(press.emit("news:today", &1).unwrap(), 1);
    assert_eq!(gateway.emit("weather:today", &2).unwrap(), 1);
    for (subscription, name) in [(&mut through, "news:today"), (&mut there, "weather:today")] {
        let hit = tokio::time::timeout(LIMIT, subscription.next())
            .await
            .unwrap();
        assert_eq!(hit.unwrap().name, name);
        let again = pin!(subscription.next()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(again.is_pending(), "once");
    }
    assert_eq!(
        (press.snapshot().listens, gateway.snapshot().listens),
        (1, 1)
    );
}

/// A request is lost at the Gateway, while so much else passes on the same connection, in pieces, that it is never quiet:
/// the missing ACK is noticed, and the request sent again.
#[tokio::test]
async fn link_16_hb_7_what_a_gateway_lost_is_sent_again_however_busy_its_connection_is() {
    let (gateway, url) =
        gateway_with(|builder| builder.ability("ping", |n: u32| async move { Ok(n) })).await;
    let world = quiet("world").ability("double", |n: u32| async move { Ok(2 * n) });
    let world = world.start().await.unwrap();
    world.connect("gateway", &url).await.unwrap();
    let proxy = Proxy::start(address(&url)).await.unwrap();
    proxy.set(Direction::ToDialler, Condition::Split { bytes: 50 });
    let lost = Arc::new(AtomicUsize::new(0));
    let losses = Arc::clone(&lost);
    proxy.judge(Direction::ToTarget, move |frame| {
        let message = decode(&frame.body).unwrap();
        let is_request = matches!(message.meta, Meta::Request { .. }) && message.to == "world";
        if is_request && losses.fetch_add(1, Ordering::SeqCst) == 0 {
            return Fate::Lost;
        }
        Fate::Passes
    });
    let hello = quiet("hello").ack_timeout(Duration::from_millis(100));
    let hello = hello.start().await.unwrap();
    hello.connect("gateway", &through(&proxy)).await.unwrap();
    let busy = async {
        loop {
            hello
                .call::<_, u32>("gateway", "ping", &1u32)
                .await
                .unwrap();
        }
    };
    let answer = async {
        let call = hello.call::<_, u32>("world", "double", &21u32);
        tokio::time::timeout(LIMIT, call)
            .await
            .expect("it does not hang")
    };
    let answer = tokio::select! {
        () = busy => unreachable!("it never ends"),
        answer = answer => answer,
    };
    assert_eq!(answer.unwrap(), 42);
    assert!(lost.load(Ordering::SeqCst) > 1, "it went again");
    drop(gateway);
}
