//! How the Apps are configured: the defaults, and more room in the queues only where a case asks for more than fits in
//! the default 1,024 messages.

use napp::{App, Builder};
use yardstick::{Args, Failure, Load};

/// The App that answers.
pub const SERVER: &str = "server";
/// The App that forwards.
pub const GATEWAY: &str = "gateway";

const QUEUE_COUNT_DEFAULT: usize = 1_024;

/// An App of this name, with what the command line says.
pub fn builder(name: &str, args: &Args) -> Result<Builder, Failure> {
    let load = Load::from_args(args)?;
    let mut builder = App::builder(name);
    let is_base = args.text("features", "all") == "base";
    if is_base {
        builder = builder.lossless_streams(false);
    }
    // Twice what can be under way: a response and the next request are in the queues together.
    let wanted = match args.text("case", "echo") {
        "chunks" if is_base => usize::try_from(load.chunks)?,
        "reconnect" => usize::try_from(load.calls_max)?,
        "idle" => 0,
        _ => load.in_flight,
    };
    let wanted = wanted.saturating_mul(2);
    if wanted > QUEUE_COUNT_DEFAULT {
        builder = builder.queue_count_max(wanted).handlers_max(wanted);
    }
    Ok(builder)
}

/// Where an App of the client's or server's side connects to: directly, or through the Gateway.
pub fn next_hop(args: &Args) -> &str {
    if args.text("via", "") == GATEWAY {
        GATEWAY
    } else {
        SERVER
    }
}
