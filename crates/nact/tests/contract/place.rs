//! Where a contract test listens, and how it drives a channel by hand.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use bytes::Bytes;
use nact::{Channel, Listener, Options, Outbound, Receiver, SendError, Sender, Transports};

/// A URL to listen at, new for each test, and what must live as long.
pub struct Place {
    pub url: String,
    _directory: Option<tempfile::TempDir>,
}

impl Place {
    pub fn tcp() -> Self {
        Self {
            url: "tcp://localhost:0".into(),
            _directory: None,
        }
    }

    #[cfg(unix)]
    pub fn unix() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            url: format!("unix://{}/a.sock", directory.path().display()),
            _directory: Some(directory),
        }
    }

    pub fn mem() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            url: format!("mem://contract-{}", NEXT.fetch_add(1, Ordering::Relaxed)),
            _directory: None,
        }
    }

    pub async fn listen(&self) -> Box<dyn Listener> {
        Transports::default().listen(&self.url).await.unwrap()
    }

    /// A dialled channel and its accepted other end.
    pub async fn pair(&self) -> (Channel, Channel) {
        self.pair_with(Options::default()).await
    }

    pub async fn pair_with(&self, options: Options) -> (Channel, Channel) {
        let transports = Transports::new(options);
        let mut listener = transports.listen(&self.url).await.unwrap();
        connect(&transports, listener.as_mut()).await
    }
}

pub async fn connect(transports: &Transports, listener: &mut dyn Listener) -> (Channel, Channel) {
    let url = listener.local_url().to_string();
    let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
    (near.unwrap(), far.unwrap())
}

/// A message whose bytes tell where they belong; a third of them in the head.
pub fn message(token: u64, size: usize) -> Outbound {
    let bytes = content(token, size);
    Outbound {
        token,
        head: bytes.slice(..size / 3),
        body: bytes.slice(size / 3..),
    }
}

/// Repeats with a prime period, so that no chunk looks like its neighbour.
pub fn content(token: u64, size: usize) -> Bytes {
    const PERIOD: usize = 4099;
    let period: Vec<u8> = (0..PERIOD.min(size))
        .map(|at| (at as u64 * 31 + at as u64 / 251 + token) as u8)
        .collect();
    let mut bytes = period.repeat(size.div_ceil(PERIOD));
    bytes.truncate(size);
    bytes.into()
}

/// Polls the sender once. `None`: the transport is full.
pub async fn send_once(
    sender: &mut dyn Sender,
    accepted: &mut Vec<u64>,
) -> Option<Result<(), SendError>> {
    poll_fn(|cx| {
        Poll::Ready(match sender.poll_send(cx, accepted) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}

/// Receives until there are `count` messages.
pub async fn receive(receiver: &mut dyn Receiver, count: usize) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while messages.len() < count {
        receiver.receive(&mut messages).await.unwrap();
    }
    messages
}
