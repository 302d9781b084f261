//! One App of ours for the interoperability tests: `peer '{"id": …, "listen": […]}'`, then commands on stdin and what came
//! of them on stdout, one JSON object a line. What this program keeps true: payloads cross as hex of their CBOR, so that
//! nothing between the two implementations reads or mends them. `peer certificate DIRECTORY` makes the certificate that
//! both sides listen with.

mod certificate;
mod commands;
mod handlers;
mod report;

use std::time::Duration;

use nact::tls::Tls;
use nact::web::{Web, WebConfig};
use napp::{App, Builder, TransportOptions, Transports};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::commands::Session;
use crate::report::report;

/// How the App is to be; what is left out stays at our defaults.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Setup {
    id: String,
    #[serde(default)]
    listen: Vec<String>,
    #[serde(default)]
    gateway: bool,
    chunk_size: Option<usize>,
    ack_timeout_ms: Option<u64>,
    grace_ms: Option<u64>,
    heartbeat_ms: Option<u64>,
    backoff_ms: Option<u64>,
}

type AnyError = Box<dyn std::error::Error>;

fn builder(setup: &Setup) -> Result<Builder, AnyError> {
    let mut builder = handlers::register(App::builder(&setup.id)).gateway(setup.gateway);
    // No heartbeat of ours unless a test is about it: it would be noise in all others.
    builder = builder.heartbeat_interval(setup.heartbeat_ms.map(Duration::from_millis));
    if let Some(ms) = setup.ack_timeout_ms {
        builder = builder.ack_timeout(Duration::from_millis(ms));
    }
    if let Some(ms) = setup.grace_ms {
        builder = builder.reconnect_grace(Duration::from_millis(ms));
    }
    if let Some(ms) = setup.backoff_ms {
        builder = builder.reconnect_backoff(Duration::from_millis(ms), Duration::from_millis(ms));
    }
    builder = builder.transports(transports(setup)?);
    for url in &setup.listen {
        builder = builder.listen(url)?;
    }
    Ok(builder)
}

fn transports(setup: &Setup) -> Result<Transports, AnyError> {
    let mut options = TransportOptions::default();
    options.chunk_size = setup.chunk_size.unwrap_or(options.chunk_size);
    let mut transports = Transports::new(options);
    if let Some(directory) = std::env::var_os("NACP_INTEROP_TLS") {
        let tls = certificate::tls(directory.as_ref())?;
        transports.register(Web::new(WebConfig::default().with_tls(tls.clone())));
        transports.register(Tls::new(tls));
    }
    Ok(transports)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let mut words = std::env::args().skip(1);
    if let (Some("certificate"), Some(directory)) = (words.next().as_deref(), words.next()) {
        return certificate::make(directory.as_ref());
    }
    tokio::task::LocalSet::new().run_until(run()).await
}

async fn run() -> Result<(), AnyError> {
    let setup = std::env::args().nth(1).ok_or("a setup is wanted")?;
    let setup: Setup = serde_json::from_str(&setup)?;
    let app = builder(&setup)?.start().await?;
    report(&json!({ "event": "ready", "urls": app.local_urls() }));
    let session = Session::new(app);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    // The end of stdin is the end of the test, whatever became of it.
    while let Some(line) = lines.next_line().await? {
        session.start(serde_json::from_str(&line)?);
    }
    Ok(())
}
