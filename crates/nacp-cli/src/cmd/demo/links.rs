//! What the two programs have in common: quick timeouts, so that a break is noticed while somebody watches; and how
//! they tell of their links.

use std::path::PathBuf;
use std::time::Duration;

use napp::{App, Builder, LinkStatus};

use super::line::Line;
use super::site;
use crate::failure::Failure;
use crate::words;

/// What all programs of the demonstration are told.
#[derive(Clone, Debug, clap::Args)]
pub struct Common {
    /// Without lossless streams.
    #[arg(long)]
    base: bool,
    /// Where the certificate lies.
    #[arg(long)]
    tls_dir: Option<PathBuf>,
}

/// An App that notices a dead link within a second.
///
/// # Errors
/// The certificate cannot be read.
pub fn builder(id: &str, common: &Common) -> Result<Builder, Failure> {
    Ok(App::builder(id)
        .transports(site::transports(common.tls_dir.as_ref())?)
        .ack_timeout(Duration::from_secs(1))
        .heartbeat_interval(Some(Duration::from_millis(500)))
        .reconnect_grace(Duration::from_secs(30))
        .reconnect_backoff(Duration::from_millis(100), Duration::from_secs(1))
        .lossless_streams(!common.base))
}

/// Says what became of a link.
///
/// # Errors
/// Nobody listens.
pub fn tell(status: &LinkStatus) -> Result<(), Failure> {
    match status {
        LinkStatus::Online { resumed, .. } => Line::Online { resumed: *resumed },
        LinkStatus::Offline { cause, .. } => Line::Offline {
            cause: words::offline(*cause).to_owned(),
        },
        LinkStatus::Dropped { cause } => Line::Dropped {
            cause: words::dropped(*cause).to_owned(),
        },
    }
    .say()
}

/// Messages that nobody is known to have yet: the other program does not, or the Gateway does not.
pub fn waiting(app: &App) -> usize {
    app.connected_apps()
        .iter()
        .map(|status| status.backlog + status.unacked)
        .sum()
}
