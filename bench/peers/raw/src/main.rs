//! The floors: ping-pong over bare sockets, once with tokio and once with blocking threads. No frames, no encoding:
//! both sides know the size, so nothing that carries messages can be faster than this on the same sockets.
//!
//! `bench-raw tokio-server|tokio-client|blocking-server|blocking-client --url tcp://… | unix:///…`

mod asynchronous;
mod blocking;

use std::process::ExitCode;

use yardstick::{Args, Control, control};

fn main() -> ExitCode {
    let is_blocking = std::env::args()
        .nth(1)
        .is_some_and(|role| role.starts_with("blocking"));
    if is_blocking {
        return control::run_with(blocking::run);
    }
    control::run_async(|args: Args, control: Control| asynchronous::run(args, control))
}
