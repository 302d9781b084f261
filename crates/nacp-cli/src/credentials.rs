//! Certificates, keys and tokens: read from their files, made into transports, and read again when they were renewed.
//!
//! What this module keeps true: nothing of a key or token is ever shown; a renewal that cannot be used changes nothing,
//! and ends no link; tokens are compared by their hashes, so that time tells nothing about them.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use nact::tls::{Certificate, Tls, TlsConfig};
use nact::web::{Refusal, RequestInfo, Web, WebConfig};
use nact::{Identity, Transports};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::settings::Plan;

/// What can be read again.
#[derive(Default)]
pub struct Renewable {
    certificates: Vec<Certificate>,
    tokens: Option<Tokens>,
}

impl Renewable {
    /// Reads everything again. What cannot be used is told, and stays as it was.
    pub fn renew(&self) -> Vec<Result<(), Failure>> {
        let certificates = self.certificates.iter();
        let mut results: Vec<_> = certificates
            .map(|certificate| certificate.reload().map_err(Failure::failed))
            .collect();
        results.extend(self.tokens.as_ref().map(Tokens::renew));
        results
    }
}

/// The transports of a plan.
///
/// # Errors
/// A file cannot be read, or is not what it should be; or one is missing that belongs to another.
pub fn transports(plan: &Plan) -> Result<(Transports, Renewable), Failure> {
    let mut renewable = Renewable::default();
    let tls = tls(plan, &mut renewable)?;
    let mut web = WebConfig::default()
        .with_limits(plan.web.clone())
        .with_tls(tls.clone());
    if let Some(token) = own_token(plan)? {
        web = web.with_bearer(&token).map_err(Failure::failed)?;
    }
    if let Some(path) = &plan.credentials.tokens {
        let tokens = Tokens::read(path)?;
        let asked = tokens.clone();
        web = web.with_authorisation(move |request| asked.judge(request));
        renewable.tokens = Some(tokens);
    }
    let mut transports = Transports::new(plan.transport.clone());
    transports.register(Web::new(web));
    transports.register(Tls::new(tls));
    Ok((transports, renewable))
}

fn tls(plan: &Plan, renewable: &mut Renewable) -> Result<TlsConfig, Failure> {
    let files = &plan.credentials;
    let mut tls = TlsConfig::default();
    if let Some(own) = pair(("tls-cert", &files.cert), ("tls-key", &files.key))? {
        renewable.certificates.push(own.clone());
        tls = tls.with_certificate(own);
    }
    let shown = pair(
        ("tls-client-cert", &files.client_cert),
        ("tls-client-key", &files.client_key),
    )?;
    if let Some(shown) = shown {
        renewable.certificates.push(shown.clone());
        tls = tls.with_client_certificate(shown);
    }
    if let Some(path) = &files.client_roots {
        if files.cert.is_none() {
            return Err(Failure::usage("tls-client-roots needs tls-cert, too"));
        }
        tls = tls
            .with_client_roots_pem(&text("tls-client-roots", path)?)
            .map_err(|error| in_file("tls-client-roots", path, error))?;
    }
    if let Some(path) = &files.roots {
        tls = tls
            .with_roots_pem(&text("tls-roots", path)?)
            .map_err(|error| in_file("tls-roots", path, error))?;
    }
    Ok(tls)
}

type Named<'a> = (&'static str, &'a Option<PathBuf>);

fn pair(cert: Named<'_>, key: Named<'_>) -> Result<Option<Certificate>, Failure> {
    match (cert, key) {
        ((_, None), (_, None)) => Ok(None),
        ((name, Some(cert)), (_, Some(key))) => Certificate::from_files(cert, key)
            .map(Some)
            .map_err(|error| in_file(name, cert, error)),
        ((given, Some(_)), (missing, None)) | ((missing, None), (given, Some(_))) => {
            Err(Failure::usage(format_args!("{given} needs {missing}, too")))
        }
    }
}

fn text(name: &str, path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| in_file(name, path, error))
}

fn in_file(name: &str, path: &Path, error: impl Display) -> Failure {
    Failure::failed(format_args!("{name}: {}: {error}", path.display()))
}

/// The token that we show.
fn own_token(plan: &Plan) -> Result<Option<String>, Failure> {
    let credentials = &plan.credentials;
    match (&credentials.token, &credentials.token_file) {
        (Some(_), Some(_)) => Err(Failure::usage(
            "give the token as NACP_BEARER_TOKEN or in bearer-token-file, not both",
        )),
        (Some(token), None) => Ok(Some(token.0.trim().to_owned())),
        (None, Some(path)) => {
            let token = text("bearer-token-file", path)?.trim().to_owned();
            if token.is_empty() {
                return Err(in_file("bearer-token-file", path, "it is empty"));
            }
            Ok(Some(token))
        }
        (None, None) => Ok(None),
    }
}

/// Whom each token stands for, by the token's hash.
type Names = HashMap<[u8; 32], String>;

/// The tokens that are let in.
#[derive(Clone)]
struct Tokens {
    path: PathBuf,
    names: Arc<RwLock<Names>>,
}

impl Tokens {
    fn read(path: &Path) -> Result<Self, Failure> {
        Ok(Self {
            path: path.to_owned(),
            names: Arc::new(RwLock::new(names(path)?)),
        })
    }

    fn renew(&self) -> Result<(), Failure> {
        let names = names(&self.path)?;
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(())
    }

    fn judge(&self, request: &RequestInfo) -> Result<Option<Identity>, Refusal> {
        let token = request.bearer().ok_or(Refusal::Unauthorised)?;
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let name = names.get(&hash(token)).ok_or(Refusal::Forbidden)?;
        Ok(Some(Identity::new(name)))
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn names(path: &Path) -> Result<Names, Failure> {
    let text = text("bearer-tokens-file", path)?;
    let mut names = Names::new();
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|word| !word.starts_with('#')) else {
            continue;
        };
        let (Some(token), None) = (words.next(), words.next()) else {
            // Not repeated: there may be a token in it.
            let wrong = format_args!("line {}: write NAME TOKEN", index + 1).to_string();
            return Err(in_file("bearer-tokens-file", path, wrong));
        };
        if names.insert(hash(token), name.to_owned()).is_some() {
            let wrong =
                format_args!("line {}: this token stands above, too", index + 1).to_string();
            return Err(in_file("bearer-tokens-file", path, wrong));
        }
    }
    if names.is_empty() {
        return Err(in_file(
            "bearer-tokens-file",
            path,
            "no line NAME TOKEN in it",
        ));
    }
    Ok(names)
}
