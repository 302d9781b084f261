//! Certificates with their keys, replaceable while links live.
//!
//! What it keeps true: key and certificate belong together and are swapped together; a handshake sees the old pair or
//! the new one; a pair that cannot be used changes nothing.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::config::{TlsConfigError, provider};
use crate::identity::Identity;

/// A certificate chain and its private key. Clones are handles to the same: replacing it through one replaces it for
/// all. Connections that exist keep theirs; new handshakes use the new one.
///
/// `Debug` writes neither key nor certificate.
///
/// ```
/// # let made = rcgen::generate_simple_self_signed(["localhost".into()])?;
/// # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
/// use nact::tls::Certificate;
/// let certificate = Certificate::from_pem(&chain, &key)?;
/// certificate.replace_pem(&chain, &key)?;
/// assert!(certificate.replace_pem("", "").is_err(), "and the old one stays");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Certificate(Arc<Inner>);

struct Inner {
    current: RwLock<Arc<CertifiedKey>>,
    files: Option<(PathBuf, PathBuf)>,
}

impl Certificate {
    /// From PEM text: the chain, the server's own certificate first, and the key (PKCS#8, PKCS#1 or SEC1).
    ///
    /// # Errors
    /// The texts are not what they should be, or do not belong together.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, TlsConfigError> {
        Self::new(parse(chain.as_bytes(), key.as_bytes())?, None)
    }

    /// From two PEM files, which [`reload`](Self::reload) reads again.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem), and when a file cannot be read.
    pub fn from_files(
        chain: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsConfigError> {
        let files = (chain.as_ref().to_owned(), key.as_ref().to_owned());
        Self::new(read(&files)?, Some(files))
    }

    /// Puts another chain and key in the place of these.
    ///
    /// # Errors
    /// As [`from_pem`](Self::from_pem); the old ones stay.
    pub fn replace_pem(&self, chain: &str, key: &str) -> Result<(), TlsConfigError> {
        self.replace(parse(chain.as_bytes(), key.as_bytes())?);
        Ok(())
    }

    /// Reads the files again. Nothing to do for a certificate that did not come from files.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files); the old ones stay.
    pub fn reload(&self) -> Result<(), TlsConfigError> {
        if let Some(files) = &self.0.files {
            self.replace(read(files)?);
        }
        Ok(())
    }

    fn new(key: CertifiedKey, files: Option<(PathBuf, PathBuf)>) -> Result<Self, TlsConfigError> {
        let current = RwLock::new(Arc::new(key));
        Ok(Self(Arc::new(Inner { current, files })))
    }

    fn replace(&self, key: CertifiedKey) {
        let key = Arc::new(key);
        *self
            .0
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner) = key;
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(
            &self
                .0
                .current
                .read()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

fn read((chain, key): &(PathBuf, PathBuf)) -> Result<CertifiedKey, TlsConfigError> {
    let read = |path: &PathBuf| {
        fs::read(path).map_err(|source| TlsConfigError::Io {
            path: path.display().to_string(),
            source,
        })
    };
    parse(&read(chain)?, &read(key)?)
}

fn parse(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsConfigError> {
    let chain = parse_chain(chain)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsConfigError::NoKey)?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsConfigError::KeyMismatch,
        other => TlsConfigError::Unusable(other.to_string()),
    })
}

/// All certificates of a PEM text; at least one.
pub(super) fn parse_chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsConfigError::Unusable(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsConfigError::NoCertificate);
    }
    Ok(chain)
}

/// The names in a certificate that was verified before.
pub(super) fn identity(certificate: &CertificateDer<'_>) -> Identity {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Identity::default();
    };
    let common_name = certificate
        .subject()
        .iter_common_name()
        .next()
        .and_then(|name| name.as_str().ok())
        .map(str::to_owned);
    let names = certificate.subject_alternative_name().ok().flatten();
    let dns_names = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    Identity {
        common_name,
        dns_names,
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("files", &self.0.files)
            .finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

impl ResolvesClientCert for Certificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
