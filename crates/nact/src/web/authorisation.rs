//! Who may come in: the hook that is asked before anything else, and the bound on how often one address may ask.
//!
//! What it keeps true: a refused request makes no state; the work that refused requests of one address cause is
//! bounded, and so is the memory that keeps count of it; no token or query is ever printed.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use tokio::time::Instant;

use crate::channel::BoxFuture;
use crate::identity::Identity;

/// Addresses of which refusals are remembered at most.
const ADDRESSES_MAX: usize = 4096;
/// After this long one refusal is forgotten.
const FORGIVENESS: Duration = Duration::from_secs(1);

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

/// Counts refusals per address.
pub(super) struct RefusalLimit {
    refusals_max: u32,
    counts: Mutex<HashMap<IpAddr, Count>>,
}

struct Count {
    refusals: u32,
    since: Instant,
}

impl Count {
    /// Refusals that are not forgotten yet.
    fn current(&self, now: Instant) -> u32 {
        let forgotten = (now - self.since).as_secs() / FORGIVENESS.as_secs();
        self.refusals
            .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }
}

impl RefusalLimit {
    pub(super) fn new(refusals_max: u32) -> Self {
        Self {
            refusals_max,
            counts: Mutex::default(),
        }
    }

    /// False when the address has collected too many.
    pub(super) fn admits(&self, remote: Option<SocketAddr>) -> bool {
        let Some(address) = remote.filter(|_| self.refusals_max > 0) else {
            return true;
        };
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(&network(address.ip()));
        count.is_none_or(|count| count.current(Instant::now()) < self.refusals_max)
    }

    pub(super) fn count(&self, remote: Option<SocketAddr>) {
        let Some(address) = remote.filter(|_| self.refusals_max > 0) else {
            return;
        };
        let (now, address) = (Instant::now(), network(address.ip()));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&address) {
            counts.retain(|_, count| count.current(now) > 0);
            if counts.len() >= ADDRESSES_MAX {
                // So many at once are no single address's doing; this count could not hold them off.
                return;
            }
        }
        let count = counts.entry(address).or_insert(Count {
            refusals: 0,
            since: now,
        });
        *count = Count {
            refusals: count.current(now).saturating_add(1),
            since: now,
        };
    }
}

/// One customer of an IPv6 provider has at least a /64 of addresses.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(bits).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Option<SocketAddr> {
        Some(SocketAddr::new(text.parse().unwrap(), 1))
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_collects_refusals_and_is_forgiven_one_each_second() {
        let (limit, remote) = (RefusalLimit::new(3), address("10.0.0.1"));
        for _ in 0..3 {
            assert!(limit.admits(remote));
            limit.count(remote);
        }
        assert!(!limit.admits(remote));
        assert!(limit.admits(address("10.0.0.2")) && limit.admits(None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(limit.admits(remote));
        limit.count(remote);
        assert!(!limit.admits(remote));
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_of_many_addresses_counts_as_one_and_memory_is_bounded() {
        let limit = RefusalLimit::new(1);
        limit.count(address("2001:db8::1"));
        assert!(!limit.admits(address("2001:db8::ffff:2")));
        assert!(limit.admits(address("2001:db8:0:1::1")));
        for index in 0..2 * ADDRESSES_MAX as u32 {
            limit.count(Some(SocketAddr::new(IpAddr::V4(index.into()), 1)));
        }
        assert_eq!(limit.counts.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
