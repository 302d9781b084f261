//! Lines on stdout.
//!
//! What this module keeps true: a reader that went away ends the command quietly, never in a panic; each line is on its
//! way when the call returns, so that whoever reads along sees it now.

use std::io::{self, Write};

use crate::failure::Failure;

/// Writes one line to stdout.
///
/// # Errors
/// [`Failure::OutputClosed`] when nobody reads any more, else what the system said.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush())
        .map_err(failure)
}

fn failure(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        Failure::OutputClosed
    } else {
        Failure::failed(format_args!("cannot write to stdout: {error}"))
    }
}
