//! The registry: which transport serves which scheme.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::channel::{Channel, Listener, Provider};
use crate::error::{DialError, ListenError};
use crate::options::Options;
use crate::url::{Url, UrlError};

/// Transports by scheme, and the [`Options`] that all of them get. Cheap to clone.
///
/// The default has what this crate brings: `tcp`, `unix` (on Unix), `mem`, `tls`, `ws`, `wss`, `http`, `https`. What
/// needs TLS dials with Mozilla's roots and listens only after it was registered anew with a certificate.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nact::{Outbound, Transports};
/// let transports = Transports::default();
/// let mut listener = transports.listen("tcp://127.0.0.1:0").await?;
/// let mut near = transports.dial(&listener.local_url().to_string()).await?;
/// let mut far = listener.accept().await?;
///
/// near.sender.push(Outbound { token: 1, body: "hello".into(), ..Outbound::default() });
/// assert_eq!(near.sender.flush().await?, [1]);
/// let mut messages = Vec::new();
/// far.receiver.receive(&mut messages).await?;
/// assert_eq!(messages, ["hello"]);
///
/// let error = transports.dial("pigeon://roof").await.unwrap_err();
/// assert!(error.to_string().starts_with("no transport for \"pigeon\"; known are: "));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Transports {
    providers: BTreeMap<String, Arc<dyn Provider>>,
    options: Options,
}

impl Default for Transports {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Transports {
    /// The built-in transports with these options.
    pub fn new(options: Options) -> Self {
        let mut transports = Self {
            providers: BTreeMap::new(),
            options,
        };
        transports.register(crate::tcp::Tcp);
        transports.register(crate::memory::Memory);
        #[cfg(unix)]
        transports.register(crate::unix::Unix);
        #[cfg(feature = "tls")]
        transports.register(crate::tls::Tls::default());
        #[cfg(feature = "web")]
        transports.register(crate::web::Web::default());
        transports
    }

    /// Adds a transport. It takes the place of those that served its schemes before.
    pub fn register(&mut self, provider: impl Provider + 'static) {
        let provider: Arc<dyn Provider> = Arc::new(provider);
        for scheme in provider.schemes() {
            self.providers
                .insert(scheme.to_ascii_lowercase(), Arc::clone(&provider));
        }
    }

    /// The options that every dial and listen uses.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Connects to a URL. Dropping the future gives the attempt up.
    ///
    /// # Errors
    /// See [`DialError`].
    pub async fn dial(&self, url: &str) -> Result<Channel, DialError> {
        let url: Url = url.parse()?;
        let Some(provider) = self.providers.get(url.scheme()) else {
            return Err(DialError::UnknownScheme {
                scheme: url.scheme().into(),
                known: self.known(),
            });
        };
        provider.dial(&url, &self.options).await
    }

    /// Listens at a URL.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub async fn listen(&self, url: &str) -> Result<Box<dyn Listener>, ListenError> {
        let url: Url = url.parse()?;
        let Some(provider) = self.providers.get(url.scheme()) else {
            return Err(ListenError::UnknownScheme {
                scheme: url.scheme().into(),
                known: self.known(),
            });
        };
        provider.listen(&url, &self.options).await
    }

    /// True when a listener at this URL would be open to everybody who can reach this machine: beyond loopback, without
    /// TLS, and without an authorisation hook or verified clients. Worth a warning.
    ///
    /// ```
    /// let transports = nact::Transports::default();
    /// assert!(transports.is_public_plaintext("tcp://0.0.0.0:7000")?);
    /// assert!(!transports.is_public_plaintext("tcp://localhost:7000")?);
    /// # Ok::<(), nact::UrlError>(())
    /// ```
    ///
    /// # Errors
    /// The URL cannot be parsed.
    pub fn is_public_plaintext(&self, url: &str) -> Result<bool, UrlError> {
        let url: Url = url.parse()?;
        let provider = self.providers.get(url.scheme());
        Ok(url.is_public_plaintext() && !provider.is_some_and(|provider| provider.authorises()))
    }

    fn known(&self) -> String {
        self.providers
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Debug for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transports")
            .field("schemes", &self.known())
            .field("options", &self.options)
            .finish()
    }
}
