//! A Unix socket transport whose connections break on demand, and cannot be made again until it is mended. It adds a
//! flag and a waker to a connection, nothing to the path of a message.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use nact::unix::Unix;
use nact::{
    BoxFuture, Channel, DialError, ListenError, Listener, Options, Provider, ReceiveError,
    Receiver, Url,
};

/// The switch; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Cut(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_cut: bool,
    connected: Option<Instant>,
    reader: Option<Waker>,
}

impl Cut {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Breaks the connection; no other is made.
    pub fn cut(&self) {
        let reader = self.with(|state| {
            state.is_cut = true;
            state.connected = None;
            state.reader.take()
        });
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Lets connections be made again.
    pub fn mend(&self) {
        self.with(|state| state.is_cut = false);
    }

    /// When the present connection was made.
    pub fn connected(&self) -> Option<Instant> {
        self.with(|state| state.connected)
    }
}

impl Provider for Cut {
    fn schemes(&self) -> &[&str] {
        &["unix"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            if self.with(|state| state.is_cut) {
                let url = url.to_string();
                return Err(DialError::Refused { url });
            }
            let channel = Unix.dial(url, options).await?;
            self.with(|state| state.connected = Some(Instant::now()));
            let receiver = CutReceiver {
                inner: channel.receiver,
                cut: self.clone(),
            };
            Ok(Channel::new(
                channel.sender,
                Box::new(receiver),
                channel.remote,
            ))
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        Unix.listen(url, options)
    }
}

struct CutReceiver {
    inner: Box<dyn Receiver>,
    cut: Cut,
}

impl Receiver for CutReceiver {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        messages: &mut Vec<Bytes>,
    ) -> Poll<Result<(), ReceiveError>> {
        let is_cut = self.cut.with(|state| {
            let known = state.reader.as_ref();
            if !known.is_some_and(|reader| reader.will_wake(cx.waker())) {
                state.reader = Some(cx.waker().clone());
            }
            state.is_cut
        });
        if is_cut {
            return Poll::Ready(Err(ReceiveError::Cut));
        }
        self.inner.poll_receive(cx, messages)
    }

    fn bytes_received(&self) -> u64 {
        self.inner.bytes_received()
    }
}
