//! Whose App ID is whose: what a certificate or a token proves, over real sockets.

mod support;

use nact::tls::{Certificate, Tls, TlsConfig};
use nact::web::{Refusal, Web, WebConfig};
use nact::{Identity, Transports};
use napp::{App, ConnectError};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use support::quiet;

/// An authority that issues certificates for servers and clients.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = "the authority of this test";
        params
            .distinguished_name
            .push(DnType::CommonName, authority);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Certificate {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certificate::from_pem(&certificate.pem(), &key.serialize_pem()).unwrap()
    }

    fn trusting(&self) -> TlsConfig {
        TlsConfig::default().with_roots_pem(&self.0.pem()).unwrap()
    }

    /// Lets in only who has a certificate of this authority.
    fn server(&self, certificate: Certificate) -> Transports {
        let tls = TlsConfig::default().with_certificate(certificate);
        transports(tls.with_client_roots_pem(&self.0.pem()).unwrap())
    }

    /// Shows a certificate of this name.
    fn client(&self, name: &str) -> Transports {
        transports(
            self.trusting()
                .with_client_certificate(self.issue(name, |_| {})),
        )
    }
}

fn transports(tls: TlsConfig) -> Transports {
    let mut transports = Transports::default();
    transports.register(Web::new(WebConfig::default().with_tls(tls.clone())));
    transports.register(Tls::new(tls));
    transports
}

/// Registers as `app` with what these transports show.
async fn attempt(app: &str, transports: &Transports, url: &str) -> Result<App, ConnectError> {
    let app = quiet(app).transports(transports.clone());
    let app = app.start().await.unwrap();
    app.connect("world", url).await.map(|()| app)
}

async fn reason(app: &str, transports: &Transports, url: &str) -> String {
    let error = attempt(app, transports, url).await.unwrap_err();
    error.reason().to_owned()
}

#[tokio::test]
async fn a_certificate_has_its_own_app_ids_and_nobody_else_has_them() {
    let authority = Authority::new();
    let server = authority.server(authority.issue("localhost", |_| {}));
    let mut world = quiet("world")
        .transports(server)
        .identities([("reports.example", vec!["reports", "reports-2"])])
        .identities([("billing.example", ["billing"])]);
    for url in ["tls", "wss", "https"].map(|scheme| format!("{scheme}://localhost:0")) {
        world = world.listen(&url).unwrap();
    }
    let world = world.listen("tcp://127.0.0.1:0").unwrap();
    let world = world.start().await.unwrap();
    let urls = world.local_urls().to_vec();
    let (reports, guest) = (
        authority.client("reports.example"),
        authority.client("guest.example"),
    );
    for url in &urls[..3] {
        let linked = attempt("reports", &reports, url).await.unwrap();
        attempt("reports-2", &reports, url).await.unwrap();
        drop(linked);
        // Another's App ID, one of nobody, and somebody's App ID with a certificate that is not listed.
        for (app, shown) in [
            ("billing", &reports),
            ("hello", &reports),
            ("billing", &guest),
        ] {
            assert_eq!(reason(app, shown, url).await, "identity-not-allowed");
        }
        attempt("hello", &guest, url).await.unwrap();
    }
    // Where nothing is proved, the App IDs of nobody are to be had.
    assert_eq!(
        reason("reports", &reports, &urls[3]).await,
        "identity-not-allowed"
    );
    attempt("plain", &reports, &urls[3]).await.unwrap();
    let error = attempt("billing", &guest, &urls[0]).await.unwrap_err();
    assert!(error.to_string().contains("use the certificate"), "{error}");
    let known = world.connected_apps();
    assert!(known.iter().all(|app| app.app.as_str() != "billing"));
}

#[tokio::test]
async fn with_a_list_nobody_becomes_our_gateway_by_dialling_us() {
    let authority = Authority::new();
    let world = quiet("world")
        .transports(authority.server(authority.issue("localhost", |_| {})))
        .identities([("reports.example", ["reports"])])
        .listen("tls://localhost:0")
        .unwrap();
    let world = world.start().await.unwrap();
    let reports = quiet("reports")
        .gateway(true)
        .transports(authority.client("reports.example"));
    let reports = reports.start().await.unwrap();
    let error = reports.connect("world", &world.local_urls()[0]).await;
    let error = error.unwrap_err();
    assert_eq!(error.reason(), "gateway-not-allowed");
    assert!(error.to_string().contains("dial this one"), "{error}");
    assert!(world.connected_apps().is_empty());
}

#[tokio::test]
async fn what_a_token_proves_counts_like_a_certificate() {
    let bearer = |token: &str| {
        let mut transports = Transports::default();
        transports.register(Web::new(WebConfig::default().with_bearer(token).unwrap()));
        transports
    };
    let guarded = WebConfig::default().with_authorisation(|request| match request.bearer() {
        Some("r") => Ok(Some(Identity::new("reports-token"))),
        Some("b") => Ok(Some(Identity::new("billing-token"))),
        _ => Err(Refusal::Forbidden),
    });
    let mut server = Transports::default();
    server.register(Web::new(guarded));
    let world = quiet("world")
        .transports(server)
        .identities([
            ("reports-token", ["reports"]),
            ("billing-token", ["billing"]),
        ])
        .listen("ws://127.0.0.1:0")
        .unwrap()
        .listen("http://127.0.0.1:0")
        .unwrap();
    let world = world.start().await.unwrap();
    for url in world.local_urls() {
        attempt("reports", &bearer("r"), url).await.unwrap();
        let error = reason("billing", &bearer("r"), url).await;
        assert_eq!(error, "identity-not-allowed");
    }
}

#[tokio::test]
async fn expired_and_misnamed_certificates_are_told_by_what_is_wrong_with_them() {
    let authority = Authority::new();
    let expire = |params: &mut CertificateParams| params.not_after = date_time_ymd(2001, 1, 1);
    let reports = authority.client("reports.example");
    for (certificate, expected) in [
        (authority.issue("localhost", expire), "certificate-expired"),
        (
            authority.issue("elsewhere.example", |_| {}),
            "certificate-wrong-name",
        ),
    ] {
        let world = quiet("world")
            .transports(authority.server(certificate))
            .listen("tls://localhost:0")
            .unwrap();
        let world = world.start().await.unwrap();
        let reason = reason("reports", &reports, &world.local_urls()[0]).await;
        assert_eq!(reason, expected);
    }
    let world = quiet("world")
        .transports(authority.server(authority.issue("localhost", |_| {})))
        .listen("tls://localhost:0")
        .unwrap();
    let world = world.start().await.unwrap();
    let expired = authority.issue("reports.example", expire);
    let expired = transports(authority.trusting().with_client_certificate(expired));
    let url = &world.local_urls()[0];
    assert_eq!(
        reason("reports", &expired, url).await,
        "own-certificate-refused"
    );
    let without = transports(authority.trusting());
    assert_eq!(
        reason("reports", &without, url).await,
        "client-certificate-missing"
    );
    assert!(world.connected_apps().is_empty());
}

#[tokio::test]
async fn a_list_with_an_app_id_that_is_none_is_refused_at_the_start() {
    let world = quiet("world").identities([("reports.example", [""])]);
    assert_eq!(world.start().await.unwrap_err().reason(), "bad-app-id");
}
