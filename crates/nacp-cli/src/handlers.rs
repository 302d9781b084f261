//! The demonstration handlers: `echo`, `countdown`, `tree-hash`.
//!
//! What this module keeps true: nothing here blocks the threads that serve connections; a handler that is aborted, or
//! that nobody waits for any more, stops its work.

use std::path::PathBuf;
use std::time::Duration;

use nacp::{Payload, Value};
use napp::{Builder, EventContext, HandlerError};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::tree_hash::{Entry, Walk};

/// Files that may be hashed ahead of what was sent.
const AHEAD_MAX: usize = 64;
const COUNTDOWN_INTERVAL: Duration = Duration::from_secs(1);

/// All three.
pub fn register(builder: Builder) -> Builder {
    builder
        .ability("echo", |payload: Payload| async move { Ok(payload) })
        .describe("echo", "answers with what it is asked with")
        .event("countdown", countdown)
        .describe(
            "countdown",
            "counts down from a number, or from {from, interval_ms}",
        )
        .event("tree-hash", |ctx: EventContext, request: TreeHash| {
            tree_hash(ctx, request, Pace::default())
        })
        .describe(
            "tree-hash",
            "a chunk {path, bytes, sha256} for each file of {dir, skip}",
        )
}

async fn countdown(ctx: EventContext, request: Payload) -> Result<Payload, HandlerError> {
    let request = Value::decode(request.as_bytes())?;
    let number = |value: Option<&Value>| {
        value
            .and_then(Value::as_i64)
            .and_then(|n| u32::try_from(n).ok())
    };
    let Some(from) = number(Some(&request)).or_else(|| number(request.get("from"))) else {
        return Err("countdown wants a number from 0 on, or {from, interval_ms}".into());
    };
    let interval = number(request.get("interval_ms"))
        .map_or(COUNTDOWN_INTERVAL, |ms| Duration::from_millis(ms.into()));
    for left in (1..=from).rev() {
        ctx.emit(&Left { left }).await?;
        tokio::time::sleep(interval).await;
    }
    Ok(Payload::encode(&Done { done: true })?)
}

#[derive(Serialize)]
struct Left {
    left: u32,
}

#[derive(Serialize)]
struct Done {
    done: bool,
}

/// What `tree-hash` is asked with.
#[derive(Debug, Serialize, Deserialize)]
pub struct TreeHash {
    /// The directory, as the serving program sees it.
    pub dir: PathBuf,
    /// Names that are passed over wherever they stand.
    #[serde(default)]
    pub skip: Vec<String>,
}

/// What `tree-hash` answers with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Files hashed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files and directories that could not be read: chunks with an `error`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreadable: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's shape
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Totals {
    /// Adds a chunk.
    pub fn add(&mut self, entry: &Entry) {
        if entry.error.is_some() {
            self.unreadable += 1;
        } else {
            self.files += 1;
            self.bytes += entry.bytes;
        }
    }
}

/// How fast `tree-hash` goes: as fast as it can, unless the demonstration wants to see it break.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Between two chunks, at least.
    pub interval: Duration,
    /// The last chunk waits until this is true.
    pub gate: Option<watch::Receiver<bool>>,
    /// Told of each chunk: how many were handed over.
    pub sent: Option<watch::Sender<usize>>,
}

impl Pace {
    async fn before(&mut self, start: Instant, count: u32, is_last: bool) {
        // By a timetable, so that what one chunk was late does not add up.
        sleep_until(start + self.interval * count).await;
        if let (true, Some(gate)) = (is_last, &mut self.gate) {
            // Whoever would open it is gone: nobody wants it closed any more.
            let _ = gate.wait_for(|is_open| *is_open).await;
        }
    }
}

/// Hashes a directory: a chunk for each file, in a stable order.
///
/// # Errors
/// The directory cannot be read.
pub async fn tree_hash(
    ctx: EventContext,
    request: TreeHash,
    mut pace: Pace,
) -> Result<Totals, HandlerError> {
    let mut entries = hashed(request).await?;
    let (start, mut count, mut totals) = (Instant::now(), 0, Totals::default());
    let mut next = entries.recv().await;
    if next.is_none() {
        pace.before(start, 0, true).await;
    }
    while let Some(entry) = next {
        next = entries.recv().await;
        pace.before(start, count, next.is_none()).await;
        ctx.emit(&entry).await?;
        totals.add(&entry);
        count += 1;
        if let Some(sent) = &pace.sent {
            sent.send_replace(count as usize);
        }
    }
    Ok(totals)
}

/// Hashes on a thread that may block. When the receiver is dropped, it ends.
async fn hashed(request: TreeHash) -> Result<mpsc::Receiver<Entry>, HandlerError> {
    let walk = tokio::task::spawn_blocking(move || Walk::new(&request.dir, &request.skip));
    let walk = walk.await??;
    let (found, entries) = mpsc::channel(AHEAD_MAX);
    tokio::task::spawn_blocking(move || {
        for entry in walk {
            if found.blocking_send(entry).is_err() {
                return;
            }
        }
    });
    Ok(entries)
}
