//! The event bus: who hears what, from near and far, and that nobody hears himself.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use nacp::RequestKind;
use nacp::message::{Head, Meta, encode};
use napp::{App, CallError, EventContext, Listener, Payload, SubscribeOptions, Value};
use support::{Mode, Net, quiet, settle, until, within};

async fn pair(name: &str) -> (App, App) {
    let url = format!("mem://{name}");
    let world = quiet("world")
        .listen(&url)
        .unwrap()
        .ability("double", |n: u32| async move { Ok(2 * n) })
        .event("count", |ctx: EventContext, to: u32| async move {
            for n in 0..to {
                ctx.emit(&n).await?;
            }
            Ok(to)
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", &url).await.unwrap();
    (world, hello)
}

/// All that is there, by name.
async fn heard(listener: &mut Listener) -> BTreeMap<String, usize> {
    let mut heard = BTreeMap::new();
    while let Ok(Some(event)) =
        tokio::time::timeout(Duration::from_millis(1), listener.next()).await
    {
        *heard.entry(event.name.to_string()).or_default() += 1;
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn sub_1_a_pattern_hears_names_of_its_shape_near_and_far() {
    let (world, hello) = pair("patterns").await;
    let mut near = world.listen("task:*").unwrap();
    let mut far = hello.subscribe("world", "task:*").await.unwrap();
    assert_eq!(world.emit("task:done", &7u32).unwrap(), 2);
    assert_eq!(world.emit("task:done:late", &8u32).unwrap(), 0);
    assert_eq!(hello.emit("task:done", &9u32).unwrap(), 0, "another bus");
    assert_eq!(near.next().await.unwrap().decode::<u32>().unwrap(), 7);
    let hit = within(far.next()).await.unwrap();
    assert_eq!(
        (hit.name.as_str(), hit.decode::<u32>().unwrap()),
        ("task:done", 7)
    );
    assert!(world.listen("").is_err());
    let refused = hello.subscribe("world", "").await.unwrap_err();
    assert_eq!(refused.to_string(), "bad-target-sub-name");
}

#[tokio::test(start_paused = true)]
async fn the_bus_tells_of_connections_messages_requests_and_answers() {
    let (world, hello) = pair("names").await;
    let mut all = world.listen("*:*:*").unwrap();
    let mut requests = world.listen("nacp:*:*:*").unwrap();
    hello
        .call::<_, u32>("world", "double", &1u32)
        .await
        .unwrap();
    let mut run = hello.event("world", "count", &2u32).await.unwrap();
    let id = run.id().to_string();
    run.response::<u32>().await.unwrap();
    hello
        .call::<_, u32>("world", "nope", &1u32)
        .await
        .unwrap_err();
    hello.disconnect("world").await;
    settle().await;
    let all = heard(&mut all).await;
    let expected = [
        ("nacp:inbound:request", 3),
        ("nacp:outbound:response", 4), // the unregister's too
        ("nacp:outbound:notify", 2),
        ("nacp:inbound:unregister", 1),
        ("nact:peer:disconnect", 1),
    ];
    for (name, count) in expected {
        assert_eq!(all.get(name), Some(&count), "{name} in {all:?}");
    }
    let requests = heard(&mut requests).await;
    assert_eq!(requests.get(&format!("nacp:event:{id}:process")), Some(&2));
    assert_eq!(requests.get(&format!("nacp:event:{id}:response")), Some(&1));
    assert_eq!(requests.get("nacp:internal:request:error"), Some(&1));
    assert_eq!(requests.get("nacp:internal:napp:success"), Some(&1));
    assert_eq!(
        requests
            .keys()
            .filter(|name| name.starts_with("nacp:ability:"))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn others_may_watch_a_stream_by_its_bus_name() {
    let (world, hello) = pair("watch-stream").await;
    let watcher = quiet("watcher").start().await.unwrap();
    watcher
        .connect("world", "mem://watch-stream")
        .await
        .unwrap();
    let mut hits = watcher
        .subscribe("world", "nacp:event:*:process")
        .await
        .unwrap();
    let mut run = hello.event("world", "count", &3u32).await.unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = run.next_as::<u32>().await {
        chunks.push(chunk.unwrap());
    }
    assert_eq!(chunks, [0, 1, 2], "its own reader gets each once");
    let name = format!("nacp:event:{}:process", run.id());
    for n in 0..3 {
        let hit = within(hits.next()).await.unwrap();
        assert_eq!(
            (hit.name.as_str(), hit.decode::<u32>().unwrap()),
            (name.as_str(), n)
        );
    }
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn sub_4_subscriptions_to_messages_never_feed_on_themselves() {
    let (world, hello) = pair("feed").await;
    let other = quiet("other").start().await.unwrap();
    other.connect("world", "mem://feed").await.unwrap();
    let mut subscriptions = Vec::new();
    for app in [&hello, &other] {
        for pattern in [
            "nacp:outbound:*",
            "nacp:inbound:*",
            "*:*:*",
            "nacp:*:ack",
            "nacp:internal:*:*",
        ] {
            for lossless in [false, true] {
                let options = SubscribeOptions::default().lossless(lossless);
                let subscription = app.subscribe_with("world", pattern, options);
                subscriptions.push(subscription.await.unwrap());
            }
        }
    }
    // And the other way round, so that each side's notifies are the other's news.
    for pattern in ["nacp:outbound:*", "nacp:inbound:*"] {
        for lossless in [false, true] {
            let options = SubscribeOptions::default().lossless(lossless);
            let subscription = world.subscribe_with("hello", pattern, options);
            subscriptions.push(subscription.await.unwrap());
        }
    }
    hello
        .call::<_, u32>("world", "double", &1u32)
        .await
        .unwrap();
    world.emit("a:b:c", &1).unwrap();
    for _ in 0..50 {
        settle().await;
    }
    let before: Vec<_> = [&world, &hello, &other]
        .map(|app| app.snapshot().messages)
        .into();
    assert_eq!(before, [0, 0, 0], "all is quiet");
    let mut inbound = world.listen("nacp:inbound:*").unwrap();
    settle().await;
    assert_eq!(heard(&mut inbound).await, BTreeMap::new());
    for subscription in &mut subscriptions {
        let mut hits = 0;
        while tokio::time::timeout(Duration::from_millis(1), subscription.next())
            .await
            .is_ok()
        {
            hits += 1;
        }
        assert!(hits < 300, "{hits} hits of one call and one event");
    }
}

#[tokio::test(start_paused = true)]
async fn cap_2_warnings_about_refused_notifies_do_not_breed_warnings() {
    let net = Net::default();
    let world = quiet("world")
        .listen("mem://breed")
        .unwrap()
        .queue_count_max(8)
        .start()
        .await
        .unwrap();
    let hello = quiet("hello")
        .transports(net.transports())
        .start()
        .await
        .unwrap();
    hello.connect("world", "net://breed").await.unwrap();
    let _warnings = hello.subscribe("world", "nacp:internal:*:*").await.unwrap();
    let _noise = hello.subscribe("world", "noise").await.unwrap();
    let mut link = world.link("hello").unwrap();
    net.refuse(1_000);
    net.line().set(Mode::Cut);
    until(&mut link, support::is_offline).await;
    let mut local = world.listen("nacp:internal:backlog:warning").unwrap();
    for n in 0..100 {
        world.emit("noise", &n).unwrap();
    }
    let heard = heard(&mut local).await;
    let warnings = heard["nacp:internal:backlog:warning"] as u64 + local.dropped();
    assert!((92..=200).contains(&warnings), "{warnings} warnings");
    assert!(world.snapshot().backlog.messages <= 8);
}

#[tokio::test(start_paused = true)]
async fn a_lossless_subscription_that_is_not_read_ends_with_its_reason() {
    let net = Net::default();
    let world = quiet("world").listen("mem://unread-hits").unwrap();
    let world = world.start().await.unwrap();
    let hello = quiet("hello")
        .queue_count_max(16)
        .transports(net.transports())
        .start()
        .await
        .unwrap();
    hello.connect("world", "net://unread-hits").await.unwrap();
    let lossless = SubscribeOptions::default().lossless(true);
    let mut strict = hello.subscribe_with("world", "n", lossless).await.unwrap();
    let mut plain = hello.subscribe("world", "n").await.unwrap();
    for n in 0..40u32 {
        world.emit("n", &n).unwrap();
        settle().await;
    }
    let mut read = Vec::new();
    while let Some(hit) = within(strict.next()).await {
        read.push(hit.decode::<u32>().unwrap());
    }
    assert_eq!(read, (0..16).collect::<Vec<_>>(), "without a gap");
    assert_eq!(strict.end_reason(), Some(CallError::StreamOverflow));
    assert_eq!(plain.dropped(), 24);
    assert_eq!(plain.next().await.unwrap().decode::<u32>().unwrap(), 24);
    assert_eq!(world.snapshot().listens, 1);
}

#[tokio::test(start_paused = true)]
async fn msg_11_a_lossless_subscription_survives_a_cut_without_a_gap() {
    let net = Net::default();
    let world = quiet("world").listen("mem://hits-cut").unwrap();
    let world = world.start().await.unwrap();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello.start().await.unwrap();
    hello.connect("world", "net://hits-cut").await.unwrap();
    let lossless = SubscribeOptions::default().lossless(true);
    let mut hits = hello.subscribe_with("world", "n", lossless).await.unwrap();
    let mut expected = 0;
    for round in 0..20u32 {
        net.line().set(if round % 2 == 0 {
            Mode::Cut
        } else {
            Mode::Open
        });
        for n in 0..20u32 {
            world.emit("n", &(20 * round + n)).unwrap();
        }
        for _ in 0..20 {
            let hit = within(hits.next()).await.unwrap();
            assert_eq!(hit.decode::<u32>().unwrap(), expected);
            expected += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn payloads_on_the_bus_are_those_of_the_wire_document() {
    let (world, hello) = pair("payloads").await;
    let mut inbound = world.listen("nacp:inbound:request").unwrap();
    let mut bound = world.listen("nacp:internal:napp:success").unwrap();
    hello
        .call::<_, u32>("world", "double", &1u32)
        .await
        .unwrap();
    let get = |value: &Value, key: &str| match value {
        Value::Map(entries) => entries
            .iter()
            .find(|(name, _)| name.as_str() == Some(key))
            .map(|(_, value)| value.clone())
            .unwrap_or(Value::Null),
        _ => Value::Null,
    };
    let event: Value = within(inbound.next()).await.unwrap().decode().unwrap();
    assert!(get(&event, "fromPeerId").as_str().is_some());
    let msg = get(&event, "msg");
    assert_eq!(get(&msg, "type").as_str(), Some("request"));
    assert_eq!(get(&get(&msg, "meta"), "target").as_str(), Some("double"));
    hello.disconnect("world").await;
    let event: Value = within(bound.next()).await.unwrap().decode().unwrap();
    assert_eq!(get(&event, "appId").as_str(), Some("hello"));
    assert_eq!(get(&event, "reason").as_str(), Some("dropped"));
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration {
    is_gateway: bool,
    decl: BTreeMap<&'static str, [(); 0]>,
}

#[tokio::test(start_paused = true)]
async fn gw_4_a_message_in_the_name_of_another_app_is_reported_with_the_message() {
    let (world, _hello) = pair("forged").await;
    let mut errors = world.listen("nacp:internal:route:error").unwrap();
    let mut links = world.listen("nacp:internal:napp:success").unwrap();
    let transports = nact::Transports::default();
    let mut thief = transports.dial("mem://forged").await.unwrap();
    let registration = Registration {
        is_gateway: false,
        decl: BTreeMap::from([("events", []), ("abilities", [])]),
    };
    let request = Meta::Request {
        kind: RequestKind::Ability,
        target: Some("double".into()),
    };
    let messages = [
        ("thief", Meta::Register, Payload::encode(&registration)),
        ("hello", request, Payload::encode(&1u32)),
    ];
    for (from, meta, payload) in messages {
        let head = Head {
            id: from,
            from,
            to: "world",
            t_ms: 0,
            meta,
        };
        thief.sender.push(nact::Outbound {
            body: encode(&head, Some(&payload.unwrap())).to_bytes(),
            ..Default::default()
        });
    }
    thief.sender.flush().await.unwrap();
    within(links.next()).await.unwrap();
    let error: Value = within(errors.next()).await.unwrap().decode().unwrap();
    assert_eq!(error.get("reason").unwrap().as_str(), Some("from-mismatch"));
    let msg = error.get("msg").unwrap();
    assert_eq!(msg.get("id").unwrap().as_str(), Some("hello"));
}
