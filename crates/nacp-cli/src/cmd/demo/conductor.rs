//! Who breaks the connection, and when.
//!
//! What this module keeps true: a fault begins only when the job has come to its place and both programs are online,
//! and counts as done only when they are online again; so each one hits a working link in the middle of the job.

use std::cell::Cell;
use std::time::Duration;

use nact_rig::{Condition, Direction, Proxy};
use tokio::sync::{mpsc, watch};

use super::plan::{Fault, Step};
use super::timeline::Tone;

/// What is known of the job, as it goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Chunks that the client got; without lossless streams, chunks that the worker sent.
    pub chunks: usize,
    /// The worker's view of the link.
    pub worker: Link,
    /// The client's.
    pub client: Link,
}

/// One program's view of the link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// Whether it is online.
    pub is_online: bool,
    /// How often it went offline.
    pub offline_count: u32,
    /// How often it came back.
    pub resumed_count: u32,
}

/// Says what is being done.
pub type Marks = mpsc::Sender<(Tone, String)>;

/// Breaks the connection as planned.
pub struct Conductor<'a> {
    /// The connection.
    pub proxy: &'a Proxy,
    /// The job.
    pub state: watch::Receiver<State>,
    /// Where to say what is done.
    pub marks: Marks,
    /// Chunks between two faults, at least.
    pub gap: usize,
    /// Chunks before the last one, which waits for the last fault.
    pub last: usize,
    /// What is waited for, for the error when it does not come.
    pub awaits: &'a Cell<&'static str>,
}

impl Conductor<'_> {
    /// Does all of it, and ends when the last fault is over.
    pub async fn conduct(mut self, steps: &[Step]) {
        let all =
            |wanted: fn(&Fault) -> bool| steps.iter().filter(|step| wanted(&step.fault)).count();
        let cuts_planned = all(|fault| matches!(fault, Fault::Cut { .. }));
        let (mut cuts, mut resumed_at) = (0, 0);
        for step in steps {
            // What was held up by the last fault comes in a rush: let the job go on a little before the next one.
            let due = step
                .after_chunks
                .max((resumed_at + self.gap).min(self.last));
            self.until("chunks", |state| state.chunks >= due && both_online(state))
                .await;
            match step.fault {
                Fault::Cut {
                    after_bytes,
                    outage,
                } => {
                    cuts += 1;
                    let name = format!("cut {cuts} of {cuts_planned}");
                    self.cut(&name, cuts as u64, after_bytes, outage).await;
                }
                Fault::BlackHole => self.black_hole().await,
                Fault::Slow { bytes_per_s, time } => self.slow(bytes_per_s, time).await,
            }
            self.until("both programs to be online again", both_online)
                .await;
            resumed_at = self.state.borrow().chunks;
        }
        self.mark(Tone::Plain, "that was the last fault").await;
        self.awaits.set("the rest of the job");
    }

    async fn cut(&mut self, name: &str, number: u64, after_bytes: u64, outage: Duration) {
        let before = *self.state.borrow();
        self.awaits.set("bytes to cut");
        self.proxy.cut_after(Direction::ToDialler, after_bytes);
        self.proxy.cuts(number).await;
        self.proxy.set_both(Condition::BlackHole);
        let chunks = self.state.borrow().chunks;
        let text =
            format!("{name}: reset after {chunks} chunks, then {outage:?} without a network");
        self.mark(Tone::Bad, &text).await;
        self.until("the client to notice the cut", |state| {
            state.client.offline_count > before.client.offline_count
        })
        .await;
        tokio::time::sleep(outage).await;
        self.proxy.set_both(Condition::Open);
        self.mark(Tone::Good, "the network is back").await;
    }

    async fn slow(&mut self, bytes_per_s: u64, time: Duration) {
        self.proxy.set_both(Condition::Slow { bytes_per_s });
        self.mark(
            Tone::Bad,
            &format!("slow: {bytes_per_s} bytes a second, for {time:?}"),
        )
        .await;
        tokio::time::sleep(time).await;
        self.proxy.set_both(Condition::Open);
        self.mark(Tone::Good, "fast again").await;
    }

    async fn black_hole(&mut self) {
        let before = *self.state.borrow();
        self.proxy.set_both(Condition::BlackHole);
        self.mark(Tone::Bad, "black hole: nothing passes, nobody is told")
            .await;
        self.until("both programs to notice the black hole", |state| {
            state.client.offline_count > before.client.offline_count
                && state.worker.offline_count > before.worker.offline_count
        })
        .await;
        self.proxy.set_both(Condition::Open);
        self.mark(Tone::Good, "the black hole is over").await;
    }

    async fn until(&mut self, what: &'static str, reached: impl FnMut(&State) -> bool) {
        self.awaits.set(what);
        // The sender lives as long as whoever polls us.
        let _ = self.state.wait_for(reached).await;
    }

    async fn mark(&self, tone: Tone, text: &str) {
        let _ = self.marks.send((tone, text.to_owned())).await; // as above
    }
}

fn both_online(state: &State) -> bool {
    state.worker.is_online && state.client.is_online
}
