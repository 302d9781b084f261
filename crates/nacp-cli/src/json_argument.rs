//! Payloads from the command line.

use std::io::Read as _;

use nacp::Payload;

use crate::failure::Failure;
use crate::notation::from_json;

/// The payload that an argument means: JSON in the notation of [`crate::notation`], `-` for JSON from stdin, nothing for
/// the empty payload.
///
/// # Errors
/// It is no JSON.
pub fn payload(argument: Option<&str>) -> Result<Payload, Failure> {
    let mut stdin = String::new();
    let text = match argument {
        None => return Ok(Payload::default()),
        Some("-") => {
            std::io::stdin()
                .lock()
                .read_to_string(&mut stdin)
                .map_err(|error| Failure::failed(format_args!("cannot read stdin: {error}")))?;
            &stdin
        }
        Some(text) => text,
    };
    let value = from_json(text).map_err(|error| {
        Failure::usage(format_args!(
            "the payload is no JSON that can be sent: {error}"
        ))
    })?;
    let bytes = value.encode().map_err(Failure::usage)?;
    Payload::from_cbor(bytes).map_err(Failure::usage)
}

/// What a remote App sent, as one line of JSON.
///
/// # Errors
/// A text in it is no UTF-8.
pub fn show(payload: &Payload) -> Result<String, Failure> {
    let value = nacp::Value::decode(payload.as_bytes())
        .map_err(|error| Failure::failed(format_args!("what came cannot be shown: {error}")))?;
    Ok(crate::notation::to_json(&value))
}
