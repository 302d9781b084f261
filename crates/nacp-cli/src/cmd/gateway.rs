//! `nacp gateway`: an App that only forwards, between the Apps that register with it.

use crate::failure::Failure;
use crate::listening;
use crate::settings::{self, Flags};

/// Where to listen, and the limits.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = NOTES)]
pub struct Args {
    #[command(flatten)]
    settings: Flags<settings::Gateway>,
}

const EXAMPLES: &str = "\
--help tells more of each limit, and of those that are fixed.

Examples:
  nacp gateway --listen tcp://127.0.0.1:18900
  nacp gateway --listen wss://0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem --bearer-tokens-file tokens
  nacp gateway --print-config > gateway.toml; nacp gateway --config gateway.toml";

const NOTES: &str = "\
Fixed limits:
  Remembered message ids   the larger of 4,096 and twice --queue-count-max, for each App; beyond it the oldest is
                           forgotten, and a late copy of that message would count as new. Messages that are forwarded
                           are not looked at: the App that receives them remembers their ids.
  Register                 1,024 connections that have not registered yet; further ones wait in the system's queue
                           (--accept-queue-max). Each has --protocol-timeout to register, then it is closed.
  TLS handshakes           256 at a time for each tls address; further ones wait in the system's queue. Each has
                           --connect-timeout, then it is closed. Those of wss and https count in --web-connections-max.
  Refused registers        their connection is closed within 10 s, sooner when the other side closes it.
  Names                    App IDs of 255 bytes, message ids of 1,024 bytes, names on the event bus of 1,024 bytes; what
                           is longer is not accepted.
  Nesting                  64 levels of the CBOR of a message; a deeper one is not accepted.

What happens to whom:
  A Gateway looks at the addressee alone. It acknowledges nothing that it forwards: only the App that receives a message
  does, so nothing is lost silently when the Gateway dies, and everything that was not acknowledged is sent again when
  it is back. An App that was connected and is offline has its messages kept, within the limits above, until
  --reconnect-grace ends. A request for an App that is not known is answered not ok, no-route.

Signals:
  SIGINT, SIGTERM          leaves: tells the Apps, and ends; a second one ends at once
  SIGHUP                   reads certificates, keys and the tokens file again; no link is dropped

Examples:
  nacp gateway --listen tcp://127.0.0.1:18900
  nacp gateway --listen wss://0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem --bearer-tokens-file tokens
  nacp gateway --print-config > gateway.toml; nacp gateway --config gateway.toml";

/// Runs the command, until a signal ends it.
///
/// # Errors
/// A setting is wrong, or an address cannot be listened at.
pub async fn run(args: Args) -> Result<(), Failure> {
    listening::run(args.settings, |builder| builder).await
}
