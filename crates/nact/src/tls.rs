//! `tls://host:port`: the TCP transport inside TLS 1.2 or 1.3; and the TLS of `wss://` and `https://`.
//!
//! What it keeps true:
//! - A channel comes only of a verified server certificate; with client roots configured, only of a verified client
//!   certificate too, whose names are the channel's [`Identity`].
//! - A handshake that stalls or fails takes none of the listener's time, and their number is bounded.
//! - A connection that ends without the TLS farewell is a cut, never an orderly end.
//! - A certificate can be replaced while links live.
//!
//! With TLS 1.3 a client has its channel before the server has judged the client's certificate. A refusal
//! (`client-certificate-missing`) then shows at the first receive, not at the dial.

mod certificate;
mod config;
mod handshake;
pub(crate) mod refusal;

use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::accept_pause::AcceptPause;
use crate::channel::{BoxFuture, Channel, Listener, Provider};
use crate::error::{AcceptError, DialError, ListenError};
use crate::options::Options;
use crate::url::Url;
use crate::{stream, tcp};

pub use certificate::Certificate;
pub use config::{TlsConfig, TlsConfigError};
#[cfg(feature = "web")]
pub(crate) use handshake::dial_error;
pub(crate) use handshake::{TlsClient, TlsServer};

#[cfg(doc)]
use crate::identity::Identity;

/// Handshakes under way at most per listener; further connections wait in the system's queue.
pub(crate) const HANDSHAKES_MAX: usize = 256;

/// The TLS transport.
///
/// The default dials with Mozilla's root certificates and cannot listen.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use nact::{Transports, tls::{Certificate, Tls, TlsConfig}};
/// let certificate = Certificate::from_files("server.pem", "server.key")?;
/// let mut transports = Transports::default();
/// transports.register(Tls::new(TlsConfig::default().with_certificate(certificate.clone())));
/// let listener = transports.listen("tls://0.0.0.0:7000").await?;
/// // Later, when the files were renewed; links live on:
/// certificate.reload()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tls {
    config: TlsConfig,
}

impl Tls {
    /// TLS with this configuration.
    pub fn new(config: TlsConfig) -> Self {
        Self { config }
    }
}

impl Provider for Tls {
    fn schemes(&self) -> &[&str] {
        &["tls"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            url.expect_no_path()?;
            let client = TlsClient::new(&self.config, &[]);
            let deadline = tokio::time::Instant::now() + options.connect_timeout;
            let connecting = async {
                let stream = tcp::connect(url, url.expect_port()?, options).await?;
                let remote = tcp::remote(&stream, url)?;
                let (read, write) = tokio::io::split(client.connect(url, stream).await?);
                Ok(stream::channel(read, write, remote, options))
            };
            timeout_at(deadline, connecting)
                .await
                .map_err(|_| DialError::Timeout {
                    url: url.to_string(),
                    limit: options.connect_timeout,
                })?
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        Box::pin(async move {
            url.expect_no_path()?;
            let server = TlsServer::new(&self.config, &[], url)?;
            let (listener, url) = tcp::bind(url, url.expect_port()?, options).await?;
            Ok(Box::new(Listening {
                listener,
                url,
                options: options.clone(),
                pause: AcceptPause::default(),
                server,
                handshakes: JoinSet::new(),
            }) as Box<dyn Listener>)
        })
    }

    fn authorises(&self) -> bool {
        self.config.verifies_clients()
    }
}

struct Listening {
    listener: TcpListener,
    url: Url,
    options: Options,
    pause: AcceptPause,
    server: TlsServer,
    /// Dropped with the listener, and with it what was not finished.
    handshakes: JoinSet<Option<Channel>>,
}

impl Listening {
    /// Takes connections from the system while there is room for handshakes.
    fn poll_connections(&mut self, cx: &mut Context<'_>) -> Result<(), AcceptError> {
        while self.handshakes.len() < HANDSHAKES_MAX && self.pause.poll(cx).is_ready() {
            match self.listener.poll_accept(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => self.pause.after(error, &self.url)?,
                Poll::Ready(Ok((stream, remote))) => {
                    self.pause.reset();
                    let (server, options) = (self.server.clone(), self.options.clone());
                    self.handshakes.spawn(async move {
                        tcp::prepare(&stream, &options).ok()?;
                        let (stream, identity) =
                            server.accept(stream, options.connect_timeout).await?;
                        let (read, write) = tokio::io::split(stream);
                        let channel = stream::channel(read, write, remote.to_string(), &options);
                        Some(channel.with_address(Some(remote)).with_identity(identity))
                    });
                }
            }
        }
        Ok(())
    }
}

impl Listener for Listening {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>> {
        loop {
            self.poll_connections(cx)?;
            match self.handshakes.poll_join_next(cx) {
                Poll::Ready(Some(Ok(Some(channel)))) => return Poll::Ready(Ok(channel)),
                // One that failed made room for another.
                Poll::Ready(Some(_)) => {}
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn local_url(&self) -> Url {
        self.url.clone()
    }
}
