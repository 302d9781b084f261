//! The `nacp` command as a library: what its own tests reach for.

mod args;
pub mod captured;
mod cmd;
mod credentials;
mod duration;
mod failure;
mod handlers;
mod interrupt;
mod json_argument;
mod listening;
pub mod notation;
mod output;
mod random;
mod session;
mod settings;
mod size;
mod target;
mod tree_hash;
mod words;

use std::future::Future;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};
use failure::Failure;

/// Reads the command line, does what it says, and gives the exit code: 0 success, 1 failure, 2 wrong usage.
pub fn run() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    trace(args.verbose);
    match dispatch(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => block_on(cmd::serve::run(args)),
        Command::Gateway(args) => block_on(cmd::gateway::run(args)),
        Command::Call(args) => block_on(cmd::call::run(args)),
        Command::Event(args) => block_on(cmd::event::run(args)),
        Command::Sub(args) => block_on(cmd::sub::run(args)),
        Command::Signal(args) => block_on(cmd::signal::run(args)),
        Command::Introduce(args) => block_on(cmd::introduce::run(args)),
        Command::Decode(args) => cmd::decode::run(&args),
        Command::Sim(args) => cmd::sim::run(&args),
        Command::Demo(args) => block_on(cmd::demo::run(args)),
        Command::DemoWorker(args) => block_on(cmd::demo::worker::run(args)),
        Command::DemoClient(args) => block_on(cmd::demo::client::run(args)),
        Command::DemoGateway(args) => block_on(cmd::demo::gateway::run(args)),
    }
}

/// One thread: it starts fastest, and leaves a batch of messages together.
fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("the system refuses a runtime: {error}")))?;
    let result = runtime.block_on(command);
    // A thread that blocks (in a read of stdin, in a slow disk) must not hold up the end.
    runtime.shutdown_background();
    result
}

fn trace(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => tracing::Level::INFO,
        2 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .init();
}
