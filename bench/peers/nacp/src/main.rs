//! NACP under measurement.
//!
//! `bench-nacp server|gateway|client --url tcp://… | unix:///… [--case echo|swallow|chunks|idle|reconnect|bus]
//! [--via gateway] [--features base] [--name APP]`. Calls and chunks are typed: encoding and decoding the user's bytes
//! is part of what is measured, as it is with the other peers.

mod apps;
mod bus;
mod calls;
mod cut;
mod idle;
mod reconnect;
mod serve;

use std::process::ExitCode;

use yardstick::{Args, Control, Failure, control};

fn main() -> ExitCode {
    control::run_async(run)
}

async fn run(args: Args, control: Control) -> Result<(), Failure> {
    match args.role.as_str() {
        "server" => serve::server(&args).await,
        "gateway" => serve::gateway(&args).await,
        "client" => match args.text("case", "echo") {
            "idle" => idle::run(&args, control).await,
            "reconnect" => reconnect::run(&args, control).await,
            "bus" => bus::run(&args, control).await,
            _ => calls::run(&args, control).await,
        },
        other => Err(format!("no such role: {other}").into()),
    }
}
