//! The sending half of an HTTP channel, on either side: a byte stream's, with the session's own ends.
//!
//! What it keeps true: back pressure comes first; who pushes on in spite of it, up to the session's limit, ends the
//! session (`send-buffer-overflow`). A sender that is dropped without having been closed cuts the session.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::pipe::{Over, Pipe, PipeWriter};
use crate::channel::{Outbound, Sender};
use crate::error::SendError;
use crate::options::Options;
use crate::stream::StreamSender;

/// What can be ended.
pub(super) trait Endable: Send + Sync {
    fn end(&self, over: Over);
}

pub(super) struct SessionSender {
    inner: StreamSender<PipeWriter>,
    session: Arc<dyn Endable>,
    /// Bytes pushed since there was room the last time.
    excess: usize,
    excess_max: usize,
    is_closed: bool,
}

impl SessionSender {
    pub(super) fn new(
        pipe: &Arc<Pipe>,
        session: Arc<dyn Endable>,
        excess_max: usize,
        options: &Options,
    ) -> Self {
        Self {
            inner: StreamSender::new(PipeWriter(Arc::clone(pipe)), options),
            session,
            excess: 0,
            excess_max,
            is_closed: false,
        }
    }
}

impl Sender for SessionSender {
    fn push(&mut self, message: Outbound) {
        let size = message.size();
        let has_room = if size <= self.small_size_max() {
            self.inner.wants_small()
        } else {
            self.inner.wants_more()
        };
        self.excess = if has_room {
            0
        } else {
            self.excess.saturating_add(size)
        };
        if self.excess > self.excess_max {
            self.session.end(Over::broken("send-buffer-overflow"));
            return;
        }
        self.inner.push(message);
    }

    fn wants_more(&self) -> bool {
        self.inner.wants_more()
    }

    fn wants_small(&self) -> bool {
        self.inner.wants_small()
    }

    fn small_size_max(&self) -> usize {
        self.inner.small_size_max()
    }

    fn is_idle(&self) -> bool {
        self.inner.is_idle()
    }

    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        self.inner.poll_send(cx, accepted)
    }

    fn poll_close(
        &mut self,
        cx: &mut Context<'_>,
        accepted: &mut Vec<u64>,
    ) -> Poll<Result<(), SendError>> {
        let outcome = self.inner.poll_close(cx, accepted);
        self.is_closed |= matches!(outcome, Poll::Ready(Ok(())));
        outcome
    }
}

impl Drop for SessionSender {
    fn drop(&mut self) {
        if !self.is_closed {
            self.session.end(Over::Cut);
        }
    }
}
