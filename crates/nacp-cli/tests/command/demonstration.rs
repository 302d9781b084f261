//! `demo`: the main job survives what is done to it, and says so.

use std::fs;

use serde_json::Value;

use crate::program::{Ended, run};

fn directory(files: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..files {
        fs::write(
            dir.path().join(format!("{file:03}")),
            format!("content {file}"),
        )
        .unwrap();
    }
    dir
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended
        .stdout
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn three_cuts_a_black_hole_and_a_slow_stretch_cost_nothing() {
    let dir = directory(40);
    let ended = run(&["demo", "--dir", dir.path().to_str().unwrap(), "--seed", "1"]);
    let text = ended.succeeded().join("\n");
    for part in [
        "cut 1 of 3",
        "cut 2 of 3",
        "cut 3 of 3",
        "black hole",
        "slow",
        "offline",
        "online again, replays",
        "40 sent, 40 delivered, 0 lost, 0 doubled",
        "response: right (40 files",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn without_lossless_streams_losses_are_counted_and_the_response_is_right() {
    let dir = directory(40);
    let ended = run(&[
        "demo",
        "--base",
        "--json",
        "--dir",
        dir.path().to_str().unwrap(),
    ]);
    ended.succeeded();
    let lines = lines(&ended);
    let verdict = &lines.last().unwrap()["verdict"];
    assert_eq!(verdict["is_response_right"], true, "{ended:#?}");
    assert_eq!(verdict["sent"], 40, "{ended:#?}");
    let count = |key: &str| verdict[key].as_u64().unwrap();
    assert_eq!(
        count("delivered") + count("lost") - count("doubled"),
        40,
        "{ended:#?}"
    );
}

/// A small directory, and what the demonstration comes to over this transport.
fn survives(transport: &str, more: &[&str]) -> Value {
    let dir = directory(12);
    let dir = dir.path().to_str().unwrap();
    let mut args = vec!["demo", "--json", "--dir", dir, "--transport", transport];
    args.extend(more);
    let ended = run(&args);
    ended.succeeded();
    let verdict = lines(&ended).pop().unwrap();
    assert_eq!(verdict["verdict"]["is_response_right"], true, "{ended:#?}");
    assert_eq!(verdict["verdict"]["wrong"], 0, "{ended:#?}");
    assert!(
        verdict["offline"]["client"].as_u64() >= Some(4),
        "{ended:#?}"
    );
    verdict
}

fn nothing_is_lost_over(transport: &str) {
    let verdict = survives(transport, &[]);
    assert_eq!(verdict["verdict"]["delivered"], 12, "{verdict}");
    assert_eq!(verdict["verdict"]["lost"], 0, "{verdict}");
}

#[cfg(unix)]
#[test]
fn over_a_unix_socket() {
    nothing_is_lost_over("unix");
}

#[test]
fn over_websocket() {
    nothing_is_lost_over("ws");
}

#[test]
fn over_streamable_http() {
    nothing_is_lost_over("http");
}

#[test]
fn over_tls() {
    nothing_is_lost_over("tls");
}

#[test]
fn over_websocket_inside_tls() {
    nothing_is_lost_over("wss");
}

#[test]
fn over_streamable_http_inside_tls() {
    nothing_is_lost_over("https");
}

#[test]
fn through_a_gateway_the_response_is_right() {
    survives("tcp", &["--via-gateway"]);
    let dir = directory(1);
    let ended = run(&[
        "demo",
        "--transport",
        "pigeon",
        "--dir",
        dir.path().to_str().unwrap(),
    ]);
    ended.failed(2, &["pigeon", "https"]);
}

#[test]
fn an_empty_directory_and_none_at_all() {
    let dir = directory(0);
    let ended = run(&["demo", "--dir", dir.path().to_str().unwrap()]);
    assert!(
        ended
            .succeeded()
            .join("\n")
            .contains("response: right (0 files"),
        "{ended:#?}"
    );
    run(&["demo", "--dir", "/nowhere/at/all"]).failed(1, &["/nowhere/at/all", "--dir"]);
}

#[test]
fn a_job_that_cannot_end_in_time_says_what_it_waits_for() {
    let dir = directory(3);
    let ended = run(&[
        "demo",
        "--deadline",
        "500ms",
        "--dir",
        dir.path().to_str().unwrap(),
    ]);
    ended.failed(
        1,
        &["not done within 500ms, while waiting for", "--deadline"],
    );
}
