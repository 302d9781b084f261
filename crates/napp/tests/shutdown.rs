//! Ending an App politely.

mod support;

use std::time::Duration;

use napp::{CallError, ConnectError, DropCause, LinkStatus, Shutdown};
use support::{Mode, Net, is_dropped, quiet, settle, until, within};

#[tokio::test(start_paused = true)]
async fn term_2_drain_waits_until_all_is_delivered_then_unregisters() {
    let net = Net::default();
    let world = quiet("world")
        .listen("mem://drain")
        .unwrap()
        .ability("note", |n: u32| async move { Ok(n) })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello")
        .transports(net.transports())
        .start()
        .await
        .unwrap();
    hello.connect("world", "net://drain").await.unwrap();
    let mut link = world.link("hello").unwrap();
    net.line().set(Mode::HoldUp);
    for n in 0..50u32 {
        let hello = hello.clone();
        tokio::spawn(async move { hello.call::<_, u32>("world", "note", &n).await });
    }
    settle().await;
    let shutdown = tokio::spawn({
        let hello = hello.clone();
        async move {
            hello
                .shutdown(Shutdown::Drain(Duration::from_secs(30)))
                .await
        }
    });
    settle().await;
    assert!(!shutdown.is_finished());
    net.line().set(Mode::Open);
    assert_eq!(within(shutdown).await.unwrap(), []);
    let status = until(&mut link, is_dropped).await;
    let cause = DropCause::Unregistered;
    assert_eq!(status, LinkStatus::Dropped { cause });
    assert_eq!(
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        2,
        "only the other App's timer and listener are left"
    );
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn term_2_what_was_not_delivered_by_the_deadline_is_listed() {
    let net = Net::default();
    let world = quiet("world").listen("mem://stuck").unwrap();
    let world = world.start().await.unwrap();
    let hello = quiet("hello")
        .ack_timeout(Duration::from_secs(100))
        .transports(net.transports())
        .start()
        .await
        .unwrap();
    hello.connect("world", "net://stuck").await.unwrap();
    net.line().set(Mode::HoldUp);
    let calls: Vec<_> = (0..3u32)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, u32>("world", "note", &n).await })
        })
        .collect();
    settle().await;
    let start = tokio::time::Instant::now();
    let undelivered = hello.shutdown(Shutdown::Drain(Duration::from_secs(5)));
    let undelivered = within(undelivered).await;
    assert!(start.elapsed() <= Duration::from_secs(8), "bounded");
    assert_eq!(undelivered.len(), 3);
    assert!(
        undelivered
            .iter()
            .all(|message| message.what == "request" && message.app.as_str() == "world")
    );
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error, CallError::PeerGone, "we left it");
    }
    let after = hello.call::<_, ()>("world", "note", &()).await;
    assert_eq!(after, Err(CallError::Terminated));
    let connect = hello.connect("world", "net://stuck").await;
    assert!(matches!(connect, Err(ConnectError::GivenUp)));
    assert!(hello.listen("a").unwrap().next().await.is_none());
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn term_2_now_ends_handlers_tasks_and_sockets_and_frees_the_address() {
    let world = || {
        quiet("world")
            .listen("mem://again")
            .unwrap()
            .ability("never", |(): ()| std::future::pending::<Result<(), _>>())
    };
    let first = world().start().await.unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", "mem://again").await.unwrap();
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, ()>("world", "never", &()).await }
    });
    settle().await;
    let start = tokio::time::Instant::now();
    first.shutdown(Shutdown::Now).await;
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "nobody had to be waited for"
    );
    assert_eq!(within(call).await.unwrap(), Err(CallError::PeerGone));
    let second = world().start().await.unwrap();
    settle().await;
    assert!(
        second.connected_apps().is_empty(),
        "after an unregister nobody reconnects by himself"
    );
    hello.connect("world", "mem://again").await.unwrap();
    assert!(hello.connected_apps()[0].is_online);
}

#[tokio::test(start_paused = true)]
async fn shutdown_gives_up_a_pending_connect() {
    let hello = quiet("hello").start().await.unwrap();
    let connect = tokio::spawn({
        let hello = hello.clone();
        async move { hello.connect_patiently("world", "mem://never-there").await }
    });
    settle().await;
    hello.shutdown(Shutdown::Now).await;
    assert!(matches!(
        within(connect).await.unwrap(),
        Err(ConnectError::GivenUp)
    ));
}

#[tokio::test]
async fn term_2_over_tcp_the_goodbye_arrives_and_the_port_is_free_again() {
    let world = quiet("world").listen("tcp://127.0.0.1:0").unwrap();
    let world = world.start().await.unwrap();
    let url = world.local_urls()[0].clone();
    let hello = quiet("hello").start().await.unwrap();
    hello.connect("world", &url).await.unwrap();
    let mut link = hello.link("world").unwrap();
    world.shutdown(Shutdown::Now).await;
    let cause = DropCause::Unregistered;
    loop {
        let status = link.next().await.unwrap();
        if is_dropped(&status) {
            assert_eq!(status, LinkStatus::Dropped { cause });
            break;
        }
    }
    let again = quiet("world").listen(&url).unwrap().start().await.unwrap();
    hello.connect("world", &url).await.unwrap();
    drop(again);
}
