//! A Gateway is killed under a thousand Apps, and started again. A program of its own, real sockets, and in this process
//! nothing else that would want file descriptors.
#![cfg(unix)]

#[path = "command/program.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod program;

use std::future::Future;
use std::time::Duration;

use nacp::SignalKind;
use napp::{App, LinkStatus};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::Instant;

const APPS: usize = 1_000;
const QUEUED: usize = 100;
/// Everybody is back within this.
const LIMIT: Duration = Duration::from_secs(30);
/// No other wait comes near it unless something hangs.
const HANG: Duration = Duration::from_secs(120);

/// Each App has a connection, and the test some more. Many systems allow 1,024 unless they are asked for more. The Gateway
/// asks for itself.
fn ask_for_file_descriptors() {
    let wanted = APPS as u64 + 200;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    assert!(
        limit.maximum.is_none_or(|maximum| maximum >= wanted),
        "this test needs {wanted} open files; raise `ulimit -Hn`"
    );
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Does the same for all Apps at once, and waits for the last.
async fn all<F>(apps: &[App], what: impl Fn(usize, App) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (index, app) in apps.iter().enumerate() {
        tasks.spawn(what(index, app.clone()));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

async fn start_apps(url: &str) -> Vec<App> {
    let mut apps = Vec::new();
    for index in 0..APPS {
        let app =
            App::builder(&name(index)).ability("echo", |index: usize| async move { Ok(index) });
        apps.push(app.start().await.unwrap());
    }
    let url = url.to_owned();
    all(&apps, move |_, app| {
        let url = url.clone();
        async move { app.connect_patiently("gateway", &url).await.unwrap() }
    })
    .await;
    apps
}

fn name(index: usize) -> String {
    format!("app-{}", index % APPS)
}

/// Each App asks the next one through the Gateway: so the Gateway knows all of them, and they it.
async fn ask_around(apps: &[App]) {
    all(apps, |index, app| async move {
        let answer: usize = app.call(&name(index + 1), "echo", &index).await.unwrap();
        assert_eq!(answer, index);
    })
    .await;
}

async fn are(apps: &[App], wanted: fn(&LinkStatus) -> bool) {
    all(apps, |_, app| async move {
        let mut link = app.link("gateway").unwrap();
        while let Some(status) = link.next().await {
            assert!(!matches!(status, LinkStatus::Dropped { .. }), "{status:?}");
            if wanted(&status) {
                return;
            }
        }
    })
    .await;
}

/// Each App sends something to the Gateway, which waits for it to come back.
fn queue(apps: &[App]) -> JoinSet<bool> {
    let mut sends = JoinSet::new();
    for app in apps {
        for _ in 0..QUEUED {
            let app = app.clone();
            sends.spawn(async move {
                let sent = app.signal_to("gateway", "nothing", SignalKind::Normal, Some(&1));
                sent.await.unwrap()
            });
        }
    }
    sends
}

/// Waits with a limit.
struct Wait(tokio::runtime::Runtime);

impl Wait {
    fn until<T>(&self, what: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(HANG, what).await };
        self.0.block_on(limited).expect("it hangs")
    }
}

#[test]
fn b66_a_gateway_is_killed_and_a_thousand_apps_are_back_within_thirty_seconds() {
    ask_for_file_descriptors();
    let (gateway, url) =
        program::listening_with_few_files(&["gateway", "--listen", "tcp://127.0.0.1:0"]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let wait = Wait(runtime);
    let clock = Instant::now();
    let apps = wait.until(async {
        let apps = start_apps(&url).await;
        ask_around(&apps).await;
        apps
    });
    println!("{APPS} Apps are connected, after {:?}", clock.elapsed());

    gateway.kill();
    let mut sends = wait.until(async {
        are(&apps, |status| matches!(status, LinkStatus::Offline { .. })).await;
        queue(&apps)
    });
    let clock = Instant::now();
    let (_gateway, _) = program::listening_with_few_files(&["gateway", "--listen", &url]);
    wait.until(are(&apps, |status| {
        matches!(status, LinkStatus::Online { .. })
    }));
    let back = clock.elapsed();
    println!("{APPS} Apps are online again, after {back:?}");
    assert!(back < LIMIT);
    wait.until(async {
        while let Some(delivered) = sends.join_next().await {
            assert!(delivered.unwrap(), "ACKed, not dropped");
        }
        println!(
            "and delivered {QUEUED} messages each, after {:?}",
            clock.elapsed()
        );
        ask_around(&apps).await;
    });
    println!("and can reach each other, after {:?}", clock.elapsed());
}
