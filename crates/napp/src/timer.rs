//! The one timer of an App. What this module keeps true: the core is called when its nearest deadline is due, and seldom
//! in between; after the process was frozen, nobody is judged before what had arrived meanwhile is read (LINK-18, B35).

use std::sync::Arc;
use std::time::Duration;

use crate::driver::{NEVER, Shared};

/// For the connections to read what waits in the kernel, after the clock jumped.
const CATCH_UP: Duration = Duration::from_millis(20);
/// Turns of the scheduler that they get before that.
const CATCH_UP_YIELDS: usize = 4;

pub(crate) async fn run(shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let at = shared.arm_timer();
        let timer = async {
            match shared.tokio_time(at).filter(|_| at < NEVER) {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = shared.timer.notified() => continue,
            () = timer => {}
        }
        if shared.now() - at > shared.settings.ack_timeout / 2 {
            tracing::warn!(late = ?(shared.now() - at), "the process was frozen; reading first");
            for _ in 0..CATCH_UP_YIELDS {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(CATCH_UP).await;
        }
        shared.visit(|visit| {
            let now = visit.now;
            visit.nacp().handle_timeout(now);
            // A crowded connection is not named again by the core, and a heartbeat may pass the crowd.
            for entry in visit.state.peers.values() {
                if entry.signal.is_crowded() {
                    visit.acts.wake(&entry.signal);
                }
            }
        });
    }
}

impl Shared {
    /// What the timer waits for from now on.
    fn arm_timer(self: &Arc<Self>) -> nacp::Instant {
        self.visit(|visit| {
            let next = visit.state.nacp.poll_timeout();
            visit.state.timer_at = next.map_or(NEVER, |(at, _)| at);
            visit.state.timer_at
        })
    }
}
