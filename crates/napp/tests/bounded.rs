//! Memory stays bounded, whoever does not read.

mod support;

use std::time::Duration;

use napp::{EventContext, TransportOptions};
use support::{Mode, Net, is_offline, quiet, settle, until, within};

#[tokio::test(start_paused = true)]
async fn b42_cap_2_a_flood_of_notifies_against_a_stalled_reader_is_refused_not_stored() {
    let net = Net::default();
    let world = quiet("world")
        .listen("mem://flood")
        .unwrap()
        .queue_bytes_max(1 << 20)
        .ack_timeout(Duration::from_secs(5))
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello.start().await.unwrap();
    hello.connect("world", "net://flood").await.unwrap();
    let _hits = hello.subscribe("world", "noise").await.unwrap();
    let mut warnings = world.listen("nacp:internal:backlog:warning").unwrap();
    net.line().set(Mode::HoldDown);
    let noise = vec![7u8; 64 << 10];
    let chunk = napp::Payload::bytes(&noise);
    let mut sent = 0;
    for _ in 0..10_000 {
        sent += world.emit("noise", &chunk).unwrap();
        tokio::task::yield_now().await;
    }
    let snapshot = world.snapshot();
    assert!(snapshot.backlog.bytes <= 1 << 20);
    assert!(
        snapshot.messages < 64,
        "{} messages are held",
        snapshot.messages
    );
    assert!(sent < 100, "{sent} were taken");
    within(warnings.next()).await.unwrap();
    // A call still takes its place (CAP-2): the oldest notify goes.
    let call = tokio::spawn({
        let world = world.clone();
        async move { world.call::<_, ()>("hello", "nope", &()).await }
    });
    settle().await;
    assert_eq!(world.snapshot().waiters, 1);
    net.line().set(Mode::Open);
    assert!(within(call).await.unwrap().is_err());
    assert_eq!(world.snapshot().messages, 0);
}

#[tokio::test(start_paused = true)]
async fn cap_2_a_plain_stream_learns_that_its_chunks_are_refused() {
    let net = Net::default();
    let world = quiet("world")
        .listen("mem://refused")
        .unwrap()
        .lossless_streams(false)
        .event("flood", |ctx: EventContext, count: u32| async move {
            let mut taken = 0;
            for n in 0..count {
                taken += u32::from(ctx.emit(&(n, "x".repeat(4_000))).await?);
            }
            Ok(taken)
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello.start().await.unwrap();
    hello.connect("world", "net://refused").await.unwrap();
    net.line().set(Mode::HoldDown);
    let mut run = hello.event("world", "flood", &20_000u32).await.unwrap();
    for _ in 0..50 {
        settle().await;
    }
    assert!(world.snapshot().backlog.messages <= 1_024);
    net.line().set(Mode::Open);
    let taken = within(run.response::<u32>()).await.unwrap();
    assert!(taken < 20_000, "{taken} were taken");
}

#[tokio::test(start_paused = true)]
async fn hb_7_a_large_message_on_a_slow_line_takes_nobody_offline() {
    let options = TransportOptions {
        chunk_size: 4 << 10,
        unsent_bytes_max: 4 << 10,
        ..TransportOptions::default()
    };
    let net = Net::default();
    let world = quiet("world")
        .listen("mem://large")
        .unwrap()
        .transports(net.transports_with(options.clone()))
        .ability("length", |text: String| async move { Ok(text.len()) })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").transports(net.transports_with(options));
    let hello = hello.start().await.unwrap();
    hello.connect("world", "net://large").await.unwrap();
    let mut link = hello.link("world").unwrap();
    let text = "x".repeat(2 << 20);
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, usize>("world", "length", &text).await }
    });
    let line = net.line();
    let mut seconds = 0;
    while !call.is_finished() {
        // A little every eight seconds: longer in all than any timeout.
        line.set(Mode::HoldUp);
        tokio::time::sleep(Duration::from_secs(8)).await;
        line.set(Mode::Open);
        tokio::task::yield_now().await;
        seconds += 8;
        assert!(seconds < 10_000);
    }
    assert_eq!(call.await.unwrap().unwrap(), 2 << 20);
    assert_eq!(net.lines(), 1, "after {seconds} s");
    assert!(seconds > 30, "it took only {seconds} s");
    drop(world);
    until(&mut link, is_offline).await;
}

#[tokio::test(start_paused = true)]
async fn msg_10_what_a_stalled_transport_does_not_take_stays_in_the_backlog() {
    let net = Net::default();
    let world = quiet("world").listen("mem://stalled").unwrap();
    let world = world.start().await.unwrap();
    let hello = quiet("hello").transports(net.transports());
    let hello = hello.start().await.unwrap();
    hello.connect("world", "net://stalled").await.unwrap();
    net.line().set(Mode::HoldUp);
    let text = "x".repeat(32 << 10);
    for _ in 0..200 {
        let (hello, text) = (hello.clone(), text.clone());
        tokio::spawn(async move { hello.call::<_, ()>("world", "nope", &text).await });
    }
    settle().await;
    let link = &hello.snapshot().links[0];
    assert!(link.submitted <= 16, "{} are submitted", link.submitted);
    assert_eq!(link.submitted + link.backlog, 200);
    net.line().set(Mode::Cut);
    while hello.snapshot().waiters > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(hello.snapshot().messages, 0);
    drop(world);
}
