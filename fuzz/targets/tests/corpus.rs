//! Replays the committed corpus, so that what the fuzzer once reached stays right on stable Rust and without libFuzzer.

use std::fs;
use std::path::Path;

use nacp_fuzz_targets::TARGETS;

/// The files are small, and few enough to be looked at.
const FILES_MAX: usize = 400;

fn replay(target: &str) {
    let (_, run) = TARGETS
        .iter()
        .find(|(name, _)| *name == target)
        .expect("a target of that name");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the corpus is committed")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(
        (1..=FILES_MAX).contains(&files.len()),
        "{} files",
        files.len()
    );
    for file in files {
        let input = fs::read(&file).expect("readable");
        let outcome = std::panic::catch_unwind(|| run(&input));
        assert!(outcome.is_ok(), "{}", file.display());
    }
    run(&[]);
}

#[test]
fn frame_stream() {
    replay("frame_stream");
}

#[test]
fn message_decode() {
    replay("message_decode");
}

#[test]
fn payload_values() {
    replay("payload_values");
}

#[test]
fn core_ops() {
    replay("core_ops");
}

#[test]
fn hostile_peer() {
    replay("hostile_peer");
}
