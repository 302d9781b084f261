//! Event calls: chunks, signals, and who stops whom.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use napp::{App, CallError, EventContext, SignalKind, Value};
use support::{quiet, settle, within};

/// `world` counts as fast as it may; `hello` is connected to it.
async fn pair(name: &str, lossless: bool) -> (App, App, Arc<AtomicU32>) {
    let url = format!("mem://{name}");
    let emitted = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&emitted);
    let world = quiet("world")
        .listen(&url)
        .unwrap()
        .lossless_streams(lossless)
        .event("count", move |ctx: EventContext, to: u32| {
            let emitted = Arc::clone(&counter);
            async move {
                for n in 0..to {
                    ctx.emit(&n).await?;
                    emitted.fetch_add(1, Ordering::SeqCst);
                }
                Ok("done")
            }
        })
        .event("tick", move |ctx: EventContext, (): ()| async move {
            for n in 0u32.. {
                ctx.emit(&n).await?;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", &url).await.unwrap();
    (world, hello, emitted)
}

#[tokio::test(start_paused = true)]
async fn msg_11_a_lossless_writer_waits_for_its_reader_and_loses_nothing() {
    let (_world, hello, emitted) = pair("lossless", true).await;
    let mut run = hello.event("world", "count", &5_000u32).await.unwrap();
    settle().await;
    let ahead = emitted.load(Ordering::SeqCst);
    assert_eq!(ahead, 512, "the window bounds what is unread");
    for n in 0..5_000 {
        let chunk = within(run.next_as::<u32>()).await.unwrap().unwrap();
        assert_eq!(chunk, n);
    }
    assert_eq!(run.response::<String>().await.unwrap(), "done");
    assert_eq!(run.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn msg_11_the_response_does_not_wait_for_a_reader_of_the_chunks() {
    let (_world, hello, _) = pair("unread", true).await;
    let mut run = hello.event("world", "count", &5_000u32).await.unwrap();
    assert_eq!(
        within(run.response::<String>()).await.unwrap(),
        "done",
        "unread chunks count as taken"
    );
    assert_eq!(run.response::<String>().await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn sub_3_a_plain_stream_that_is_not_read_loses_its_oldest_chunks_and_says_so() {
    let (_world, hello, emitted) = pair("plain", false).await;
    let mut warnings = hello.listen("napp:internal:notify:warning").unwrap();
    let mut run = hello.event("world", "count", &3_000u32).await.unwrap();
    while emitted.load(Ordering::SeqCst) < 3_000 {
        tokio::task::yield_now().await;
    }
    settle().await;
    assert_eq!(run.dropped(), 3_000 - 1_024);
    let first = run.next_as::<u32>().await.unwrap().unwrap();
    assert_eq!(first, 3_000 - 1_024, "the newest 1,024 are there");
    let warning: Value = warnings.next().await.unwrap().decode().unwrap();
    let text = |key: &str| {
        let Value::Map(entries) = &warning else {
            panic!("a map")
        };
        let found = entries.iter().find(|(name, _)| name.as_str() == Some(key));
        found.map(|(_, value)| value.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(text("reason").as_deref(), Some("stream-overflow"));
    assert_eq!(text("appId").as_deref(), Some("world"));
    assert_eq!(text("subId").as_deref(), Some(run.id().as_str()));
    let mut last = first;
    while let Some(chunk) = run.next_as::<u32>().await {
        last = chunk.unwrap();
    }
    assert_eq!(
        last, 2_999,
        "all that came before the response is seen before it"
    );
    assert_eq!(run.response::<String>().await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn by_default_abort_stops_a_handler_and_pause_holds_it_at_its_next_chunk() {
    let (_world, hello, _) = pair("steer", true).await;
    let mut run = hello.event("world", "tick", &()).await.unwrap();
    assert_eq!(run.next_as::<u32>().await.unwrap().unwrap(), 0);
    assert!(run.pause().await.unwrap(), "the remote has it");
    // What was emitted before the pause came is still there.
    let quiet_for = Duration::from_secs(60);
    while tokio::time::timeout(quiet_for, run.next()).await.is_ok() {}
    assert!(run.resume().await.unwrap());
    let before = within(run.next_as::<u32>()).await.unwrap().unwrap();
    let next = within(run.next_as::<u32>()).await.unwrap().unwrap();
    assert_eq!(next, before + 1);
    assert!(run.abort().await.unwrap());
    let end = within(run.response::<()>()).await;
    assert!(matches!(end, Err(CallError::NotOk { why, .. }) if why == "aborted"));
    assert!(run.signal(&1).await.is_err(), "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_holds_while_paused() {
    let reached = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&reached);
    let world = quiet("world")
        .listen("mem://checkpoint")
        .unwrap()
        .event("work", move |ctx: EventContext, (): ()| {
            let reached = Arc::clone(&flag);
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                ctx.checkpoint().await;
                reached.store(true, Ordering::SeqCst);
                Ok(ctx.is_lossless())
            }
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://checkpoint").await.unwrap();
    let mut run = hello.event("world", "work", &()).await.unwrap();
    run.pause().await.unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(!reached.load(Ordering::SeqCst));
    run.resume().await.unwrap();
    assert!(run.response::<bool>().await.unwrap());
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_its_signals_is_not_paused_or_aborted_by_them() {
    let world = quiet("world")
        .listen("mem://own-signals")
        .unwrap()
        .event("collect", |ctx: EventContext, (): ()| async move {
            let (mut signals, mut seen) = (ctx.signals(), Vec::new());
            while let Some(signal) = signals.next().await {
                seen.push(signal.kind.as_str());
                ctx.emit(&seen.len()).await?;
                if signal.kind == SignalKind::Abort {
                    break;
                }
            }
            Ok(seen.join(" "))
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://own-signals").await.unwrap();
    let mut run = hello.event("world", "collect", &()).await.unwrap();
    run.signal(&"a").await.unwrap();
    run.pause().await.unwrap();
    let id = run.id().to_string();
    let sent = hello.signal_to::<()>("world", &id, SignalKind::Normal, None);
    assert!(sent.await.unwrap());
    run.abort().await.unwrap();
    let seen = within(run.response::<String>()).await.unwrap();
    assert_eq!(seen, "normal pause normal abort");
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn a_signal_nobody_waits_for_any_more_is_reported_by_the_remote() {
    let (world, hello, _) = pair("late-signal", true).await;
    let mut errors = world.listen("nacp:internal:signal:error").unwrap();
    let sent = hello.signal_to::<()>("world", "nobody", SignalKind::Abort, None);
    assert!(sent.await.unwrap(), "received is not processed (WAIT-1)");
    within(errors.next()).await.unwrap();
}
