//! Payloads, from both ends. What is asserted:
//! - any bytes that [`Payload::from_cbor`] takes become a [`Value`], unless a text in them is no UTF-8; the value is
//!   written, and reads as the same value again; serde's way gives the same as the direct one;
//! - reading them as any type does not panic, and a value that was read is written and read again as an equal one;
//! - memory stays within a multiple of the input, and what is shown to a person is short;
//! - any value that one can build is written, and reads as itself if it was in canonical form.
//!
//! The first byte chooses between the two ends.

mod build;
mod types;

use arbitrary::Unstructured;
use bytes::Bytes;
use nacp::message::PayloadError;
use nacp::{Payload, Value};

use crate::counting::peak_of;

/// A value of 32 bytes, twice in a map's entry, in a vector that grows by doubling, for each byte.
const PER_BYTE: usize = 200;
const CONSTANT: usize = 16 * 1024;

/// Runs the target.
pub fn run(input: &[u8]) {
    let Some((&form, rest)) = input.split_first() else {
        return;
    };
    if form & 1 == 0 {
        read(Bytes::copy_from_slice(rest));
    } else {
        let _ = written(&mut Unstructured::new(rest));
    }
}

fn read(bytes: Bytes) {
    let (payload, peak) = peak_of(|| Payload::from_cbor(bytes.clone()));
    assert!(peak <= 1024, "a check that takes {peak} bytes");
    let direct = Value::decode(&bytes);
    let Ok(payload) = payload else {
        assert!(matches!(direct, Err(PayloadError::Malformed(_))));
        return;
    };
    let bound = PER_BYTE * bytes.len() + CONSTANT;
    let (through_serde, peak) = peak_of(|| payload.decode::<Value>());
    assert!(peak <= bound, "{peak} bytes for {}", bytes.len());
    let (shown, peak) = peak_of(|| format!("{payload:?}"));
    assert!(
        shown.len() <= 4096 && peak <= bound,
        "{} shown",
        shown.len()
    );
    let ((), peak) = peak_of(|| types::read_as_everything(&payload));
    assert!(peak <= 4 * bound, "{peak} bytes for {}", bytes.len());
    match direct {
        Ok(value) => {
            let through_serde = through_serde.expect("what a Value can take, serde can give");
            assert!(build::same(&value, &through_serde), "{value:?}");
            survives(&value);
        }
        Err(PayloadError::InvalidUtf8 { .. }) => assert!(through_serde.is_err()),
        Err(error) => panic!("a checked payload is read: {error}"),
    }
}

/// A decoded value is canonical: it is written, by both ways alike, and comes back.
fn survives(value: &Value) {
    let bytes = value.encode().expect("what was read can be written");
    let again = Value::decode(&bytes).expect("what is written can be read");
    assert!(build::same(value, &again), "{value:?} became {again:?}");
    assert_eq!(again.encode().expect("as before"), bytes);
    let payload = Payload::encode(value).expect("serde's way is the same");
    assert_eq!(payload.as_bytes(), &bytes, "{value:?}");
    assert!(Payload::from_cbor(bytes).is_ok());
}

fn written(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let canonical: bool = u.arbitrary()?;
    let value = build::value(u, canonical, 0)?;
    let through_serde = Payload::encode(&value);
    let Ok(bytes) = value.encode() else {
        assert!(through_serde.is_err(), "{value:?}");
        return Ok(());
    };
    assert_eq!(through_serde.expect("as the direct way").as_bytes(), &bytes);
    let read = Value::decode(&bytes).expect("what is written can be read");
    if canonical {
        assert!(build::same(&value, &read), "{value:?} became {read:?}");
    }
    survives(&read);
    Ok(())
}
