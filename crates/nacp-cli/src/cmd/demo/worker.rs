//! The program that hashes: an App like any other, slowed down so that there is time to break its connection, and with
//! its ear on stdin.

use std::time::Duration;

use napp::{App, EventContext, LinkStatus, LinkWatch, Shutdown};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tokio::sync::watch;

use super::job::{CLIENT, GATEWAY, RELEASE, WORKER};
use super::line::Line;
use super::links::{self, Common};
use crate::failure::Failure;
use crate::handlers::{Pace, TreeHash, tree_hash};
use crate::target;

/// How often the Backlog is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How often chunks are counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(20);

/// How the worker works.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Microseconds between two chunks, at least.
    #[arg(long)]
    pace_us: u64,
    /// Where to listen for the client.
    #[arg(long, value_parser = target::url, required_unless_present = "connect")]
    listen: Option<String>,
    /// Where the Gateway is, instead.
    #[arg(long, value_parser = target::url, conflicts_with = "listen")]
    connect: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Runs the program, until its stdin ends.
///
/// # Errors
/// It cannot listen, or nobody listens to it.
pub async fn run(args: Args) -> Result<(), Failure> {
    let (gate, opened) = watch::channel(false);
    let sent = watch::Sender::new(0);
    let pace = Pace {
        interval: Duration::from_micros(args.pace_us),
        gate: Some(opened),
        sent: Some(sent.clone()),
    };
    let mut builder = links::builder(WORKER, &args.common)?
        .event("tree-hash", move |ctx: EventContext, request: TreeHash| {
            tree_hash(ctx, request, pace.clone())
        });
    if let Some(url) = &args.listen {
        builder = builder.listen(url).map_err(Failure::failed)?;
    }
    let app = crate::session::start(builder).await?;
    let neighbour = if args.connect.is_some() {
        GATEWAY
    } else {
        CLIENT
    };
    let link = app.link(neighbour).map_err(Failure::failed)?;
    for url in app.local_urls() {
        Line::Listening { url: url.clone() }.say()?;
    }
    if let Some(url) = &args.connect {
        app.connect(GATEWAY, url).await.map_err(Failure::failed)?;
    }

    let result = tokio::select! {
        result = watch_links(&app, link) => result,
        result = count(sent.subscribe()) => result,
        () = listen_to_stdin(&gate) => Ok(()),
    };
    app.shutdown(Shutdown::Drain(Duration::from_millis(200)))
        .await;
    let chunks = *sent.borrow();
    Line::Sent { chunks }.say()?;
    result
}

async fn listen_to_stdin(gate: &watch::Sender<bool>) {
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line == RELEASE {
            gate.send_replace(true);
        }
    }
}

/// Tells how many chunks were handed over; not of each one.
async fn count(mut sent: watch::Receiver<usize>) -> Result<(), Failure> {
    loop {
        let chunks = *sent.borrow_and_update();
        Line::Sent { chunks }.say()?;
        tokio::time::sleep(COUNT_INTERVAL).await;
        if sent.changed().await.is_err() {
            return Ok(());
        }
    }
}

/// Tells of every change of the link, and of what piles up while it is offline.
async fn watch_links(app: &App, mut link: LinkWatch) -> Result<(), Failure> {
    let (mut is_offline, mut waiting) = (false, 0);
    loop {
        let look = tokio::time::sleep(LOOK_INTERVAL);
        tokio::select! {
            biased;
            status = link.next() => {
                let Some(status) = status else { return Ok(()) };
                is_offline = matches!(status, LinkStatus::Offline { .. });
                waiting = usize::MAX; // say it in any case
                if !is_offline {
                    links::tell(&status)?;
                    continue;
                }
                links::tell(&status)?;
            }
            () = look, if is_offline => {}
        }
        let messages = links::waiting(app);
        if messages != waiting {
            waiting = messages;
            Line::Waiting { messages }.say()?;
        }
    }
}
