//! A connection that carries a megabyte a second, and a message that takes twenty seconds of it. Time is virtual.

mod support;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nact::{
    AcceptError, BoxFuture, Channel, DialError, ListenError, Listener, Options, Provider,
    Transports, Url, stream,
};
use napp::{App, Builder, EventContext, LinkWatch, Payload};
use support::{is_online, within};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, ReadHalf};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// What the connection holds of one direction, as a system's buffers do.
const PIPE_BYTES: usize = 32 << 10;
/// So much passes at once, then as many microseconds nothing.
const PIECE_BYTES: usize = 4_000;

/// Reads a byte per microsecond.
struct Throttled {
    inner: ReadHalf<DuplexStream>,
    next: Pin<Box<Sleep>>,
}

impl AsyncRead for Throttled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.next.as_mut().poll(cx));
        let mut piece = [0; PIECE_BYTES];
        let limit = PIECE_BYTES.min(buffer.remaining());
        let mut piece = ReadBuf::new(&mut piece[..limit]);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece))?;
        buffer.put_slice(piece.filled());
        let pause = Duration::from_micros(piece.filled().len() as u64);
        self.next.as_mut().reset(Instant::now() + pause);
        Poll::Ready(Ok(()))
    }
}

fn channel(end: DuplexStream, options: &Options) -> Channel {
    let (inner, writer) = tokio::io::split(end);
    let next = Box::pin(sleep_until(Instant::now()));
    stream::channel(Throttled { inner, next }, writer, "a slow one", options)
}

/// The provider of `slow://`: one listener, whatever its name.
#[derive(Clone, Default)]
struct Slow(Arc<Mutex<Option<mpsc::Sender<DuplexStream>>>>);

impl Slow {
    fn transports(&self) -> Transports {
        let mut transports = Transports::default();
        transports.register(self.clone());
        transports
    }
}

impl Provider for Slow {
    fn schemes(&self) -> &[&str] {
        &["slow"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            let door = self.0.lock().unwrap().clone();
            door.and_then(|door| door.try_send(far).ok())
                .map(|()| channel(near, options))
                .ok_or_else(|| DialError::Refused {
                    url: url.to_string(),
                })
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        let (door, visitors) = mpsc::channel(1);
        *self.0.lock().unwrap() = Some(door);
        let listening = Listening {
            visitors,
            url: url.clone(),
            options: options.clone(),
        };
        Box::pin(async move { Ok(Box::new(listening) as Box<dyn Listener>) })
    }
}

struct Listening {
    visitors: mpsc::Receiver<DuplexStream>,
    url: Url,
    options: Options,
}

impl Listener for Listening {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>> {
        let visitor = ready!(self.visitors.poll_recv(cx)).ok_or(AcceptError::Closed)?;
        Poll::Ready(Ok(channel(visitor, &self.options)))
    }

    fn local_url(&self) -> Url {
        self.url.clone()
    }
}

/// With the times of the scenario: an ACK within 200 ms, and the answer to a beat within 300 ms.
fn strict(id: &str) -> Builder {
    App::builder(id)
        .ack_timeout(Duration::from_millis(200))
        .heartbeat_interval(Some(Duration::from_millis(300)))
}

/// Fails if the link was ever anything but online, until two seconds from now.
async fn assert_always_online(link: &mut LinkWatch) {
    let quiet = Duration::from_secs(2);
    while let Ok(status) = tokio::time::timeout(quiet, link.next()).await {
        let status = status.expect("the App lives");
        assert!(is_online(&status), "{status:?}");
    }
}

/// The sender of the large message is a Gateway, so that another App's messages share its connection.
#[tokio::test(start_paused = true)]
async fn b37_hb_7_msg_2_twenty_megabytes_starve_neither_heartbeats_nor_acks_nor_another_app() {
    let slow = Slow::default();
    let sender = strict("sender")
        .gateway(true)
        .transports(slow.transports())
        .listen("slow://sender")
        .unwrap()
        .listen("mem://sender")
        .unwrap();
    let sender = sender.start().await.unwrap();
    let receiver = strict("receiver")
        .transports(slow.transports())
        .ability("double", |n: u32| async move { Ok(2 * n) })
        .event("keep", |ctx: EventContext, (): ()| async move {
            let mut signals = ctx.signals();
            ctx.emit(&"ready").await?;
            let signal = signals.next().await.expect("one comes");
            Ok(signal.payload)
        });
    let receiver = receiver.start().await.unwrap();
    receiver.connect("sender", "slow://sender").await.unwrap();
    let other = strict("other").start().await.unwrap();
    other.connect("sender", "mem://sender").await.unwrap();
    let mut links = [
        sender.link("receiver").unwrap(),
        receiver.link("sender").unwrap(),
        other.link("receiver").unwrap(),
    ];

    let mut run = sender.event("receiver", "keep", &()).await.unwrap();
    within(run.next()).await.unwrap();
    let large: Vec<u8> = (0..5u32 << 20).flat_map(u32::to_be_bytes).collect();
    let large = Payload::bytes(&large);
    let start = Instant::now();
    let small = async {
        sleep(Duration::from_secs(1)).await;
        let asked = Instant::now();
        let answer = other.call::<_, u32>("receiver", "double", &21u32).await;
        (answer.unwrap(), asked.elapsed())
    };
    let (sent, (answer, took)) = within(async { tokio::join!(run.signal(&large), small) }).await;
    assert!(sent.unwrap(), "ACKed");
    let seconds = start.elapsed().as_secs();
    assert!((20..30).contains(&seconds), "after {seconds} s");
    assert_eq!(answer, 42);
    assert!(took < Duration::from_millis(500), "{took:?}");
    let kept = within(run.response::<Payload>()).await.unwrap();
    assert!(kept == large, "whole");
    for link in &mut links {
        assert_always_online(link).await;
    }
}
