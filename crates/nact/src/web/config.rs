//! What the web transports are told: limits, tokens, hooks, certificates.
//!
//! What it keeps true: every limit has a default that is safe on the open internet; nothing here prints a secret.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::authorisation::{Authorise, Refusal, RequestInfo};
use crate::channel::BoxFuture;
use crate::identity::Identity;
#[cfg(feature = "tls")]
use crate::tls::TlsConfig;
use crate::url::UrlError;

/// Limits of the web transports, beside those of [`Options`](crate::Options).
///
/// ```
/// let limits = nact::web::WebLimits { sessions_max: 64, ..nact::web::WebLimits::default() };
/// assert_eq!(limits.idle_timeout.as_secs(), 120);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebLimits {
    /// Server: HTTP sessions at once; beyond, GET gets 503. Default 1,024.
    pub sessions_max: usize,
    /// Server: bytes of one POST body at most; a larger one gets 413 and ends the session. Default 4 MiB.
    pub received_post_bytes_max: usize,
    /// Client: bytes of one POST body at most. Default 1 MiB.
    pub sent_post_bytes_max: usize,
    /// Server: bytes that may be pushed into a session while it wants no more. Beyond, the session ends
    /// (`send-buffer-overflow`). Default 4 MiB.
    pub downlink_queue_bytes_max: usize,
    /// Client: the same. Default 4 MiB.
    pub uplink_queue_bytes_max: usize,
    /// Server: a session without traffic in either direction for this long ends (`idle-timeout`). Zero: never. Default
    /// 120 s.
    pub idle_timeout: Duration,
    /// Client: from the start of a POST to its answer. Default 10 s.
    pub post_timeout: Duration,
    /// Server: a connection on which no complete request header comes for this long is closed. Default 30 s.
    pub header_timeout: Duration,
    /// Server: bytes of a request's header at most; a larger one gets 431. Default 16 KiB. Values below 8 KiB count as
    /// 8 KiB.
    pub header_bytes_max: usize,
    /// Server: connections at once that are handshaking, between requests, or serving one; further ones wait in the
    /// system's queue. An HTTP session has two, a WebSocket channel none. Default 4,096.
    pub connections_max: usize,
    /// Server: refusals by the authorisation hook that one remote address may collect; one is forgotten each second.
    /// Beyond, its requests get 429 and the hook is not asked. IPv6 addresses count by their /64. Zero: no limit, which
    /// is right behind a proxy, where all requests come from one address. Default 20.
    pub refusals_max: u32,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            sessions_max: 1024,
            received_post_bytes_max: 4 * 1024 * 1024,
            sent_post_bytes_max: 1024 * 1024,
            downlink_queue_bytes_max: 4 * 1024 * 1024,
            uplink_queue_bytes_max: 4 * 1024 * 1024,
            idle_timeout: Duration::from_secs(120),
            post_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
            header_bytes_max: 16 * 1024,
            connections_max: 4096,
            refusals_max: 20,
        }
    }
}

/// Configuration of [`Web`](super::Web). Cheap to clone. `Debug` writes no token.
///
/// ```
/// use nact::Identity;
/// use nact::web::{Refusal, Web, WebConfig};
/// let config = WebConfig::default().with_authorisation(|request| match request.bearer() {
///     Some("tok-reports") => Ok(Some(Identity::new("reports"))),
///     Some(_) => Err(Refusal::Forbidden),
///     None => Err(Refusal::Unauthorised),
/// });
/// let mut transports = nact::Transports::default();
/// transports.register(Web::new(config));
/// assert!(!transports.is_public_plaintext("http://0.0.0.0:80")?, "not everybody gets in");
/// # Ok::<(), nact::UrlError>(())
/// ```
#[derive(Clone, Default)]
pub struct WebConfig {
    pub(super) limits: WebLimits,
    pub(super) authorisation: Option<Arc<dyn Authorise>>,
    pub(super) bearer: Option<HeaderValue>,
    #[cfg(feature = "tls")]
    pub(super) tls: TlsConfig,
}

impl WebConfig {
    /// Other limits.
    pub fn with_limits(mut self, limits: WebLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Dials with `Authorization: Bearer` and this token. Over `ws://` and `http://` whoever is on the way can read it.
    ///
    /// # Errors
    /// The token holds characters that no header can carry. It is not repeated in the error.
    pub fn with_bearer(mut self, token: &str) -> Result<Self, UrlError> {
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            UrlError::new("the bearer token holds characters that no header can carry")
        })?;
        value.set_sensitive(true);
        self.bearer = Some(value);
        Ok(self)
    }

    /// Asks this hook first, at every request that is served: GET, POST and upgrade. What it gives becomes the
    /// channel's identity; `Ok(None)` leaves that to the client's certificate. Must be quick; for one that waits see
    /// [`with_async_authorisation`](Self::with_async_authorisation).
    ///
    /// A page in a browser can reach servers on its user's machine and network. A hook that looks at
    /// [`RequestInfo::header`]`("origin")` keeps foreign pages out.
    pub fn with_authorisation(
        self,
        hook: impl Fn(&RequestInfo) -> Result<Option<Identity>, Refusal> + Send + Sync + 'static,
    ) -> Self {
        self.with_async_authorisation(Immediate(hook))
    }

    /// As [`with_authorisation`](Self::with_authorisation), with a hook that may wait.
    pub fn with_async_authorisation(mut self, hook: impl Authorise + 'static) -> Self {
        self.authorisation = Some(Arc::new(hook));
        self
    }

    /// Certificates and trust of `wss://` and `https://`.
    #[cfg(feature = "tls")]
    pub fn with_tls(mut self, tls: TlsConfig) -> Self {
        self.tls = tls;
        self
    }
}

struct Immediate<F>(F);

impl<F> Authorise for Immediate<F>
where
    F: Fn(&RequestInfo) -> Result<Option<Identity>, Refusal> + Send + Sync,
{
    fn authorise<'a>(
        &'a self,
        request: &'a RequestInfo,
    ) -> BoxFuture<'a, Result<Option<Identity>, Refusal>> {
        Box::pin(std::future::ready((self.0)(request)))
    }
}

impl fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("WebConfig");
        debug
            .field("limits", &self.limits)
            .field("has_authorisation", &self.authorisation.is_some())
            .field("has_bearer", &self.bearer.is_some());
        #[cfg(feature = "tls")]
        debug.field("tls", &self.tls);
        debug.finish()
    }
}
