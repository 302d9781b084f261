//! `ws://`, `wss://`, `http://`, `https://`: WebSocket, and Streamable HTTP for places where only plain HTTP passes.
//!
//! What it keeps true:
//! - One listener serves both on one path (default `/nacp`), whichever scheme it was given: upgrades become WebSocket
//!   channels, other GETs become HTTP sessions. `wss` and `https` do so inside TLS.
//! - Everything that a request can cause is bounded ([`WebLimits`]), and nothing is made before the authorisation hook
//!   has agreed.
//! - Session tokens and bearer tokens are never printed or logged.
//!
//! # Streamable HTTP
//! A GET opens a session: its endless answer is the downlink, preface `01 CF` and then NACT frames. POSTs, one at a
//! time, are the uplink. There is no half-closed session and no resuming of one: when either side ends, both directions
//! end. A sender's [`poll_close`](crate::Sender::poll_close) is done when everything has left.
//!
//! Reasons of its own, at the server: `upload-aborted`, `body-too-large`, `idle-timeout`, `send-buffer-overflow`; at the
//! client: `invalid-http-preface`, `http-session-missing`, `http-get-<status>`, `http-post-<status>`, `connect-timeout`
//! (of a POST too), `send-buffer-overflow`; of a WebSocket dial `websocket-upgrade-<status>` and
//! `websocket-handshake-invalid`. Redirects are such errors. Only who opened a session may post to it: with identities,
//! a stolen token is worth nothing.
//!
//! A reverse proxy in between must not buffer the downlink (nginx heeds the `x-accel-buffering: no` that is sent) and
//! must let it be idle for longer than the heartbeat interval.
//!
//! # Inside another server
//! [`Web::mount`] gives a service for axum and everything else that takes `tower` services:
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let web = nact::web::Web::default();
//! let (service, mut listener) = web.mount(&"https://example.org/nacp".parse()?, &nact::Options::default());
//! let app: axum::Router = axum::Router::new().route_service("/nacp", service);
//! # let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! tokio::spawn(async move { axum::serve(tcp, app).await });
//! let channel = listener.accept().await?;
//! # Ok(()) }
//! ```

mod authorisation;
mod config;
mod connection;
mod http_dial;
mod listener;
mod pipe;
mod service;
mod session;
mod session_sender;
mod websocket_dial;

use std::fmt;

use http::Uri;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::accept_pause::AcceptPause;
use crate::channel::{BoxFuture, Channel, Listener, Provider};
use crate::error::{DialError, ListenError};
use crate::options::Options;
use crate::tcp;
#[cfg(feature = "tls")]
use crate::tls::{TlsClient, TlsServer};
use crate::url::{Url, UrlError};

pub use authorisation::{Authorise, Refusal, RemoteAddress, RequestInfo};
pub use config::{WebConfig, WebLimits};
use listener::{MountedListener, Serving, WebListener};
pub use service::{WebBody, WebService};

/// First bytes of a downlink: NACT version and magic.
const PREFACE: [u8; 2] = [0x01, 0xCF];
const PATH_DEFAULT: &str = "/nacp";
const CONTENT_TYPE: &str = "application/octet-stream";
const SESSION_HEADER: &str = "x-nact-session";
/// WebSocket needs HTTP/1.1, and Streamable HTTP needs no more.
#[cfg(feature = "tls")]
const PROTOCOLS: [&[u8]; 1] = [b"http/1.1"];

/// The web transports.
///
/// The default dials all four schemes, with Mozilla's root certificates, and listens at `ws://` and `http://` for
/// everybody.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transports = nact::Transports::default();
/// let mut listener = transports.listen("http://127.0.0.1:0").await?;
/// let url = listener.local_url().to_string();
/// let websocket = url.replace("http://", "ws://");
/// for url in [url, websocket] {
///     let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
///     near?;
///     far?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Web {
    config: WebConfig,
    #[cfg(feature = "tls")]
    tls_client: TlsClient,
}

impl Default for Web {
    fn default() -> Self {
        Self::new(WebConfig::default())
    }
}

impl Web {
    /// The web transports with this configuration.
    pub fn new(config: WebConfig) -> Self {
        Self {
            #[cfg(feature = "tls")]
            tls_client: TlsClient::new(&config.tls, &PROTOCOLS),
            config,
        }
    }

    /// A service to mount into an HTTP/1.1 server, and the listener that its channels come from. `url` is where the
    /// world finds it, for [`Listener::local_url`] only. When the listener is dropped, the service answers 503 and
    /// leaves existing channels alone.
    ///
    /// The server's own limits on connections, headers and bodies come before those of [`WebLimits`]. Needs a tokio
    /// runtime when requests come.
    pub fn mount(&self, url: &Url, options: &Options) -> (WebService, Box<dyn Listener>) {
        let (service, channels) = WebService::new(self.config.clone(), options.clone(), None);
        let url = url.clone();
        (service, Box::new(MountedListener { url, channels }))
    }

    async fn dial_any(&self, url: &Url, options: &Options) -> Result<Channel, DialError> {
        if matches!(url.scheme(), "ws" | "wss") {
            websocket_dial::dial(self, url, options).await
        } else {
            http_dial::dial(self, url, options).await
        }
    }

    async fn listen_at(&self, url: &Url, options: &Options) -> Result<WebListener, ListenError> {
        if url.query().is_some() {
            return Err(UrlError::new(
                "a listener takes no query; leave out what follows the path",
            )
            .into());
        }
        #[cfg(feature = "tls")]
        let tls = match is_secure(url) {
            true => Some(TlsServer::new(&self.config.tls, &PROTOCOLS, url)?),
            false => None,
        };
        #[cfg(not(feature = "tls"))]
        if is_secure(url) {
            return Err(ListenError::NoCertificate {
                url: url.to_string(),
            });
        }
        let path = path_and_query(url)?.path().to_owned();
        let (listener, url) = tcp::bind(url, port(url), options).await?;
        let (service, channels) =
            WebService::new(self.config.clone(), options.clone(), Some(path.clone()));
        Ok(WebListener {
            listener,
            url: url.with_path(path),
            pause: AcceptPause::default(),
            connections: JoinSet::new(),
            serving: Serving {
                service,
                options: options.clone(),
                limits: self.config.limits.clone(),
                #[cfg(feature = "tls")]
                tls,
            },
            channels,
        })
    }
}

impl fmt::Debug for Web {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Web").field(&self.config).finish()
    }
}

impl Provider for Web {
    fn schemes(&self) -> &[&str] {
        &["ws", "wss", "http", "https"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            let limit = options.connect_timeout;
            let dialled = timeout(limit, self.dial_any(url, options)).await;
            dialled.map_err(|_| DialError::Timeout {
                url: url.to_string(),
                limit,
            })?
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        Box::pin(async move {
            let listener = self.listen_at(url, options).await?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    fn authorises(&self) -> bool {
        self.config.authorisation.is_some()
    }
}

fn is_secure(url: &Url) -> bool {
    matches!(url.scheme(), "wss" | "https")
}

fn port(url: &Url) -> u16 {
    url.port().unwrap_or(if is_secure(url) { 443 } else { 80 })
}

/// What is asked for, as it stands in a request.
fn path_and_query(url: &Url) -> Result<Uri, UrlError> {
    let path = match url.path() {
        "" => PATH_DEFAULT,
        path => path,
    };
    let text = match url.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    // Not repeated in the error: the query may be a secret.
    text.parse().map_err(|_| {
        UrlError::new("its path or query holds characters that must be written as %XX")
    })
}
