//! What a demonstration over some transport stands on: addresses, the fault proxy in front of them, and a certificate.
//!
//! What this module keeps true: the proxy sees bytes only, so with TLS it breaks what it cannot read; the certificate is
//! made for this one demonstration, lies in a directory that only its user can read, and goes away with it.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use nact::tls::{Certificate, Tls, TlsConfig};
use nact::web::{Web, WebConfig};
use nact::{Transports, Url};
use tempfile::TempDir;

use crate::failure::Failure;
use nact_rig::{Place, Proxy};

/// How the programs reach each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// A Unix socket.
    Unix,
    /// WebSocket.
    Ws,
    /// Streamable HTTP.
    Http,
    /// TCP inside TLS.
    Tls,
    /// WebSocket inside TLS.
    Wss,
    /// Streamable HTTP inside TLS.
    Https,
}

/// The name that the certificate is for.
const HOST: &str = "localhost";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

impl Transport {
    /// As in URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Unix => "unix",
            Self::Ws => "ws",
            Self::Http => "http",
            Self::Tls => "tls",
            Self::Wss => "wss",
            Self::Https => "https",
        }
    }

    fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Wss | Self::Https)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())
    }
}

/// A directory, and what lies in it for this transport.
#[derive(Debug)]
pub struct Site {
    transport: Transport,
    dir: TempDir,
}

impl Site {
    /// Makes the directory, and with TLS the certificate.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(transport: Transport) -> Result<Self, Failure> {
        let failure = |error: &dyn fmt::Display| {
            Failure::failed(format_args!(
                "demo: no temporary directory with a socket and a certificate: {error}"
            ))
        };
        let dir = TempDir::with_prefix("nacp-demo-").map_err(|error| failure(&error))?;
        if transport.has_tls() {
            let made = rcgen::generate_simple_self_signed([HOST.into()])
                .map_err(|error| failure(&error))?;
            let files = [
                (CERTIFICATE, made.cert.pem()),
                (KEY, made.signing_key.serialize_pem()),
            ];
            for (name, text) in files {
                fs::write(dir.path().join(name), text).map_err(|error| failure(&error))?;
            }
        }
        Ok(Self { transport, dir })
    }

    /// Where the certificate lies, if there is one.
    pub fn tls_dir(&self) -> Option<&Path> {
        self.transport.has_tls().then(|| self.dir.path())
    }

    /// Where the program that listens is to do so.
    pub fn listen_url(&self) -> String {
        match self.transport {
            Transport::Unix => format!("unix:{}", self.dir.path().join("direct").display()),
            transport => format!("{transport}://127.0.0.1:0"),
        }
    }

    /// Puts a proxy in front of a program that listens at `url`. With it the URL that leads through it.
    ///
    /// # Errors
    /// `url` is no such address, or the system has none for the proxy.
    pub async fn proxy(&self, url: &str) -> Result<(Proxy, String), Failure> {
        let target: Url = url.parse().map_err(Failure::failed)?;
        let (listen, place) = self.places(&target).ok_or_else(|| {
            Failure::failed(format_args!(
                "demo: no proxy can stand in front of {url:?} on this system"
            ))
        })?;
        let proxy = Proxy::between(&listen, place).await.map_err(|error| {
            Failure::failed(format_args!("demo: no address for the proxy: {error}"))
        })?;
        let through = match proxy.local() {
            Place::Tcp(address) => {
                let host = if self.transport.has_tls() {
                    HOST
                } else {
                    "127.0.0.1"
                };
                Url::new(self.transport.scheme(), host, Some(address.port()))
                    .with_path(target.path())
                    .to_string()
            }
            #[cfg(unix)]
            Place::Unix(path) => format!("unix:{}", path.display()),
        };
        Ok((proxy, through))
    }

    /// Where the proxy listens, and what is behind it.
    fn places(&self, target: &Url) -> Option<(Place, Place)> {
        if self.transport == Transport::Unix {
            #[cfg(unix)]
            return Some((
                Place::Unix(self.dir.path().join("proxy")),
                Place::Unix(PathBuf::from(target.path())),
            ));
            #[cfg(not(unix))]
            return None;
        }
        let local = |port| Place::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Some((local(0), local(target.port()?)))
    }
}

/// The transports of a program of the demonstration: it listens with the certificate that lies in `tls_dir`, and trusts
/// that one only.
///
/// # Errors
/// It cannot be read, or is none.
pub fn transports(tls_dir: Option<&PathBuf>) -> Result<Transports, Failure> {
    let mut transports = Transports::default();
    if let Some(dir) = tls_dir {
        let path = dir.join(CERTIFICATE);
        let certificate = Certificate::from_files(&path, dir.join(KEY)).map_err(Failure::failed)?;
        let roots = fs::read_to_string(&path).map_err(|error| {
            Failure::failed(format_args!("cannot read {}: {error}", path.display()))
        })?;
        let tls = TlsConfig::default()
            .with_certificate(certificate)
            .with_roots_pem(&roots)
            .map_err(Failure::failed)?;
        transports.register(Web::new(WebConfig::default().with_tls(tls.clone())));
        transports.register(Tls::new(tls));
    }
    Ok(transports)
}
