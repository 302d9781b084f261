//! A Gateway restarts under a thousand Apps. Time is paused: thirty seconds here cost none.

mod support;

use std::time::Duration;

use napp::{App, SignalKind};
use support::Net;
use tokio::task::JoinSet;

const APPS: usize = 1_000;
const QUEUED: usize = 100;
const BIN: Duration = Duration::from_millis(100);

async fn hub(net: &Net) -> App {
    let builder = App::builder("hub")
        .transports(net.transports())
        .gateway(true);
    builder
        .listen("mem://storm-hub")
        .unwrap()
        .start()
        .await
        .unwrap()
}

async fn online(hub: &App) -> usize {
    hub.connected_apps().len()
}

#[tokio::test(start_paused = true)]
async fn link_17_b66_a_thousand_apps_are_back_after_a_restart_without_a_storm() {
    let net = Net::default();
    let first = hub(&net).await;
    let mut apps = Vec::new();
    for n in 0..APPS {
        let app = App::builder(&format!("app-{n}"))
            .transports(net.transports())
            .start()
            .await
            .unwrap();
        app.connect("hub", "net://storm-hub").await.unwrap();
        apps.push(app);
    }
    assert_eq!(online(&first).await, APPS);
    let mut warnings = apps[0].listen("nacp:internal:*:warning").unwrap();

    // It dies without a word. What is sent meanwhile waits.
    drop(first);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut sends = JoinSet::new();
    for app in &apps {
        for _ in 0..QUEUED {
            let app = app.clone();
            sends.spawn(async move {
                app.signal_to("hub", "nothing", SignalKind::Normal, Some(&1))
                    .await
                    .unwrap()
            });
        }
    }
    let before = net.dials();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        net.dials() - before < 3 * APPS,
        "they back off: {}",
        net.dials() - before
    );

    let second = hub(&net).await;
    let mut bins = Vec::new();
    while online(&second).await < APPS {
        assert!(
            bins.len() < 300,
            "{} of {APPS} online after 30 s",
            online(&second).await
        );
        let before = net.dials();
        tokio::time::sleep(BIN).await;
        bins.push(net.dials() - before);
    }
    let busiest = bins.iter().max().copied().unwrap_or_default();
    assert!(
        busiest < APPS / 2,
        "attempts are spread: {busiest} within {BIN:?}"
    );
    while let Some(delivered) = sends.join_next().await {
        assert!(delivered.unwrap(), "ACKed, not dropped");
    }
    assert_eq!(
        futures_now(&mut warnings).await,
        0,
        "no ACK timeout, no eviction"
    );
}

/// How many events are waiting already.
async fn futures_now(listener: &mut napp::Listener) -> usize {
    let mut count = 0;
    while tokio::time::timeout(Duration::from_millis(1), listener.next())
        .await
        .is_ok_and(|event| event.is_some())
    {
        count += 1;
    }
    count
}
