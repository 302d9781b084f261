//! Dropping things, and handlers that fail badly.

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use napp::{App, CallError, CallOptions, EventContext, Overflow};
use support::{quiet, settle, within};

/// Raises a counter when it is dropped.
struct OnDrop(Arc<AtomicU32>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn pair(name: &str) -> (App, App, Arc<AtomicU32>, Arc<AtomicU32>) {
    let url = format!("mem://{name}");
    let (ended, emitted) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (e1, e2, c) = (Arc::clone(&ended), Arc::clone(&ended), Arc::clone(&emitted));
    let world = quiet("world")
        .listen(&url)
        .unwrap()
        .ability("never", move |(): ()| {
            let guard = OnDrop(Arc::clone(&e1));
            async move {
                let _guard = guard;
                std::future::pending::<Result<(), _>>().await
            }
        })
        .event("tick", move |ctx: EventContext, to: u32| {
            let (guard, emitted) = (OnDrop(Arc::clone(&e2)), Arc::clone(&c));
            async move {
                let _guard = guard;
                for n in 0..to {
                    ctx.emit(&n).await?;
                    emitted.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
        })
        .ability("double", |n: u32| async move { Ok(2 * n) })
        .ability("panic-late", |(): ()| async move {
            tokio::task::yield_now().await;
            if true {
                panic!("on purpose");
            }
            Ok(())
        })
        .ability("panic-at-once", |n: u32| {
            assert!(n > 1_000_000, "on purpose");
            async move { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", &url).await.unwrap();
    (world, hello, ended, emitted)
}

#[tokio::test(start_paused = true)]
async fn wait_4_dropping_a_call_cancels_its_wait_and_nothing_else() {
    let (world, hello, _, _) = pair("drop-call").await;
    let mut errors = hello.listen("nacp:internal:response:error").unwrap();
    {
        let mut call = pin!(hello.call::<_, u32>("world", "double", &1u32));
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        assert_eq!(hello.snapshot().waiters, 1);
        settle().await; // the answer is there, and nobody looked at it
    }
    {
        let mut call = pin!(hello.call::<_, ()>("world", "never", &()));
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        settle().await;
    }
    assert_eq!(hello.snapshot().waiters, 0);
    assert_eq!(
        hello
            .call::<_, u32>("world", "double", &2u32)
            .await
            .unwrap(),
        4
    );
    drop(world);
    assert!(
        within(tokio::time::timeout(
            Duration::from_millis(1),
            errors.next()
        ))
        .await
        .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn b56_calls_dropped_at_any_moment_leave_the_connection_whole() {
    let (_world, hello, _, _) = pair("any-moment").await;
    let mut errors = hello.listen("nact:peer:*").unwrap();
    let large = "x".repeat(300 << 10);
    for polls in 0..300u32 {
        let mut large = pin!(hello.call::<_, u32>("world", "double", &large));
        let mut small = pin!(hello.call::<_, u32>("world", "double", &polls));
        for _ in 0..polls % 29 {
            let mut cx = Context::from_waker(Waker::noop());
            if large.as_mut().poll(&mut cx).is_ready() || small.as_mut().poll(&mut cx).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let fine = within(hello.call::<_, u32>("world", "double", &4u32)).await;
    assert_eq!(fine.unwrap(), 8);
    settle().await;
    assert_eq!(hello.snapshot().messages, 0);
    let event = tokio::time::timeout(Duration::from_secs(1), errors.next());
    assert!(event.await.is_err(), "no connection was lost");
}

#[tokio::test(start_paused = true)]
async fn dropping_an_event_call_aborts_its_handler() {
    let (world, hello, ended, _) = pair("drop-event").await;
    let mut run = hello.event("world", "tick", &u32::MAX).await.unwrap();
    run.next().await.unwrap();
    drop(run);
    settle().await;
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    assert_eq!((world.snapshot().serving, hello.snapshot().waiters), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_detached_event_call_runs_to_its_end_without_a_reader() {
    let (world, hello, ended, emitted) = pair("detach").await;
    let run = hello.event("world", "tick", &5_000u32).await.unwrap();
    run.detach();
    while ended.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        emitted.load(Ordering::SeqCst),
        5_000,
        "its chunks count as taken"
    );
    settle().await;
    assert_eq!((world.snapshot().serving, hello.snapshot().waiters), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_subscription_or_its_future_ends_it_on_both_sides() {
    let (world, hello, _, _) = pair("drop-subscription").await;
    let hits = hello.subscribe("world", "a:*").await.unwrap();
    assert_eq!(world.snapshot().listens, 1);
    drop(hits);
    settle().await;
    assert_eq!(
        (world.snapshot().listens, hello.snapshot().subscriptions),
        (0, 0)
    );
    for polls in 0..2 {
        let mut asked = pin!(hello.subscribe("world", "a:*"));
        let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        if polls > 0 {
            settle().await; // the remote has said yes
        }
    }
    settle().await;
    assert_eq!(world.emit("a:b", &1).unwrap(), 0);
    assert_eq!(
        (world.snapshot().listens, hello.snapshot().subscriptions),
        (0, 0)
    );
    let hits = hello.subscribe("world", "a:*").await.unwrap();
    hits.unsubscribe().await.unwrap();
    assert_eq!(world.snapshot().listens, 0);
}

#[tokio::test(start_paused = true)]
async fn b59_a_panicking_handler_fails_its_own_request_only_and_is_reported_once() {
    let (world, hello, _, _) = pair("panic").await;
    let mut reports = world.listen("nacp:internal:request:error").unwrap();
    let calls: Vec<_> = ["panic-late", "panic-at-once"]
        .map(|name| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, ()>("world", name, &1u32).await })
        })
        .into();
    let fine = hello.call::<_, u32>("world", "double", &3u32).await;
    assert_eq!(fine.unwrap(), 6);
    let mut reasons = Vec::new();
    for call in calls {
        reasons.push(within(call).await.unwrap().unwrap_err().to_string());
    }
    reasons.sort();
    // The first is refused for its payload: `()` is no number.
    assert!(reasons[0].starts_with("bad-payload") && reasons[1] == "handler-panicked");
    let late = hello.call::<_, ()>("world", "panic-late", &()).await;
    assert_eq!(late.unwrap_err().to_string(), "handler-panicked");
    for _ in 0..2 {
        assert!(within(reports.next()).await.is_some());
    }
    let more = tokio::time::timeout(Duration::from_secs(1), reports.next());
    assert!(more.await.is_err(), "each was reported once");
    assert!(hello.connected_apps()[0].is_online);
    assert_eq!(world.snapshot().serving, 0);
}

#[tokio::test(start_paused = true)]
async fn cap_6_with_overflow_wait_callers_wait_for_room_and_all_succeed() {
    let (_world, _, _, _) = pair("room").await;
    let hello = quiet("patient")
        .overflow(Overflow::Wait)
        .queue_count_max(4)
        .start()
        .await
        .unwrap();
    hello.connect("world", "mem://room").await.unwrap();
    let calls: Vec<_> = (0..100u32)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, u32>("world", "double", &n).await })
        })
        .collect();
    let dropped = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u32>("world", "double", &7u32).await }
    });
    dropped.abort();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within(call).await.unwrap().unwrap() as usize, 2 * n);
    }
    assert_eq!(hello.snapshot().messages, 0);
}

#[tokio::test(start_paused = true)]
async fn handlers_beyond_the_maximum_are_refused_overloaded() {
    let world = quiet("world")
        .listen("mem://overloaded")
        .unwrap()
        .handlers_max(2)
        .ability("wait", |(): ()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://overloaded").await.unwrap();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, ()>("world", "wait", &()).await })
        })
        .collect();
    let mut refused = 0;
    for call in calls {
        match within(call).await.unwrap() {
            Ok(()) => {}
            Err(CallError::NotOk { why, .. }) => {
                assert_eq!(why, "overloaded");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 1);
    let options = CallOptions::default();
    let again = hello.call_with::<_, ()>("world", "wait", &(), options);
    again.await.unwrap();
    drop(world);
}

/// Of six requests in a row the second and the last are handled badly: they alone fail.
#[tokio::test(start_paused = true)]
async fn b59_a_panic_takes_nothing_along_that_came_before_or_comes_after() {
    let handled = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&handled);
    let note = move |n: u32| {
        log.lock().unwrap().push(n);
        async move {
            assert!(![2, 6].contains(&n), "on purpose");
            Ok(n)
        }
    };
    let world = quiet("world").listen("mem://six").unwrap();
    let world = world.ability("note", note).start().await.unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://six").await.unwrap();
    let mut reports = world.listen("nacp:internal:request:error").unwrap();
    let calls: Vec<_> = (1..=6u32)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, u32>("world", "note", &n).await })
        })
        .collect();
    for (n, call) in (1..).zip(calls) {
        match within(call).await.unwrap() {
            Ok(answer) => assert_eq!(answer, n),
            Err(error) => {
                assert!([2, 6].contains(&n), "{n}: {error}");
                assert_eq!(error.to_string(), "handler-panicked");
                assert!(within(reports.next()).await.is_some());
            }
        }
    }
    assert_eq!(*handled.lock().unwrap(), [1, 2, 3, 4, 5, 6]);
    settle().await;
    let app = &hello.connected_apps()[0];
    assert!(app.is_online && app.unacked == 0, "each was ACKed (MSG-4)");
    let more = tokio::time::timeout(Duration::from_secs(1), reports.next());
    assert!(more.await.is_err(), "each failure was reported once");
}
