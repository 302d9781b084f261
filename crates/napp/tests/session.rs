//! Two Apps meet, call each other, and part.

mod support;

use std::time::Duration;

use napp::{App, CallError, CallOptions, EventContext, LinkStatus, Payload, Shutdown};
use serde::{Deserialize, Serialize};
use support::{is_dropped, quiet, until, within};

#[derive(Serialize, Deserialize)]
struct Greeting {
    text: String,
}

#[tokio::test]
async fn the_example_of_the_readme_runs_over_tcp() -> Result<(), Box<dyn std::error::Error>> {
    let world = App::builder("world")
        .listen("tcp://127.0.0.1:0")?
        .ability("append_world", |req: Greeting| async move {
            Ok(format!("{}World!", req.text))
        })
        .event("countdown", |ctx: EventContext, from: u32| async move {
            for n in (1..=from).rev() {
                ctx.emit(&n).await?;
            }
            Ok("lift-off")
        })
        .start()
        .await?;
    let hello = App::builder("hello").start().await?;
    hello.connect("world", &world.local_urls()[0]).await?;
    let text: String = hello
        .call(
            "world",
            "append_world",
            &Greeting {
                text: "Hello, ".into(),
            },
        )
        .await?;
    assert_eq!(text, "Hello, World!");
    let mut run = hello.event("world", "countdown", &3u32).await?;
    let mut chunks = Vec::new();
    while let Some(chunk) = run.next_as::<u32>().await {
        chunks.push(chunk?);
    }
    assert_eq!(chunks, [3, 2, 1]);
    assert_eq!(run.response::<String>().await?, "lift-off");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b06_calls_and_streams_of_many_tasks_on_many_workers_all_end() {
    let world = quiet("world")
        .listen("tcp://127.0.0.1:0")
        .unwrap()
        .ability("double", |n: u64| async move { Ok(2 * n) })
        .ability("later", |n: u64| async move {
            tokio::task::yield_now().await;
            Ok(n)
        })
        .event("count", |ctx: EventContext, to: u64| async move {
            for n in 0..to {
                ctx.emit(&n).await?;
            }
            Ok(to)
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello
        .connect("world", &world.local_urls()[0])
        .await
        .unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16u64 {
        let hello = hello.clone();
        tasks.spawn(async move {
            for n in 0..50 {
                let n = 100 * task + n;
                assert_eq!(
                    hello.call::<_, u64>("world", "double", &n).await.unwrap(),
                    2 * n
                );
                assert_eq!(hello.call::<_, u64>("world", "later", &n).await.unwrap(), n);
            }
            let mut run = hello.event("world", "count", &2_000u64).await.unwrap();
            let mut next = 0;
            while let Some(n) = run.next_as::<u64>().await {
                assert_eq!(n.unwrap(), next, "lossless: every chunk once, in order");
                next += 1;
            }
            assert_eq!((next, run.response::<u64>().await.unwrap()), (2_000, 2_000));
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let snapshot = hello.snapshot();
    assert_eq!((snapshot.waiters, snapshot.backlog.messages), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn wait_4_a_call_has_one_result_and_each_failure_its_own() {
    let world = quiet("world")
        .listen("mem://one-result")
        .unwrap()
        .ability("never", |(): ()| std::future::pending::<Result<(), _>>())
        .ability("fails", |(): ()| async move {
            Err::<(), _>("no such city".into())
        })
        .ability("echo", |any: Payload| async move { Ok(any) })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://one-result").await.unwrap();
    let reason = |error: CallError| error.reason();

    let deadline = CallOptions::default().deadline(Duration::from_secs(5));
    let late = hello.call_with::<_, ()>("world", "never", &(), deadline);
    assert_eq!(late.await.map_err(reason), Err("timeout"));
    let failed = hello.call::<_, ()>("world", "fails", &()).await;
    assert_eq!(failed.unwrap_err().to_string(), "no such city");
    let bad = hello.call::<_, ()>("world", "fails", &"text").await;
    assert!(bad.unwrap_err().to_string().starts_with("bad-payload: "));
    let unknown = hello.call::<_, ()>("world", "nope", &()).await;
    assert_eq!(unknown.unwrap_err().to_string(), "no ability 'nope'");
    let event = hello
        .event("world", "nope", &())
        .await
        .unwrap()
        .response::<()>()
        .await;
    assert_eq!(event.unwrap_err().to_string(), "no event 'nope'");
    let misread = hello.call::<_, u32>("world", "echo", &"text").await;
    assert_eq!(misread.map_err(reason), Err("bad-response"));
    let raw = Payload::encode(&(1, "two", [3.5])).unwrap();
    let echoed = hello.call::<_, Payload>("world", "echo", &raw).await;
    assert_eq!(echoed.unwrap(), raw);
    let itself = hello.call::<_, ()>("hello", "echo", &()).await;
    assert_eq!(itself.map_err(reason), Err("self-addressed"));
    let nobody = hello.call::<_, ()>("", "echo", &()).await;
    assert_eq!(nobody.map_err(reason), Err("bad-app-id"));
    drop(world);
    let after = hello.call::<_, ()>("world", "never", &());
    assert_eq!(within(after).await.map_err(reason), Err("peer-gone"));
}

#[tokio::test(start_paused = true)]
async fn link_12_disconnect_drops_at_once_on_both_sides_and_ends_the_calls() {
    let world = quiet("world")
        .listen("mem://disconnect")
        .unwrap()
        .ability("never", |(): ()| std::future::pending::<Result<(), _>>())
        .describe("never", "Never answers.")
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://disconnect").await.unwrap();
    let declared = hello.introduce("world").await.unwrap();
    assert_eq!(declared.abilities[0].description, "Never answers.");
    let mut seen_by_world = world.link("hello").unwrap();
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, ()>("world", "never", &()).await }
    });
    support::settle().await;
    assert!(hello.disconnect("world").await);
    assert_eq!(call.await.unwrap(), Err(CallError::PeerGone));
    assert!(hello.connected_apps().is_empty());
    assert!(!hello.disconnect("world").await);
    let status = until(&mut seen_by_world, is_dropped).await;
    let cause = napp::DropCause::Unregistered;
    assert_eq!(status, LinkStatus::Dropped { cause });
    assert!(world.snapshot().serving == 0);
    world.shutdown(Shutdown::Now).await;
}

#[tokio::test(start_paused = true)]
async fn term_1_dropping_the_last_handle_ends_everything() {
    let world = quiet("world")
        .listen("mem://drop")
        .unwrap()
        .event("hold", |ctx: EventContext, (): ()| async move {
            ctx.signals().next().await;
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://drop").await.unwrap();
    let mut run = hello.event("world", "hold", &()).await.unwrap();
    let mut hits = hello.subscribe("world", "a").await.unwrap();
    let mut events = hello.listen("a").unwrap();
    let mut link = hello.link("world").unwrap();
    drop(hello);
    assert_eq!(run.next().await, None);
    assert_eq!(run.response::<()>().await, Err(CallError::Terminated));
    assert_eq!(hits.next().await, None);
    assert_eq!(hits.end_reason(), Some(CallError::Terminated));
    assert_eq!(events.next().await, None);
    while link.next().await.is_some() {}
    let mut link = world.link("hello").unwrap();
    until(&mut link, support::is_offline).await;
}
