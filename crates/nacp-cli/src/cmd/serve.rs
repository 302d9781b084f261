//! `nacp serve`: an App with the demonstration handlers.

use crate::failure::Failure;
use crate::settings::{self, Flags};
use crate::{handlers, listening};

/// Where to listen, and as whom.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    #[command(flatten)]
    settings: Flags<settings::Serve>,
}

const NOTES: &str = "\
Handlers:
  echo       ability: answers with what it is asked with
  countdown  event: a number, or {from, interval_ms}; a chunk {left} every second
  tree-hash  event: {dir, skip}; a chunk {path, bytes, sha256} for each file of a directory of this machine
             (whoever can connect can read names, sizes and hashes: listen where only those reach you who may)

Examples:
  nacp serve --id world --listen tcp://127.0.0.1:18900
  nacp serve --id world --listen unix:/tmp/world.sock --listen tcp://127.0.0.1:0 -v
  nacp serve --listen tls://0.0.0.0:18900 --tls-cert cert.pem --tls-key key.pem --tls-client-roots ca.pem
  nacp serve --print-config > serve.toml";

/// Runs the command, until a signal ends it.
///
/// # Errors
/// A setting is wrong, or an address cannot be listened at.
pub async fn run(args: Args) -> Result<(), Failure> {
    listening::run(args.settings, handlers::register).await
}
