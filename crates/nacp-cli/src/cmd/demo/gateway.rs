//! The program in the middle, with `--via-gateway`: it forwards between the other two, and has no handlers.

use tokio::io::{AsyncReadExt as _, stdin};

use super::job::GATEWAY;
use super::line::Line;
use super::links::{self, Common};
use crate::failure::Failure;
use crate::{session, target};

/// Where to forward.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Where to listen.
    #[arg(long, value_parser = target::url)]
    listen: String,
    #[command(flatten)]
    common: Common,
}

/// Runs the program, until its stdin ends.
///
/// # Errors
/// It cannot listen, or nobody listens to it.
pub async fn run(args: Args) -> Result<(), Failure> {
    let builder = links::builder(GATEWAY, &args.common)?
        .gateway(true)
        .listen(&args.listen)
        .map_err(Failure::failed)?;
    let app = session::start(builder).await?;
    let url = app.local_urls().concat(); // there is one
    Line::Listening { url }.say()?;
    end_of_stdin().await;
    session::leave(app).await;
    Ok(())
}

/// Waits until whoever started this program lets it go.
pub async fn end_of_stdin() {
    let mut buffer = [0; 64];
    while matches!(stdin().read(&mut buffer).await, Ok(1..)) {}
}
