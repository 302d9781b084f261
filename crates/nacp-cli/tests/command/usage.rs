//! What cannot be meant is exit code 2; what cannot be done is exit code 1; both say what to do.

use crate::program::{run, serve};

const URL: &str = "tcp://127.0.0.1:9";

#[test]
fn wrong_usage_is_exit_code_2() {
    let long = "x".repeat(256);
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["nope"], "nope"),
        (&["call", "world"], "ABILITY"),
        (&["call", "world", "echo"], "--connect"),
        (&["call", "", "echo", "--connect", URL], "1 to 255 bytes"),
        (
            &["call", &long, "echo", "--connect", URL],
            "this one has 256",
        ),
        (
            &["call", "world", "echo", "--id", "", "--connect", URL],
            "1 to 255 bytes",
        ),
        (
            &["call", "world", "echo", "--connect", "tcp:x"],
            "write tcp://host:port",
        ),
        (
            &["call", "world", "echo", "--connect", "pigeon://roof"],
            "no transport for \"pigeon\"; known are",
        ),
        (
            &["serve", "--listen", "pigeon://roof"],
            "no transport for \"pigeon\"; known are",
        ),
        (&["serve"], "--listen"),
        (
            &["call", "world", "echo", "{", "--connect", URL],
            "line 1 column 1",
        ),
        (
            &["call", "world", "echo", r#"{"$byte":1}"#, "--connect", URL],
            "$$byte",
        ),
        (
            &["call", "world", "echo", "--timeout", "5", "--connect", URL],
            "500ms, 5s",
        ),
        (
            &[
                "event",
                "world",
                "x",
                "--heartbeat",
                "never",
                "--connect",
                URL,
            ],
            "or off",
        ),
        (
            &["signal", "world", "id", "stop", "--connect", URL],
            "pause",
        ),
        (
            &["signal", "world", "id", "pause", "{}", "--connect", URL],
            "only a normal signal",
        ),
        (&["decode", "--nope"], "--nope"),
    ];
    for (args, says) in cases {
        run(args).failed(2, &[says]);
    }
}

#[test]
fn help_is_no_failure_and_shows_examples() {
    for args in [
        &["--help"][..],
        &["call", "--help"],
        &["event", "--help"],
        &["demo", "--help"],
        &["--version"],
    ] {
        let ended = run(args);
        let text = ended.succeeded().join("\n");
        assert!(
            text.contains("Examples:") || args == ["--version"],
            "{text}"
        );
        assert!(!text.contains("demo-worker"), "{text}");
    }
}

#[test]
fn nobody_there_and_a_port_in_use_say_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("tcp://127.0.0.1:{port}");
    run(&["serve", "--listen", &url]).failed(1, &["taken", &url, "choose another"]);
    drop(listener);
    let ended = run(&["call", "world", "echo", "--connect", &url]);
    ended.failed(1, &["nobody listens", &url, "--connect"]);
}

#[test]
fn an_app_id_in_use_says_so() {
    let (_world, url) = serve(&[]);
    let mut holder = crate::program::start(&[
        "event",
        "world",
        "countdown",
        "1000",
        "--id",
        "me",
        "--connect",
        &url,
    ]);
    holder.line(|line| line.contains("left"));
    let ended = run(&["call", "world", "echo", "--id", "me", "--connect", &url]);
    ended.failed(1, &["appId-in-use", "--id"]);
}
