//! What only real sockets show: torn frames, futures dropped while the system takes bytes, ends under load. What is
//! waited for is an event or a state; the limit of a wait is far beyond what it takes.

mod support;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use nacp::message::{Meta, decode};
use nact::frame::HEADER_SIZE;
use nact_rig::{Direction, Fate, Frame, Proxy};
use napp::{
    App, CallError, EventContext, Listener, Payload, Shutdown, TransportOptions, Transports,
};
use support::frames::{address, through};
use support::quiet;
use tokio::sync::Semaphore;
use tokio::task::yield_now;

const LIMIT: Duration = Duration::from_secs(60);

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("in time")
}

async fn reached(mut state: impl FnMut() -> bool) {
    within(async {
        while !state() {
            yield_now().await;
        }
    })
    .await;
}

#[track_caller]
fn assert_silent(listener: &mut Listener) {
    let next = pin!(listener.next()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(next.is_pending(), "{next:?}");
}

#[tokio::test]
async fn b02_link_6_a_frame_torn_in_its_header_is_not_carried_into_the_next_connection() {
    const CHUNK: usize = 16 << 10;
    const TORN: usize = 21;
    let transports = || {
        Transports::new(TransportOptions {
            chunk_size: CHUNK,
            ..TransportOptions::default()
        })
    };
    let came = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&came);
    let world = quiet("world").listen("tcp://127.0.0.1:0").unwrap();
    let world = world
        .ability("keep", move |message: Payload| {
            log.lock().unwrap().push(message);
            async move { Ok(()) }
        })
        .start()
        .await
        .unwrap();
    let proxy = Proxy::start(address(&world.local_urls()[0])).await.unwrap();
    let passed = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&passed);
    proxy.judge(Direction::ToTarget, move |frame| {
        let mut log = log.lock().unwrap();
        let chunks = log.iter().filter(|frame: &&Frame| frame.is_chunk()).count();
        // In its header, and on the first connection alone.
        if frame.is_chunk() && chunks == TORN - 1 && frame.connection == 1 {
            return Fate::Torn { after: 17 };
        }
        log.push(frame.clone());
        Fate::Passes
    });
    let hello = quiet("hello")
        .transports(transports())
        .reconnect_backoff(Duration::from_millis(1), Duration::from_millis(10));
    let hello = hello.start().await.unwrap();
    let mut errors = [&world, &hello].map(|app| app.listen("nact:peer:error").unwrap());
    hello.connect("world", &through(&proxy)).await.unwrap();
    // No two places of it are alike, so that a piece at the wrong place shows.
    let large: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_be_bytes).collect();
    let (large, small) = (Payload::bytes(&large), Payload::encode("small").unwrap());
    let keep = |payload| hello.call::<_, ()>("world", "keep", payload);
    let (first, second) = within(async { tokio::join!(keep(&large), keep(&small)) }).await;
    first.unwrap();
    second.unwrap();
    assert!(
        *came.lock().unwrap() == [large, small],
        "each came once, whole, in order"
    );
    errors.iter_mut().for_each(assert_silent);

    let passed = passed.lock().unwrap();
    let (first, second): (Vec<_>, Vec<_>) = passed.iter().partition(|frame| frame.connection == 1);
    assert!(
        second.iter().all(|frame| frame.connection == 2),
        "one cut, one reconnect"
    );
    let whole = first.iter().filter(|frame| frame.is_chunk());
    assert_eq!(whole.count(), TORN - 1);
    let register = decode(&second[0].body).unwrap();
    assert_eq!(register.meta, Meta::Register);
    let mut chunks = second.iter().filter(|frame| frame.is_chunk());
    let again = chunks.next().unwrap().header;
    assert_eq!(again.offset, 0, "it starts again from its beginning");
}

/// Three connections end under a stream: in a header, in the middle of a chunk's bytes, and between two chunks of a
/// message. The reader starts each next one with nothing of the last.
#[tokio::test]
async fn b11_msg_11_no_piece_of_a_message_outlives_its_connection() {
    const CHUNK: usize = 1 << 10;
    /// Four chunks each, and more of them than the three connections before the last let through.
    const MESSAGES: u32 = 200;
    let options = TransportOptions {
        chunk_size: CHUNK,
        ..TransportOptions::default()
    };
    let world = quiet("world").transports(Transports::new(options));
    let world = world.listen("tcp://127.0.0.1:0").unwrap();
    let world = world
        .event("pour", |ctx: EventContext, (): ()| async move {
            for n in 0..MESSAGES {
                ctx.emit(&vec![n; 3 << 10]).await?;
            }
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let proxy = Proxy::start(address(&world.local_urls()[0])).await.unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    proxy.judge(Direction::ToDialler, three_cuts(&seen));
    let hello = quiet("hello")
        .reconnect_backoff(Duration::from_millis(1), Duration::from_millis(10))
        .start()
        .await
        .unwrap();
    let mut errors = [&world, &hello].map(|app| app.listen("nact:peer:error").unwrap());
    hello.connect("world", &through(&proxy)).await.unwrap();
    let mut run = hello.event("world", "pour", &()).await.unwrap();
    for n in 0..MESSAGES {
        let values = within(run.next_as::<Vec<u32>>()).await.unwrap().unwrap();
        assert_eq!(values, vec![n; 3 << 10], "whole, once, in order");
    }
    assert!(within(run.next()).await.is_none());
    within(run.response::<()>()).await.unwrap();
    errors.iter_mut().for_each(assert_silent);
    let seen = seen.lock().unwrap();
    assert_eq!(
        (seen.cuts, seen.first.len()),
        (3, 4),
        "each was dialled anew"
    );
    let mut first = seen.first.iter();
    assert!(first.all(|frame| !frame.is_chunk() && decode(&frame.body).is_ok()));
}

#[derive(Default)]
struct Seen {
    cuts: usize,
    /// The first frame of each connection.
    first: Vec<Frame>,
}

/// Tears a chunk in the middle of its message, the tenth of its connection or a later one: each of the first three
/// connections at another place.
fn three_cuts(seen: &Arc<Mutex<Seen>>) -> impl FnMut(&Frame) -> Fate + use<> {
    let (seen, mut chunks) = (Arc::clone(seen), 0);
    move |frame| {
        let connection = usize::try_from(frame.connection).unwrap();
        let mut seen = seen.lock().unwrap();
        if seen.first.len() < connection {
            seen.first.push(frame.clone());
            chunks = 0;
        }
        chunks += usize::from(frame.is_chunk());
        let body = frame.body.len();
        let after = [17, HEADER_SIZE + body / 2, HEADER_SIZE + body];
        match after.get(connection - 1) {
            Some(&after) if chunks >= 10 && frame.header.offset > 0 && !is_last(frame) => {
                seen.cuts += 1;
                Fate::Torn { after }
            }
            _ => Fate::Passes,
        }
    }
}

fn is_last(frame: &Frame) -> bool {
    frame.header.offset + frame.header.body == frame.header.total
}

/// The receiver has run the request when its ACK and its answer are lost: it comes again, and is not run again.
#[tokio::test]
async fn b04_msg_4_an_ack_that_is_lost_on_the_wire_does_not_run_a_request_twice() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let world = quiet("world").listen("tcp://127.0.0.1:0").unwrap();
    let world = world
        .ability("note", move |n: u32| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(n) }
        })
        .start()
        .await
        .unwrap();
    let proxy = Proxy::start(address(&world.local_urls()[0])).await.unwrap();
    let lost = Arc::new(AtomicUsize::new(0));
    let losses = Arc::clone(&lost);
    let request = Arc::new(Mutex::new(None));
    let asked = Arc::clone(&request);
    proxy.judge(Direction::ToTarget, move |frame| {
        let message = decode(&frame.body).unwrap();
        if let Meta::Request { .. } = message.meta {
            *asked.lock().unwrap() = Some(message.id.to_string());
        }
        Fate::Passes
    });
    proxy.judge(Direction::ToDialler, move |frame| {
        let asked = request.lock().unwrap().clone();
        let about_it = match decode(&frame.body).unwrap().meta {
            Meta::Ack { parent_id, .. } | Meta::Response { parent_id, .. } => {
                asked.is_some_and(|id| id == parent_id)
            }
            _ => false,
        };
        if frame.connection == 1 && about_it {
            losses.fetch_add(1, Ordering::SeqCst);
            return Fate::Lost;
        }
        Fate::Passes
    });
    let hello = quiet("hello")
        .ack_timeout(Duration::from_millis(100))
        .reconnect_backoff(Duration::from_millis(1), Duration::from_millis(10));
    let hello = hello.start().await.unwrap();
    hello.connect("world", &through(&proxy)).await.unwrap();
    let answer = within(hello.call::<_, u32>("world", "note", &7u32)).await;
    assert_eq!(answer.unwrap(), 7);
    assert_eq!(lost.load(Ordering::SeqCst), 2, "the ACK and the answer");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// Pseudo-random numbers: the same run each time, but for what the system does.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        // Xorshift; its low bits are good enough here.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

async fn yields(count: u64) {
    for _ in 0..count {
        yield_now().await;
    }
}

/// Whether it was done before it was dropped.
async fn drop_at_random(hello: &App, dice: &mut Dice, large: &Payload) -> bool {
    // Mostly too short for an answer, so that what is dropped is anywhere; at times long enough.
    let patience = if dice.below(8) > 0 { 40 } else { 4_000 };
    let patience = yields(dice.below(patience));
    match dice.below(8) {
        0 => tokio::select! {
            length = hello.call::<_, usize>("world", "length", large) => length.is_ok(),
            () = patience => false,
        },
        1..4 => tokio::select! {
            double = hello.call::<_, u32>("world", "double", &1u32) => double.is_ok(),
            () = patience => false,
        },
        _ => {
            let mut is_read = false;
            let read = async {
                let mut run = hello.event("world", "tick", &u32::MAX).await?;
                while run.next().await.is_some() {
                    is_read = true;
                }
                Ok::<_, CallError>(())
            };
            tokio::select! {
                _ = read => {}
                () = patience => {}
            }
            is_read
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b56_wait_4_ten_thousand_futures_dropped_over_tcp_tear_nothing_and_leak_nothing() {
    const DROPS: u64 = 10_000;
    const TASKS: u64 = 4;
    let world = quiet("world").listen("tcp://127.0.0.1:0").unwrap();
    let world = world
        .ability("double", |n: u32| async move { Ok(2 * n) })
        .ability(
            "length",
            |message: Payload| async move { Ok(message.len()) },
        )
        .event("tick", |ctx: EventContext, to: u32| async move {
            for n in 0..to {
                ctx.emit(&n).await?;
            }
            Ok(())
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    let mut errors = [&world, &hello].map(|app| app.listen("nact:peer:*").unwrap());
    hello
        .connect("world", &world.local_urls()[0])
        .await
        .unwrap();
    for listener in &mut errors {
        let connect = within(listener.next()).await.unwrap();
        assert_eq!(&*connect.name, "nact:peer:connect");
    }
    let tasks: Vec<_> = (1..=TASKS)
        .map(|seed| {
            let hello = hello.clone();
            tokio::spawn(async move {
                let mut dice = Dice(seed << 32 | 0x9e37_79b9);
                let large = Payload::bytes(&[7; 100 << 10]);
                let mut done = 0;
                for _ in 0..DROPS / TASKS {
                    done += u64::from(drop_at_random(&hello, &mut dice, &large).await);
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += within(task).await.unwrap();
    }
    assert!(
        (DROPS / 200..DROPS - DROPS / 200).contains(&done),
        "both happen often: {done} were done in time"
    );
    for n in 0..100u32 {
        let double = within(hello.call::<_, u32>("world", "double", &n)).await;
        assert_eq!(double.unwrap(), 2 * n);
    }
    reached(|| {
        let (ours, theirs) = (hello.snapshot(), world.snapshot());
        (ours.waiters, ours.messages, theirs.serving, theirs.messages) == (0, 0, 0, 0)
    })
    .await;
    errors.iter_mut().for_each(assert_silent);
}

#[tokio::test]
async fn term_2_drain_under_load_delivers_every_response() {
    const CALLS: usize = 200;
    const SIZE: usize = 256 << 10;
    let (gate, came) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (open, count) = (Arc::clone(&gate), Arc::clone(&came));
    let world = quiet("world").listen("tcp://127.0.0.1:0").unwrap();
    let world = world
        .ability("fill", move |n: u8| {
            let open = Arc::clone(&open);
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                let _entered = open.acquire().await?;
                Ok(Payload::bytes(&vec![n; SIZE]))
            }
        })
        .start()
        .await
        .unwrap();
    let hello = quiet("hello").start().await.unwrap();
    hello
        .connect("world", &world.local_urls()[0])
        .await
        .unwrap();
    let calls: Vec<_> = (0..CALLS)
        .map(|n| {
            let hello = hello.clone();
            tokio::spawn(async move { hello.call::<_, Payload>("world", "fill", &n).await })
        })
        .collect();
    reached(|| came.load(Ordering::SeqCst) == CALLS).await;
    gate.add_permits(CALLS);
    reached(|| world.snapshot().serving == 0).await;
    let left = world.snapshot().messages;
    assert!(left > 0, "more than the sockets hold is under way");
    let undelivered = within(world.shutdown(Shutdown::Drain(LIMIT))).await;
    assert_eq!(undelivered, []);
    for (n, call) in calls.into_iter().enumerate() {
        let filled = within(call).await.unwrap().unwrap();
        let n = u8::try_from(n).unwrap();
        assert!(filled == Payload::bytes(&vec![n; SIZE]), "call {n}");
    }
}
