//! The certificate that both sides listen with. What this module keeps true: it is made for one run of the tests, and it
//! is verified by whoever dials.

use std::fs;
use std::path::Path;

use nact::tls::{Certificate, TlsConfig};

use crate::AnyError;

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// Writes it, and its key.
pub fn make(directory: &Path) -> Result<(), AnyError> {
    let made = rcgen::generate_simple_self_signed(["localhost".into(), "127.0.0.1".into()])?;
    fs::write(directory.join(CERTIFICATE), made.cert.pem())?;
    fs::write(directory.join(KEY), made.signing_key.serialize_pem())?;
    Ok(())
}

/// Listens with it, and trusts nothing else.
pub fn tls(directory: &Path) -> Result<TlsConfig, AnyError> {
    let path = directory.join(CERTIFICATE);
    let roots = fs::read_to_string(&path)?;
    let certificate = Certificate::from_files(&path, directory.join(KEY))?;
    Ok(TlsConfig::default()
        .with_certificate(certificate)
        .with_roots_pem(&roots)?)
}
