//! An App that others connect to: `serve` and `gateway` run one until a signal ends it.
//!
//! What this module keeps true: what is open to everybody is said to be; as many connections as the system allows can
//! be held; a SIGHUP ends nothing.

use std::time::Duration;

use nacp::AppId;
use napp::{App, Builder, Shutdown};

use crate::credentials::{self, Renewable};
use crate::failure::{Failure, say};
use crate::interrupt::{Hangups, Interrupts};
use crate::settings::{self, Flags, Resolved};
use crate::{output, session};

/// How long those who still wait for an answer may take when we end.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Runs an App with these settings, or prints them.
///
/// # Errors
/// A setting is wrong, or an address cannot be listened at.
pub async fn run<A: settings::Audience>(
    flags: Flags<A>,
    add_handlers: impl FnOnce(Builder) -> Builder,
) -> Result<(), Failure> {
    let only_print = flags.print_config();
    let settings = flags.resolve()?;
    if only_print {
        return settings::print(settings);
    }
    let Resolved { plan, .. } = settings;
    if plan.listen.is_empty() && plan.connect.is_empty() {
        return Err(Failure::usage(
            "where to listen? say --listen URL, NACP_LISTEN=URL, or listen = [\"URL\"] in the file of --config",
        ));
    }
    let (transports, renewable) = credentials::transports(&plan)?;
    for url in &plan.listen {
        if transports.is_public_plaintext(url).is_ok_and(|open| open) {
            say(&format!(
                "{url} is open to everybody who can reach this machine, and not encrypted; see Security in --help"
            ));
        }
    }
    let mut builder = add_handlers(plan.builder(transports));
    for url in &plan.listen {
        builder = builder.listen(url).map_err(Failure::usage)?;
    }
    allow_many_connections();
    let interrupts = Interrupts::new()?;
    let hangups = Hangups::new()?;
    let app = session::start(builder).await?;
    for url in app.local_urls() {
        output::line(&format!("{} listens at {url}", app.id()))?;
    }
    for (peer, url) in plan.connect {
        tokio::spawn(connect(app.clone(), peer, url));
    }
    until_ended(app, interrupts, hangups, &renewable).await
}

/// Says when there is a link. It is kept without further ado.
async fn connect(app: App, peer: AppId, url: String) {
    let (id, connected) = (
        app.id().clone(),
        app.connect_patiently(peer.as_str(), &url).await,
    );
    match connected {
        Ok(()) => drop(output::line(&format!("{id} is connected to {peer}"))),
        // It is over: we leave.
        Err(error) => tracing::info!(%peer, %error, "no link"),
    }
}

async fn until_ended(
    app: App,
    mut interrupts: Interrupts,
    mut hangups: Hangups,
    renewable: &Renewable,
) -> Result<(), Failure> {
    loop {
        tokio::select! {
            () = interrupts.next() => break,
            () = hangups.next() => renew(renewable),
        }
    }
    say("leaving; again to leave at once");
    tokio::select! {
        _ = app.shutdown(Shutdown::Drain(DRAIN_TIME)) => Ok(()),
        () = interrupts.next() => Err(Failure::Interrupted),
    }
}

fn renew(renewable: &Renewable) {
    let results = renewable.renew();
    let count = results.len();
    let mut failed = 0;
    for error in results.into_iter().filter_map(Result::err) {
        failed += 1;
        say(&format!("{error}; the old one stays"));
    }
    say(&format!(
        "read again: {} of {count} certificates and token files",
        count - failed
    ));
}

/// A connection takes a file descriptor, and most systems let a program have only 1,024 of them unless it asks for as
/// many as it may have.
fn allow_many_connections() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}
