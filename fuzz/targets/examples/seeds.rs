//! Writes the seeds of the corpus: what a base peer really sent, cut as each target takes it. Names are content hashes,
//! so writing twice changes nothing.
//!
//! `cargo run --example seeds` in `fuzz/`.

use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use nact::frame::HEADER_SIZE;

#[derive(serde::Deserialize)]
struct Captured {
    frame: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let captured = here.join("../../crates/nacp/tests/data/nasdk-1.0.4-tcp.jsonl");
    let mut stream = Vec::new();
    for line in fs::read_to_string(captured)?.lines() {
        let frame = unhex(&serde_json::from_str::<Captured>(line)?.frame)?;
        let message = &frame[HEADER_SIZE..];
        // A chunk of a longer message is none by itself.
        if let Ok(envelope) = nacp::message::decode(message) {
            write("message_decode", message)?;
            if let Some(range) = envelope.payload {
                write("payload_values", &[&[0], &message[range]].concat())?;
            }
        }
        // Raw, the default limits, no splits.
        write("frame_stream", &[&[0, 0], &frame[..]].concat())?;
        stream.extend_from_slice(&frame);
        if stream.len() > 2_000 {
            write("frame_stream", &[&[2, 1], &stream[..]].concat())?;
            stream.clear();
        }
    }
    Ok(())
}

fn unhex(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    (0..text.len() / 2)
        .map(|at| Ok(u8::from_str_radix(&text[2 * at..2 * at + 2], 16)?))
        .collect()
}

fn write(target: &str, seed: &[u8]) -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../corpus")
        .join(target);
    fs::create_dir_all(&folder)?;
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    fs::write(folder.join(format!("seed-{:016x}", hasher.finish())), seed)?;
    Ok(())
}
