//! Who breaks the connection, and when.
//!
//! What this module keeps true: a fault begins only when the job has come to its place and both programs are online,
//! and counts as done only when they are online again; so each one hits a working link in the middle of the job.

use std::cell::Cell;

use tokio::sync::{mpsc, watch};

use super::plan::{Fault, Step};
use super::timeline::Tone;
use crate::proxy::{Condition, Direction, Proxy};

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
    /// What is waited for, for the error when it does not come.
    pub awaits: &'a Cell<&'static str>,
}

impl Conductor<'_> {
    /// Does all of it, and ends when the last fault is over.
    pub async fn conduct(mut self, steps: &[Step]) {
        let all =
            |wanted: fn(&Fault) -> bool| steps.iter().filter(|step| wanted(&step.fault)).count();
        let cuts_planned = all(|fault| matches!(fault, Fault::Cut { .. }));
        let mut cuts = 0;
        for step in steps {
            self.until("chunks", |state| {
                state.chunks >= step.after_chunks && both_online(state)
            })
            .await;
            match step.fault {
                Fault::Cut { after_bytes } => {
                    cuts += 1;
                    self.cut(cuts, cuts_planned, after_bytes).await;
                }
                Fault::BlackHole => self.black_hole().await,
                Fault::Slow { bytes_per_s, time } => {
                    let condition = Condition::Slow { bytes_per_s };
                    self.proxy.set_both(condition);
                    self.mark(
                        Tone::Bad,
                        &format!("slow: {bytes_per_s} bytes a second, for {time:?}"),
                    )
                    .await;
                    tokio::time::sleep(time).await;
                    self.proxy.set_both(Condition::Open);
                    self.mark(Tone::Good, "fast again").await;
                }
            }
        }
        self.until("both programs to be online", both_online).await;
        self.mark(Tone::Plain, "that was the last fault").await;
        self.awaits.set("the rest of the job");
    }

    async fn cut(&mut self, number: usize, planned: usize, after_bytes: u64) {
        let before = *self.state.borrow();
        self.awaits.set("bytes to cut");
        self.proxy.cut_after(Direction::ToDialler, after_bytes);
        self.proxy.cuts(number as u64).await;
        let chunks = self.state.borrow().chunks;
        self.mark(
            Tone::Bad,
            &format!("cut {number} of {planned}: reset, after {chunks} chunks"),
        )
        .await;
        self.until("the client to notice the cut", |state| {
            state.client.offline_count > before.client.offline_count
        })
        .await;
        self.until("the client to be online again", |state| {
            state.client.is_online
        })
        .await;
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
        self.until("both programs to be online again", both_online)
            .await;
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
