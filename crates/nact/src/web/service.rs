//! Answers requests: the table of the transport, and nothing else.
//!
//! What it keeps true: the authorisation hook runs before anything else; a refused or malformed request makes no state;
//! every answer says why by its status and a short text.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header,
};
use hyper::body::{Body, Frame, SizeHint};
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tungstenite::handshake::derive_accept_key;

use super::authorisation::{RequestInfo, remote, remote_text};
use super::config::WebConfig;
use super::session::{ConnectionCut, Downlink, PostError, Sessions};
use super::{CONTENT_TYPE, SESSION_HEADER};
use crate::channel::{BoxFuture, Channel};
use crate::identity::Identity;
use crate::options::Options;
use crate::refusal_limit::{Origin, RefusalLimit};
use crate::websocket::{self, Role};

/// Serves the web transports inside somebody's own HTTP server: a `tower` service, for axum's `route_service`, hyper,
/// and whatever else speaks HTTP/1.1 with upgrades. Made by [`Web::mount`](super::Web::mount). Cheap to clone.
///
/// The server decides about paths. It may put a [`RemoteAddress`](super::RemoteAddress) and an [`Identity`] into a
/// request's extensions.
#[derive(Clone)]
pub struct WebService(Arc<Inner>);

struct Inner {
    config: WebConfig,
    options: Options,
    /// The only path served; any if `None`.
    path: Option<String>,
    sessions: Arc<Sessions>,
    refusals: RefusalLimit,
    channels: mpsc::Sender<Channel>,
}

impl WebService {
    /// The service, and where its channels come out.
    pub(super) fn new(
        config: WebConfig,
        options: Options,
        path: Option<String>,
    ) -> (Self, mpsc::Receiver<Channel>) {
        let waiting_max = options.accept_queue_max.clamp(1, 1 << 16) as usize;
        let (channels, accepted) = mpsc::channel(waiting_max);
        let refusals = RefusalLimit::new(config.limits.refusals_max);
        let inner = Inner {
            config,
            options,
            path,
            sessions: Arc::default(),
            refusals,
            channels,
        };
        (Self(Arc::new(inner)), accepted)
    }

    /// Answers one request. Dropping the future is what happens when its connection goes.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<WebBody>
    where
        B: Body + Send + 'static,
        B::Data: Send,
    {
        let (parts, body) = request.into_parts();
        match self.0.answer(parts, body).await {
            Ok(response) => response,
            Err(Answer { status, header }) => {
                let mut response = Response::new(WebBody::text(status));
                *response.status_mut() = status;
                response.headers_mut().extend(header);
                response
            }
        }
    }
}

impl<B> tower_service::Service<Request<B>> for WebService
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<WebBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.respond(request).await) })
    }
}

/// An answer that is only a status, perhaps with a header.
struct Answer {
    status: StatusCode,
    header: Option<(HeaderName, HeaderValue)>,
}

impl From<StatusCode> for Answer {
    fn from(status: StatusCode) -> Self {
        Self {
            status,
            header: None,
        }
    }
}

impl Answer {
    fn with(status: StatusCode, name: HeaderName, value: &'static str) -> Self {
        Self {
            status,
            header: Some((name, HeaderValue::from_static(value))),
        }
    }
}

impl Inner {
    async fn answer<B>(&self, mut parts: Parts, body: B) -> Result<Response<WebBody>, Answer>
    where
        B: Body + Send + 'static,
        B::Data: Send,
    {
        let identity = self.authorise(&parts).await?;
        if self
            .path
            .as_ref()
            .is_some_and(|path| path != parts.uri.path())
        {
            return Err(StatusCode::NOT_FOUND.into());
        }
        if parts.method == Method::POST {
            return self.post(&parts, &identity, body).await;
        }
        if parts.method != Method::GET {
            return Err(Answer::with(
                StatusCode::METHOD_NOT_ALLOWED,
                header::ALLOW,
                "GET, POST",
            ));
        }
        if has_token(&parts.headers, header::UPGRADE, "websocket") {
            return self.upgrade(&mut parts, identity);
        }
        self.open(&parts, identity)
    }

    async fn authorise(&self, parts: &Parts) -> Result<Option<Identity>, Answer> {
        let from_certificate = parts.extensions.get::<Identity>().cloned();
        let Some(hook) = &self.config.authorisation else {
            return Ok(from_certificate);
        };
        let remote = remote(parts);
        let origin = remote.map(Origin::address);
        if origin
            .as_ref()
            .is_some_and(|origin| !self.refusals.admits(origin))
        {
            return Err(Answer::with(
                StatusCode::TOO_MANY_REQUESTS,
                header::RETRY_AFTER,
                "1",
            ));
        }
        match hook.authorise(&RequestInfo::new(parts)).await {
            Ok(identity) => Ok(identity.or(from_certificate)),
            Err(refusal) => {
                origin.iter().for_each(|origin| self.refusals.count(origin));
                tracing::debug!(?remote, ?refusal, "a request was refused");
                let mut answer = Answer::from(refusal.status());
                if answer.status == StatusCode::UNAUTHORIZED {
                    let challenge = HeaderValue::from_static("Bearer");
                    answer.header = Some((header::WWW_AUTHENTICATE, challenge));
                }
                Err(answer)
            }
        }
    }

    fn open(&self, parts: &Parts, identity: Option<Identity>) -> Result<Response<WebBody>, Answer> {
        // Room for the channel first: without a listener there is none.
        let place = self
            .channels
            .try_reserve()
            .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let limits = &self.config.limits;
        let connection = parts.extensions.get::<ConnectionCut>().cloned();
        let session = self
            .sessions
            .open(
                limits.sessions_max,
                limits.idle_timeout,
                identity,
                connection,
                &self.options,
            )
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?
            .ok_or(StatusCode::SERVICE_UNAVAILABLE)?;
        let mut token = HeaderValue::try_from(session.token())
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        token.set_sensitive(true);
        let excess_max = limits.downlink_queue_bytes_max;
        let channel = session.channel(remote(parts), excess_max, &self.options);
        place.send(channel);
        let mut response = Response::new(WebBody(Kind::Downlink(Downlink::new(session))));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        headers.insert(SESSION_HEADER, token);
        let no_store = HeaderValue::from_static("no-store, no-transform");
        headers.insert(header::CACHE_CONTROL, no_store);
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        Ok(response)
    }

    async fn post<B>(
        &self,
        parts: &Parts,
        identity: &Option<Identity>,
        body: B,
    ) -> Result<Response<WebBody>, Answer>
    where
        B: Body,
    {
        let token = parts.headers.get(SESSION_HEADER);
        let session = token
            .and_then(|token| token.to_str().ok())
            .and_then(|token| self.sessions.find(token, identity))
            .ok_or(StatusCode::NOT_FOUND)?;
        if !is_octet_stream(&parts.headers) {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE.into());
        }
        let mut post = session.begin_post().ok_or(StatusCode::CONFLICT)?;
        let size_max = self.config.limits.received_post_bytes_max;
        let status = |error| match error {
            PostError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            PostError::Over => StatusCode::NOT_FOUND,
        };
        post.check_size(body.size_hint().lower(), size_max)
            .map_err(status)?;
        let mut body = Box::pin(body);
        let mut next = async || {
            let frame = std::future::poll_fn(|cx| body.as_mut().poll_frame(cx).map_err(drop)).await;
            frame.transpose()
        };
        // Dropping the POST on the way out ends the session.
        while let Some(frame) = next().await.map_err(|()| StatusCode::BAD_REQUEST)? {
            let Ok(mut data) = frame.into_data() else {
                continue;
            };
            let size = data.remaining();
            post.check_size(size as u64, size_max).map_err(status)?;
            post.push(data.copy_to_bytes(size)).await.map_err(status)?;
        }
        post.complete();
        let mut response = Response::new(WebBody::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }

    /// RFC 6455, section 4.2.
    fn upgrade(
        &self,
        parts: &mut Parts,
        identity: Option<Identity>,
    ) -> Result<Response<WebBody>, Answer> {
        let is_http_1_1 = parts.version == Version::HTTP_11;
        if !is_http_1_1 || !has_token(&parts.headers, header::CONNECTION, "upgrade") {
            return Err(StatusCode::BAD_REQUEST.into());
        }
        let version = parts.headers.get(header::SEC_WEBSOCKET_VERSION);
        if version.is_none_or(|version| version != "13") {
            let name = header::SEC_WEBSOCKET_VERSION;
            return Err(Answer::with(StatusCode::UPGRADE_REQUIRED, name, "13"));
        }
        let key = parts.headers.get(header::SEC_WEBSOCKET_KEY);
        let key = key
            .filter(|key| is_websocket_key(key.as_bytes()))
            .ok_or(StatusCode::BAD_REQUEST)?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()))
            .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        let place = self
            .channels
            .clone()
            .try_reserve_owned()
            .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let (remote, options) = (remote(parts), self.options.clone());
        // The extensions hold what becomes the connection when the answer has left.
        let mut upgradable = Request::new(());
        *upgradable.extensions_mut() = std::mem::take(&mut parts.extensions);
        let upgrading = hyper::upgrade::on(&mut upgradable);
        tokio::spawn(async move {
            if let Ok(Ok(connection)) = timeout(options.connect_timeout, upgrading).await {
                let io = TokioIo::new(connection);
                let channel = websocket::channel(io, Role::Server, remote_text(remote), &options);
                place.send(channel.with_address(remote).with_identity(identity));
            }
        });
        let mut response = Response::new(WebBody::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        Ok(response)
    }
}

/// A header that is a list of tokens.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name);
    let texts = values.iter().filter_map(|value| value.to_str().ok());
    texts
        .flat_map(|text| text.split(','))
        .any(|own| own.trim().eq_ignore_ascii_case(token))
}

fn is_octet_stream(headers: &HeaderMap) -> bool {
    let Some(Ok(text)) = headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str) else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(CONTENT_TYPE)
}

/// 16 bytes in base64.
fn is_websocket_key(key: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.len() == 24 && key.ends_with(b"==") && key[..22].iter().all(is_digit)
}

/// The body of an answer.
pub struct WebBody(Kind);

enum Kind {
    Text(Option<Bytes>),
    Downlink(Downlink),
}

impl WebBody {
    fn empty() -> Self {
        Self(Kind::Text(None))
    }

    fn text(status: StatusCode) -> Self {
        let text = status.canonical_reason().unwrap_or_default();
        Self(Kind::Text(Some(Bytes::from_static(text.as_bytes()))))
    }
}

impl Body for WebBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.get_mut().0 {
            Kind::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Kind::Downlink(downlink) => Pin::new(downlink).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Text(text) => text.is_none(),
            Kind::Downlink(downlink) => downlink.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Kind::Downlink(_) => SizeHint::default(),
        }
    }
}
