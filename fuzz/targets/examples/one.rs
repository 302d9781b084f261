//! Runs one target on the files that are named, on stable Rust: for the debugger, and to see what a finding says.
//!
//! `cargo run -p nacp-fuzz-targets --example one -- <target> <file>…` in `fuzz/`.

use nacp_fuzz_targets::TARGETS;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of a target");
    let (_, run) = TARGETS
        .iter()
        .find(|(target, _)| *target == name)
        .expect("a target of that name");
    for file in arguments {
        eprintln!("{file}");
        run(&std::fs::read(&file).expect("readable"));
    }
}
