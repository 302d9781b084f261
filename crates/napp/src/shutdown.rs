//! How an App ends. What this module keeps true: termination is at once and leaves nothing (TERM-1); a shutdown tells the
//! others first, can wait for what is under way, and takes a bounded time for all of it (TERM-2).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use nacp::{CloseReason, LinkState, PeerId, Reach, Undelivered};

use crate::driver::{Shared, Visit};

/// How long others get to answer our unregister, and tasks to end.
const GOODBYE: Duration = Duration::from_secs(1);

/// How to end an App.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, Shutdown};
/// use std::time::Duration;
/// let app = App::builder("world").start().await?;
/// let undelivered = app.shutdown(Shutdown::Drain(Duration::from_secs(5))).await;
/// assert!(undelivered.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Unregister from the Apps that are online and go: takes at most about 2 s.
    Now,
    /// Before that, wait until every message is delivered, but not longer than this. Responses of handlers that still run
    /// are not waited for.
    Drain(Duration),
}

impl Shared {
    pub(crate) async fn shut_down(self: &Arc<Self>, how: Shutdown) -> Vec<Undelivered> {
        if let Shutdown::Drain(limit) = how {
            let drained = self.progress_until(|visit| {
                visit.state.draining = true;
                visit.state.terminated || visit.state.nacp.is_drained()
            });
            // What is not delivered by then is in the list.
            let _ = tokio::time::timeout(limit, drained).await;
        }
        let (undelivered, leaving) = self.visit(|visit| {
            visit.state.draining = false;
            (visit.state.nacp.undelivered(), visit.leave_all())
        });
        let gone = self.progress_until(|visit| {
            let peers = &visit.state.peers;
            !leaving.iter().any(|peer| peers.contains_key(peer))
        });
        let _ = tokio::time::timeout(GOODBYE, gone).await;
        self.terminate();
        let _ = tokio::time::timeout(GOODBYE, self.tasks.all_ended()).await;
        undelivered
    }

    /// Resolves when `is_done`; asked again whenever something was delivered or a connection ended.
    async fn progress_until(self: &Arc<Self>, mut is_done: impl FnMut(&mut Visit<'_>) -> bool) {
        let mut progress = pin!(self.progress.notified());
        loop {
            progress.as_mut().enable();
            if self.visit(&mut is_done) {
                return;
            }
            progress.as_mut().await;
            progress.set(self.progress.notified());
        }
    }

    /// TERM-1. Again and again is harmless.
    pub(crate) fn terminate(self: &Arc<Self>) {
        // Whatever holds wakers is dropped without the lock.
        let (cells, _calls) = self.visit(|visit| {
            visit.stop_connecting();
            visit.nacp().terminate();
            visit.settle();
            visit.state.terminated = true;
            let peers: Vec<PeerId> = visit.state.peers.keys().copied().collect();
            for peer in peers {
                visit.close_peer(peer, CloseReason::Terminated);
            }
            let state = &mut visit.state;
            state.subscriptions.clear();
            state.sends.clear();
            state.links.drain().for_each(|(_, feeds)| feeds.end());
            state.bus.end();
            let cells = std::mem::take(&mut state.serving);
            (cells, std::mem::take(&mut state.calls))
        });
        for cell in cells.into_values() {
            cell.terminated();
        }
        self.stop.send_replace(true);
        self.room.notify_waiters();
        self.chunk_room.notify_waiters();
        self.progress.notify_waiters();
    }
}

impl Visit<'_> {
    fn stop_connecting(&mut self) {
        for (_, dialing) in self.state.dialing.drain() {
            dialing.end();
        }
    }

    /// Unregisters from every App that is online; gives the connections that wait for the answer.
    fn leave_all(&mut self) -> Vec<PeerId> {
        self.stop_connecting();
        let links = self.state.nacp.snapshot().links;
        let now = self.now;
        let mut leaving = Vec::new();
        for link in links {
            if let LinkState::Online { peer } = link.state
                && link.reach == Reach::Direct
                && self.nacp().disconnect(now, &link.app)
            {
                leaving.push(peer);
            }
        }
        leaving
    }
}
