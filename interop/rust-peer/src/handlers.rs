//! What the App serves. What this module keeps true: each way in which a handler can read a payload is there once: as it
//! came, as a `Value`, and as types of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use napp::{Builder, EventContext, HandlerError, Payload, SignalKind, Value};
use serde::{Deserialize, Serialize};

use crate::report::hex;

/// Registers all of them.
pub fn register(builder: Builder) -> Builder {
    let runs = Arc::new(AtomicU32::new(0));
    builder
        .ability("echo", |payload: Payload| async move { Ok(payload) })
        .describe("echo", "returns its payload")
        .ability("value", |value: Value| async move { Ok(value) })
        .ability("typed", |request: Typed| async move { Ok(request) })
        .ability("hex", |payload: Payload| async move { Ok(hex(&payload)) })
        .ability("fail", |_: Payload| async move {
            Err::<(), _>("it failed".into())
        })
        .ability("once", move |(): ()| {
            let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
            async move { Ok(run) }
        })
        .event("count", count)
        .event("hold", hold)
        .event("tick", tick)
}

/// The types a Rust program would write down for what JavaScript sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    #[serde(with = "serde_bytes")]
    buffer: Vec<u8>,
    #[serde(with = "serde_bytes")]
    uint8_array: Vec<u8>,
    float32_array: Vec<f32>,
    big_uint64_array: Vec<u64>,
    undefined: Option<u8>,
    null: Option<u8>,
    small: u8,
    beyond_uint32: u64,
    safe_max: i64,
    big_unsafe: u64,
    big_negative: i64,
    big70: i128,
    fraction: f64,
    whole_float: f64,
    infinity: f64,
    map_integers: BTreeMap<i64, String>,
    object_with_digit_keys: BTreeMap<u32, bool>,
    set: BTreeSet<String>,
    text: String,
}

#[derive(Deserialize)]
struct From {
    from: u32,
}

#[derive(Serialize)]
struct Left {
    left: u32,
}

#[derive(Serialize)]
struct Done {
    done: bool,
}

async fn count(ctx: EventContext, request: From) -> Result<Done, HandlerError> {
    for left in (1..=request.from).rev() {
        ctx.emit(&Left { left }).await?;
    }
    Ok(Done { done: true })
}

#[derive(Serialize)]
struct Heard {
    signal: &'static str,
    payload: Value,
}

/// Tells every signal that it gets; ends with `abort`.
async fn hold(ctx: EventContext, (): ()) -> Result<(), HandlerError> {
    let mut signals = ctx.signals();
    while let Some(signal) = signals.next().await {
        let heard = Heard {
            signal: signal.kind.as_str(),
            payload: signal.payload.decode()?,
        };
        ctx.emit(&heard).await?;
        if signal.kind == SignalKind::Abort {
            return Err("aborted".into());
        }
    }
    Ok(())
}

/// Numbers for ever, for what pause, resume and abort do by themselves.
async fn tick(ctx: EventContext, (): ()) -> Result<(), HandlerError> {
    for n in 0u32.. {
        ctx.emit(&n).await?;
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    Ok(())
}
