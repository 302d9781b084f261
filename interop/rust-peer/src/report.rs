//! What is told to the test. What this module keeps true: a report is one whole line, and a payload in it is hex.

use std::fmt::Write as _;
use std::io::Write as _;

use napp::Payload;
use serde_json::Value;

/// Writes one line.
pub fn report(what: &Value) {
    let mut out = std::io::stdout().lock();
    // A test that is gone does not read any more; stdin ends then, too.
    let _ = writeln!(out, "{what}");
    let _ = out.flush();
}

/// A payload as the test wants it.
pub fn hex(payload: &Payload) -> String {
    let mut text = String::with_capacity(2 * payload.len());
    for byte in payload.as_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A payload as the test gives it.
pub fn unhex(text: &str) -> Result<Payload, String> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap_or(""), 16);
    let bytes: Result<Vec<u8>, _> = (0..text.len()).step_by(2).map(byte).collect();
    let bytes = bytes.map_err(|error| error.to_string())?;
    Payload::from_cbor(bytes.into()).map_err(|error| error.to_string())
}
