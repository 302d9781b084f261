//! What the two programs have in common: quick timeouts, so that a break is noticed while somebody watches; and how
//! they tell of their links.

use std::time::Duration;

use napp::{App, Builder, LinkStatus};

use super::line::Line;
use crate::failure::Failure;
use crate::words;

/// An App that notices a dead link within a second.
pub fn builder(id: &str, is_base: bool) -> Builder {
    App::builder(id)
        .ack_timeout(Duration::from_secs(1))
        .heartbeat_interval(Some(Duration::from_millis(500)))
        .reconnect_grace(Duration::from_secs(30))
        .reconnect_backoff(Duration::from_millis(100), Duration::from_secs(1))
        .lossless_streams(!is_base)
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

/// Messages for an App that it does not have yet, as far as is known here.
pub fn waiting(app: &App, id: &str) -> usize {
    app.connected_apps()
        .iter()
        .filter(|status| status.app.as_str() == id)
        .map(|status| status.backlog + status.unacked)
        .sum()
}
