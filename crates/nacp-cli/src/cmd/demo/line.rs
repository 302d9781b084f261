//! What the demonstration's two programs tell the one that started them: a line of JSON on stdout for each thing that
//! happened.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::handlers::Totals;
use crate::output;
use crate::tree_hash::Entry;

/// One thing that happened in a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// The worker is ready at this address.
    Listening {
        /// With the port that the system chose.
        url: String,
    },
    /// The link is online.
    Online {
        /// Whether it was offline before, and what waited is replayed.
        resumed: bool,
    },
    /// The link is offline.
    Offline {
        /// Why: `peer-down`, `ack-timeout`, …
        cause: String,
    },
    /// The other program is forgotten.
    Dropped {
        /// Why.
        cause: String,
    },
    /// How much waits for the link, or for its acknowledgement.
    Waiting {
        /// That many messages.
        messages: usize,
    },
    /// The client got a chunk.
    Chunk(Entry),
    /// The worker handed that many chunks over.
    Sent {
        /// So far.
        chunks: usize,
    },
    /// The client got the response.
    Answer(Totals),
    /// It is over, and not well.
    Failed {
        /// Why.
        why: String,
    },
}

impl Line {
    /// Writes it to stdout.
    pub fn say(&self) -> Result<(), Failure> {
        output::line(&serde_json::to_string(self).map_err(Failure::failed)?)
    }
}
