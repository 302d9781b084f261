//! Accepts web channels: at an address of its own, or from a service that is mounted elsewhere.
//!
//! What it keeps true: handshakes and requests are served beside the accepting, bounded in number and time; a dropped
//! listener frees its address at once and leaves its channels alone. New connections are taken only while somebody
//! accepts, those that bring an HTTP session's POSTs included.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use http::{Extensions, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::RemoteAddress;
use super::config::WebLimits;
use super::connection::Io;
use super::service::WebService;
use super::session::ConnectionCut;
use crate::accept_pause::AcceptPause;
use crate::channel::{Channel, Listener};
use crate::error::AcceptError;
use crate::options::Options;
use crate::tcp;
#[cfg(feature = "tls")]
use crate::tls::TlsServer;
use crate::url::Url;

/// More headers than any client sends.
const HEADERS_MAX: usize = 64;
/// hyper's own lower bound.
const HEADER_BYTES_MIN: usize = 8 * 1024;

/// Listens at an address.
pub(super) struct WebListener {
    pub(super) listener: TcpListener,
    pub(super) url: Url,
    pub(super) pause: AcceptPause,
    pub(super) connections: JoinSet<()>,
    pub(super) serving: Serving,
    pub(super) channels: mpsc::Receiver<Channel>,
}

/// What it takes to serve a connection.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) service: WebService,
    pub(super) options: Options,
    pub(super) limits: WebLimits,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<TlsServer>,
}

impl Serving {
    async fn serve(self, stream: TcpStream, remote: RemoteAddress) {
        if tcp::prepare(&stream, &self.options).is_err() {
            return;
        }
        let mut extensions = Extensions::new();
        extensions.insert(remote);
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let limit = self.options.connect_timeout;
            if let Some((stream, identity)) = tls.accept(stream, limit).await {
                identity.map(|identity| extensions.insert(identity));
                self.serve_http(Box::new(stream), extensions).await;
            }
            return;
        }
        self.serve_http(Box::new(stream), extensions).await;
    }

    async fn serve_http(self, stream: Box<dyn Io>, mut extensions: Extensions) {
        let cut = ConnectionCut::default();
        extensions.insert(cut.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().extend(extensions.clone());
            let service = self.service.clone();
            async move { Ok::<_, Infallible>(service.respond(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(self.limits.header_bytes_max.max(HEADER_BYTES_MIN))
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let (mut connection, mut cut) = (pin!(connection), pin!(cut.0.notified()));
        std::future::poll_fn(|cx| {
            if cut.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            // How a connection ends is told by its sessions.
            connection.as_mut().poll(cx).map(drop)
        })
        .await;
    }
}

impl WebListener {
    /// Takes connections from the system while there is room.
    fn poll_connections(&mut self, cx: &mut Context<'_>) -> Result<(), AcceptError> {
        loop {
            while let Poll::Ready(Some(_)) = self.connections.poll_join_next(cx) {}
            let has_room = self.connections.len() < self.serving.limits.connections_max.max(2);
            if !has_room || self.pause.poll(cx).is_pending() {
                return Ok(());
            }
            match self.listener.poll_accept(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => self.pause.after(error, &self.url)?,
                Poll::Ready(Ok((stream, remote))) => {
                    self.pause.reset();
                    let serving = self.serving.clone();
                    self.connections
                        .spawn(serving.serve(stream, RemoteAddress(remote)));
                }
            }
        }
    }
}

impl Listener for WebListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>> {
        self.poll_connections(cx)?;
        let channel = std::task::ready!(self.channels.poll_recv(cx));
        Poll::Ready(channel.ok_or(AcceptError::Closed))
    }

    fn local_url(&self) -> Url {
        self.url.clone()
    }
}

impl Drop for WebListener {
    fn drop(&mut self) {
        // They carry channels, which outlive their listener.
        self.connections.detach_all();
    }
}

/// Accepts what a mounted service brings.
pub(super) struct MountedListener {
    pub(super) url: Url,
    pub(super) channels: mpsc::Receiver<Channel>,
}

impl Listener for MountedListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>> {
        let channel = std::task::ready!(Pin::new(&mut self.channels).poll_recv(cx));
        Poll::Ready(channel.ok_or(AcceptError::Closed))
    }

    fn local_url(&self) -> Url {
        self.url.clone()
    }
}
