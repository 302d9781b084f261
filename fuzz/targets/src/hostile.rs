//! What somebody who follows no rules may send: well-formed messages with any type, any sender, receiver, parent and
//! payload, and things that are no messages at all. What this module keeps true: names come from small pools and from
//! what was seen on the wire, so that lies are often about something that exists.

use arbitrary::Unstructured;
use bytes::Bytes;
use nacp::message::{Head, ID_LENGTH_MAX, Meta, Registration, decode, encode};
use nacp::{Payload, RequestKind, SignalKind, Value};

use crate::world::{STAMP, World};

/// Who is spoken of. The first are those who may be there.
pub const APPS: [&str; 6] = ["a", "b", "c", "x", "y", "someone else"];

const PATTERNS: [&str; 8] = [
    "*",
    "news",
    "news:*",
    "nacp:event:*:process",
    "",
    ":",
    "news::x",
    "*:*:*:*",
];

const TARGETS: [&str; 5] = ["do", "NApp.heartbeat", "NApp.introduce", "", "NApp.other"];

/// Something that a hostile peer sends.
pub fn message(u: &mut Unstructured<'_>, world: &mut World) -> arbitrary::Result<Bytes> {
    let bytes = match u.arbitrary::<u8>()? % 16 {
        0 => noise(u)?,
        1 => seen(u, world)?,
        2 => mutated(u, world)?,
        _ => crafted(u, world)?,
    };
    if bytes
        .windows(STAMP.len())
        .any(|part| part == STAMP.as_bytes())
    {
        world.distrust_order();
    }
    Ok(bytes)
}

fn noise(u: &mut Unstructured<'_>) -> arbitrary::Result<Bytes> {
    let length = usize::from(u.arbitrary::<u8>()?).min(u.len());
    u.bytes(length).map(Bytes::copy_from_slice)
}

fn seen(u: &mut Unstructured<'_>, world: &World) -> arbitrary::Result<Bytes> {
    let back = usize::from(u.arbitrary::<u8>()?);
    let index = world
        .seen
        .len()
        .checked_sub(1 + back % world.seen.len().max(1));
    Ok(index.map_or_else(Bytes::new, |index| world.seen[index].clone()))
}

fn mutated(u: &mut Unstructured<'_>, world: &World) -> arbitrary::Result<Bytes> {
    let mut bytes = seen(u, world)?.to_vec();
    if bytes.is_empty() {
        return Ok(Bytes::new());
    }
    for _ in 0..1 + u.arbitrary::<u8>()? % 4 {
        let at = usize::from(u.arbitrary::<u16>()?) % bytes.len();
        bytes[at] = u.arbitrary()?;
    }
    if u.arbitrary()? {
        bytes.truncate(usize::from(u.arbitrary::<u16>()?) % bytes.len());
    }
    Ok(bytes.into())
}

fn crafted(u: &mut Unstructured<'_>, world: &mut World) -> arbitrary::Result<Bytes> {
    let kind: u8 = u.arbitrary()?;
    let (from, to) = (who(u)?, who(u)?);
    let id = id(u, world)?;
    let parent = self::id(u, world)?;
    let meta = meta(u, kind, parent)?;
    let payload = payload(u, world, &meta)?;
    let head = Head {
        id: &id,
        from,
        to,
        t_ms: u.arbitrary::<u8>()?.into(),
        meta,
    };
    let mut bytes = encode(&head, payload.as_ref()).to_bytes().to_vec();
    if kind & 0xf0 == 0xf0 {
        // Another major version.
        let major = b"\x65major\x02";
        if let Some(at) = bytes.windows(major.len()).position(|part| part == major) {
            bytes[at + major.len() - 1] = 3;
        }
    }
    Ok(bytes.into())
}

fn who(u: &mut Unstructured<'_>) -> arbitrary::Result<&'static str> {
    Ok(APPS[usize::from(u.arbitrary::<u8>()?) % APPS.len()])
}

fn id(u: &mut Unstructured<'_>, world: &mut World) -> arbitrary::Result<String> {
    Ok(match u.arbitrary::<u8>()? {
        0 => "0123456789abcd-1".into(),
        1 => "0123456789abcd-ffffffffffffffff".into(),
        2 => "é".repeat(19),
        3 => "i".repeat(39),
        4 => "i".repeat(ID_LENGTH_MAX),
        5 => "*".into(),
        6 => "\0".into(),
        7 => "news:*".into(),
        short @ 8..32 => format!("id-{short}"),
        32..96 => format!("new-{}", world.fresh()),
        back => {
            // Of a message that somebody sent, or of the one it answers.
            let message = world.seen.iter().rev().nth(usize::from(back - 96) / 2);
            let found = message
                .and_then(|bytes| decode(bytes).ok())
                .map(|envelope| match envelope.meta {
                    Meta::Ack { parent_id, .. } | Meta::Response { parent_id, .. }
                        if back & 1 == 1 =>
                    {
                        parent_id.into_owned()
                    }
                    _ => envelope.id.into_owned(),
                });
            found.unwrap_or_else(|| "nothing seen".into())
        }
    })
}

fn meta(u: &mut Unstructured<'_>, kind: u8, parent: String) -> arbitrary::Result<Meta<'static>> {
    let detail: u8 = u.arbitrary()?;
    let request_kind = match detail & 1 {
        0 => RequestKind::Event,
        _ => RequestKind::Ability,
    };
    let parent_id = parent.into();
    Ok(match kind % 10 {
        0 | 1 => Meta::Register,
        2 => Meta::Unregister,
        3 => Meta::Subscribe,
        4 => Meta::Unsubscribe,
        5 => Meta::Notify {
            parent_id,
            target_sub_name: PATTERNS[usize::from(detail >> 1) % PATTERNS.len()].into(),
            hit_sub_name: "news".into(),
            reliable: detail & 1 == 1,
        },
        6 => Meta::Request {
            kind: request_kind,
            target: (detail & 2 == 0)
                .then(|| TARGETS[usize::from(detail >> 2) % TARGETS.len()].into()),
        },
        7 => Meta::Response {
            parent_id,
            is_ok: detail & 2 == 0,
            why_not_ok: (detail & 4 == 0).then(|| "because".into()),
            kind: (detail & 8 == 0).then_some(request_kind),
        },
        8 => Meta::Signal {
            parent_id,
            kind: [
                SignalKind::Normal,
                SignalKind::Pause,
                SignalKind::Resume,
                SignalKind::Abort,
            ][usize::from(detail & 3)],
        },
        _ if detail >= 0xc0 => Meta::AckMany {
            parent_id,
            also: (0..detail & 7)
                .map(|_| u.arbitrary())
                .collect::<arbitrary::Result<Vec<u8>>>()?
                .into(),
        },
        _ => Meta::Ack {
            parent_id,
            taken: match detail & 7 {
                0 => Some(u64::MAX),
                1 => Some(u64::from(u.arbitrary::<u8>()?)),
                2 => Some(0),
                _ => None,
            },
        },
    })
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscribePayload<'a> {
    target_sub_name: &'a str,
    reliable: bool,
}

fn payload(
    u: &mut Unstructured<'_>,
    world: &mut World,
    meta: &Meta<'_>,
) -> arbitrary::Result<Option<Payload>> {
    let form: u8 = u.arbitrary()?;
    let encoded = match (form, meta) {
        (0..16, _) => return Ok(None),
        (16..40, _) => Payload::encode(&Value::Array(vec![Value::Null; usize::from(form)])),
        (40..48, _) => Payload::encode(&vec![0_u8; 6000]),
        (_, Meta::Register | Meta::Response { .. }) => Payload::encode(&registration(form)),
        (_, Meta::Subscribe) => Payload::encode(&SubscribePayload {
            target_sub_name: PATTERNS[usize::from(form) % PATTERNS.len()],
            reliable: form & 8 == 0,
        }),
        (_, Meta::Unsubscribe) => {
            let target = id(u, world)?;
            Payload::encode(&std::collections::BTreeMap::from([("targetSubId", target)]))
        }
        _ => Payload::encode(&form),
    };
    Ok(Some(encoded.expect("plain values are written")))
}

fn registration(form: u8) -> Registration {
    Registration {
        is_gateway: form & 0xe0 == 0xe0,
        instance: match form & 3 {
            0 => None,
            1 => Some("one".into()),
            2 => Some("two".into()),
            _ => Some(String::new()),
        },
        features: match form & 12 {
            0 => vec![
                "reliable-notify".into(),
                "stream-credit".into(),
                "batched-acks".into(),
            ],
            4 => vec!["reliable-notify".into()],
            8 => vec!["something new".into(); 3],
            _ => Vec::new(),
        },
        record: (form & 16 == 0).then(|| Value::Tagged(258, Box::new(Value::Array(Vec::new())))),
        ..Registration::default()
    }
}
