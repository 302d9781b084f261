//! What the fuzz targets assert, one module each, as plain functions from bytes: the fuzzer calls them with what it
//! makes up, `cargo test` with the committed corpus. Any panic is a finding.

pub mod core_ops;
pub mod counting;
pub mod frame_stream;
pub mod hostile;
pub mod hostile_peer;
pub mod message_decode;
pub mod payload_values;
pub mod world;

/// A target: it panics when an assertion does not hold.
pub type Target = fn(&[u8]);

/// All targets by name, as the folders of the corpus are called.
pub const TARGETS: [(&str, Target); 5] = [
    ("frame_stream", frame_stream::run),
    ("message_decode", message_decode::run),
    ("payload_values", payload_values::run),
    ("core_ops", core_ops::run),
    ("hostile_peer", hostile_peer::run),
];
