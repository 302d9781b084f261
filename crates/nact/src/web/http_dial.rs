//! The client of an HTTP session: one GET that is read for ever, POSTs one after the other.
//!
//! What it keeps true: POSTs are sent in order, one at a time; one that is not answered with 2xx in time ends the
//! session with its reason, in both directions; the session ends with the sender.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderValue, Method, StatusCode, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, TaskGuard, ask, connect, handshake_error, request};
use super::pipe::{Over, Pipe, Taken};
use super::session_sender::{Endable, SessionSender};
use super::{CONTENT_TYPE, PREFACE, SESSION_HEADER, Web};
use crate::channel::Channel;
use crate::error::DialError;
use crate::options::Options;
use crate::stream::StreamReceiver;
use crate::url::Url;

/// A connection that was idle for longer is not used again: a server may be closing it, and a POST that meets that
/// cannot be repeated. Node.js closes after 5 s.
const UPLINK_IDLE_MAX: Duration = Duration::from_secs(3);

/// Opens a session. Without a time limit of its own.
pub(super) async fn dial(web: &Web, url: &Url, options: &Options) -> Result<Channel, DialError> {
    // The POSTs' connection first: a server accepts in order, so it has both when it has the session.
    let uplink_connection = connect(web, url, options).await?;
    let mut connection: Connection<Pieces> = connect(web, url, options).await?;
    let get = request(web, url)?
        .header(header::ACCEPT, CONTENT_TYPE)
        .body(Pieces::default())
        .map_err(|error| handshake_error(url, error.to_string()))?;
    let response = ask(&mut connection, url, get).await?;
    if response.status() != StatusCode::OK {
        let reason = format!("http-get-{}", response.status().as_u16());
        return Err(handshake_error(url, reason));
    }
    let mut token = response
        .headers()
        .get(SESSION_HEADER)
        .cloned()
        .ok_or_else(|| handshake_error(url, "http-session-missing"))?;
    token.set_sensitive(true);
    let mut body = response.into_body();
    let piece = preface(&mut body)
        .await
        .ok_or_else(|| handshake_error(url, "invalid-http-preface"))?;

    let link = Arc::new(Link {
        uplink: Pipe::new(options.unsent_bytes_max as usize),
        over: Mutex::new(None),
        ended: Notify::new(),
        downlink_task: Mutex::new(Some(connection.task)),
    });
    let uplink = Uplink {
        web: web.clone(),
        url: url.clone(),
        options: options.clone(),
        token,
        link: Arc::clone(&link),
        connection: uplink_connection,
        used: Instant::now(),
    };
    tokio::spawn(uplink.run());
    let excess_max = web.config.limits.uplink_queue_bytes_max;
    let session: Arc<dyn Endable> = Arc::clone(&link) as _;
    let sender = SessionSender::new(&link.uplink, session, excess_max, options);
    let read = DownlinkRead { body, piece, link };
    let receiver = StreamReceiver::new(read, options);
    let remote = connection.remote;
    Ok(Channel::new(Box::new(sender), Box::new(receiver), remote))
}

/// Reads up to the preface and strips it; gives what follows. `None` if it is not there.
async fn preface(body: &mut Incoming) -> Option<Bytes> {
    let mut start = BytesMut::new();
    while start.len() < PREFACE.len() {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        if let Ok(data) = frame.ok()?.into_data() {
            start.extend_from_slice(&data);
        }
    }
    (start.split_to(PREFACE.len())[..] == PREFACE).then(|| start.freeze())
}

/// What both directions share.
struct Link {
    uplink: Arc<Pipe>,
    over: Mutex<Option<Over>>,
    /// Ends a POST that is under way.
    ended: Notify,
    /// Ending it ends the GET.
    downlink_task: Mutex<Option<TaskGuard>>,
}

impl Endable for Link {
    fn end(&self, over: Over) {
        let mut first = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(over.clone());
        drop(first);
        self.uplink.end(over);
        self.ended.notify_one();
        let task = self
            .downlink_task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(task);
    }
}

/// The body of the GET, as a byte stream.
struct DownlinkRead {
    body: Incoming,
    piece: Bytes,
    link: Arc<Link>,
}

impl DownlinkRead {
    /// The body ended; whoever ended the link before knows better why.
    fn end(&self, over: Over) -> io::Result<()> {
        self.link.end(over);
        let over = self
            .link
            .over
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        over.as_ref().map_or(Ok(()), Over::read_result)
    }
}

impl AsyncRead for DownlinkRead {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.piece.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => this.piece = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => return Poll::Ready(this.end(Over::Cut)),
                None => return Poll::Ready(this.end(Over::Closed)),
            }
        }
        let count = this.piece.len().min(out.remaining());
        out.put_slice(&this.piece[..count]);
        this.piece.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// Posts what the sender writes.
struct Uplink {
    web: Web,
    url: Url,
    options: Options,
    token: HeaderValue,
    link: Arc<Link>,
    connection: Connection<Pieces>,
    used: Instant,
}

impl Uplink {
    async fn run(mut self) {
        let size_max = self.web.config.limits.sent_post_bytes_max.max(1);
        loop {
            let pipe = Arc::clone(&self.link.uplink);
            let first = std::future::poll_fn(|cx| pipe.poll_take(cx, size_max)).await;
            let Taken::Piece(first) = first else {
                // The sender's end is answered here: everything was posted, so the GET may go.
                self.link.end(Over::Closed);
                return;
            };
            let pieces = gather(&pipe, first, size_max).await;
            let limit = self.web.config.limits.post_timeout;
            let link = Arc::clone(&self.link);
            let (mut posting, mut ended) = (
                pin!(timeout(limit, self.post(pieces))),
                pin!(link.ended.notified()),
            );
            let outcome = std::future::poll_fn(|cx| match posting.as_mut().poll(cx) {
                Poll::Ready(Ok(outcome)) => Poll::Ready(outcome),
                Poll::Ready(Err(_)) => Poll::Ready(Err(Over::broken("connect-timeout"))),
                Poll::Pending => ended.as_mut().poll(cx).map(|()| Err(Over::Cut)),
            })
            .await;
            if let Err(over) = outcome {
                link.end(over);
                return;
            }
        }
    }

    async fn post(&mut self, pieces: Pieces) -> Result<(), Over> {
        if self.used.elapsed() > UPLINK_IDLE_MAX || self.connection.requests.is_closed() {
            self.reconnect().await?;
        }
        let mut request = self.request(pieces)?;
        let mut may_repeat = true;
        let response = loop {
            if self.connection.requests.ready().await.is_err() {
                self.reconnect().await?;
            }
            match self.connection.requests.try_send_request(request).await {
                Ok(response) => break response,
                // Given back unsent: the connection closed before.
                Err(mut error) => match error.take_message() {
                    Some(unsent) if may_repeat => {
                        may_repeat = false;
                        request = unsent;
                        self.reconnect().await?;
                    }
                    _ => return Err(Over::Cut),
                },
            }
        };
        self.used = Instant::now();
        if !response.status().is_success() {
            let status = response.status().as_u16();
            return Err(Over::Broken(format!("http-post-{status}")));
        }
        // The connection is free again when the body is read; 204 has none.
        let mut body = response.into_body();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        {
            frame.map_err(|_| Over::Cut)?;
        }
        Ok(())
    }

    fn request(&self, pieces: Pieces) -> Result<http::Request<Pieces>, Over> {
        let builder = request(&self.web, &self.url).map_err(|_| Over::Cut)?;
        builder
            .method(Method::POST)
            .header(header::CONTENT_TYPE, CONTENT_TYPE)
            .header(SESSION_HEADER, self.token.clone())
            .body(pieces)
            .map_err(|_| Over::Cut)
    }

    async fn reconnect(&mut self) -> Result<(), Over> {
        let connecting = connect(&self.web, &self.url, &self.options);
        self.connection = connecting
            .await
            .map_err(|error| Over::Broken(error.reason().to_owned()))?;
        Ok(())
    }
}

/// Everything that is there, up to the size of one POST.
async fn gather(pipe: &Pipe, first: Bytes, size_max: usize) -> Pieces {
    let mut pieces = Pieces::default();
    let mut next = Some(first);
    while let Some(piece) = next {
        pieces.size += piece.len();
        pieces.pieces.push_back(piece);
        let room = size_max.saturating_sub(pieces.size);
        next = None;
        if room > 0 {
            let taken = std::future::poll_fn(|cx| {
                Poll::Ready(match pipe.poll_take(cx, room) {
                    Poll::Ready(Taken::Piece(piece)) => Some(piece),
                    _ => None,
                })
            });
            next = taken.await;
        }
    }
    pieces
}

/// A body that is all here.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Bytes>,
    size: usize,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.size -= piece.as_ref().map_or(0, Bytes::len);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.size as u64)
    }
}
