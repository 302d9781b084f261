//! `decode`: captured bytes of an independent implementation, and bytes that are wrong.

use serde_json::Value;

use crate::program::{run, run_with_input};

const VECTORS: &str = include_str!("../vectors/nasdk-1.0.4-tcp.jsonl");

fn vectors() -> Vec<Value> {
    VECTORS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn frame(vector: &Value) -> &str {
    vector["frame"].as_str().unwrap()
}

#[test]
fn a_captured_frame_is_readable_in_hexadecimal_and_in_binary() {
    let first = &vectors()[0];
    let ended = run_with_input(&["decode", "--hex"], frame(first).as_bytes());
    let text = ended.succeeded().join("\n");
    assert!(
        text.starts_with("register \"hello\" -> \"world\""),
        "{text}"
    );
    assert!(
        text.contains("81d40e16-fc86-48ab-a7e4-55f96d1686ef"),
        "{text}"
    );
    assert!(
        text.contains(r#"payload {"isGateway":false,"decl":{"events":[],"abilities":[]}}"#),
        "{text}"
    );
    let binary = run_with_input(&["decode"], &bytes(frame(first)));
    assert_eq!(binary.succeeded(), ended.succeeded());
}

#[test]
fn a_stream_of_frames_is_a_line_of_json_a_message() {
    let vectors = vectors();
    let all: Vec<u8> = vectors
        .iter()
        .flat_map(|vector| bytes(frame(vector)))
        .collect();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("capture.bin");
    std::fs::write(&file, &all).unwrap();
    let ended = run(&["decode", file.to_str().unwrap(), "--json"]);
    let lines = ended.succeeded();
    let wanted: Vec<_> = vectors
        .iter()
        .filter(|vector| vector.get("message").is_some())
        .collect();
    assert_eq!(lines.len(), wanted.len());
    for (line, vector) in lines.iter().zip(wanted) {
        let decoded: Value = serde_json::from_str(line).unwrap();
        for key in ["type", "id", "from", "to", "v"] {
            assert_eq!(
                decoded["message"][key], vector["message"][key],
                "{key}: {line}"
            );
        }
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let good = bytes(frame(&vectors()[0]));
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cases: &[(Vec<u8>, &[&str])] = &[
        (vec![], &["stdin at byte 0", "empty"]),
        (
            b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(),
            &["at byte 31", "version-mismatch"],
        ),
        (
            vec![0xff; 10],
            &["at byte 0", "inside a frame header, after 10"],
        ),
        (with(30, 0), &["at byte 30", "bad-magic"]),
        (with(27, 3), &["at byte 24", "frame-too-small"]),
        (
            good[..good.len() - 1].to_vec(),
            &["at byte 0", "after 164 of its 165 bytes"],
        ),
        (
            [&good[..], &good[..20]].concat(),
            &["at byte 197", "after 20 of its 32"],
        ),
        ([&good[..], &good[..]].concat(), &[]),
        (with(32, 0x01), &["at byte 0", "the message of the frame"]),
        (with(40, 0xff), &["at byte 0"]),
    ];
    for (input, says) in cases {
        let ended = run_with_input(&["decode"], input);
        if says.is_empty() {
            ended.succeeded();
        } else {
            ended.failed(1, says);
        }
    }
    run_with_input(&["decode", "--hex"], b"0g").failed(1, &["byte 1", "hexadecimal"]);
    run(&["decode", "/nowhere/at/all"]).failed(1, &["/nowhere/at/all"]);
}

#[test]
fn what_is_right_is_printed_before_what_is_wrong() {
    let good = bytes(frame(&vectors()[0]));
    let ended = run_with_input(&["decode"], &[&good[..], b"garbage"].concat());
    ended.failed(1, &["at byte 197"]);
    assert!(ended.stdout[0].starts_with("register"), "{ended:#?}");
}
