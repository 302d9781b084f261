//! Messages that queue up while the link is down, and how long they take once it is back: from the moment at which the
//! new connection is made (so without the backoff, but with the register) until every one of them is answered.

use std::time::{Duration, Instant};

use napp::{App, CallError, Transports};
use serde_bytes::ByteBuf;
use tokio::task::JoinSet;
use yardstick::{Args, Control, Failure, Figures, Load, control};

use crate::apps::{SERVER, builder};
use crate::cut::Cut;

/// Messages of one run, if one queue full is less than that: a single one would be over too soon to be measured.
const MESSAGES_MIN: u64 = 30_000;
/// Between two attempts to connect.
const BACKOFF: Duration = Duration::from_millis(2);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Queues and drains as often as it takes.
pub async fn run(args: &Args, mut control: Control) -> Result<(), Failure> {
    let load = Load::from_args(args)?;
    let messages = load.calls_max;
    let cut = Cut::default();
    let mut transports = Transports::default();
    transports.register(cut.clone());
    let app = builder("client", args)?
        .transports(transports)
        .reconnect_backoff(BACKOFF, BACKOFF)
        .start()
        .await?;
    app.connect(SERVER, args.required("url")?).await?;
    let body = ByteBuf::from(vec![7; load.payload]);
    // Whatever is allocated once is allocated now.
    drain(&app, &cut, &body, messages).await?;
    control.warm().await;
    let times = MESSAGES_MIN.div_ceil(messages);
    let mut drained = Duration::ZERO;
    for _ in 0..times {
        drained += drain(&app, &cut, &body, messages).await?;
    }
    let seconds = drained.as_secs_f64();
    let all = (messages * times) as f64;
    control::done(&Figures::from([
        ("units".into(), all),
        ("drain_ms".into(), seconds * 1e3 / times as f64),
        ("us_per_message".into(), seconds * 1e6 / all),
    ]));
    std::future::pending::<()>().await;
    drop(app);
    Ok(())
}

async fn drain(app: &App, cut: &Cut, body: &ByteBuf, messages: u64) -> Result<Duration, Failure> {
    cut.cut();
    while app_is_online(app) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let mut calls: JoinSet<Result<ByteBuf, CallError>> = JoinSet::new();
    for _ in 0..messages {
        let (app, body) = (app.clone(), body.clone());
        calls.spawn(async move { app.call(SERVER, "echo", &body).await });
    }
    while app.snapshot().backlog.messages < usize::try_from(messages)? {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    cut.mend();
    while let Some(answered) = calls.join_next().await {
        answered??;
    }
    let end = Instant::now();
    let begin = cut.connected().ok_or("answered without a connection")?;
    Ok(end - begin)
}

fn app_is_online(app: &App) -> bool {
    let apps = app.connected_apps();
    let server = apps.iter().find(|status| status.app.as_str() == SERVER);
    server.is_some_and(|status| status.is_online)
}
