//! Flags, variables and files; and that what is wrong is told with its place.

use std::fs;

use crate::program::{Ended, run, start_with};

fn run_with(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    start_with(args, variables).ended()
}

/// A directory with this file of settings in it, and the file's path.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nacp.toml");
    fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

/// What `--print-config` says of a setting.
fn said(ended: &Ended, key: &str) -> String {
    let lines = ended.succeeded();
    let line = lines
        .iter()
        .find(|line| line.starts_with(&format!("{key} = ")))
        .unwrap_or_else(|| panic!("no {key} in {lines:#?}"));
    line.clone()
}

#[test]
fn a_flag_comes_before_a_variable_before_the_file_before_the_default() {
    let (_dir, path) =
        file("ack_timeout = \"1s\"\nreconnect_grace = \"1s\"\nforward_hold = \"2s\"\n");
    let ended = run_with(
        &[
            "gateway",
            "--print-config",
            "--config",
            &path,
            "--ack-timeout",
            "3s",
        ],
        &[("NACP_ACK_TIMEOUT", "2s"), ("NACP_RECONNECT_GRACE", "2s")],
    );
    assert_eq!(
        said(&ended, "ack_timeout"),
        "ack_timeout = \"3s\" # --ack-timeout"
    );
    assert_eq!(
        said(&ended, "reconnect_grace"),
        "reconnect_grace = \"2s\" # NACP_RECONNECT_GRACE"
    );
    assert_eq!(
        said(&ended, "forward_hold"),
        format!("forward_hold = \"2s\" # {path}:3:16")
    );
    assert_eq!(
        said(&ended, "challenge_timeout"),
        "challenge_timeout = \"3s\" # default"
    );
}

#[test]
fn what_is_printed_is_a_file_that_means_the_same() {
    for command in ["serve", "gateway"] {
        let first = run_with(
            &[
                command,
                "--print-config",
                "--listen",
                "unix:/tmp/a \"quoted\" name",
                "--listen",
                "tcp://127.0.0.1:0",
                "--connect",
                "far=tcp://127.0.0.1:9",
                "--heartbeat",
                "off",
                "--chunk-size",
                "16KiB",
                "--overflow",
                "wait",
                "--identities",
                "reports.example=reports",
                "--identities",
                "reports.example=reports-2",
                "--only-identities",
            ],
            &[
                ("NACP_WEB_IDLE_TIMEOUT", "off"),
                ("NACP_QUEUE_COUNT_MAX", "7"),
            ],
        );
        let (_dir, path) = file(&first.succeeded().join("\n"));
        let second = run(&[command, "--print-config", "--config", &path]);
        let values = |ended: &Ended| {
            let text = ended.succeeded().join("\n");
            text.parse::<toml::Table>().unwrap()
        };
        let (first, second) = (values(&first), values(&second));
        assert_eq!(first, second);
        assert_eq!(first["heartbeat_interval"].as_str(), Some("off"));
        assert_eq!(
            first["identities"]["reports.example"]
                .as_array()
                .unwrap()
                .len(),
            2
        );
        assert_eq!(first["listen"].as_array().unwrap().len(), 2);
        assert_eq!(first["queue_count_max"].as_integer(), Some(7));
    }
}

#[test]
fn what_is_wrong_in_a_file_is_told_with_its_place() {
    let cases = [
        ("\n  lisen = [\"x\"]", ":2:3: ", "did you mean \"listen\"?"),
        ("colour = 1", ":1:1: ", "no setting is called \"colour\""),
        ("ack_timeout = 5", ":1:15: ack_timeout", "\"500ms\""),
        ("ack_timeout = \"5\"", ":1:15: ack_timeout", "500ms, 5s"),
        ("chunk_size = 3", ":1:14: chunk_size", "at least 64"),
        (
            "message_size_max = \"5GiB\"",
            ":1:20: ",
            "at most 4294967295",
        ),
        ("forward_count_max = 0", ":1:21: ", "at least 1"),
        (
            "listen = [\"tcp:x\"]",
            ":1:10: listen",
            "write tcp://host:port",
        ),
        ("overflow = \"drop\"", ":1:12: ", "evict or wait"),
        ("batched_acks = \"true\"", ":1:16: ", "without quotes"),
        ("connect = [\"world\"]", ":1:11: ", "APP=URL"),
        ("handlers_max = 3", ":1:1: ", "not for this command"),
        ("bearer_token = \"s3cret\"", ":1:1: ", "NACP_BEARER_TOKEN"),
        ("id = ", ":1:6: ", "no valid TOML"),
        (
            "[identities]\nreports = 3",
            ":2:11: identities",
            "[\"APP\", …]",
        ),
    ];
    for (text, place, says) in cases {
        let (_dir, path) = file(text);
        let ended = run(&["gateway", "--config", &path]);
        ended.failed(2, &[&format!("{path}{place}"), says]);
        assert!(!ended.stderr.concat().contains("s3cret"), "{ended:#?}");
    }
    run(&["gateway", "--config", "/nowhere/nacp.toml"]).failed(2, &["/nowhere/nacp.toml"]);
}

#[test]
fn what_is_wrong_in_a_variable_or_a_flag_is_told_by_its_name() {
    let cases: &[(&str, &str, &str)] = &[
        ("NACP_LISTNE", "x", "did you mean NACP_LISTEN?"),
        ("NACP_ACK_TIMEOUT", "5", "500ms, 5s"),
        ("NACP_BATCHED_ACKS", "maybe", "true or false"),
    ];
    for (name, value, says) in cases {
        run_with(&["gateway"], &[(name, value)]).failed(2, &[name, says]);
    }
    run(&["gateway", "--chunk-size", "big"]).failed(2, &["--chunk-size", "64KiB"]);
    run(&["gateway", "--lisetn", "x"]).failed(2, &["--lisetn", "--listen"]);
    run(&["gateway"]).failed(2, &["--listen", "NACP_LISTEN"]);
    // Not ours, and nothing like ours; and one that is empty counts as not set.
    let others = [("NACP_SERVICE_HOST", "10.0.0.1"), ("NACP_ACK_TIMEOUT", "")];
    run_with(&["gateway", "--print-config"], &others).succeeded();
}

#[test]
fn secrets_are_not_printed() {
    let variables = [("NACP_BEARER_TOKEN", "s3cret")];
    let url = "far=ws://127.0.0.1:9/nacp?token=s3cret";
    let ended = run_with(&["gateway", "--print-config", "--connect", url], &variables);
    let text = ended.succeeded().join("\n");
    assert!(
        text.contains("set, not shown") && !text.contains("s3cret"),
        "{text}"
    );
    text.parse::<toml::Table>().unwrap();
}

#[test]
fn help_explains_every_limit_with_its_default_and_what_happens_there() {
    let ended = run(&["gateway", "--help"]);
    let help = ended.succeeded().join("\n");
    let ended = run(&["gateway", "--print-config"]);
    let keys = ended.succeeded().join("\n").parse::<toml::Table>().unwrap();
    for key in keys.keys() {
        let flag = format!("--{}", key.replace('_', "-"));
        let variable = format!("[variable: NACP_{}]", key.to_uppercase());
        assert!(help.contains(&flag) && help.contains(&variable), "{key}");
    }
    for fixed in ["Fixed limits:", "SIGHUP", "[default: 64MiB]", "no-route"] {
        assert!(help.contains(fixed), "{fixed}");
    }
}

#[test]
fn the_file_in_the_readme_works() {
    let readme = include_str!("../../../../README.md");
    let example = readme.split("```toml\n").nth(1).expect("it is there");
    let (_dir, path) = file(example.split("```").next().unwrap());
    let ended = run(&["gateway", "--print-config", "--config", &path]);
    let lines = ended.succeeded();
    let from_file = lines.iter().filter(|line| line.contains(&path)).count();
    let keys = example.split("```").next().unwrap();
    let keys = keys.parse::<toml::Table>().unwrap().len();
    assert_eq!(from_file, keys, "{lines:#?}");
}
