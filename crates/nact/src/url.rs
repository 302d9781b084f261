//! Addresses of channels: `scheme://host:port/path?query`, `unix:path`.
//!
//! What it keeps true: an error says what is wrong and what to write instead, without repeating what may be a secret;
//! nothing that prints a URL prints its query. What prints a URL without a query can be parsed again.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A parsed address. Its scheme says which transport it is for.
///
/// | form | meaning |
/// |---|---|
/// | `tcp://host:port` | host name, IPv4, or IPv6 in brackets; port 0 when listening: any free port |
/// | `unix:///absolute/path`, `unix:relative/path` | a socket file |
/// | `mem://name` | in this process |
/// | `ws://host:port/path?query` and the like | for transports that use paths and queries |
///
/// `Display` and `Debug` write the query as `?…`: it may hold a token.
///
/// ```
/// use nact::Url;
/// let url: Url = "tcp://[::1]:7000".parse()?;
/// assert_eq!((url.host(), url.port()), ("::1", Some(7000)));
/// assert_eq!(url.to_string(), "tcp://[::1]:7000");
/// let error = "tcp:localhost".parse::<Url>().unwrap_err();
/// assert_eq!(error.to_string(), "bad URL: \"tcp:\" is not followed by \"//\"; write tcp://host:port");
/// # Ok::<(), nact::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Url {
    scheme: String,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
}

/// An address that cannot be used. The text says what is wrong and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad URL: {0}")]
pub struct UrlError(String);

impl UrlError {
    /// An error with the given text, for a provider that wants more of a URL than the parser does.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl Url {
    /// A URL with host and port, and no path or query.
    pub fn new(scheme: &str, host: &str, port: Option<u16>) -> Self {
        Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.into(),
            port,
            path: String::new(),
            query: None,
        }
    }

    /// `unix:` and a path.
    pub fn unix(path: &str) -> Self {
        Self {
            path: path.into(),
            ..Self::new("unix", "", None)
        }
    }

    /// In lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Host name, address without brackets, or the name in `mem://name`. Empty for `unix`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if one is given.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// From the first `/` on, or empty. For `unix` the path of the socket file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What follows `?`. It may be a secret.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// True for `localhost` and the loopback addresses. Names are not looked up.
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// True for a network transport without encryption (`tcp`, `ws`, `http`) beyond loopback. See also
    /// [`Transports::is_public_plaintext`](crate::Transports::is_public_plaintext), which knows of authorisation hooks.
    ///
    /// ```
    /// let is_public = |text: &str| text.parse::<nact::Url>().map(|url| url.is_public_plaintext());
    /// assert!(is_public("ws://0.0.0.0:80")? && is_public("tcp://10.0.0.1:7000")?);
    /// assert!(!is_public("wss://0.0.0.0:443")? && !is_public("tcp://[::1]:7000")?);
    /// # Ok::<(), nact::UrlError>(())
    /// ```
    pub fn is_public_plaintext(&self) -> bool {
        matches!(self.scheme.as_str(), "tcp" | "ws" | "http") && !self.is_loopback()
    }

    /// The same URL with another port.
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The same URL with another path, which starts with `/`.
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// For transports that use nothing but an authority.
    ///
    /// # Errors
    /// There is a path or a query.
    pub fn expect_no_path(&self) -> Result<(), UrlError> {
        if matches!(self.path.as_str(), "" | "/") && self.query.is_none() {
            return Ok(());
        }
        Err(UrlError(format!(
            "{}:// takes no path and no query; leave out what follows the address",
            self.scheme
        )))
    }

    /// For transports that need a port and have none by default.
    ///
    /// # Errors
    /// There is no port.
    pub fn expect_port(&self) -> Result<u16, UrlError> {
        let Self { scheme, host, .. } = self;
        self.port.ok_or_else(|| {
            UrlError(format!(
                "no port; write {scheme}://{}:port",
                Bracketed(host)
            ))
        })
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(bad) = text.chars().find(|c| c.is_control()) {
            return Err(UrlError(format!(
                "it contains the control character {bad:?}; remove it"
            )));
        }
        let (scheme, rest) = text
            .split_once(':')
            .filter(|(scheme, rest)| is_scheme(scheme) && !is_host_and_port(scheme, rest))
            .ok_or_else(|| {
                UrlError("no scheme; write one first, as in tcp://host:port or unix:///path".into())
            })?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "unix" {
            return parse_unix(rest);
        }
        let rest = rest.strip_prefix("//").ok_or_else(|| {
            UrlError(format!(
                "\"{scheme}:\" is not followed by \"//\"; write {scheme}://host:port"
            ))
        })?;
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(authority_end);
        let (host, port) = parse_authority(&scheme, authority)?;
        if rest.contains('#') {
            return Err(UrlError(
                "it has a fragment (#…), which no transport uses; remove it".into(),
            ));
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        Ok(Self {
            scheme,
            host,
            port,
            path: path.into(),
            query,
        })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// "localhost:7000" has no scheme, though it looks as if.
fn is_host_and_port(scheme: &str, rest: &str) -> bool {
    !scheme.eq_ignore_ascii_case("unix") && rest.starts_with(|c: char| c.is_ascii_digit())
}

fn parse_unix(rest: &str) -> Result<Url, UrlError> {
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(_) => {
            return Err(UrlError(
                "unix:// has no host; write unix:///absolute/path or unix:relative/path".into(),
            ));
        }
        None => rest,
    };
    if path.is_empty() {
        return Err(UrlError(
            "no path; write unix:///absolute/path or unix:relative/path".into(),
        ));
    }
    Ok(Url::unix(path))
}

fn parse_authority(scheme: &str, authority: &str) -> Result<(String, Option<u16>), UrlError> {
    if authority.contains('@') {
        // Not repeated in the error: it may be a password.
        return Err(UrlError(format!(
            "user names and passwords have no place in it; write {scheme}://host:port"
        )));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| {
                UrlError(format!(
                    "\"[\" without \"]\"; write {scheme}://[address]:port"
                ))
            })?;
            (host, port)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if port.matches(':').count() > 1 {
        return Err(UrlError(format!(
            "an IPv6 address needs brackets; write {scheme}://[address]:port"
        )));
    }
    if host.is_empty() {
        return Err(UrlError(format!("no host; write {scheme}://host:port")));
    }
    if port.is_empty() {
        return Ok((host.into(), None));
    }
    let digits = port
        .strip_prefix(':')
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number
        .map(|number| (host.into(), Some(number)))
        .ok_or_else(|| {
            UrlError(format!(
                "{port:?} is not a port (0 to 65535); write {scheme}://{}:port",
                Bracketed(host)
            ))
        })
}

/// A host as it stands in a URL.
pub(crate) struct Bracketed<'a>(pub(crate) &'a str);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') {
            write!(f, "[{}]", self.0)
        } else {
            f.write_str(self.0)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme, host, path, ..
        } = self;
        if scheme == "unix" {
            let slashes = if path.starts_with('/') { "//" } else { "" };
            return write!(f, "unix:{slashes}{path}");
        }
        write!(f, "{scheme}://{}", Bracketed(host))?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(path)?;
        if self.query.is_some() {
            f.write_str("?…")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Url>().unwrap_err().to_string()
    }

    #[test]
    fn what_prints_a_url_can_be_parsed_again() {
        for text in [
            "tcp://localhost:7000",
            "tcp://[::1]:0",
            "tcp://[fe80::1%eth0]:9",
            "tcp://10.0.0.1:65535",
            "mem://name",
            "unix:///run/a.sock",
            "unix:a/b.sock",
            "unix:7/b.sock",
            "unix:///with ?#odd/name",
            "ws://host",
            "wss://host:1/nacp/x",
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
        assert_eq!("unix:/a".parse::<Url>(), "unix:///a".parse());
        assert_eq!("TCP://Host:1".parse::<Url>().unwrap().scheme(), "tcp");
    }

    #[test]
    fn a_query_or_a_password_is_never_printed() {
        let url: Url = "ws://host:1/path?token=secret".parse().unwrap();
        assert_eq!(url.query(), Some("token=secret"));
        assert_eq!(
            format!("{url} {url:?}"),
            "ws://host:1/path?… Url(ws://host:1/path?…)"
        );
        assert!(!error("tcp://user:secret@host:1").contains("secret"));
    }

    #[test]
    fn an_error_says_what_to_write_instead() {
        assert!(error("localhost").contains("no scheme"));
        assert!(error("tcp://::1:7000").contains("brackets"));
        assert!(error("tcp://[::1:7000").contains("]"));
        assert!(error("tcp://:7000").contains("no host"));
        assert!(error("tcp://host:70000").contains("0 to 65535"));
        assert!(error("tcp://host:+7").contains("not a port"));
        assert!(error("tcp://[::1]7").contains("not a port"));
        assert!(error("unix://host/path").contains("unix:///absolute"));
        assert!(error("unix:").contains("no path"));
        assert!(error("ws://host/a#b").contains("fragment"));
        assert!(error("tcp://host\n:1").contains("control"));
        assert!(
            "tcp://host"
                .parse::<Url>()
                .unwrap()
                .expect_port()
                .unwrap_err()
                .to_string()
                .contains("tcp://host:port")
        );
        assert!(
            "tcp://host:1/x"
                .parse::<Url>()
                .unwrap()
                .expect_no_path()
                .is_err()
        );
    }
}
