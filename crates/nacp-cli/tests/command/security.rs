//! Certificates, tokens, and who may be whom.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::program::{Ended, listening, run, start, start_with};

/// An authority, and a directory for what it issues.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// The paths of a certificate and its key.
type Pair = (String, String);

impl Authority {
    /// A name decides whose signature is looked at, so each has another.
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("roots.pem"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    fn roots(&self) -> String {
        path(self.dir.path().join("roots.pem"))
    }

    fn issue(&self, name: &str) -> Pair {
        let pair = ["cert", "key"].map(|kind| self.dir.path().join(format!("{name}-{kind}.pem")));
        self.issue_into(name, &pair[0], &pair[1]);
        let [cert, key] = pair.map(path);
        (cert, key)
    }

    fn issue_into(&self, name: &str, cert: impl AsRef<Path>, key_path: impl AsRef<Path>) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let issued = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(cert, issued.pem()).unwrap();
        fs::write(key_path, key.serialize_pem()).unwrap();
    }
}

fn path(path: PathBuf) -> String {
    path.display().to_string()
}

fn localhost(url: &str) -> String {
    url.replace("127.0.0.1", "localhost")
}

fn call(url: &str, more: &[&str]) -> Ended {
    let mut args = vec!["call", "world", "echo", "7", "--connect", url];
    args.extend(more);
    run(&args)
}

#[test]
fn over_every_transport_with_tls_the_certificate_is_verified() {
    let authority = Authority::new("one");
    let (cert, key) = authority.issue("localhost");
    let at = |scheme| format!("{scheme}://127.0.0.1:0");
    for (listen, dial) in [("tls", "tls"), ("wss", "wss"), ("wss", "https")] {
        let files = ["--tls-cert", &cert, "--tls-key", &key];
        let listen = at(listen);
        let args = [&["serve", "--listen", &listen][..], &files].concat();
        let (_world, url) = listening(&args);
        let url = localhost(&url).replace("wss", dial);
        let roots = authority.roots();
        assert_eq!(call(&url, &["--tls-roots", &roots]).succeeded(), ["7"]);
        call(&url, &[]).failed(1, &["certificate", "--tls-roots"]);
        let other = Authority::new("two");
        call(&url, &["--tls-roots", &other.roots()]).failed(1, &["certificate"]);
    }
}

#[test]
fn files_that_are_missing_or_wrong_are_named() {
    let authority = Authority::new("one");
    let (cert, key) = authority.issue("localhost");
    let serve =
        |more: &[&str]| run(&[&["serve", "--listen", "tls://127.0.0.1:0"][..], more].concat());
    serve(&[]).failed(2, &["--tls-cert", "--tls-key"]);
    serve(&["--tls-cert", &cert]).failed(2, &["tls-cert needs tls-key"]);
    serve(&["--tls-key", &key]).failed(2, &["tls-key needs tls-cert"]);
    serve(&["--tls-client-roots", &cert]).failed(2, &["needs tls-cert"]);
    serve(&["--tls-cert", "/nowhere.pem", "--tls-key", &key]).failed(1, &["/nowhere.pem"]);
    serve(&["--tls-cert", &key, "--tls-key", &cert]).failed(1, &[&key, "no certificate"]);
    let other = authority.issue("other").1;
    serve(&["--tls-cert", &cert, "--tls-key", &other]).failed(1, &["does not belong"]);
    serve(&["--bearer-tokens-file", &cert]).failed(1, &[&cert, "NAME TOKEN"]);
}

#[test]
fn with_mutual_tls_an_app_id_belongs_to_its_certificate() {
    let authority = Authority::new("one");
    let (cert, key) = authority.issue("localhost");
    let roots = authority.roots();
    let config = authority.dir.path().join("world.toml");
    let text = format!(
        "listen = \"tls://127.0.0.1:0\"\ntls_cert = '{cert}'\ntls_key = '{key}'\ntls_client_roots = '{roots}'\n\
         [identities]\nreports = [\"daily\"]\n"
    );
    fs::write(&config, text).unwrap();
    let config = path(config);
    let as_app = |url: &str, (cert, key): &Pair, id: &str| {
        let files = [
            "--tls-client-cert",
            cert,
            "--tls-client-key",
            key,
            "--id",
            id,
        ];
        call(url, &[&["--tls-roots", &roots][..], &files].concat())
    };
    let (reports, billing) = (authority.issue("reports"), authority.issue("billing"));

    let (_world, url) = listening(&["serve", "--config", &config]);
    let url = localhost(&url);
    assert_eq!(as_app(&url, &reports, "daily").succeeded(), ["7"]);
    as_app(&url, &reports, "weekly").failed(1, &["identity-not-allowed"]);
    as_app(&url, &billing, "daily").failed(1, &["identity-not-allowed"]);
    assert_eq!(as_app(&url, &billing, "weekly").succeeded(), ["7"]);
    call(&url, &["--tls-roots", &roots]).failed(1, &["--tls-client-cert"]);

    let (_world, url) = listening(&["serve", "--config", &config, "--only-identities"]);
    let url = localhost(&url);
    assert_eq!(as_app(&url, &reports, "daily").succeeded(), ["7"]);
    as_app(&url, &billing, "weekly").failed(1, &["identity-not-listed"]);
}

#[test]
fn a_token_opens_the_door_and_names_who_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        path(dir.path().join(name))
    };
    let tokens = file(
        "tokens",
        "# who  what\nreports s3cret-1\n\nbilling  s3cret-2\n",
    );
    let (reports, billing) = (file("reports", "s3cret-1\n"), file("billing", "s3cret-2\n"));
    let wrong = file("wrong", "s3cret-3");
    let (world, url) = listening(&[
        "serve",
        "--listen",
        "http://127.0.0.1:0",
        "--bearer-tokens-file",
        &tokens,
        "--identities",
        "reports=daily",
    ]);
    for scheme in ["http", "ws"] {
        let url = url.replace("http", scheme);
        let show = |token: &str, id: &str| call(&url, &["--bearer-token-file", token, "--id", id]);
        assert_eq!(show(&reports, "daily").succeeded(), ["7"]);
        assert_eq!(show(&billing, "monthly").succeeded(), ["7"]);
        show(&billing, "daily").failed(1, &["identity-not-allowed"]);
        show(&wrong, "daily").failed(1, &["403"]);
        call(&url, &[]).failed(1, &["401", "--bearer-token-file"]);
        let args = [
            "call",
            "world",
            "echo",
            "7",
            "--connect",
            &url,
            "--id",
            "daily",
        ];
        let by_variable = start_with(&args, &[("NACP_BEARER_TOKEN", "s3cret-1")]).ended();
        assert_eq!(by_variable.succeeded(), ["7"]);
    }

    // Another token for the same name: the old one opens nothing any more.
    fs::write(&tokens, "reports s3cret-3\n").unwrap();
    let mut world = world;
    world.hang_up();
    world.complaint(|line| line.contains("read again: 1 of 1"));
    let show = |token: &str| call(&url, &["--bearer-token-file", token, "--id", "daily"]);
    assert_eq!(show(&wrong).succeeded(), ["7"]);
    show(&reports).failed(1, &["403"]);
    world.interrupt();
    let ended = world.ended();
    let said = format!("{ended:?}");
    assert!(!said.contains("s3cret"), "{said}");
}

#[test]
fn a_certificate_is_renewed_under_a_link_that_lives_on() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (cert, key) = old.issue("localhost");
    let files = ["--tls-cert", &cert, "--tls-key", &key];
    let args = [&["serve", "--listen", "tls://127.0.0.1:0"][..], &files].concat();
    let (mut world, url) = listening(&args);
    let url = localhost(&url);
    let (old_roots, new_roots) = (old.roots(), new.roots());
    let countdown = r#"{"from":1000000,"interval_ms":1}"#;
    let mut event = start(&[
        "event",
        "world",
        "countdown",
        countdown,
        "--connect",
        &url,
        "--tls-roots",
        &old_roots,
    ]);
    event.line(|line| line.contains("left"));

    new.issue_into("localhost", &cert, &key);
    assert_eq!(call(&url, &["--tls-roots", &old_roots]).succeeded(), ["7"]);
    world.hang_up();
    world.complaint(|line| line.contains("read again: 1 of 1"));
    assert_eq!(call(&url, &["--tls-roots", &new_roots]).succeeded(), ["7"]);
    call(&url, &["--tls-roots", &old_roots]).failed(1, &["certificate"]);

    // One that cannot be used changes nothing.
    fs::write(&key, "no key").unwrap();
    world.hang_up();
    world.complaint(|line| line.contains("the old one stays"));
    assert_eq!(call(&url, &["--tls-roots", &new_roots]).succeeded(), ["7"]);

    event.line(|line| line.contains("left"));
    event.interrupt();
    let said = event.ended().stderr.join("\n");
    assert!(!said.contains("offline"), "its link was never down: {said}");
}
