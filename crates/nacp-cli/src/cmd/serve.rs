//! `nacp serve`: an App with the demonstration handlers.

use std::time::Duration;

use nacp::AppId;
use napp::Shutdown;

use crate::args::{self, Identity};
use crate::failure::{Failure, say};
use crate::interrupt::Interrupts;
use crate::{handlers, output, session};

/// Where to listen, and as whom.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Where to listen; may be given more than once
    #[arg(long, value_name = "URL", required = true, value_parser = args::url)]
    listen: Vec<String>,
    /// Forward between the Apps that register here, too
    #[arg(long)]
    gateway: bool,
    #[command(flatten)]
    identity: Identity,
}

const NOTES: &str = "\
Handlers:
  echo       ability: answers with what it is asked with
  countdown  event: a number, or {from, interval_ms}; a chunk {left} every second
  tree-hash  event: {dir, skip}; a chunk {path, bytes, sha256} for each file of a directory of this machine
             (whoever can connect can read names, sizes and hashes: listen where only those reach you who may)

Examples:
  nacp serve --id world --listen tcp://127.0.0.1:18900
  nacp serve --id world --listen unix:/tmp/world.sock --listen tcp://127.0.0.1:0 -v";

/// How long those who still wait for an answer may take when we end.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Runs the command, until a signal ends it.
///
/// # Errors
/// An address cannot be listened at.
pub async fn run(mut args: Args) -> Result<(), Failure> {
    if args.identity.id.is_none() {
        args.identity.id = AppId::new("world").ok();
    }
    let mut builder = handlers::register(session::builder(&args.identity)).gateway(args.gateway);
    for url in &args.listen {
        builder = builder.listen(url).map_err(Failure::usage)?;
    }
    let mut interrupts = Interrupts::new()?;
    let app = session::start(builder).await?;
    for url in app.local_urls() {
        output::line(&format!("{} listens at {url}", app.id()))?;
    }
    interrupts.next().await;
    say("leaving; again to leave at once");
    tokio::select! {
        _ = app.shutdown(Shutdown::Drain(DRAIN_TIME)) => Ok(()),
        () = interrupts.next() => Err(Failure::Interrupted),
    }
}
