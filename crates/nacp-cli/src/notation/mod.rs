//! Payloads as JSON, both ways, without loss.
//!
//! What this module keeps true: `from_json(to_json(v))` is `v`, for every [`Value`]. What JSON has no word for is
//! written as an object of one key that begins with `$`:
//!
//! | JSON | value |
//! |---|---|
//! | `{"$undefined":true}` | undefined |
//! | `{"$bytes":"aGk="}` | a byte string, in base64 |
//! | `{"$bigint":"18446744073709551616"}` | a JavaScript BigInt: decimal, or `0x…` and `-1-0x…` in hexadecimal |
//! | `{"$number":"NaN"}` | also `Infinity`, `-Infinity`, and `NaN:` with the 16 digits of an unusual NaN's bits |
//! | `{"$date":1796092529440}` | a point in time, in milliseconds since 1970 |
//! | `{"$typed":["Uint16Array","AQIDBA=="]}` | a typed array, in base64; one that JavaScript lacks by its tag's number |
//! | `{"$set":[1,2]}` | a JavaScript Set |
//! | `{"$map":[[1,"a"],[2,"b"]]}` | a JavaScript Map |
//! | `{"$pairs":[[1,"a"],[1,"b"]]}` | a plain map with keys that are not text, or that repeat |
//! | `{"$simple":5}` | a simple value without a meaning of its own |
//! | `{"$tag":[27,["RegExp","a+"]]}` | any other tag: its number, and what is tagged |
//! | `{"$$bytes":1}` | the plain object `{"$bytes":1}`: a lone key that begins with `$` gets one more |
//!
//! A number without point and exponent is an integer, any other a float; an integer beyond ±2^63 is a BigInt while it
//! has no more than 64 bits, and a float (with the loss that this brings) above that.

mod bigint;
mod read;
mod write;

use nacp::Value;

/// How deep the notation nests for a payload of 64 levels: `$pairs` takes three for one.
const LEVELS_MAX: u32 = 3 * 64 + 2;

/// The typed arrays that JavaScript has, by their CBOR tags (little-endian, as on every machine of today).
const TYPED: [(u8, &str); 11] = [
    (64, "Uint8Array"),
    (68, "Uint8ClampedArray"),
    (69, "Uint16Array"),
    (70, "Uint32Array"),
    (71, "BigUint64Array"),
    (72, "Int8Array"),
    (77, "Int16Array"),
    (78, "Int32Array"),
    (79, "BigInt64Array"),
    (85, "Float32Array"),
    (86, "Float64Array"),
];
const TAG_SET: u64 = 258;
const TAG_MAP: u64 = 259;
/// The bits of the NaN that every language makes.
const NAN_BITS: u64 = 0x7ff8_0000_0000_0000;

/// One line of JSON.
///
/// ```
/// use nacp::Value;
/// assert_eq!(nacp_cli::notation::to_json(&Value::Bytes(b"hi".to_vec())), r#"{"$bytes":"aGk="}"#);
/// ```
pub fn to_json(value: &Value) -> String {
    serde_json::to_string(&Notation(value)).expect("keys are text, and nothing in it fails")
}

/// Reads what [`to_json`] writes, and any other JSON.
///
/// ```
/// let value = nacp_cli::notation::from_json(r#"{"text":"hi","at":{"$date":0}}"#).unwrap();
/// assert_eq!(value.get("text").and_then(nacp::Value::as_str), Some("hi"));
/// ```
///
/// # Errors
/// What is wrong, with line and column.
pub fn from_json(text: &str) -> Result<Value, serde_json::Error> {
    read::value(text)
}

/// A value that serializes in this notation.
#[derive(Clone, Copy, Debug)]
pub struct Notation<'a>(pub &'a Value);
