//! What survives a broken connection, and what a restart ends.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use napp::{App, Builder, CallError, EventContext, LinkStatus, OfflineCause};
use support::{Mode, Net, is_offline, is_online, quiet, settle, until, within};
use tokio::sync::Notify;

fn world(name: &str) -> Builder {
    quiet("world")
        .listen(&format!("mem://{name}"))
        .unwrap()
        .ability("slow", |seconds: u64| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(seconds)
        })
        .ability("double", |n: u32| async move { Ok(2 * n) })
        .event("count", |ctx: EventContext, to: u32| async move {
            for n in 0..to {
                ctx.emit(&n).await?;
            }
            Ok(to)
        })
        .event("tick", |ctx: EventContext, to: u32| async move {
            for n in 0..to {
                ctx.emit(&n).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(to)
        })
}

async fn linked(name: &str, world: Builder, hello: Builder) -> (App, App, Net) {
    let net = Net::default();
    let world = world.start().await.unwrap();
    let hello = hello.transports(net.transports()).start().await.unwrap();
    let url = format!("net://{name}");
    hello.connect("world", &url).await.unwrap();
    (world, hello, net)
}

#[tokio::test(start_paused = true)]
async fn b49_link_5_a_call_under_way_survives_a_cut_and_runs_once() {
    let runs = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&runs);
    let world = world("survive").ability("job", move |(): ()| {
        counter.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok("done")
        }
    });
    let (_world, hello, net) = linked("survive", world, quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, String>("world", "job", &()).await }
    });
    settle().await;
    net.line().set(Mode::Cut);
    let status = until(&mut link, is_offline).await;
    let peer_down = OfflineCause::PeerDown;
    assert!(matches!(status, LinkStatus::Offline { cause, .. } if cause == peer_down));
    let status = until(&mut link, is_online).await;
    assert!(matches!(
        status,
        LinkStatus::Online {
            resumed: true,
            restarted: false,
            ..
        }
    ));
    assert_eq!(within(call).await.unwrap().unwrap(), "done");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn msg_11_a_lossless_stream_survives_many_cuts_with_every_chunk_once_and_in_order() {
    let (_world, hello, net) = linked("stream-cuts", world("stream-cuts"), quiet("hello")).await;
    let mut run = hello.event("world", "count", &20_000u32).await.unwrap();
    let mut next = 0;
    while let Some(chunk) = within(run.next_as::<u32>()).await {
        assert_eq!(chunk.unwrap(), next);
        next += 1;
        if next % 997 == 0 {
            net.line().set(Mode::Cut);
        }
    }
    assert_eq!(
        (next, run.response::<u32>().await.unwrap()),
        (20_000, 20_000)
    );
    assert!(net.lines() > 15, "it was cut {} times", net.lines() - 1);
}

#[tokio::test(start_paused = true)]
async fn link_8_b48_what_was_called_while_offline_is_replayed_in_order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    let world = world("backlog").ability("note", move |n: u32| {
        seen.lock().unwrap().push(n);
        async move { Ok(n) }
    });
    let (_world, hello, net) = linked("backlog", world, quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    net.refuse(5);
    net.line().set(Mode::Cut);
    until(&mut link, is_offline).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, u32>("world", "note", &n).await })
        })
        .collect();
    settle().await;
    assert_eq!(hello.connected_apps()[0].backlog, 100);
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within(call).await.unwrap().unwrap() as usize, n);
    }
    assert!(order.lock().unwrap().is_sorted());
    assert_eq!(order.lock().unwrap().len(), 100);
}

#[tokio::test(start_paused = true)]
async fn b31_link_4b_a_black_hole_is_noticed_by_a_missing_ack_and_healed_by_a_new_connection() {
    let (_world, hello, net) = linked("hole", world("hole"), quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    net.line().set(Mode::BlackHole);
    let call = hello.call::<_, u32>("world", "double", &4u32);
    assert_eq!(within(call).await.unwrap(), 8);
    let status = until(&mut link, is_offline).await;
    let ack_timeout = OfflineCause::AckTimeout;
    assert!(matches!(status, LinkStatus::Offline { cause, .. } if cause == ack_timeout));
    assert_eq!(net.lines(), 2);
}

#[tokio::test(start_paused = true)]
async fn b31_hb_3_a_black_hole_on_an_idle_link_is_noticed_by_a_missing_heartbeat() {
    let hello = App::builder("hello")
        .heartbeat_interval(Duration::from_secs(2))
        .ack_timeout(Duration::from_secs(60));
    let (_world, hello, net) = linked("idle", world("idle"), hello).await;
    let mut link = hello.link("world").unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    until(&mut link, is_online).await;
    assert_eq!(net.lines(), 1, "a healthy link stays");
    net.line().set(Mode::BlackHole);
    let status = until(&mut link, is_offline).await;
    let missed = OfflineCause::HeartbeatMissed;
    assert!(matches!(status, LinkStatus::Offline { cause, .. } if cause == missed));
    until(&mut link, is_online).await;
}

#[tokio::test(start_paused = true)]
async fn link_15_a_call_that_a_restarted_app_had_received_ends_with_peer_restarted() {
    let (first, hello, net) = linked("restart", world("restart"), quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    let mut hits = hello.subscribe("world", "news").await.unwrap();
    let received = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u64>("world", "slow", &1_000u64).await }
    });
    settle().await;
    drop(first);
    net.refuse(3);
    until(&mut link, is_offline).await;
    let waiting = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u32>("world", "double", &21u32).await }
    });
    settle().await;
    let second = world("restart").start().await.unwrap();
    let status = until(&mut link, is_online).await;
    assert!(matches!(
        status,
        LinkStatus::Online {
            restarted: true,
            ..
        }
    ));
    assert_eq!(
        within(received).await.unwrap(),
        Err(CallError::PeerRestarted)
    );
    assert_eq!(
        within(waiting).await.unwrap().unwrap(),
        42,
        "it was not received, so it is replayed"
    );
    settle().await;
    assert_eq!(
        second.emit("news", &1).unwrap(),
        1,
        "the subscription was made again"
    );
    assert_eq!(within(hits.next()).await.unwrap().name, "news");
}

#[tokio::test(start_paused = true)]
async fn link_10_b44_when_the_grace_ends_every_call_ends_and_a_later_link_starts_afresh() {
    let hello = quiet("hello").reconnect_grace(Duration::from_secs(2));
    let (_world, hello, net) = linked("grace", world("grace"), hello).await;
    let mut link = hello.link("world").unwrap();
    net.refuse(200);
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u64>("world", "slow", &5u64).await }
    });
    settle().await;
    net.line().set(Mode::Cut);
    assert_eq!(within(call).await.unwrap(), Err(CallError::PeerGone));
    until(&mut link, support::is_dropped).await;
    let snapshot = hello.snapshot();
    assert_eq!(
        (snapshot.waiters, snapshot.messages, snapshot.links.len()),
        (0, 0, 0)
    );
    net.refuse(0);
    let status = until(&mut link, is_online).await;
    assert!(matches!(status, LinkStatus::Online { resumed: false, .. }));
    assert_eq!(
        hello
            .call::<_, u32>("world", "double", &1u32)
            .await
            .unwrap(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn wait_7_a_requester_that_never_returns_cancels_its_handler_unless_it_is_detached() {
    let (started, finished) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let job = |by: u32| {
        let (started, finished) = (Arc::clone(&started), Arc::clone(&finished));
        move |(): ()| {
            let finished = Arc::clone(&finished);
            started.fetch_add(by, Ordering::SeqCst);
            async move {
                tokio::time::sleep(Duration::from_secs(500)).await;
                finished.fetch_add(by, Ordering::SeqCst);
                Ok(())
            }
        }
    };
    let world = world("never-back")
        .ability("attached", job(1))
        .ability("free", job(10))
        .detached("free");
    let (world, hello, net) = linked("never-back", world, quiet("hello")).await;
    for name in ["attached", "free"] {
        let hello = hello.clone();
        tokio::spawn(async move { hello.call::<_, ()>("world", name, &()).await });
    }
    settle().await;
    assert_eq!(started.load(Ordering::SeqCst), 11);
    net.refuse(1_000_000);
    net.line().set(Mode::Cut);
    let mut link = world.link("hello").unwrap();
    until(&mut link, support::is_dropped).await;
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    assert_eq!(finished.load(Ordering::SeqCst), 10);
    assert_eq!(world.snapshot().serving, 0);
}

#[tokio::test(start_paused = true)]
async fn link_17_attempts_spread_out_exponentially_and_go_on_until_they_succeed() {
    let (_world, hello, net) = linked("backoff", world("backoff"), quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    until(&mut link, is_online).await;
    net.refuse(12);
    let start = tokio::time::Instant::now();
    net.line().set(Mode::Cut);
    until(&mut link, is_online).await;
    assert_eq!(net.dials(), 1 + 12 + 1);
    // Full jitter: 100 ms, doubled each time, at most 30 s, of which anything between nothing and all.
    let most = Duration::from_secs(52 + 4 * 30);
    let took = start.elapsed();
    assert!(
        took < most && took > Duration::from_secs(1),
        "it took {took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn b60_two_hundred_reconnects_leave_nothing_behind() {
    let (world, hello, net) = linked("leak", world("leak"), quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    let mut hits = hello.subscribe("world", "a:*").await.unwrap();
    until(&mut link, is_online).await;
    let picture = |app: &App| {
        let snapshot = app.snapshot();
        let tasks = tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks();
        (
            snapshot.peers,
            snapshot.timers,
            snapshot.messages,
            snapshot.listens,
            tasks,
        )
    };
    let mut before = None;
    for cycle in 0..200 {
        net.line().set(Mode::Cut);
        until(&mut link, is_online).await;
        assert_eq!(
            hello
                .call::<_, u32>("world", "double", &cycle)
                .await
                .unwrap(),
            2 * cycle
        );
        settle().await;
        let now = (picture(&hello), picture(&world));
        assert_eq!(*before.get_or_insert(now), now, "cycle {cycle}");
    }
    world.emit("a:b", &1).unwrap();
    assert_eq!(within(hits.next()).await.unwrap().name, "a:b");
    settle().await;
    assert_eq!(world.snapshot().listens, 1);
}

#[tokio::test(start_paused = true)]
async fn b35_link_18_after_a_freeze_what_had_arrived_is_read_before_anybody_is_judged() {
    let (_world, hello, net) = linked("freeze", world("freeze"), quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    until(&mut link, is_online).await;
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u32>("world", "double", &5u32).await }
    });
    // The ACK and the response are on the way when the clock jumps beyond the ACK timeout.
    net.line().set(Mode::HoldDown);
    settle().await;
    assert_eq!(hello.connected_apps()[0].unacked, 1);
    tokio::time::advance(Duration::from_secs(25)).await;
    net.line().set(Mode::Open);
    assert_eq!(within(call).await.unwrap().unwrap(), 10);
    settle().await;
    assert!(hello.connected_apps()[0].is_online);
    assert_eq!(net.lines(), 1);
}

#[tokio::test(start_paused = true)]
async fn b49_a_stream_goes_on_through_a_cut_with_its_handler_none_the_wiser() {
    let (_world, hello, net) = linked("ticks", world("ticks"), quiet("hello")).await;
    let mut run = hello.event("world", "tick", &12u32).await.unwrap();
    let mut next = 0;
    while let Some(chunk) = within(run.next_as::<u32>()).await {
        assert_eq!(chunk.unwrap(), next);
        next += 1;
        if next == 3 {
            net.line().set(Mode::Cut);
        }
    }
    assert_eq!((next, run.response::<u32>().await.unwrap()), (12, 12));
}

/// One is called the moment the link is online again, one more when a hundred of those that waited were handled.
#[tokio::test(start_paused = true)]
async fn b06_msg_7_what_is_called_during_a_replay_is_handled_after_it() {
    type Sized = (u32, Vec<u8>);
    let (handled, called) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(Vec::new()));
    let hundredth = Arc::new(Notify::new());
    let (log, reached) = (Arc::clone(&handled), Arc::clone(&hundredth));
    let world = world("replay").ability("note", move |(n, _): Sized| {
        log.lock().unwrap().push(n);
        if n == 100 {
            reached.notify_one();
        }
        async move { Ok(n) }
    });
    let (_world, hello, net) = linked("replay", world, quiet("hello")).await;
    let mut link = hello.link("world").unwrap();
    net.refuse(3);
    net.line().set(Mode::Cut);
    until(&mut link, is_offline).await;
    // More than a connection takes at once.
    let call = |n: u32| {
        let hello = hello.clone();
        async move {
            let pad = vec![0u8; 8 << 10];
            hello.call::<_, u32>("world", "note", &(n, pad)).await
        }
    };
    let waiting: Vec<_> = (1..=500).map(|n| tokio::spawn(call(n))).collect();
    settle().await;
    assert_eq!(hello.connected_apps()[0].backlog, 500);
    let at_once = async {
        until(&mut link, is_online).await;
        called.lock().unwrap().push(501);
        assert!(handled.lock().unwrap().len() < 100, "at its beginning");
        call(501).await
    };
    let amid = async {
        hundredth.notified().await;
        called.lock().unwrap().push(502);
        assert!(handled.lock().unwrap().len() < 500, "amid the replay");
        call(502).await
    };
    let (at_once, amid) = within(async { tokio::join!(at_once, amid) }).await;
    assert_eq!((at_once, amid), (Ok(501), Ok(502)));
    for call in waiting {
        assert!(within(call).await.unwrap().is_ok());
    }
    let expected: Vec<u32> = (1..=500).chain(called.into_inner().unwrap()).collect();
    assert_eq!(*handled.lock().unwrap(), expected);
}
