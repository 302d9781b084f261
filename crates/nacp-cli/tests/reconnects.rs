//! A thousand reconnects over TCP, in a process of its own: descriptors and tasks are counted, and nobody else's are.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nact_rig::{Place, Proxy};
use napp::{App, LinkStatus, LinkWatch};

const CYCLES: usize = 1_000;
/// No wait comes near it unless something hangs.
const LIMIT: Duration = Duration::from_secs(60);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

/// What an App holds.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    peers: usize,
    messages: usize,
    timers: usize,
    subscriptions: usize,
    listens: usize,
    waiters: usize,
}

/// What the process holds.
#[derive(Debug, PartialEq, Eq)]
struct Resources {
    tasks: usize,
    /// `None` where the system does not tell.
    descriptors: Option<usize>,
    apps: [Held; 2],
}

impl Resources {
    fn now(apps: [&App; 2]) -> Self {
        let metrics = tokio::runtime::Handle::current().metrics();
        Self {
            tasks: metrics.num_alive_tasks(),
            descriptors: fs::read_dir("/proc/self/fd").ok().map(Iterator::count),
            apps: apps.map(|app| {
                let snapshot = app.snapshot();
                Held {
                    peers: snapshot.peers,
                    messages: snapshot.messages,
                    timers: snapshot.timers,
                    subscriptions: snapshot.subscriptions,
                    listens: snapshot.listens,
                    waiters: snapshot.waiters,
                }
            }),
        }
    }

    /// When what a cut has ended is gone, and nothing is under way.
    async fn settled(apps: [&App; 2]) -> Self {
        within(async {
            loop {
                let before = Self::now(apps);
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
                let is_quiet = before.apps.iter().all(|held| held.messages == 0);
                if is_quiet && before == Self::now(apps) {
                    return before;
                }
            }
        })
        .await
    }
}

async fn cycle(proxy: &Proxy, link: &mut LinkWatch) {
    proxy.cut();
    within(async {
        while !matches!(link.next().await, Some(LinkStatus::Offline { .. })) {}
        assert!(link.online().await);
    })
    .await;
}

#[tokio::test]
async fn b60_link_17_a_thousand_reconnects_over_tcp_leave_as_much_as_one() {
    let handled = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&handled);
    let world = App::builder("world")
        .listen("tcp://127.0.0.1:0")
        .unwrap()
        .ability("note", move |n: u32| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(n) }
        })
        .start()
        .await
        .unwrap();
    let address = world.local_urls()[0].strip_prefix("tcp://").unwrap();
    let proxy = Proxy::start(address.parse::<SocketAddr>().unwrap());
    let proxy = proxy.await.unwrap();
    let hello = App::builder("hello")
        .reconnect_backoff(Duration::from_micros(100), Duration::from_millis(1))
        .start()
        .await
        .unwrap();
    let Place::Tcp(address) = proxy.local() else {
        unreachable!("it was started on TCP")
    };
    let url = format!("tcp://{address}");
    hello.connect("world", &url).await.unwrap();
    let mut news = hello.subscribe("world", "news").await.unwrap();
    let mut link = hello.link("world").unwrap();
    cycle(&proxy, &mut link).await;
    let apps = [&hello, &world];
    let after_one = Resources::settled(apps).await;
    for _ in 1..CYCLES {
        cycle(&proxy, &mut link).await;
    }
    assert_eq!(Resources::settled(apps).await, after_one);
    assert_eq!(after_one.apps[0].peers, 1);
    assert_eq!(
        hello.call::<_, u32>("world", "note", &1u32).await.unwrap(),
        1
    );
    assert_eq!(handled.load(Ordering::SeqCst), 1);
    assert_eq!(
        world.emit("news", &7u32).unwrap(),
        1,
        "one subscription is left"
    );
    let hit = within(news.next()).await.unwrap();
    assert_eq!(hit.decode::<u32>().unwrap(), 7);
}
