//! Replays a trace and prints everything that the cores say: `cargo run -p nacp-sim --example replay -- FILE`.
//! Fails if a promise is broken.

use nacp_sim::{Trace, replay_logged};

fn main() {
    let path = std::env::args().nth(1).expect("the file of a trace");
    let text = std::fs::read_to_string(&path).expect("a file that can be read");
    let trace: Trace = text.parse().expect("a trace");
    let (result, log) = replay_logged(&trace.settings, &trace.ops);
    for line in log {
        println!("{line}");
    }
    match result {
        Ok(summary) => println!("\nkept: {summary:?}"),
        Err(failure) => {
            println!("\nBROKEN: {failure}");
            std::process::exit(1);
        }
    }
}
