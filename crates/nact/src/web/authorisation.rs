//! Who may come in: the hook that is asked before anything else.
//!
//! What it keeps true: a refused request makes no state; no token or query is ever printed.

use std::fmt;
use std::net::SocketAddr;

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, header};

use crate::channel::BoxFuture;
use crate::identity::Identity;

/// The address a request came from. A server that mounts the service puts it into the request's extensions, if it
/// wants the hook to know it and refusals to be limited. (This crate's own listener does.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAddress(pub SocketAddr);

/// What the authorisation hook may look at.
///
/// `Debug` writes neither headers nor query.
pub struct RequestInfo {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    remote: Option<SocketAddr>,
    certificate: Option<Identity>,
}

impl RequestInfo {
    pub(super) fn new(parts: &Parts) -> Self {
        Self {
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            headers: parts.headers.clone(),
            remote: remote(parts),
            certificate: parts.extensions.get::<Identity>().cloned(),
        }
    }

    /// `GET`, `POST`, or whatever was asked.
    pub fn method(&self) -> &str {
        self.method.as_str()
    }

    /// The path asked for.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// What follows `?`. It may be a secret.
    pub fn query(&self) -> Option<&str> {
        self.uri.query()
    }

    /// The first header of this name, if it is text. Names in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The token of `Authorization: Bearer`.
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self
            .header(header::AUTHORIZATION.as_str())?
            .split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim_start_matches(' '))
    }

    /// Where it came from: the last proxy, if there are any.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.remote
    }

    /// The verified certificate of the client, with mutual TLS.
    pub fn certificate(&self) -> Option<&Identity> {
        self.certificate.as_ref()
    }
}

impl fmt::Debug for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestInfo")
            .field("method", &self.method)
            .field("path", &self.uri.path())
            .field("remote", &self.remote)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

pub(super) fn remote(parts: &Parts) -> Option<SocketAddr> {
    let RemoteAddress(address) = parts.extensions.get()?;
    Some(*address)
}

/// The same as text for people.
pub(super) fn remote_text(remote: Option<SocketAddr>) -> String {
    remote.map_or_else(|| "a web client".into(), |address| address.to_string())
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing proves who asks: 401.
    Unauthorised,
    /// Who asks may not come in: 403.
    Forbidden,
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::Unauthorised => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
        }
    }
}

/// An authorisation hook that may wait, for a database or another service.
///
/// ```
/// use nact::{BoxFuture, Identity, web::{Authorise, Refusal, RequestInfo, WebConfig}};
/// struct Directory;
/// impl Authorise for Directory {
///     fn authorise<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Result<Option<Identity>, Refusal>> {
///         Box::pin(async move {
///             let token = request.bearer().ok_or(Refusal::Unauthorised)?;
///             tokio::task::yield_now().await; // ask somebody
///             if token == "good" { Ok(Some(Identity::new("reports"))) } else { Err(Refusal::Forbidden) }
///         })
///     }
/// }
/// let config = WebConfig::default().with_async_authorisation(Directory);
/// ```
pub trait Authorise: Send + Sync {
    /// Decides on a request. When the connection goes meanwhile, the future is dropped.
    ///
    /// # Errors
    /// The request is refused.
    fn authorise<'a>(
        &'a self,
        request: &'a RequestInfo,
    ) -> BoxFuture<'a, Result<Option<Identity>, Refusal>>;
}
