//! The proxy between two plain sockets: what passes, what does not, and where.

use super::*;
use nact::frame::{Header, PacketId};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

async fn dial(proxy: &Proxy) -> io::Result<TcpStream> {
    match proxy.local() {
        Place::Tcp(address) => TcpStream::connect(address).await,
        #[cfg(unix)]
        Place::Unix(path) => panic!("not TCP: {path:?}"),
    }
}

/// A proxy, and both ends of a connection through it.
async fn connected() -> (Proxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let near = dial(&proxy).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    (proxy, near, far)
}

async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn bytes_and_ends_pass_both_ways() {
    let (proxy, mut near, mut far) = connected().await;
    near.write_all(b"there").await.unwrap();
    assert_eq!(read(&mut far, 5).await, b"there");
    far.write_all(b"back").await.unwrap();
    assert_eq!(read(&mut near, 4).await, b"back");
    near.shutdown().await.unwrap();
    assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
    far.write_all(b"!").await.unwrap(); // half-closed is not closed
    assert_eq!(read(&mut near, 1).await, b"!");
    assert_eq!(
        proxy.progress(Direction::ToDialler),
        Progress {
            forwarded: 5,
            held: 0
        }
    );
}

#[tokio::test]
async fn a_cut_is_a_reset_for_both_sides() {
    let (proxy, mut near, mut far) = connected().await;
    proxy.cut();
    for stream in [&mut near, &mut far] {
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn a_cut_hits_the_byte_that_was_meant() {
    let (proxy, mut near, mut far) = connected().await;
    near.write_all(b"1").await.unwrap();
    read(&mut far, 1).await;
    proxy.cut_after(Direction::ToTarget, 10);
    near.write_all(&[7; 4]).await.unwrap();
    assert_eq!(read(&mut far, 4).await, [7; 4]);
    near.write_all(&[8; 100]).await.unwrap();
    proxy.cuts(1).await;
    assert_eq!(proxy.progress(Direction::ToTarget).forwarded, 11);
    assert!(near.read(&mut [0; 8]).await.is_err());
}

#[tokio::test]
async fn a_black_hole_holds_bytes_and_ends_back_and_then_lets_them_go() {
    let (proxy, mut near, mut far) = connected().await;
    proxy.set_both(Condition::BlackHole);
    near.write_all(b"late").await.unwrap();
    drop(near);
    proxy
        .until(Direction::ToTarget, |progress| progress.held == 4)
        .await;
    assert_eq!(proxy.progress(Direction::ToTarget).forwarded, 0);
    proxy.set_both(Condition::Open);
    assert_eq!(read(&mut far, 4).await, b"late");
    assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn unix_sockets_pass_and_are_cut_too() {
    let dir = tempfile::tempdir().unwrap();
    let (there, here) = (dir.path().join("there"), dir.path().join("here"));
    let listener = tokio::net::UnixListener::bind(&there).unwrap();
    let proxy = Proxy::between(&Place::Unix(here.clone()), Place::Unix(there))
        .await
        .unwrap();
    let mut near = tokio::net::UnixStream::connect(here).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    proxy.cut_after(Direction::ToTarget, 3);
    near.write_all(b"there").await.unwrap();
    let mut came = Vec::new();
    let _ = far.read_to_end(&mut came).await; // an end or a reset, as the system has it
    assert_eq!(came, b"the");
}

#[tokio::test]
async fn one_direction_can_be_bad_alone() {
    let (proxy, mut near, mut far) = connected().await;
    proxy.set(Direction::ToTarget, Condition::BlackHole);
    far.write_all(b"x").await.unwrap();
    assert_eq!(read(&mut near, 1).await, b"x");
}

#[tokio::test]
async fn slow_and_late_take_their_time_and_lose_nothing() {
    let (proxy, mut near, mut far) = connected().await;
    let sent: Vec<u8> = (0..=255).cycle().take(4_000).collect();
    proxy.set(
        Direction::ToTarget,
        Condition::Slow {
            bytes_per_s: 40_000,
        },
    );
    let start = Instant::now();
    near.write_all(&sent).await.unwrap();
    assert_eq!(read(&mut far, sent.len()).await, sent);
    assert!(
        start.elapsed() >= Duration::from_millis(90),
        "{:?}",
        start.elapsed()
    );

    let delay = Duration::from_millis(50);
    proxy.set(Direction::ToTarget, Condition::Late { delay });
    let start = Instant::now();
    near.write_all(b"x").await.unwrap();
    read(&mut far, 1).await;
    assert!(start.elapsed() >= delay);
}

#[tokio::test]
async fn nobody_at_the_target_is_a_reset() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let target = listener.local_addr().unwrap();
    drop(listener);
    let proxy = Proxy::start(target).await.unwrap();
    let mut near = dial(&proxy).await.unwrap();
    assert!(near.read(&mut [0; 8]).await.is_err());
}

#[tokio::test]
async fn split_bytes_come_in_pieces_and_lose_nothing() {
    let (proxy, mut near, mut far) = connected().await;
    proxy.set(Direction::ToTarget, Condition::Split { bytes: 3 });
    let sent: Vec<u8> = (0..=255).collect();
    near.write_all(&sent).await.unwrap();
    let mut came = Vec::new();
    let mut pieces = 0;
    while came.len() < sent.len() {
        pieces += usize::from(far.read_buf(&mut came).await.unwrap() > 0);
    }
    assert_eq!(came, sent);
    assert!(pieces > 1, "one piece");
}

fn frame(packet: u8, offset: u32, total: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        packet: PacketId([packet; 16]),
        offset,
        total,
        body: body.len() as u32,
    };
    [&header.encode()[..], body].concat()
}

#[tokio::test]
async fn frames_pass_are_lost_and_are_torn_as_they_are_judged() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    proxy.judge(Direction::ToTarget, move |frame| {
        let said = (frame.connection, frame.header.packet.0[0], frame.is_chunk());
        log.lock().unwrap().push(said);
        match said.1 {
            2 => Fate::Lost,
            4 => Fate::Torn { after: 5 },
            _ => Fate::Passes,
        }
    });
    let mut near = dial(&proxy).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let frames = [
        frame(1, 0, 3, b"one"),
        frame(2, 0, 6, b"tw"),
        frame(2, 2, 6, b"o..."),
        frame(3, 0, 5, b"three"),
        frame(4, 0, 4, b"four"),
    ];
    // In pieces that are no frames.
    for piece in frames.concat().chunks(7) {
        near.write_all(piece).await.unwrap();
    }
    let mut came = Vec::new();
    let _ = far.read_to_end(&mut came).await; // a reset
    let torn = &frames[4][..5];
    assert_eq!(came, [&frames[0][..], &frames[3], torn].concat());
    assert!(near.read(&mut [0; 8]).await.is_err());
    let parts = [
        (1, 1, false),
        (1, 2, true),
        (1, 2, true),
        (1, 3, false),
        (1, 4, false),
    ];
    assert_eq!(*seen.lock().unwrap(), parts);
    let mut near = dial(&proxy).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    near.write_all(&frames[0]).await.unwrap();
    assert_eq!(read(&mut far, frames[0].len()).await, frames[0]);
    assert_eq!(seen.lock().unwrap().last(), Some(&(2, 1, false)));
    near.shutdown().await.unwrap();
    assert_eq!(
        far.read(&mut [0; 8]).await.unwrap(),
        0,
        "an end between two frames passes"
    );
}
