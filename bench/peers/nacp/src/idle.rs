//! Many Apps in this process, each with a link to one Gateway, that then do nothing: what a link costs in memory is
//! read from outside, before and after.

use std::time::{Duration, Instant};

use napp::App;
use tokio::task::JoinSet;
use yardstick::{Args, Control, Failure, Figures, Load, control, own};

use crate::apps::{GATEWAY, builder};

/// Links that are made at the same time.
const AT_A_TIME: usize = 64;
/// For whatever follows a register (the first heartbeat) to be over.
const SETTLING: Duration = Duration::from_millis(500);

/// Makes as many links as there are to be connections.
pub async fn run(args: &Args, mut control: Control) -> Result<(), Failure> {
    let wanted = Load::from_args(args)?.connections;
    // A socket on our side of each link, and a few files besides.
    let files = own::raise_open_files();
    if files < wanted as u64 + 64 {
        return Err(format!("{wanted} links need more than {files} open files").into());
    }
    control.warm().await;
    let begin = Instant::now();
    let mut apps = Vec::with_capacity(wanted);
    let mut connecting = JoinSet::new();
    for index in 0..wanted {
        connecting.spawn(connect(index, args.clone()));
        if connecting.len() >= AT_A_TIME
            && let Some(connected) = connecting.join_next().await
        {
            apps.push(connected??);
        }
    }
    while let Some(connected) = connecting.join_next().await {
        apps.push(connected??);
    }
    drop(connecting);
    let seconds = begin.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLING).await;
    let links = apps.len() as f64;
    control::done(&Figures::from([
        ("units".into(), links),
        ("per_s".into(), links / seconds),
    ]));
    std::future::pending::<()>().await;
    drop(apps);
    Ok(())
}

async fn connect(index: usize, args: Args) -> Result<App, Failure> {
    let app = builder(&format!("idle-{index}"), &args)?.start().await?;
    app.connect(GATEWAY, args.required("url")?).await?;
    Ok(app)
}
