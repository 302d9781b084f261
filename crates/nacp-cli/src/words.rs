//! What happens to links, in words.

use napp::{DropCause, OfflineCause};

/// Why a link went offline.
pub fn offline(cause: OfflineCause) -> &'static str {
    match cause {
        OfflineCause::PeerDown => "the connection ended (peer-down)",
        OfflineCause::AckTimeout => "no acknowledgement in time (ack-timeout)",
        OfflineCause::HeartbeatMissed => "a heartbeat went unanswered (heartbeat-missed)",
        OfflineCause::ChallengeLost => "another program took the App ID (challenge-lost)",
        OfflineCause::GatewayOffline => "the Gateway in between is offline (gateway-offline)",
    }
}

/// Why an App was forgotten.
pub fn dropped(cause: DropCause) -> &'static str {
    match cause {
        DropCause::GraceEnded => "it did not come back within the grace (grace-ended)",
        DropCause::Unregistered => "it left (unregistered)",
        DropCause::Disconnected => "we left it (disconnected)",
    }
}
