//! Values out of the fuzzer's bytes, and when two are the same. What this module keeps true: a *canonical* value is one
//! that decoding could have given, so it must come back exactly.

use arbitrary::Unstructured;
use nacp::Value;
use nacp::message::payload::{BigInt, Date};

/// Deeper than what can be written, so that the limit is met.
const DEPTH_MAX: usize = 70;
/// Dates of JavaScript.
const MS_MAX: i64 = 8_640_000_000_000_000;

/// A value; `canonical` as the module says.
pub(super) fn value(
    u: &mut Unstructured<'_>,
    canonical: bool,
    depth: usize,
) -> arbitrary::Result<Value> {
    let kind: u8 = u.arbitrary()?;
    let containers = if depth < DEPTH_MAX { 15 } else { 11 };
    Ok(match kind % containers {
        0 => Value::Undefined,
        1 => Value::Null,
        2 => Value::Bool(u.arbitrary()?),
        3 => Value::Simple(simple(u, canonical)?),
        4 if canonical => Value::Integer(integer32(u)?),
        4 => Value::Integer(u.arbitrary()?),
        5 => big(u)?,
        6 => Value::Float(u.arbitrary()?),
        7 => Value::Bytes(bytes(u)?),
        8 => Value::Typed {
            tag: typed_tag(u)?,
            bytes: bytes(u)?,
        },
        9 => Value::Text(text(u)?),
        10 => Value::Date(Date {
            ms: ms(u, canonical)?,
        }),
        11 => Value::Array(several(u, |u| value(u, canonical, depth + 1))?),
        12 => Value::Map(several(u, |u| {
            Ok((
                value(u, canonical, depth + 1)?,
                value(u, canonical, depth + 1)?,
            ))
        })?),
        13 => Value::Tagged(
            tag(u, canonical)?,
            Box::new(value(u, canonical, depth + 1)?),
        ),
        // A tower, for the limit of depth.
        _ => (0..u.arbitrary::<u8>()? % 80)
            .try_fold(value(u, canonical, DEPTH_MAX)?, |inner, _| {
                Ok(Value::Array(vec![inner]))
            })?,
    })
}

fn several<T>(
    u: &mut Unstructured<'_>,
    mut one: impl FnMut(&mut Unstructured<'_>) -> arbitrary::Result<T>,
) -> arbitrary::Result<Vec<T>> {
    let count = u.arbitrary::<u8>()? % 6;
    (0..count).map(|_| one(u)).collect()
}

/// 20 to 23 are truth values and nothing, 24 to 31 do not exist.
fn simple(u: &mut Unstructured<'_>, canonical: bool) -> arbitrary::Result<u8> {
    let value: u8 = u.arbitrary()?;
    Ok(if canonical && (20..32).contains(&value) {
        value + 32
    } else {
        value
    })
}

fn integer32(u: &mut Unstructured<'_>) -> arbitrary::Result<i64> {
    let n = i64::from(u.arbitrary::<u32>()?);
    Ok(if u.arbitrary()? { -1 - n } else { n })
}

fn big(u: &mut Unstructured<'_>) -> arbitrary::Result<Value> {
    let shift = u.arbitrary::<u8>()? & 127;
    Ok(Value::BigInt(if u.arbitrary()? {
        BigInt::from(u.arbitrary::<u128>()? >> shift)
    } else {
        BigInt::from(u.arbitrary::<i128>()? >> shift)
    }))
}

fn bytes(u: &mut Unstructured<'_>) -> arbitrary::Result<Vec<u8>> {
    let length = usize::from(u.arbitrary::<u8>()?).min(u.len());
    u.bytes(length).map(<[u8]>::to_vec)
}

fn text(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(u)?).into_owned())
}

fn typed_tag(u: &mut Unstructured<'_>) -> arbitrary::Result<u8> {
    Ok(64 + u.arbitrary::<u8>()? % 24)
}

fn ms(u: &mut Unstructured<'_>, canonical: bool) -> arbitrary::Result<i64> {
    let ms: i64 = u.arbitrary()?;
    Ok(if canonical { ms % (MS_MAX + 1) } else { ms })
}

/// The tags that mean a value of their own are not canonical as such.
fn tag(u: &mut Unstructured<'_>, canonical: bool) -> arbitrary::Result<u64> {
    let tag = match u.arbitrary::<u8>()? {
        short @ 0..240 => short.into(),
        250.. => 259,
        _ => u.arbitrary()?,
    };
    let special = matches!(tag, 1..=3 | 64..=87);
    Ok(if canonical && special { 100 } else { tag })
}

/// Equal as trees, where a NaN is a NaN and a zero has its sign.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => {
            a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let entry =
                |(a, b): (&(Value, Value), &(Value, Value))| same(&a.0, &b.0) && same(&a.1, &b.1);
            a.len() == b.len() && a.iter().zip(b).all(entry)
        }
        (Value::Tagged(a, inner_a), Value::Tagged(b, inner_b)) => a == b && same(inner_a, inner_b),
        (a, b) => a == b,
    }
}
