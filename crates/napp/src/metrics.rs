//! What is counted, for whoever installs a recorder of the `metrics` crate before the App starts. All names begin with
//! `napp_`.
//!
//! | name | kind | meaning |
//! |---|---|---|
//! | `napp_messages_received_total`, `napp_messages_sent_total` | counter | messages over all connections; sent = accepted by the transport |
//! | `napp_bytes_sent_total`, `napp_bytes_received_total` | counter | their bytes, framing aside |
//! | `napp_calls_total`, `napp_calls_failed_total` | counter | requests made; those that ended without an ok response |
//! | `napp_call_seconds` | histogram | from the first poll of a plain call to its response |
//! | `napp_requests_received_total` | counter | requests of others |
//! | `napp_handlers_panicked_total` | counter | handlers that panicked |
//! | `napp_chunks_dropped_total` | counter | chunks and hits that nobody read in time |
//! | `napp_peers_connected_total`, `napp_peers_disconnected_total` | counter | connections |
//! | `napp_links_online_total`, `_offline_total`, `_dropped_total` | counter | what became of links |
//! | `napp_dials_total`, `napp_dials_failed_total` | counter | attempts to connect |
//! | `napp_reports_total{name, reason}` | counter | everything that the event bus reports as an error or warning |

use metrics::{Counter, Histogram, counter, histogram};

pub(crate) struct Metrics {
    pub(crate) messages_received: Counter,
    pub(crate) messages_sent: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) calls_made: Counter,
    pub(crate) calls_failed: Counter,
    pub(crate) call_seconds: Histogram,
    pub(crate) requests_received: Counter,
    pub(crate) handlers_panicked: Counter,
    pub(crate) chunks_dropped: Counter,
    pub(crate) peers_connected: Counter,
    pub(crate) peers_disconnected: Counter,
    pub(crate) links_online: Counter,
    pub(crate) links_offline: Counter,
    pub(crate) links_dropped: Counter,
    pub(crate) dials: Counter,
    pub(crate) dials_failed: Counter,
}

impl Metrics {
    /// Looked up once: a look-up per message would cost more than the message.
    pub(crate) fn new() -> Self {
        Self {
            messages_received: counter!("napp_messages_received_total"),
            messages_sent: counter!("napp_messages_sent_total"),
            bytes_received: counter!("napp_bytes_received_total"),
            bytes_sent: counter!("napp_bytes_sent_total"),
            calls_made: counter!("napp_calls_total"),
            calls_failed: counter!("napp_calls_failed_total"),
            call_seconds: histogram!("napp_call_seconds"),
            requests_received: counter!("napp_requests_received_total"),
            handlers_panicked: counter!("napp_handlers_panicked_total"),
            chunks_dropped: counter!("napp_chunks_dropped_total"),
            peers_connected: counter!("napp_peers_connected_total"),
            peers_disconnected: counter!("napp_peers_disconnected_total"),
            links_online: counter!("napp_links_online_total"),
            links_offline: counter!("napp_links_offline_total"),
            links_dropped: counter!("napp_links_dropped_total"),
            dials: counter!("napp_dials_total"),
            dials_failed: counter!("napp_dials_failed_total"),
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

/// Errors and warnings are rare, so each is looked up.
pub(crate) fn report(name: &'static str, reason: &'static str) {
    counter!("napp_reports_total", "name" => name, "reason" => reason).increment(1);
}
