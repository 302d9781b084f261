//! The program that asks: it has the worker hash a directory, and says what it gets.

use std::path::PathBuf;

use napp::{App, CallError, EventCall, LinkWatch};

use super::gateway::end_of_stdin;
use super::job::{CLIENT, GATEWAY, WORKER};
use super::line::Line;
use super::links::{self, Common};
use crate::failure::Failure;
use crate::handlers::{Totals, TreeHash};
use crate::tree_hash::Entry;
use crate::{session, target};

/// What to ask for, and where.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The proxy.
    #[arg(long, value_parser = target::url)]
    connect: String,
    /// The directory.
    #[arg(long)]
    dir: PathBuf,
    /// Names to pass over.
    #[arg(long)]
    skip: Vec<String>,
    /// The Gateway is behind the proxy, and the worker behind the Gateway.
    #[arg(long)]
    via_gateway: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the program.
///
/// # Errors
/// Nobody listens to it.
pub async fn run(args: Args) -> Result<(), Failure> {
    let app = session::start(links::builder(CLIENT, &args.common)?).await?;
    let outcome = tokio::select! {
        outcome = job(&app, &args) => outcome,
        () = end_of_stdin() => Ok(()),
    };
    match outcome {
        Ok(()) => end_of_stdin().await,
        Err(failure) => {
            Line::Failed {
                why: failure.to_string(),
            }
            .say()?;
        }
    }
    session::leave(app).await;
    Ok(())
}

async fn job(app: &App, args: &Args) -> Result<(), Failure> {
    let neighbour = if args.via_gateway { GATEWAY } else { WORKER };
    let mut link = app.link(neighbour).map_err(Failure::failed)?;
    app.connect(neighbour, &args.connect)
        .await
        .map_err(Failure::failed)?;
    let request = TreeHash {
        dir: args.dir.clone(),
        skip: args.skip.clone(),
    };
    let call = app.event(WORKER, "tree-hash", &request).await;
    let mut call = call.map_err(failure)?;
    chunks(&mut call, &mut link).await?;
    let totals: Totals = call.response().await.map_err(failure)?;
    Line::Answer(totals).say()
}

/// Says every chunk and every change of the link, until the response is next.
async fn chunks(call: &mut EventCall, link: &mut LinkWatch) -> Result<(), Failure> {
    loop {
        tokio::select! {
            biased;
            status = link.next() => match status {
                Some(status) => links::tell(&status)?,
                None => return Ok(()),
            },
            chunk = call.next_as::<Entry>() => match chunk {
                Some(chunk) => Line::Chunk(chunk.map_err(Failure::failed)?).say()?,
                None => return Ok(()),
            },
        }
    }
}

fn failure(error: CallError) -> Failure {
    Failure::failed(format_args!("{}: {error}", error.reason()))
}
