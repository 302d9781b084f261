//! Bytes → message. What is asserted of any bytes:
//! - [`decode`] does not panic and holds at most 64 × the input and a constant;
//! - what it accepts means the same after it is encoded and decoded again, and then stays the same bytes;
//! - its payload is one well-formed CBOR item, found where the envelope says;
//! - an unknown key more changes nothing: the short way for messages of our own layout and the long way for all others
//!   agree about every message.

use bytes::Bytes;
use nacp::Payload;
use nacp::message::{Envelope, Head, Meta, Registration, SignalKind, decode, encode};

use crate::counting::peak_of;

const PER_BYTE: usize = 64;
const CONSTANT: usize = 16 * 1024;

/// Runs the target.
pub fn run(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    let (decoded, peak) = peak_of(|| decode(&bytes));
    assert!(
        peak <= PER_BYTE * input.len() + CONSTANT,
        "{peak} bytes for {}",
        input.len()
    );
    the_long_way_agrees(&bytes, decoded.as_ref().ok());
    match decoded {
        Ok(envelope) => accepted(&bytes, &envelope),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn the_long_way_agrees(bytes: &Bytes, decoded: Option<&Envelope<'_>>) {
    // A map whose count stands in its first byte, with room for one more.
    let Some((&first @ 0xa0..0xb7, rest)) = bytes.split_first() else {
        return;
    };
    const UNKNOWN: &[u8] = b"\x61z\xf6";
    let longer = [&[first + 1], UNKNOWN, rest].concat();
    let Ok(long_way) = decode(&longer) else {
        return assert!(decoded.is_none(), "only the short way took it");
    };
    let envelope = decoded.expect("only the long way took it");
    assert_same(envelope, &long_way);
    assert_eq!(
        (envelope.version, envelope.t_ms),
        (long_way.version, long_way.t_ms)
    );
    let shifted = envelope
        .payload
        .clone()
        .map(|range| range.start + UNKNOWN.len()..range.end + UNKNOWN.len());
    assert_eq!(shifted, long_way.payload);
}

fn accepted(bytes: &Bytes, envelope: &Envelope<'_>) {
    let payload = envelope.payload_of(bytes);
    if let Some(range) = &envelope.payload {
        assert_eq!(payload.as_bytes()[..], bytes[range.clone()]);
    }
    Payload::from_cbor(payload.as_bytes().clone()).expect("a payload is one well-formed item");
    let ((), peak) = peak_of(|| {
        let _ = payload.decode::<Registration>();
        let shown = format!("{payload:?}");
        assert!(
            shown.len() < 4096,
            "a diagnostic of {} bytes for a person",
            shown.len()
        );
    });
    assert!(
        peak <= 2 * PER_BYTE * bytes.len() + CONSTANT,
        "{peak} bytes for {}",
        bytes.len()
    );

    let once = encode(&head(envelope), Some(&payload)).to_bytes();
    let again = decode(&once).expect("what is written can be read");
    assert_same(envelope, &again);
    if has_payload(&envelope.meta) {
        assert_eq!(again.payload_of(&once), payload);
    } else {
        assert_eq!(again.payload, None);
    }
    let twice = encode(&head(&again), Some(&again.payload_of(&once))).to_bytes();
    assert_eq!(once, twice);
}

fn head<'a>(envelope: &'a Envelope<'_>) -> Head<'a> {
    Head {
        id: &envelope.id,
        from: &envelope.from,
        to: &envelope.to,
        t_ms: envelope.t_ms,
        meta: envelope.meta.clone(),
    }
}

fn has_payload(meta: &Meta<'_>) -> bool {
    match meta {
        Meta::Ack { .. } | Meta::AckMany { .. } => false,
        Meta::Signal { kind, .. } => *kind == SignalKind::Normal,
        _ => true,
    }
}

fn assert_same(first: &Envelope<'_>, second: &Envelope<'_>) {
    assert_eq!(
        (&first.id, &first.from, &first.to),
        (&second.id, &second.from, &second.to)
    );
    assert_eq!(first.meta, second.meta);
    // A time that a float64 cannot say to the millisecond lies beyond the year 287,000.
    if first.t_ms <= 1 << 53 {
        assert_eq!(first.t_ms, second.t_ms);
    }
}
