//! `serve`, `call`, `introduce`, `sub`.

use crate::program::{run, run_with_input, serve, start};

#[test]
fn echo_answers_with_every_kind_of_value() {
    let (_world, url) = serve(&[]);
    for json in [
        r#"{"text":"hi"}"#,
        r#"[1,-2,1.5,1e+300,true,null,"é"]"#,
        r#"{"b":{"$bytes":"aGk="},"n":{"$bigint":"18446744073709551616"},"d":{"$date":1796092529440}}"#,
        r#"[{"$undefined":true},{"$number":"NaN"},{"$map":[[1,"a"]]},{"$set":[1]},{"$typed":["Uint16Array","AQIDBA=="]}]"#,
        r#"{"$$bytes":1}"#,
    ] {
        let ended = run(&["call", "world", "echo", json, "--connect", &url]);
        assert_eq!(ended.succeeded(), [json]);
    }
    let ended = run(&["call", "world", "echo", "-5", "--connect", &url]);
    assert_eq!(ended.succeeded(), ["-5"]);
    let ended = run(&["call", "world", "echo", "--connect", &url]);
    assert_eq!(ended.succeeded(), ["{}"]);
    let ended = run_with_input(&["call", "world", "echo", "-", "--connect", &url], b"[7]\n");
    assert_eq!(ended.succeeded(), ["[7]"]);
}

#[test]
fn an_app_introduces_itself() {
    let (_world, url) = serve(&["--id", "mars"]);
    let ended = run(&["introduce", "mars", "--connect", &url]);
    let text = ended.succeeded().join("\n");
    for name in ["echo", "countdown", "tree-hash"] {
        assert!(text.contains(name), "{text}");
    }
    let ended = run(&["introduce", "mars", "--json", "--connect", &url]);
    assert!(
        ended.succeeded()[0].starts_with(r#"{"events":[{"name":"countdown""#),
        "{ended:#?}"
    );
}

#[test]
fn a_call_that_fails_says_who_what_and_why() {
    let (_world, url) = serve(&[]);
    let ended = run(&["call", "world", "nope", "--connect", &url]);
    ended.failed(1, &["world: nope: not ok", "no ability 'nope'"]);
    let ended = run(&["call", "mars", "echo", "--connect", &url, "--timeout", "2s"]);
    ended.failed(1, &["\"mars\"", &url, "before it was registered", "--via"]);
    let ended = run(&[
        "call",
        "mars",
        "echo",
        "--via",
        "world",
        "--connect",
        &url,
        "--timeout",
        "5s",
    ]);
    ended.failed(1, &["mars: echo", "no-route"]);
    let ended = run(&["call", "world", "echo", "--id", "world", "--connect", &url]);
    ended.failed(1, &["world", "itself"]);
}

#[test]
fn a_call_goes_through_a_gateway() {
    let (_gateway, url) = serve(&["--gateway", "--id", "gateway"]);
    let pattern = "nacp:internal:napp:success";
    let args = [
        "sub",
        "gateway",
        pattern,
        "--json",
        "--connect",
        &url,
        "--id",
        "watch",
    ];
    let mut watch = start(&args);
    watch.complaint(|line| line.contains("subscribed"));
    let ended = run(&[
        "call",
        "watch",
        "NApp.heartbeat",
        "--via",
        "gateway",
        "--connect",
        &url,
    ]);
    assert_eq!(ended.succeeded(), ["true"]);
    let line = watch.line(|line| line.contains("bound"));
    assert!(line.contains(r#""appId":"cli-"#), "{line}");
}

#[cfg(unix)]
#[test]
fn a_subscription_prints_hits_and_ends_with_ctrl_c() {
    let (_world, url) = serve(&[]);
    let mut watch = start(&["sub", "world", "nacp:internal:napp:*", "--connect", &url]);
    watch.complaint(|line| line.contains("subscribed"));
    run(&["call", "world", "echo", "--connect", &url]).succeeded();
    let line = watch.line(|_| true);
    assert!(line.starts_with("nacp:internal:napp:success {"), "{line}");
    watch.interrupt();
    assert_eq!(watch.ended().code, Some(0));
}

#[cfg(unix)]
#[test]
fn unix_sockets_work_as_tcp_does() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("unix:{}", dir.path().join("world.sock").display());
    let mut world = start(&["serve", "--listen", &url]);
    world.line(|line| line.contains("listens at"));
    let ended = run(&["call", "world", "echo", "1", "--connect", &url]);
    assert_eq!(ended.succeeded(), ["1"]);
}

#[cfg(unix)]
#[test]
fn serve_ends_with_ctrl_c_and_tells_others() {
    let (world, url) = serve(&[]);
    let mut watch = start(&["sub", "world", "nact:peer:*", "--json", "--connect", &url]);
    watch.complaint(|line| line.contains("subscribed"));
    world.interrupt();
    assert_eq!(world.ended().code, Some(0));
    watch.ended().failed(1, &["the subscription ended"]);
}
