//! The command line.
//!
//! What this module keeps true: what cannot be meant is refused here, with exit code 2, before anything is opened.

use std::process::ExitCode;

use crate::cmd;
use crate::failure::Failure;
use clap::{Parser, Subcommand};

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "nacp",
    version,
    about = "Calls, streams, signals and subscriptions between programs, over connections that may break",
    after_help = EXAMPLES,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Says on stderr what happens; -vv says all of it
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

const EXAMPLES: &str = "\
Examples:
  nacp demo                                                  break a connection five times, lose nothing
  nacp serve --id world --listen tcp://127.0.0.1:18900       an App with demonstration handlers
  nacp gateway --listen tcp://127.0.0.1:18901                an App that forwards
  nacp call world echo '{\"text\":\"hi\"}' --connect tcp://127.0.0.1:18900
  nacp event world countdown 5 --connect tcp://127.0.0.1:18900
  nacp sub world 'nacp:internal:*:*' --connect tcp://127.0.0.1:18900
  nacp introduce world --connect tcp://127.0.0.1:18900
  nacp decode capture.bin

Exit codes: 0 success, 1 failure, 2 wrong usage.";

/// What clap has to say: help as it is, a complaint on one line.
pub fn refuse(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print(); // to a reader that may have gone away
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.render().to_string();
    let said: Vec<_> = text
        .split("\n\n")
        .map(|part| part.trim().trim_start_matches("error: "))
        .filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more information"))
        .collect();
    Failure::usage(said.join("; ")).report()
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an App with demonstration handlers: echo, countdown, tree-hash
    Serve(cmd::serve::Args),
    /// Run an App that only forwards, between the Apps that register with it
    Gateway(cmd::gateway::Args),
    /// Call an ability and print its response
    Call(cmd::call::Args),
    /// Call an event and print its chunks as they come, then its response
    Event(cmd::event::Args),
    /// Print what an App's event bus emits under a name
    Sub(cmd::sub::Args),
    /// Send a signal to an event that is running
    Signal(cmd::signal::Args),
    /// Print what an App can do
    Introduce(cmd::introduce::Args),
    /// Print captured bytes as messages, and what is wrong with them
    Decode(cmd::decode::Args),
    /// Attack the protocol in a simulated world, and judge it by its promises
    Sim(cmd::sim::Args),
    /// Hash a directory through a connection that is cut, black-holed and slowed, and check every hash
    Demo(cmd::demo::Args),
    /// One of the demonstration's programs
    #[command(hide = true)]
    DemoWorker(cmd::demo::worker::Args),
    /// Another one
    #[command(hide = true)]
    DemoClient(cmd::demo::client::Args),
    /// The one in the middle
    #[command(hide = true)]
    DemoGateway(cmd::demo::gateway::Args),
}
