//! What a TLS transport is told: whom to trust, and what to show.
//!
//! What it keeps true: what cannot work is an error here, not at the first handshake; nothing of a key is ever printed.

use std::io;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::certificate::{Certificate, parse_chain};

/// Trust and certificates, for `tls://`, `wss://` and `https://`. Cheap to clone.
///
/// The default trusts Mozilla's root certificates when dialling and has no certificate of its own.
///
/// ```
/// # let made = rcgen::generate_simple_self_signed(["localhost".into()])?;
/// # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
/// # let (roots, client_roots) = (chain.clone(), chain.clone());
/// use nact::tls::{Certificate, TlsConfig};
/// let server = TlsConfig::default()
///     .with_certificate(Certificate::from_pem(&chain, &key)?)
///     .with_client_roots_pem(&client_roots)?; // mutual TLS
/// let client = TlsConfig::default()
///     .with_roots_pem(&roots)?
///     .with_client_certificate(Certificate::from_pem(&chain, &key)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    roots: Option<Arc<RootCertStore>>,
    client_certificate: Option<Certificate>,
    pub(super) certificate: Option<Certificate>,
    client_verifier: Option<Arc<dyn ClientCertVerifier>>,
}

impl TlsConfig {
    /// The certificate to listen with.
    pub fn with_certificate(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// The certificate to show to servers that ask for one (mutual TLS).
    pub fn with_client_certificate(mut self, certificate: Certificate) -> Self {
        self.client_certificate = Some(certificate);
        self
    }

    /// Trusts servers of these authorities (PEM, one or more), and no others. Default: Mozilla's roots.
    ///
    /// # Errors
    /// The text holds no certificate, or one that cannot be used.
    pub fn with_roots_pem(mut self, roots: &str) -> Result<Self, TlsConfigError> {
        self.roots = Some(parse_roots(roots)?);
        Ok(self)
    }

    /// When listening, lets in only clients with a certificate of one of these authorities (mutual TLS). Default: every
    /// client, and none has an identity.
    ///
    /// # Errors
    /// As [`with_roots_pem`](Self::with_roots_pem).
    pub fn with_client_roots_pem(mut self, roots: &str) -> Result<Self, TlsConfigError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(parse_roots(roots)?, provider())
            .build()
            .map_err(|error| TlsConfigError::Unusable(error.to_string()))?;
        self.client_verifier = Some(verifier);
        Ok(self)
    }

    pub(crate) fn verifies_clients(&self) -> bool {
        self.client_verifier.is_some()
    }

    pub(super) fn client_config(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let roots = self.roots.clone().unwrap_or_else(|| {
            let anchors = webpki_roots::TLS_SERVER_ROOTS.iter().cloned();
            Arc::new(anchors.collect())
        });
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ring has a cipher suite for every TLS version that is compiled in")
            .with_root_certificates(roots);
        let mut config = match &self.client_certificate {
            Some(certificate) => builder.with_client_cert_resolver(Arc::new(certificate.clone())),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    pub(super) fn server_config(&self, protocols: &[&[u8]]) -> Option<Arc<ServerConfig>> {
        let certificate = self.certificate.clone()?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ring has a cipher suite for every TLS version that is compiled in");
        let mut config = match &self.client_verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(Arc::new(certificate));
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        // Links are long; resuming would save little. And a client that only sends would be left with an unread ticket,
        // for which its system resets the connection when it closes: what it sent last would be lost.
        config.send_tls13_tickets = 0;
        Some(Arc::new(config))
    }
}

fn parse_roots(pem: &str) -> Result<Arc<RootCertStore>, TlsConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in parse_chain(pem.as_bytes())? {
        roots
            .add(certificate)
            .map_err(|error| TlsConfigError::Unusable(error.to_string()))?;
    }
    Ok(Arc::new(roots))
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A certificate, key or root that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsConfigError {
    /// No `BEGIN CERTIFICATE` in the text.
    #[error("no certificate in the PEM text; it must have a BEGIN CERTIFICATE section")]
    NoCertificate,
    /// No private key in the text.
    #[error(
        "no private key in the PEM text; it must have a BEGIN PRIVATE KEY section, unencrypted"
    )]
    NoKey,
    /// The key is not the one of the certificate.
    #[error("the private key does not belong to the certificate (its first one counts)")]
    KeyMismatch,
    /// Another defect.
    #[error("the certificate or key cannot be used: {0}")]
    Unusable(String),
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl TlsConfigError {
    /// The stable text that is reported as the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCertificate => "no-certificate",
            Self::NoKey => "no-private-key",
            Self::KeyMismatch => "private-key-mismatch",
            Self::Unusable(_) => "bad-certificate",
            Self::Io { .. } => "unreadable-file",
        }
    }
}
