//! A process that the system stops, with its connections open, and lets go on. How long it is stopped is never slept
//! for: it goes on when the other side has come to the conclusion that the test is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nacp::message::{Meta, decode};
use nact::frame::HEADER_SIZE;
use nact_rig::{Condition, Direction, Fate, Place, Progress, Proxy};
use napp::{
    App, CallError, DropCause, EventContext, LinkStatus, LinkWatch, OfflineCause, Payload,
    SubscribeOptions, Value,
};
use tokio::sync::{Notify, mpsc};

use crate::program::{Program, serve, start};

/// No test comes near it unless something hangs.
const LIMIT: Duration = Duration::from_secs(30);
const ACK_TIMEOUT: Duration = Duration::from_millis(200);
/// Longer than any test takes.
const LONG_GRACE: Duration = Duration::from_secs(60);
/// As short as the command line of a test can wait for.
const SHORT_GRACE: Duration = Duration::from_secs(1);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

async fn until(link: &mut LinkWatch, wanted: fn(&LinkStatus) -> bool) -> LinkStatus {
    within(async {
        loop {
            let status = link.next().await.expect("the App lives");
            if wanted(&status) {
                return status;
            }
        }
    })
    .await
}

async fn offline(link: &mut LinkWatch) -> OfflineCause {
    match until(link, |status| matches!(status, LinkStatus::Offline { .. })).await {
        LinkStatus::Offline { cause, .. } => cause,
        other => panic!("{other:?}"),
    }
}

async fn dropped(link: &mut LinkWatch) -> DropCause {
    match until(link, |status| matches!(status, LinkStatus::Dropped { .. })).await {
        LinkStatus::Dropped { cause } => cause,
        other => panic!("{other:?}"),
    }
}

fn builder(id: &str, grace: Duration) -> napp::Builder {
    App::builder(id)
        .ack_timeout(ACK_TIMEOUT)
        .reconnect_grace(grace)
        .heartbeat_interval(None)
        .reconnect_backoff(Duration::from_millis(10), Duration::from_millis(100))
}

/// A served program, and an App that is connected to it.
async fn connected(grace: Duration) -> (Program, String, App) {
    let (world, url) = serve(&["--heartbeat", "off"]);
    let hello = builder("hello", grace).start().await.unwrap();
    hello.connect("world", &url).await.unwrap();
    (world, url, hello)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_link_14_a_stopped_process_runs_each_request_once_when_it_continues() {
    let (world, _, hello) = connected(LONG_GRACE).await;
    let lossless = SubscribeOptions::default().lossless(true);
    let runs = hello.subscribe_with("world", "nacp:ability:*:response", lossless);
    let mut runs = runs.await.unwrap();
    let mut link = hello.link("world").unwrap();
    let mut connections = hello.listen("nact:peer:connect").unwrap();
    world.stop();
    let calls: Vec<_> = (0..5u32)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, u32>("world", "echo", &n).await })
        })
        .collect();
    assert_eq!(offline(&mut link).await, OfflineCause::AckTimeout);
    // The system accepts for the program that is stopped; a register goes there that nobody answers.
    within(connections.next()).await.unwrap();
    world.go_on();
    let online = until(&mut link, |status| {
        matches!(status, LinkStatus::Online { .. })
    });
    let online = online.await;
    assert!(
        matches!(
            online,
            LinkStatus::Online {
                resumed: true,
                restarted: false,
                ..
            }
        ),
        "{online:?}"
    );
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within(call).await.unwrap().unwrap() as usize, n);
    }
    let last = within(hello.call::<_, u32>("world", "echo", &99u32)).await;
    assert_eq!(last.unwrap(), 99);
    // What ran is told in order, so that whatever ran before the last call is known when that one is.
    let mut answers = Vec::new();
    while answers.last() != Some(&99) {
        let hit = within(runs.next()).await.unwrap();
        let hit = hit.decode::<Value>().unwrap();
        answers.push(hit.get("result").and_then(Value::as_i64).unwrap());
    }
    answers.sort_unstable();
    assert_eq!(answers, [0, 1, 2, 3, 4, 99], "each ran once");
}

/// What passed towards the program that is stopped.
#[derive(Debug, PartialEq, Eq)]
enum Passed {
    Register,
    Request,
}

/// A proxy in front of `url`, where it is reached, and what passes through it, each with how many bytes have passed then.
async fn in_front_of(url: &str) -> (Proxy, String, mpsc::Receiver<(Passed, u64)>) {
    let address = url.strip_prefix("tcp://").unwrap().parse().unwrap();
    let proxy = Proxy::start(address).await.unwrap();
    let (say, passed) = mpsc::channel(1_024);
    let mut bytes = 0;
    proxy.judge(Direction::ToTarget, move |frame| {
        bytes += HEADER_SIZE as u64 + u64::from(frame.header.body);
        let what = match decode(&frame.body).unwrap().meta {
            Meta::Register => Some(Passed::Register),
            Meta::Request { .. } => Some(Passed::Request),
            _ => None,
        };
        if let Some(what) = what {
            // Nobody listens any more when the test has seen enough.
            let _ = say.try_send((what, bytes));
        }
        Fate::Passes
    });
    let Place::Tcp(local) = proxy.local() else {
        unreachable!("it was started on TCP")
    };
    let through = format!("tcp://{local}");
    (proxy, through, passed)
}

/// Waits until the next thing of this kind is in the hands of the target's system.
async fn next(proxy: &Proxy, passed: &mut mpsc::Receiver<(Passed, u64)>, wanted: Passed) {
    within(async {
        loop {
            let (what, bytes) = passed.recv().await.unwrap();
            if what == wanted {
                let arrived = |progress: &Progress| progress.forwarded >= bytes;
                return proxy.until(Direction::ToTarget, arrived).await;
            }
        }
    })
    .await;
}

/// A request waits in the system of a program that is stopped, on a connection whose end it does not hear of; behind it
/// the registers of three attempts, two of them given up. Then it goes on, and meets all of it, and the replay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_link_9_a_request_and_three_unanswered_registers_meet_a_process_that_continues() {
    const ATTEMPTS: usize = 3;
    let (world, url) = serve(&["--heartbeat", "off"]);
    let (first, first_url, mut on_first) = in_front_of(&url).await;
    let (second, second_url, mut on_second) = in_front_of(&url).await;
    let hello = builder("hello", LONG_GRACE).start().await.unwrap();
    hello.connect("world", &first_url).await.unwrap();
    // From the next attempt on.
    hello.connect("world", &second_url).await.unwrap();
    let lossless = SubscribeOptions::default().lossless(true);
    let runs = hello.subscribe_with("world", "nacp:ability:*:response", lossless);
    let mut runs = runs.await.unwrap();
    let mut link = hello.link("world").unwrap();
    world.stop();
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u32>("world", "echo", &1u32).await }
    });
    next(&first, &mut on_first, Passed::Request).await;
    first.set(Direction::ToTarget, Condition::BlackHole);
    assert_eq!(offline(&mut link).await, OfflineCause::AckTimeout);
    for attempt in 1..=ATTEMPTS {
        next(&second, &mut on_second, Passed::Register).await;
        if attempt < ATTEMPTS {
            second.cut();
        }
    }
    world.go_on();
    let online = until(&mut link, |status| {
        matches!(status, LinkStatus::Online { .. })
    });
    let online = online.await;
    let resumed = matches!(
        online,
        LinkStatus::Online {
            resumed: true,
            restarted: false,
            ..
        }
    );
    assert!(resumed, "{online:?}");
    assert_eq!(within(call).await.unwrap().unwrap(), 1);
    // The end of the first connection, late.
    first.set(Direction::ToTarget, Condition::Open);
    let last = within(hello.call::<_, u32>("world", "echo", &99u32)).await;
    assert_eq!(last.unwrap(), 99);
    // What ran is told in order, so that whatever ran before the last call is known when that one is.
    for expected in [1, 99] {
        let hit = within(runs.next()).await.unwrap();
        let hit = hit.decode::<Value>().unwrap();
        let answer = hit.get("result").and_then(Value::as_i64);
        assert_eq!(answer, Some(expected), "each ran once");
    }
    assert_eq!(hello.snapshot().waiters, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b35_wait_4_calls_to_a_process_that_is_stopped_beyond_the_grace_end_once_with_peer_gone() {
    let (world, url, hello) = connected(SHORT_GRACE).await;
    let mut link = hello.link("world").unwrap();
    let mut run = hello.event("world", "countdown", &1_000u32).await.unwrap();
    within(run.next()).await.unwrap();
    world.stop();
    let call = tokio::spawn({
        let hello = hello.clone();
        async move { hello.call::<_, u32>("world", "echo", &1u32).await }
    });
    assert_eq!(offline(&mut link).await, OfflineCause::AckTimeout);
    assert_eq!(dropped(&mut link).await, DropCause::GraceEnded);
    assert_eq!(within(call).await.unwrap(), Err(CallError::PeerGone));
    let ended = within(run.response::<Payload>()).await;
    assert_eq!(ended, Err(CallError::PeerGone));
    assert_eq!(hello.snapshot().waiters, 0);
    world.go_on();
    within(hello.connect_patiently("world", &url))
        .await
        .unwrap();
    let again = within(hello.call::<_, u32>("world", "echo", &2u32)).await;
    assert_eq!(again.unwrap(), 2, "both start anew");
    assert_eq!(run.response::<Payload>().await, Err(CallError::PeerGone));
}

/// An App with an event of two chunks, each of which waits to be let go, and so does its end.
struct Job {
    world: App,
    url: String,
    step: Arc<Notify>,
    runs: Arc<AtomicU32>,
    ended: Arc<Notify>,
}

/// Tells of the end of a handler, however it comes.
struct OnDrop(Arc<Notify>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Job {
    async fn start(grace: Duration) -> Self {
        let (step, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let runs = Arc::new(AtomicU32::new(0));
        let (gate, end, count) = (Arc::clone(&step), Arc::clone(&ended), Arc::clone(&runs));
        let world = builder("world", grace)
            .listen("tcp://127.0.0.1:0")
            .unwrap()
            .event("job", move |ctx: EventContext, _: Payload| {
                count.fetch_add(1, Ordering::SeqCst);
                let (gate, guard) = (Arc::clone(&gate), OnDrop(Arc::clone(&end)));
                async move {
                    let _guard = guard;
                    for n in 1..=2u32 {
                        gate.notified().await;
                        ctx.emit(&n).await?;
                    }
                    gate.notified().await;
                    Ok("done")
                }
            })
            .start()
            .await
            .unwrap();
        Self {
            url: world.local_urls()[0].clone(),
            world,
            step,
            runs,
            ended,
        }
    }

    /// `nacp event`, which has had the first chunk and is stopped before the second; the watch saw it go offline.
    async fn stopped_reader(&self) -> (Program, LinkWatch) {
        let mut event = start(&[
            "event",
            "world",
            "job",
            "--json",
            "--id",
            "reader",
            "--heartbeat",
            "off",
            "--ack-timeout",
            "1s",
            "--connect",
            &self.url,
        ]);
        self.step.notify_one();
        event.line(|line| line == r#"{"chunk":1}"#);
        let mut link = self.world.link("reader").unwrap();
        event.stop();
        self.step.notify_one();
        assert_eq!(offline(&mut link).await, OfflineCause::AckTimeout);
        (event, link)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b35_link_8_a_process_that_is_stopped_for_less_than_the_grace_resumes_and_loses_nothing() {
    let job = Job::start(LONG_GRACE).await;
    let (mut event, mut link) = job.stopped_reader().await;
    event.go_on();
    let online = until(&mut link, |status| {
        matches!(status, LinkStatus::Online { .. })
    });
    assert!(
        matches!(
            online.await,
            LinkStatus::Online {
                restarted: false,
                ..
            }
        ),
        "it remembers"
    );
    event.line(|line| line == r#"{"chunk":2}"#);
    job.step.notify_one();
    let ended = event.ended();
    let lines = ended.succeeded().iter();
    let came: Vec<_> = lines
        .filter(|line| !line.contains("link") && !line.contains("request"))
        .collect();
    assert_eq!(
        came,
        [r#"{"chunk":1}"#, r#"{"chunk":2}"#, r#"{"response":"done"}"#]
    );
    assert_eq!(job.runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b35_link_15_a_process_that_is_stopped_beyond_the_grace_learns_once_that_its_call_is_lost()
{
    let job = Job::start(SHORT_GRACE).await;
    let (event, mut link) = job.stopped_reader().await;
    assert_eq!(dropped(&mut link).await, DropCause::GraceEnded);
    // Nobody is left to work for.
    within(job.ended.notified()).await;
    event.go_on();
    let ended = event.ended();
    ended.failed(1, &["world: job: peer-restarted"]);
    let outcomes = ended
        .stdout
        .iter()
        .filter(|line| line.contains("response"))
        .chain(ended.stderr.iter().filter(|line| line.contains("job:")));
    assert_eq!(outcomes.count(), 1, "{ended:#?}");
    assert_eq!(job.runs.load(Ordering::SeqCst), 1, "nothing ran again");
    assert_eq!(job.world.snapshot().serving, 0);
}
