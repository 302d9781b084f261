//! Captured bytes as messages: what `nacp decode` finds in them.
//!
//! What this module keeps true: every byte of the input is accounted for, by a frame or by a complaint that says where
//! it stands; a message that is wrong does not hide the ones after it, a frame that is wrong ends the reading, because
//! from there on nobody knows where the next one begins.

use std::collections::BTreeMap;

use bytes::Bytes;
use nacp::Value;
use nacp::message::{Envelope, Meta, decode};
use nact::frame::{HEADER_SIZE, Header, PacketId};
use nact::{FrameError, Options, Reassembly};

/// What stands in the input, in order.
#[derive(Debug)]
pub enum Found {
    /// A message, whole.
    Message(Box<Message>),
    /// Something is wrong at `offset` of the input.
    Wrong {
        /// Where, in bytes.
        offset: usize,
        /// What.
        text: String,
    },
}

/// A message and the frames that it came in.
#[derive(Debug)]
pub struct Message {
    /// Where its first frame begins in the input; `None`: there were no frames around it.
    pub frames: Option<Frames>,
    /// Bytes of the encoded message.
    pub size: usize,
    /// `type`.
    pub kind: &'static str,
    /// `v`, major and minor.
    pub version: (u64, u64),
    /// `id`.
    pub id: String,
    /// `from`.
    pub from: String,
    /// `to`.
    pub to: String,
    /// `t`, in milliseconds since 1970.
    pub t_ms: u64,
    /// `meta`, as it stands on the wire.
    pub meta: Value,
    /// `payload`, if there is one.
    pub payload: Option<Value>,
}

/// The frames of a message.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Where the first one begins in the input.
    pub offset: usize,
    /// How many there are.
    pub count: usize,
    /// What they have in common.
    pub packet: PacketId,
}

/// Reads bytes that crossed a connection in one direction, or one bare message.
pub fn read(input: &[u8]) -> Vec<Found> {
    if input.is_empty() {
        return vec![wrong(0, "the input is empty")];
    }
    // A message without its frame (from a WebSocket dump, a log): only if all of it is one.
    if !looks_framed(input) && decode(input).is_ok() {
        return vec![message(input.to_vec().into(), None)];
    }
    let mut reader = Reader {
        input,
        at: 0,
        found: Vec::new(),
        open: BTreeMap::new(),
        // All frames are at hand and their time is past; the only bounds are those of the format.
        reassembly: Reassembly::new(&Options {
            reassembly_count_max: usize::MAX,
            reassembly_bytes_max: u64::MAX,
            ..Options::default()
        }),
        now: tokio::time::Instant::now().into_std(),
    };
    while reader.at < input.len() && reader.frame().is_some() {}
    reader.finish()
}

fn looks_framed(input: &[u8]) -> bool {
    input
        .first_chunk::<HEADER_SIZE>()
        .is_some_and(|header| Header::parse(header, u32::MAX).is_ok())
}

fn wrong(offset: usize, text: impl Into<String>) -> Found {
    Found::Wrong {
        offset,
        text: text.into(),
    }
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
    found: Vec<Found>,
    /// Messages of which not all frames came yet: the first one's offset, how many came, how many bytes of how many.
    open: BTreeMap<PacketId, Open>,
    reassembly: Reassembly,
    now: std::time::Instant,
}

struct Open {
    offset: usize,
    count: usize,
    bytes: u64,
    total: u32,
}

impl Reader<'_> {
    /// Reads one frame; `None`: nothing after it can be read.
    fn frame(&mut self) -> Option<()> {
        let rest = &self.input[self.at..];
        let Some(header) = rest.first_chunk::<HEADER_SIZE>() else {
            let have = rest.len();
            return self.stop(
                self.at,
                format!(
                    "the input ends inside a frame header, after {have} of its {HEADER_SIZE} bytes"
                ),
            );
        };
        let header = match Header::parse(header, u32::MAX) {
            Ok(header) => header,
            Err(error) => return self.stop(self.at + place(error), in_words(error)),
        };
        let body_at = self.at + HEADER_SIZE;
        let body_size = header.body as usize;
        let Some(body) = self.input[body_at..].get(..body_size) else {
            let have = self.input.len() - body_at;
            return self.stop(self.at, format!(
                "the input ends inside the body of the frame that begins here, after {have} of its {body_size} bytes"
            ));
        };
        let open = self.open.entry(header.packet).or_insert(Open {
            offset: self.at,
            count: 0,
            bytes: 0,
            total: header.total,
        });
        open.count += 1;
        open.bytes += u64::from(header.body);
        let mut whole = self.reassembly.begin(&header, self.now);
        if let (Ok(None), true) = (&whole, body_size > 0) {
            whole = self.reassembly.extend(body, self.now);
        }
        match whole {
            Ok(whole) => {
                self.at = body_at + body_size;
                if let Some(bytes) = whole {
                    self.message(header.packet, bytes);
                }
                Some(())
            }
            Err(error) => self.stop(self.at, in_words(error)),
        }
    }

    fn message(&mut self, packet: PacketId, bytes: Bytes) {
        let frames = self.open.remove(&packet).map(|open| Frames {
            offset: open.offset,
            count: open.count,
            packet,
        });
        self.found.push(message(bytes, frames));
    }

    fn stop(&mut self, offset: usize, text: String) -> Option<()> {
        self.found.push(Found::Wrong { offset, text });
        None
    }

    fn finish(mut self) -> Vec<Found> {
        for open in self.open.into_values() {
            let Open {
                offset,
                bytes,
                total,
                ..
            } = open;
            self.found.push(wrong(offset, format!(
                "the rest of the message that begins here is missing: {bytes} of {total} bytes came"
            )));
        }
        self.found
    }
}

/// Where in a header stands what the error is about.
fn place(error: FrameError) -> usize {
    match error {
        FrameError::VersionMismatch => 31,
        FrameError::BadMagic => 30,
        FrameError::TooSmall | FrameError::TooLarge => 24,
        FrameError::OutOfBounds => 16,
        _ => 0,
    }
}

fn in_words(error: FrameError) -> String {
    format!("{}: {error}", error.reason())
}

fn message(bytes: Bytes, frames: Option<Frames>) -> Found {
    let offset = frames.map_or(0, |frames| frames.offset);
    let place = if frames.is_some() {
        "the message of the frame"
    } else {
        "the message"
    };
    let envelope = match decode(&bytes) {
        Ok(envelope) => envelope,
        Err(error) => return wrong(offset, format!("{place} that begins here: {error}")),
    };
    let payload = envelope
        .payload
        .clone()
        .map(|range| Value::decode(&bytes[range]))
        .transpose();
    match payload {
        Err(error) => wrong(
            offset,
            format!("the payload of {place} that begins here: {error}"),
        ),
        Ok(payload) => Found::Message(Box::new(Message {
            frames,
            size: bytes.len(),
            kind: envelope.meta.message_type().as_str(),
            version: (envelope.version.major, envelope.version.minor),
            meta: meta_of(&envelope),
            id: envelope.id.into_owned(),
            from: envelope.from.into_owned(),
            to: envelope.to.into_owned(),
            t_ms: envelope.t_ms,
            payload,
        })),
    }
}

/// `meta` under its names on the wire.
fn meta_of(envelope: &Envelope<'_>) -> Value {
    let mut entries: Vec<(Value, Value)> = Vec::new();
    let mut put = |key: &str, value: Value| entries.push((key.into(), value));
    match &envelope.meta {
        Meta::Register | Meta::Unregister | Meta::Subscribe | Meta::Unsubscribe => {}
        Meta::Notify {
            parent_id,
            target_sub_name,
            hit_sub_name,
            reliable,
        } => {
            put("parentId", (&**parent_id).into());
            put("targetSubName", (&**target_sub_name).into());
            put("hitSubName", (&**hit_sub_name).into());
            if *reliable {
                put("reliable", true.into());
            }
        }
        Meta::Request { kind, target } => {
            put("kind", kind.as_str().into());
            if let Some(target) = target {
                put("target", (&**target).into());
            }
        }
        Meta::Response {
            parent_id,
            is_ok,
            why_not_ok,
            kind,
        } => {
            put("parentId", (&**parent_id).into());
            put("isOk", (*is_ok).into());
            if let Some(reason) = why_not_ok {
                put("whyNotOk", (&**reason).into());
            }
            if let Some(kind) = kind {
                put("kind", kind.as_str().into());
            }
        }
        Meta::Signal { parent_id, kind } => {
            put("parentId", (&**parent_id).into());
            put("kind", kind.as_str().into());
        }
        Meta::AckMany { .. } => {
            let ids = envelope.meta.acknowledged();
            let ids = ids.iter().map(|id| id.as_str().into()).collect();
            put("parentIds", Value::Array(ids));
        }
        Meta::Ack { parent_id, taken } => {
            put("parentId", (&**parent_id).into());
            if let Some(taken) = taken {
                put(
                    "taken",
                    Value::Integer(i64::try_from(*taken).unwrap_or(i64::MAX)),
                );
            }
        }
    }
    Value::Map(entries)
}
