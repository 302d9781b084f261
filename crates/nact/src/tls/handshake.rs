//! The two sides of a TLS handshake.
//!
//! What it keeps true: a failed handshake has a name, at the dialler as its error, at the listener in the log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::certificate::identity;
use super::config::TlsConfig;
use super::refusal::{advice, reason};
use crate::error::{DialError, ListenError};
use crate::identity::Identity;
use crate::url::{Url, UrlError};

/// Dials TLS.
#[derive(Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// `protocols` are for ALPN, most wanted first.
    pub(crate) fn new(config: &TlsConfig, protocols: &[&[u8]]) -> Self {
        Self(config.client_config(protocols))
    }

    /// Shakes hands over a fresh connection. Without a time limit of its own.
    pub(crate) async fn connect(
        &self,
        url: &Url,
        stream: TcpStream,
    ) -> Result<client::TlsStream<TcpStream>, DialError> {
        let name = ServerName::try_from(url.host().to_owned())
            .map_err(|_| UrlError::new("its host is no name that a certificate can have"))?;
        TlsConnector::from(Arc::clone(&self.0))
            .connect(name, stream)
            .await
            .map_err(|error| failed(url, error))
    }
}

/// The error of a connection, if it is TLS's own.
#[cfg_attr(not(feature = "web"), allow(dead_code))]
pub(crate) fn dial_error(url: &Url, source: &io::Error) -> Option<DialError> {
    let error = tls_error(source)?;
    Some(DialError::Tls {
        url: url.to_string(),
        reason: reason(error),
        detail: format!("{error}{}", advice(error)),
    })
}

fn failed(url: &Url, source: io::Error) -> DialError {
    if let Some(error) = dial_error(url, &source) {
        return error;
    }
    let url = url.to_string();
    match source.kind() {
        io::ErrorKind::UnexpectedEof => DialError::Tls {
            url,
            reason: "tls-handshake-cut",
            detail: "the connection ended during the handshake; is it TLS that listens there?"
                .into(),
        },
        _ => DialError::Io { url, source },
    }
}

fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Accepts TLS.
#[derive(Clone)]
pub(crate) struct TlsServer(Arc<ServerConfig>);

impl TlsServer {
    /// # Errors
    /// There is no certificate to listen with.
    pub(crate) fn new(
        config: &TlsConfig,
        protocols: &[&[u8]],
        url: &Url,
    ) -> Result<Self, ListenError> {
        let config = config.server_config(protocols);
        config.map(Self).ok_or_else(|| ListenError::NoCertificate {
            url: url.to_string(),
        })
    }

    /// Shakes hands over a fresh connection, within `limit`. `None` when it came to nothing, which is logged.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        limit: Duration,
    ) -> Option<(server::TlsStream<TcpStream>, Option<Identity>)> {
        let remote = stream.peer_addr().ok()?;
        let accepting = TlsAcceptor::from(Arc::clone(&self.0)).accept(stream);
        let stream = match timeout(limit, accepting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let reason = tls_error(&error).map_or("tls-handshake-cut", reason);
                tracing::info!(%remote, reason, %error, "a TLS handshake failed");
                return None;
            }
            Err(_) => {
                tracing::info!(%remote, reason = "connect-timeout", "a TLS handshake took too long");
                return None;
            }
        };
        let certificates = stream.get_ref().1.peer_certificates();
        let identity = certificates.and_then(<[_]>::first).map(identity);
        Some((stream, identity))
    }
}
