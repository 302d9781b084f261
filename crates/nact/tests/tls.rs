//! TLS: whom it trusts, what it says when it does not, and how certificates change under living links.
#![cfg(all(feature = "tls", feature = "web"))]

use std::sync::atomic::{AtomicU32, Ordering};

use nact::tls::{Certificate, Tls, TlsConfig};
use nact::web::{Web, WebConfig};
use nact::{Channel, DialError, Listener, Options, Outbound, Transports};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// An authority that issues certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// Each of another name: a name decides whose signature is looked at.
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut params = CertificateParams::new([]).unwrap();
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issue_pem(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn issue(&self, name: &str) -> Certificate {
        let (chain, key) = self.issue_pem(params(name));
        Certificate::from_pem(&chain, &key).unwrap()
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params
        .distinguished_name
        .push(DnType::CommonName, format!("CN of {name}"));
    params
}

fn transports(tls: TlsConfig) -> Transports {
    let mut transports = Transports::default();
    transports.register(Web::new(WebConfig::default().with_tls(tls.clone())));
    transports.register(Tls::new(tls));
    transports
}

fn trusting(authority: &Authority) -> TlsConfig {
    TlsConfig::default()
        .with_roots_pem(&authority.pem())
        .unwrap()
}

async fn listen(scheme: &str, tls: TlsConfig) -> Box<dyn Listener> {
    let url = format!("{scheme}://localhost:0");
    transports(tls).listen(&url).await.unwrap()
}

async fn connect(client: &Transports, listener: &mut Box<dyn Listener>) -> (Channel, Channel) {
    let url = listener.local_url().to_string();
    let (near, far) = tokio::join!(client.dial(&url), listener.accept());
    (near.unwrap(), far.unwrap())
}

/// The error of a dial, while the listener goes on.
async fn refusal(scheme: &str, server: TlsConfig, client: TlsConfig) -> DialError {
    let mut listener = listen(scheme, server).await;
    let url = listener.local_url().to_string();
    let client = transports(client);
    tokio::select! {
        dialled = client.dial(&url) => dialled.unwrap_err(),
        accepted = listener.accept() => panic!("{accepted:?}"),
    }
}

async fn exchange(near: &mut Channel, far: &mut Channel) {
    near.sender.push(Outbound {
        token: 1,
        body: "hello".into(),
        ..Outbound::default()
    });
    near.sender.flush().await.unwrap();
    let mut messages = Vec::new();
    far.receiver.receive(&mut messages).await.unwrap();
    assert_eq!(messages, ["hello"]);
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_told_by_what_is_wrong_with_it() {
    let (authority, other) = (Authority::new(), Authority::new());
    let with = |certificate| TlsConfig::default().with_certificate(certificate);
    let mut expired = params("localhost");
    expired.not_after = date_time_ymd(2001, 1, 1);
    let (chain, key) = authority.issue_pem(expired);
    let expired = Certificate::from_pem(&chain, &key).unwrap();
    let mut early = params("localhost");
    early.not_before = date_time_ymd(4000, 1, 1);
    let (chain, key) = authority.issue_pem(early);
    let early = Certificate::from_pem(&chain, &key).unwrap();
    let cases = [
        (expired, "certificate-expired", "renew"),
        (early, "certificate-not-yet-valid", "clock"),
        (
            authority.issue("elsewhere.example"),
            "certificate-wrong-name",
            "elsewhere.example",
        ),
        (
            other.issue("localhost"),
            "certificate-unknown-issuer",
            "with_roots_pem",
        ),
    ];
    for (certificate, reason, advice) in cases {
        for scheme in ["tls", "wss", "https"] {
            let error = refusal(scheme, with(certificate.clone()), trusting(&authority)).await;
            assert_eq!(error.reason(), reason, "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
    let by_default = refusal(
        "tls",
        with(authority.issue("localhost")),
        TlsConfig::default(),
    )
    .await;
    assert_eq!(by_default.reason(), "certificate-unknown-issuer");
}

#[tokio::test]
async fn the_names_of_a_verified_client_are_the_identity_of_the_channel() {
    let authority = Authority::new();
    let server = TlsConfig::default()
        .with_certificate(authority.issue("localhost"))
        .with_client_roots_pem(&authority.pem())
        .unwrap();
    let client = transports(
        trusting(&authority).with_client_certificate(authority.issue("reports.example")),
    );
    for scheme in ["tls", "wss", "https"] {
        let mut listener = listen(scheme, server.clone()).await;
        let (mut near, mut far) = connect(&client, &mut listener).await;
        let identity = far.identity.clone().unwrap();
        assert_eq!(
            identity.common_name.as_deref(),
            Some("CN of reports.example")
        );
        assert_eq!(identity.dns_names, ["reports.example"]);
        assert_eq!(near.identity, None);
        exchange(&mut near, &mut far).await;
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_or_with_a_strange_or_expired_one_is_told() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = TlsConfig::default()
        .with_certificate(authority.issue("localhost"))
        .with_client_roots_pem(&authority.pem())
        .unwrap();
    let without = trusting(&authority);
    let strange = without
        .clone()
        .with_client_certificate(other.issue("reports.example"));
    let mut params = params("reports.example");
    params.not_after = date_time_ymd(2001, 1, 1);
    let (chain, key) = authority.issue_pem(params);
    let expired = without
        .clone()
        .with_client_certificate(Certificate::from_pem(&chain, &key).unwrap());
    for (client, reason) in [
        (without, "client-certificate-missing"),
        (strange, "own-certificate-refused"),
        (expired, "own-certificate-refused"),
    ] {
        for scheme in ["wss", "https"] {
            let error = refusal(scheme, server.clone(), client.clone()).await;
            assert_eq!(error.reason(), reason, "{error}");
        }
        // With TLS 1.3 the server judges after the client is done.
        let mut listener = listen("tls", server.clone()).await;
        let url = listener.local_url().to_string();
        let dialling = async {
            let mut near = transports(client).dial(&url).await.unwrap();
            near.receiver.receive(&mut Vec::new()).await.unwrap_err()
        };
        tokio::select! {
            error = dialling => assert_eq!(error.reason(), reason, "{error}"),
            accepted = listener.accept() => panic!("{accepted:?}"),
        }
    }
}

#[tokio::test]
async fn a_new_certificate_serves_new_links_and_leaves_old_ones_alone() {
    let (old_authority, new_authority) = (Authority::new(), Authority::new());
    let certificate = old_authority.issue("localhost");
    let server = TlsConfig::default().with_certificate(certificate.clone());
    let (old_client, new_client) = (
        transports(trusting(&old_authority)),
        transports(trusting(&new_authority)),
    );
    for scheme in ["tls", "wss", "https"] {
        let (chain, key) = old_authority.issue_pem(params("localhost"));
        certificate.replace_pem(&chain, &key).unwrap();
        let mut listener = listen(scheme, server.clone()).await;
        let (mut near, mut far) = connect(&old_client, &mut listener).await;
        let (chain, key) = new_authority.issue_pem(params("localhost"));
        certificate.replace_pem(&chain, &key).unwrap();
        assert_eq!(
            certificate.replace_pem(&chain, "").unwrap_err().reason(),
            "no-private-key"
        );
        exchange(&mut near, &mut far).await;
        let (mut new_near, mut new_far) = connect(&new_client, &mut listener).await;
        exchange(&mut new_near, &mut new_far).await;
        exchange(&mut far, &mut near).await;
        let url = listener.local_url().to_string();
        let error = tokio::select! {
            dialled = old_client.dial(&url) => dialled.unwrap_err(),
            accepted = listener.accept() => panic!("{accepted:?}"),
        };
        assert_eq!(error.reason(), "certificate-unknown-issuer");
    }
}

#[tokio::test]
async fn files_are_read_again_and_a_broken_pair_changes_nothing() {
    let (old_authority, new_authority) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let (chain_path, key_path) = (
        directory.path().join("chain.pem"),
        directory.path().join("key.pem"),
    );
    let write = |(chain, key): (String, String)| {
        std::fs::write(&chain_path, chain).unwrap();
        std::fs::write(&key_path, key).unwrap();
    };
    assert_eq!(
        Certificate::from_files(&chain_path, &key_path)
            .unwrap_err()
            .reason(),
        "unreadable-file"
    );
    write(old_authority.issue_pem(params("localhost")));
    let certificate = Certificate::from_files(&chain_path, &key_path).unwrap();
    let mut listener = listen(
        "tls",
        TlsConfig::default().with_certificate(certificate.clone()),
    )
    .await;

    let (new_chain, new_key) = new_authority.issue_pem(params("localhost"));
    std::fs::write(&chain_path, &new_chain).unwrap();
    assert_eq!(
        certificate.reload().unwrap_err().reason(),
        "private-key-mismatch"
    );
    connect(&transports(trusting(&old_authority)), &mut listener).await;
    write((new_chain, new_key));
    certificate.reload().unwrap();
    connect(&transports(trusting(&new_authority)), &mut listener).await;
}

#[tokio::test]
async fn listening_without_a_certificate_says_what_to_do() {
    for scheme in ["tls", "wss", "https"] {
        let url = format!("{scheme}://127.0.0.1:0");
        let error = Transports::default().listen(&url).await.unwrap_err();
        assert_eq!(error.reason(), "no-certificate");
        assert!(error.to_string().contains("with_certificate"));
    }
}

#[tokio::test]
async fn pem_that_is_not_what_it_should_be_is_named() {
    let authority = Authority::new();
    let (chain, key) = authority.issue_pem(params("localhost"));
    let (_, other_key) = authority.issue_pem(params("localhost"));
    let reason = |chain: &str, key: &str| Certificate::from_pem(chain, key).unwrap_err().reason();
    assert_eq!(reason(&key, &chain), "no-certificate");
    assert_eq!(reason(&chain, &chain), "no-private-key");
    assert_eq!(reason(&chain, &other_key), "private-key-mismatch");
    assert_eq!(
        TlsConfig::default()
            .with_roots_pem("")
            .unwrap_err()
            .reason(),
        "no-certificate"
    );
    let debug = format!("{:?}", Certificate::from_pem(&chain, &key).unwrap());
    assert!(!debug.contains("PRIVATE") && debug.len() < 100);
}

#[tokio::test]
async fn plaintext_and_silence_do_not_hold_up_a_listener() {
    let authority = Authority::new();
    let server = TlsConfig::default().with_certificate(authority.issue("localhost"));
    for scheme in ["tls", "wss", "https"] {
        let mut listener = listen(scheme, server.clone()).await;
        let address = ("127.0.0.1", listener.local_url().port().unwrap());
        let address = match tokio::net::TcpStream::connect(address).await {
            Ok(_) => address,
            Err(_) => ("::1", address.1),
        };
        let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut plain = tokio::net::TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        connect(&transports(trusting(&authority)), &mut listener).await;
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP"), "no plain answer");
    }
}

#[tokio::test]
async fn dialling_tls_where_none_is_spoken_is_told() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tls://127.0.0.1:{}", listener.local_addr().unwrap().port());
    for (answer, reason) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "not-tls"),
        ("", "tls-handshake-cut"),
    ] {
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 64];
            stream.read_exact(&mut hello).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        };
        let transports = Transports::default();
        let (dialled, ()) = tokio::join!(transports.dial(&url), serving);
        let error = dialled.unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_stalls_is_a_timeout() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for scheme in ["tls", "wss", "https"] {
        let url = format!("{scheme}://127.0.0.1:{port}");
        let error = Transports::new(Options::default())
            .dial(&url)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "connect-timeout");
    }
}
