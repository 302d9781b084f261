//! The program that hashes: an App like any other, slowed down so that there is time to break its connection, and with
//! its ear on stdin.

use std::time::Duration;

use napp::{App, EventContext, LinkStatus, Shutdown};
use tokio::io::{AsyncBufReadExt as _, BufReader, stdin};
use tokio::sync::watch;

use super::job::{CLIENT, WORKER};
use super::line::Line;
use super::links;
use crate::failure::Failure;
use crate::handlers::{Pace, TreeHash, tree_hash};

/// The line on stdin that lets the last chunk go.
pub const RELEASE: &str = "release";
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
    /// Without lossless streams.
    #[arg(long)]
    base: bool,
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
    let builder = links::builder(WORKER, args.base)
        .event("tree-hash", move |ctx: EventContext, request: TreeHash| {
            tree_hash(ctx, request, pace.clone())
        })
        .listen("tcp://127.0.0.1:0")
        .map_err(Failure::failed)?;
    let app = crate::session::start(builder).await?;
    let url = app.local_urls().concat(); // there is one
    Line::Listening { url }.say()?;

    let result = tokio::select! {
        result = watch_links(&app) => result,
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
async fn watch_links(app: &App) -> Result<(), Failure> {
    let mut link = app.link(CLIENT).map_err(Failure::failed)?;
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
        let messages = links::waiting(app, CLIENT);
        if messages != waiting {
            waiting = messages;
            Line::Waiting { messages }.say()?;
        }
    }
}
