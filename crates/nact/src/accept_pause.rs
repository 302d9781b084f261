//! How a listener outlives failures to accept.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::error::AcceptError;
use crate::url::Url;

/// How a listener gets over failures: at once when only one connection broke, after a growing pause when the system is
/// short of something.
#[derive(Default)]
pub(crate) struct AcceptPause {
    failures: u32,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl AcceptPause {
    const FIRST: Duration = Duration::from_millis(10);
    const DOUBLINGS_MAX: u32 = 7;

    /// Ready when accepting may go on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
        }
        Poll::Ready(())
    }

    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// # Errors
    /// The listening socket itself is broken.
    pub(crate) fn after(&mut self, error: io::Error, url: &Url) -> Result<(), AcceptError> {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, InvalidInput};
        match error.kind() {
            ConnectionAborted | ConnectionReset | Interrupted => return Ok(()),
            InvalidInput => return Err(AcceptError::Io(error)),
            _ => {}
        }
        let pause = Self::FIRST * (1 << self.failures.min(Self::DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(%url, %error, ?pause, "cannot accept connections for now");
        self.sleep = Some(Box::pin(sleep(pause)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shortage_of_file_descriptors_does_not_end_a_listener() {
        let (mut pause, url) = (AcceptPause::default(), Url::new("tcp", "host", Some(1)));
        let start = Instant::now();
        for _ in 0..3 {
            pause.after(io::Error::from_raw_os_error(24), &url).unwrap();
            std::future::poll_fn(|cx| pause.poll(cx)).await;
        }
        assert!(start.elapsed() >= Duration::from_millis(10 + 20 + 40));
        pause
            .after(io::ErrorKind::ConnectionAborted.into(), &url)
            .unwrap();
        assert!(
            pause.sleep.is_none(),
            "one broken connection costs no pause"
        );
        assert!(
            pause
                .after(io::ErrorKind::InvalidInput.into(), &url)
                .is_err()
        );
    }
}
