//! The event bus of one App: what an emit costs with this many listeners, their reading included.

use std::time::{Duration, Instant};

use napp::App;
use serde_bytes::ByteBuf;
use yardstick::{Args, Control, Failure, Figures, Load, control};

/// Emits between two turns of the listeners; far below the length of their queues.
const BATCH: u64 = 64;

/// Emits for as long as told, with a listener for each connection.
pub async fn run(args: &Args, mut control: Control) -> Result<(), Failure> {
    let load = Load::from_args(args)?;
    let app = App::builder("bus").start().await?;
    for _ in 0..load.connections {
        let mut listener = app.listen("bench:tick")?;
        tokio::spawn(async move { while listener.next().await.is_some() {} });
    }
    let body = ByteBuf::from(vec![7; load.payload]);
    emit(&app, &body, load.connections, load.warm_up).await?;
    control.warm().await;
    let begin = Instant::now();
    let emits = emit(&app, &body, load.connections, load.duration).await?;
    let nanos = begin.elapsed().as_nanos() as f64 / emits as f64;
    let mut figures = Figures::from([
        ("units".into(), emits as f64),
        ("ns_per_emit".into(), nanos),
    ]);
    if load.connections > 0 {
        figures.insert("ns_per_hit".into(), nanos / load.connections as f64);
    }
    control::done(&figures);
    std::future::pending::<()>().await;
    drop(app);
    Ok(())
}

async fn emit(
    app: &App,
    body: &ByteBuf,
    listeners: usize,
    duration: Duration,
) -> Result<u64, Failure> {
    let until = Instant::now() + duration;
    let mut emits = 0;
    while Instant::now() < until {
        for _ in 0..BATCH {
            let heard = app.emit("bench:tick", body)?;
            if heard != listeners {
                return Err(format!("{heard} of {listeners} heard it").into());
            }
        }
        emits += BATCH;
        tokio::task::yield_now().await;
    }
    Ok(emits)
}
