//! Where a contract test listens, and how it drives a channel by hand.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use bytes::Bytes;
use nact::{Channel, Listener, Options, Outbound, Receiver, SendError, Sender, Transports};

/// A URL to listen at, new for each test, and what must live as long.
pub struct Place {
    pub url: String,
    /// What the end of the two at once may be called, when the remote goes in the middle of a message.
    pub cut_reasons: &'static [&'static str],
    /// What a sender may say whose remote is gone.
    pub gone_reasons: &'static [&'static str],
    /// What the default transports lack: certificates.
    #[cfg(all(feature = "tls", feature = "web"))]
    secure: Option<(nact::tls::Tls, nact::web::Web)>,
    _directory: Option<tempfile::TempDir>,
}

impl Place {
    fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            cut_reasons: &["connection-cut"],
            gone_reasons: &["connection-lost"],
            #[cfg(all(feature = "tls", feature = "web"))]
            secure: None,
            _directory: None,
        }
    }

    pub fn tcp() -> Self {
        Self::at("tcp://localhost:0")
    }

    #[cfg(feature = "web")]
    pub fn ws() -> Self {
        Self::at("ws://localhost:0")
    }

    #[cfg(feature = "web")]
    pub fn http() -> Self {
        Self::http_at("http://localhost:0")
    }

    /// A POST that breaks off, and one that comes too late, have names of their own.
    #[cfg(feature = "web")]
    fn http_at(url: impl Into<String>) -> Self {
        Self {
            cut_reasons: &["connection-cut", "upload-aborted"],
            gone_reasons: &["connection-lost", "http-post-404"],
            ..Self::at(url)
        }
    }

    #[cfg(all(feature = "tls", feature = "web"))]
    pub fn secure(scheme: &str) -> Self {
        use nact::tls::{Certificate, Tls, TlsConfig};
        use nact::web::{Web, WebConfig};
        let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let tls = TlsConfig::default()
            .with_certificate(Certificate::from_pem(&chain, &key).unwrap())
            .with_roots_pem(&chain)
            .unwrap();
        let web = Web::new(WebConfig::default().with_tls(tls.clone()));
        Self {
            secure: Some((Tls::new(tls), web)),
            ..match scheme {
                "https" => Self::http_at("https://localhost:0"),
                _ => Self::at(format!("{scheme}://localhost:0")),
            }
        }
    }

    #[cfg(unix)]
    pub fn unix() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("unix://{}/a.sock", directory.path().display());
        Self {
            _directory: Some(directory),
            ..Self::at(url)
        }
    }

    pub fn mem() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self::at(format!(
            "mem://contract-{}",
            NEXT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    pub fn transports(&self) -> Transports {
        self.transports_with(Options::default())
    }

    pub fn transports_with(&self, options: Options) -> Transports {
        #[cfg_attr(not(all(feature = "tls", feature = "web")), allow(unused_mut))]
        let mut transports = Transports::new(options);
        #[cfg(all(feature = "tls", feature = "web"))]
        if let Some((tls, web)) = self.secure.clone() {
            transports.register(tls);
            transports.register(web);
        }
        transports
    }

    pub async fn listen(&self) -> Box<dyn Listener> {
        self.transports().listen(&self.url).await.unwrap()
    }

    /// A dialled channel and its accepted other end.
    pub async fn pair(&self) -> (Channel, Channel) {
        self.pair_with(Options::default()).await
    }

    pub async fn pair_with(&self, options: Options) -> (Channel, Channel) {
        let transports = self.transports_with(options);
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
