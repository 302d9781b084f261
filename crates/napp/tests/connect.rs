//! Making links: what goes wrong, and who may have which name.

mod support;

use std::time::Duration;

use napp::{App, ConnectError, LinkStatus};
use support::{Net, is_online, quiet, settle, until, within};

#[tokio::test]
async fn each_way_to_fail_says_what_is_wrong() {
    let reason = |error: ConnectError| error.reason().to_owned();
    let hello = quiet("hello").start().await.unwrap();
    let attempt = async |app: &str, url: &str| hello.connect(app, url).await.map_err(reason);
    assert_eq!(
        attempt("world", "pigeon://roof").await,
        Err("unknown-scheme".into())
    );
    assert_eq!(attempt("world", "localhost:1").await, Err("bad-url".into()));
    assert_eq!(
        attempt("world", "mem://nobody").await,
        Err("connect-refused".into())
    );
    assert_eq!(
        attempt("hello", "mem://nobody").await,
        Err("self-addressed".into())
    );
    assert_eq!(attempt("", "mem://nobody").await, Err("bad-app-id".into()));
    assert!(hello.connected_apps().is_empty());

    let world = quiet("world").listen("tcp://127.0.0.1:0").unwrap();
    let world = world.start().await.unwrap();
    let url = &world.local_urls()[0];
    let taken = quiet("other").listen(url).unwrap().start().await;
    assert_eq!(taken.unwrap_err().reason(), "already-listening");
    let twice = quiet("twice")
        .ability("a", |(): ()| async { Ok(()) })
        .ability("a", |(): ()| async { Ok(()) });
    assert_eq!(
        twice.start().await.unwrap_err().reason(),
        "duplicate-handler"
    );
    let unknown = quiet("unknown").describe("a", "text").start().await;
    assert_eq!(unknown.unwrap_err().reason(), "unknown-handler");
}

#[tokio::test(start_paused = true)]
async fn somebody_else_at_the_address_is_not_mistaken_for_the_app() {
    let mars = quiet("mars").listen("mem://mismatch").unwrap();
    let mars = mars.start().await.unwrap();
    let hello = quiet("hello").start().await.unwrap();
    let error = within(hello.connect("world", "mem://mismatch")).await;
    // It drops a register for another App, and closes.
    let error = error.unwrap_err();
    assert!(
        ["wrong-app", "closed", "response-timeout"].contains(&error.reason()),
        "{error:?}"
    );
    assert!(mars.connected_apps().is_empty() && hello.connected_apps().is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_gateways_do_not_register_with_each_other() {
    let north = quiet("north")
        .gateway(true)
        .listen("mem://gateways")
        .unwrap();
    let north = north.start().await.unwrap();
    let south = quiet("south").gateway(true).start().await.unwrap();
    let error = within(south.connect("north", "mem://gateways"))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "dual-gateway");
    assert!(north.connected_apps().is_empty());
}

#[tokio::test(start_paused = true)]
async fn gw_1_apps_call_each_other_through_a_gateway_without_a_link_of_their_own() {
    let gateway = quiet("gateway").gateway(true).listen("mem://hub").unwrap();
    let _gateway = gateway.start().await.unwrap();
    let world = quiet("world").ability("double", |n: u32| async move { Ok(2 * n) });
    let world = world.start().await.unwrap();
    let hello = quiet("hello").start().await.unwrap();
    for app in [&world, &hello] {
        app.connect("gateway", "mem://hub").await.unwrap();
    }
    assert_eq!(
        hello
            .call::<_, u32>("world", "double", &4u32)
            .await
            .unwrap(),
        8
    );
    let nobody = hello.call::<_, u32>("nobody", "double", &4u32).await;
    assert_eq!(nobody.unwrap_err().to_string(), "no-route");
}

#[tokio::test(start_paused = true)]
async fn b26_link_14_of_two_live_apps_with_one_id_the_first_keeps_it() {
    let world = quiet("world").listen("mem://one-id").unwrap();
    let world = world.start().await.unwrap();
    let mut link = world.link("twin").unwrap();
    let first = quiet("twin").ability("which", |(): ()| async { Ok(1) });
    let first = first.start().await.unwrap();
    first.connect("world", "mem://one-id").await.unwrap();
    let second = quiet("twin").ability("which", |(): ()| async { Ok(2) });
    let second = second.start().await.unwrap();
    let refused = within(second.connect("world", "mem://one-id")).await;
    assert_eq!(refused.unwrap_err().reason(), "appId-in-use");
    for _ in 0..20 {
        assert_eq!(world.call::<_, u32>("twin", "which", &()).await.unwrap(), 1);
    }
    until(&mut link, is_online).await;
    let quiet_link = tokio::time::timeout(Duration::from_secs(10), link.next());
    assert!(quiet_link.await.is_err(), "nobody was kicked out");

    // LINK-17: on a reconnect the refusal is a failure like any other, until the incumbent is gone.
    let patient = tokio::spawn({
        let second = second.clone();
        async move { second.connect_patiently("world", "mem://one-id").await }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!patient.is_finished());
    drop(first);
    within(patient).await.unwrap().unwrap();
    assert_eq!(world.call::<_, u32>("twin", "which", &()).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn apps_that_dial_each_other_at_once_end_with_one_link() {
    let west = quiet("west").listen("mem://west").unwrap();
    let east = quiet("east").listen("mem://east").unwrap();
    let (west, east) = (west.start().await.unwrap(), east.start().await.unwrap());
    let (there, back) = tokio::join!(
        west.connect("east", "mem://east"),
        east.connect("west", "mem://west")
    );
    there.unwrap();
    back.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    for app in [&west, &east] {
        assert_eq!((app.snapshot().peers, app.connected_apps().len()), (1, 1));
        assert!(app.connected_apps()[0].is_online);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_connect_changes_the_url_for_the_attempts_to_come() {
    let net = Net::default();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello.start().await.unwrap();
    let first = quiet("world").listen("mem://old-place").unwrap();
    let first = first.start().await.unwrap();
    hello.connect("world", "net://old-place").await.unwrap();
    hello.connect("world", "net://new-place").await.unwrap();
    assert_eq!(net.lines(), 1, "the link stands");
    let mut link = hello.link("world").unwrap();
    drop(first);
    until(&mut link, support::is_offline).await;
    let second = quiet("world").listen("mem://new-place").unwrap();
    let second = second.start().await.unwrap();
    until(&mut link, is_online).await;
    assert!(second.connected_apps()[0].is_online);
}

#[tokio::test(start_paused = true)]
async fn link_17_connect_patiently_waits_for_an_app_that_starts_later() {
    let hello = quiet("hello").start().await.unwrap();
    let patient = tokio::spawn({
        let hello = hello.clone();
        async move { hello.connect_patiently("world", "mem://later").await }
    });
    let impatient = hello.connect("world", "mem://later").await;
    assert_eq!(impatient.unwrap_err().reason(), "connect-refused");
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!patient.is_finished());
    let world = quiet("world").listen("mem://later").unwrap();
    let world = world.start().await.unwrap();
    within(patient).await.unwrap().unwrap();
    assert!(world.connected_apps()[0].is_online);
}

#[tokio::test(start_paused = true)]
async fn disconnect_gives_up_an_attempt_under_way() {
    let silent = nact::Transports::default();
    let mut silent = silent.listen("mem://silent").await.unwrap();
    let hello = quiet("hello").start().await.unwrap();
    let attempt = tokio::spawn({
        let hello = hello.clone();
        async move { hello.connect("world", "mem://silent").await }
    });
    let mut channel = silent.accept().await.unwrap();
    settle().await;
    hello.disconnect("world").await;
    assert!(matches!(
        within(attempt).await.unwrap(),
        Err(ConnectError::GivenUp)
    ));
    let mut messages = Vec::new();
    within(channel.receiver.receive(&mut messages))
        .await
        .unwrap();
    assert_eq!(messages.len(), 1, "the register");
    within(channel.receiver.receive(&mut messages))
        .await
        .unwrap_err();
    assert_eq!(hello.snapshot().peers, 0);
}

#[tokio::test(start_paused = true)]
async fn b08_a_refused_or_lost_register_leaves_the_backlog_alone() {
    let net = Net::default();
    let runs = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = std::sync::Arc::clone(&runs);
    let world = quiet("world")
        .listen("mem://attempts")
        .unwrap()
        .ability("note", move |n: u32| {
            seen.lock().unwrap().push(n);
            async move { Ok(n) }
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello.start().await.unwrap();
    hello.connect("world", "net://attempts").await.unwrap();
    let mut link = hello.link("world").unwrap();
    net.line().set(support::Mode::Cut);
    until(&mut link, support::is_offline).await;
    let calls: Vec<_> = (0..10u32)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, u32>("world", "note", &n).await })
        })
        .collect();
    // The next connections die before the register is answered.
    for lines in 2..5 {
        while net.lines() < lines {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        net.line().set(support::Mode::Cut);
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within(call).await.unwrap().unwrap() as usize, n);
    }
    assert_eq!(*runs.lock().unwrap(), (0..10).collect::<Vec<_>>());
    assert!(matches!(
        until(&mut link, is_online).await,
        LinkStatus::Online { .. }
    ));
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_registers_is_closed() {
    let world: App = quiet("world")
        .listen("mem://idle-peer")
        .unwrap()
        .start()
        .await
        .unwrap();
    let transports = nact::Transports::default();
    let mut channel = transports.dial("mem://idle-peer").await.unwrap();
    settle().await;
    assert_eq!(world.snapshot().peers, 1);
    let mut messages = Vec::new();
    within(channel.receiver.receive(&mut messages))
        .await
        .unwrap_err();
    assert_eq!(world.snapshot().peers, 0);

    let mut errors = world.listen("nact:peer:error").unwrap();
    let mut channel = transports.dial("mem://idle-peer").await.unwrap();
    channel.sender.push(nact::Outbound {
        body: "no message".into(),
        ..Default::default()
    });
    channel.sender.flush().await.unwrap();
    within(errors.next()).await.unwrap();
    within(channel.receiver.receive(&mut messages))
        .await
        .unwrap_err();
}
