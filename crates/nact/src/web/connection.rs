//! Connections that a dialler makes: TCP, TLS if the scheme wants it, HTTP/1.1 on top.
//!
//! What it keeps true: a connection's task ends with its last user; redirects are not followed, and no other answer is
//! taken for the one that was wanted.

use http::{HeaderValue, Request, Response, header};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use super::{Web, is_secure, path_and_query, port};
use crate::error::DialError;
use crate::options::Options;
use crate::tcp;
use crate::url::{Bracketed, Url};

/// Bytes of an answer's header at most, and of what hyper buffers.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// A byte stream of any kind.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Ends a task when dropped.
pub(super) struct TaskGuard(pub(super) AbortHandle);

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An HTTP connection, to ask over.
pub(super) struct Connection<B> {
    pub(super) requests: SendRequest<B>,
    pub(super) task: TaskGuard,
    pub(super) remote: String,
}

pub(super) fn handshake_error(url: &Url, reason: impl Into<String>) -> DialError {
    DialError::Handshake {
        url: url.to_string(),
        reason: reason.into(),
    }
}

/// Connects. Without a time limit for what comes after TCP.
pub(super) async fn connect<B>(
    web: &Web,
    url: &Url,
    options: &Options,
) -> Result<Connection<B>, DialError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = tcp::connect(url, port(url), options).await?;
    let remote = tcp::remote(&stream, url)?;
    let io: Box<dyn Io> = if is_secure(url) {
        secure(web, url, stream).await?
    } else {
        Box::new(stream)
    };
    let (requests, connection) = Builder::new()
        .max_buf_size(BUFFER_BYTES_MAX)
        .handshake(TokioIo::new(io))
        .await
        .map_err(|_| handshake_error(url, "not-http"))?;
    // How it ends is told by the requests on it.
    let task = tokio::spawn(async move { drop(connection.with_upgrades().await) });
    Ok(Connection {
        requests,
        task: TaskGuard(task.abort_handle()),
        remote,
    })
}

#[cfg(feature = "tls")]
async fn secure(
    web: &Web,
    url: &Url,
    stream: tokio::net::TcpStream,
) -> Result<Box<dyn Io>, DialError> {
    Ok(Box::new(web.tls_client.connect(url, stream).await?))
}

#[cfg(not(feature = "tls"))]
async fn secure(_: &Web, url: &Url, _: tokio::net::TcpStream) -> Result<Box<dyn Io>, DialError> {
    Err(handshake_error(url, "built-without-tls"))
}

/// A request to the URL, with what every request has.
pub(super) fn request(web: &Web, url: &Url) -> Result<http::request::Builder, DialError> {
    let host = match url.port() {
        Some(port) => format!("{}:{port}", Bracketed(url.host())),
        None => Bracketed(url.host()).to_string(),
    };
    let mut builder = Request::builder()
        .uri(path_and_query(url)?)
        .header(header::HOST, host);
    if let Some(bearer) = &web.config.bearer {
        builder = builder.header(header::AUTHORIZATION, HeaderValue::clone(bearer));
    }
    Ok(builder)
}

/// Sends a first request over a fresh connection.
pub(super) async fn ask<B: Body + Send + 'static>(
    connection: &mut Connection<B>,
    url: &Url,
    request: Request<B>,
) -> Result<Response<Incoming>, DialError> {
    connection
        .requests
        .send_request(request)
        .await
        .map_err(|error| {
            let source = std::error::Error::source(&error);
            match source.and_then(|source| source.downcast_ref::<std::io::Error>()) {
                Some(source) => io_error(url, source),
                None if error.is_parse() => handshake_error(url, "not-http"),
                None => handshake_error(url, "connection-cut"),
            }
        })
}

/// An error of a connection that may be TLS's own, told late.
fn io_error(url: &Url, source: &std::io::Error) -> DialError {
    #[cfg(feature = "tls")]
    if let Some(error) = crate::tls::dial_error(url, source) {
        return error;
    }
    DialError::Io {
        url: url.to_string(),
        source: std::io::Error::new(source.kind(), source.to_string()),
    }
}
