//! The clock of [`Reassembly`], which has none of its own: tokio's, so that paused time works in tests.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::frame::FrameError;
use crate::reassembly::Reassembly;

/// Wakes a receiver when an unfinished message may be overdue. For authors of transports: poll it whenever nothing can
/// be read.
#[derive(Debug, Default)]
pub struct ReassemblyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl ReassemblyTimer {
    /// Ready with the error when a message is overdue. Needs a tokio runtime with time enabled.
    pub fn poll(&mut self, cx: &mut Context<'_>, reassembly: &mut Reassembly) -> Poll<FrameError> {
        while let Some(deadline) = reassembly.next_timeout() {
            // Moved only when it fires: progress is frequent, a timeout is not.
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(sleep_until(deadline.into())));
            ready!(sleep.as_mut().poll(cx));
            if let Err(error) = reassembly.handle_timeout(now()) {
                return Poll::Ready(error);
            }
            self.sleep = None;
        }
        Poll::Pending
    }
}

/// The time to hand to [`Reassembly`].
pub(crate) fn now() -> std::time::Instant {
    Instant::now().into_std()
}
