//! `event`: chunks, aborts, broken links, directories.

use std::fs;

use crate::program::{run, serve, start};

const FAST: &str = r#"{"from":3,"interval_ms":1}"#;

#[test]
fn chunks_come_in_order_and_then_the_response() {
    let (_world, url) = serve(&[]);
    let ended = run(&["event", "world", "countdown", FAST, "--connect", &url]);
    assert_eq!(
        ended.succeeded(),
        [
            r#"{"left":3}"#,
            r#"{"left":2}"#,
            r#"{"left":1}"#,
            r#"= {"done":true}"#
        ]
    );
    let ended = run(&[
        "event",
        "world",
        "countdown",
        FAST,
        "--json",
        "--connect",
        &url,
    ]);
    let lines = ended.succeeded();
    assert!(lines[0].starts_with(r#"{"request":""#), "{lines:?}");
    assert_eq!(
        lines[1..],
        [
            r#"{"chunk":{"left":3}}"#,
            r#"{"chunk":{"left":2}}"#,
            r#"{"chunk":{"left":1}}"#,
            r#"{"response":{"done":true}}"#
        ]
    );
    let ended = run(&["event", "world", "countdown", "0", "--connect", &url]);
    assert_eq!(ended.succeeded(), [r#"= {"done":true}"#]);
    let ended = run(&["event", "world", "countdown", "\"x\"", "--connect", &url]);
    ended.failed(1, &["world: countdown: not ok: countdown wants a number"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_aborts_the_event_and_waits_for_its_answer() {
    let (_world, url) = serve(&[]);
    let mut event = start(&[
        "event",
        "world",
        "countdown",
        "1000",
        "--json",
        "--connect",
        &url,
    ]);
    event.line(|line| line.contains("chunk"));
    event.interrupt();
    event
        .ended()
        .failed(1, &["aborting", "world: countdown: not ok: aborted"]);
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_quits_when_nobody_answers() {
    let (world, url) = serve(&[]);
    let mut event = start(&[
        "event",
        "world",
        "countdown",
        "1000",
        "--json",
        "--connect",
        &url,
    ]);
    event.line(|line| line.contains("chunk"));
    world.kill();
    event.line(|line| line.contains(r#"{"link":"offline"}"#));
    event.interrupt();
    event.complaint(|line| line.contains("aborting"));
    event.interrupt();
    assert_eq!(event.ended().code, Some(130));
}

#[test]
fn a_restarted_app_ends_the_event_with_peer_restarted() {
    let (world, url) = serve(&[]);
    let mut event = start(&[
        "event",
        "world",
        "countdown",
        "1000",
        "--json",
        "--connect",
        &url,
    ]);
    event.line(|line| line.contains("chunk"));
    world.kill();
    event.line(|line| line.contains(r#"{"link":"offline"}"#));
    let mut world = start(&["serve", "--listen", &url]);
    world.line(|line| line.contains("listens at"));
    event
        .ended()
        .failed(1, &["world: countdown: peer-restarted", "restarted"]);
}

#[test]
fn an_app_that_does_not_come_back_ends_the_event_with_peer_gone() {
    let (world, url) = serve(&[]);
    let mut event = start(&[
        "event",
        "world",
        "countdown",
        "1000",
        "--connect",
        &url,
        "--grace",
        "300ms",
    ]);
    event.line(|line| line.contains("left"));
    world.kill();
    event
        .ended()
        .failed(1, &["world is offline", "peer-gone", "--grace"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let (_world, url) = serve(&[]);
    let mut event = start(&[
        "event",
        "world",
        "countdown",
        "1000",
        "--json",
        "--connect",
        &url,
    ]);
    event.close_stdout_after_next_line();
    let ended = event.ended();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(!ended.stderr.join("").contains("panicked"), "{ended:#?}");
}

#[test]
fn tree_hash_streams_a_chunk_a_file() {
    let (_world, url) = serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("a"), "abc").unwrap();
    fs::write(dir.path().join("sub/b"), "").unwrap();
    let request = format!("{{\"dir\":{:?}}}", dir.path());
    let ended = run(&["event", "world", "tree-hash", &request, "--connect", &url]);
    assert_eq!(
        ended.succeeded(),
        [
            r#"{"path":"a","bytes":3,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#,
            r#"{"path":"sub/b","bytes":0,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}"#,
            r#"= {"files":2,"bytes":3}"#,
        ]
    );
}

#[test]
fn a_directory_that_cannot_be_read_is_a_clear_answer() {
    let (_world, url) = serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [dir.path().join("none"), file] {
        let request = format!("{{\"dir\":{path:?}}}");
        let ended = run(&["event", "world", "tree-hash", &request, "--connect", &url]);
        ended.failed(
            1,
            &["not ok: cannot read the directory", path.to_str().unwrap()],
        );
    }
    let ended = run(&["event", "world", "tree-hash", "1", "--connect", &url]);
    ended.failed(1, &["bad-payload"]);
}

/// Root reads what nobody may read, so the outcome depends on who runs the test.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_an_entry_of_its_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_world, url) = serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let closed = dir.path().join("closed");
    fs::write(&closed, "x").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    let request = format!("{{\"dir\":{:?}}}", dir.path());
    let ended = run(&["event", "world", "tree-hash", &request, "--connect", &url]);
    let lines = ended.succeeded();
    if fs::read(&closed).is_ok() {
        assert!(lines[0].contains("sha256"), "{lines:?}");
    } else {
        assert!(
            lines[0].contains("error") && lines[1].contains(r#""unreadable":1"#),
            "{lines:?}"
        );
    }
}
