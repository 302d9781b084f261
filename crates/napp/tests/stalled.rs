//! A peer that stops reading, on a real socket and in a process of its own: its memory is measured.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::time::Duration;

use nacp::message::Meta;
use napp::{App, LinkStatus, OfflineCause, Payload, Shutdown, SignalKind, Value};
use support::frames::RawPeer;
use tokio::task::yield_now;

const LIMIT: Duration = Duration::from_secs(60);
const NOTIFIES: usize = 20_000;
const SIZE: usize = 64 << 10;
const QUEUE: u64 = 8 << 20;

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

/// Bytes of memory that this process uses; `None` where the system does not tell.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

fn reason(event: &napp::BusEvent) -> String {
    let says = event.decode::<Value>().unwrap();
    says.get("reason")
        .and_then(Value::as_str)
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn b42_cap_2_hb_3_a_peer_that_stops_reading_costs_bounded_memory_and_is_given_up() {
    let world = App::builder("world")
        .listen("tcp://127.0.0.1:0")
        .unwrap()
        .queue_bytes_max(QUEUE)
        // Also the events that a listener may leave unread, each with its message.
        .queue_count_max(QUEUE as usize / SIZE)
        .heartbeat_interval(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    let mut warnings = world.listen("nacp:internal:backlog:warning").unwrap();
    let mut raw = RawPeer::register("raw", "world", &world.local_urls()[0]).await;
    let noise = BTreeMap::from([("targetSubName", "noise")]);
    raw.ask(Meta::Subscribe, &Payload::encode(&noise).unwrap())
        .await;
    let mut link = world.link("raw").unwrap();

    // From here on it reads nothing, and keeps its socket.
    let before = resident();
    let mut taken = 0;
    for _ in 0..NOTIFIES {
        // A payload of its own each time: what is kept costs memory.
        let chunk = Payload::bytes(&[7; SIZE]);
        taken += world.emit("noise", &chunk).unwrap();
        yield_now().await;
    }
    let grown = resident().zip(before);
    let grown = grown.map(|(after, before)| after.saturating_sub(before));
    assert!(
        grown.is_none_or(|bytes| bytes < 6 * QUEUE),
        "{grown:?} bytes more"
    );
    let snapshot = world.snapshot();
    assert!(snapshot.backlog.bytes <= QUEUE, "{:?}", snapshot.backlog);
    // The system's buffers take some, once.
    assert!(taken * SIZE < 64 << 20, "{taken} were taken");

    let first = within(warnings.next()).await.unwrap();
    assert_eq!(reason(&first), "notify-dropped");
    let signals: Vec<_> = (0..10u32)
        .map(|n| {
            let world = world.clone();
            tokio::spawn(async move {
                let sent = world.signal_to("raw", "nothing", SignalKind::Normal, Some(&n));
                sent.await
            })
        })
        .collect();
    let mut reported = 1;
    loop {
        let event = within(warnings.next()).await.unwrap();
        reported += 1;
        if reason(&event) == "notify-evicted" {
            break; // a signal takes the place of a notify
        }
    }
    let cause = loop {
        if let LinkStatus::Offline { cause, .. } = within(link.next()).await.unwrap() {
            break cause;
        }
    };
    assert_eq!(cause, OfflineCause::HeartbeatMissed);
    assert!(world.snapshot().backlog.bytes <= QUEUE);
    world.shutdown(Shutdown::Now).await;
    while warnings.next().await.is_some() {
        reported += 1;
    }
    let refused = NOTIFIES - taken;
    let told = reported + usize::try_from(warnings.dropped()).unwrap();
    assert!(told >= refused, "{told} reports of {refused} refusals");
    for signal in signals {
        let sent = within(signal).await.unwrap();
        assert!(!sent.unwrap_or(false), "none was delivered");
    }
    drop(raw);
}
