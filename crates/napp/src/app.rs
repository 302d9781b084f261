//! The handle of a running App, and its verbs. What this module keeps true: a handle is cheap to clone, and the App lives
//! as long as one of them does.

use std::fmt;
use std::sync::Arc;

use nacp::message::PayloadError;
use nacp::{
    AppId, Declaration, InvalidAppId, MessageId, Payload, RequestKind, SignalKind, Snapshot,
    Undelivered,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use crate::builder::Builder;
use crate::bus::{Audience, BadName, Listener};
use crate::call::{Asking, CallOptions};
use crate::driver::Shared;
use crate::error::{CallError, ConnectError};
use crate::event::EventCall;
use crate::handler::{decode, encode_payload};
use crate::link::{AppStatus, LinkWatch};
use crate::shutdown::Shutdown;
use crate::subscription::{SubscribeOptions, Subscription};

/// A running App. Clones are the same App; when the last one is dropped it terminates at once (TERM-1): connections
/// close, open calls end with [`CallError::Terminated`], handlers are cancelled. [`shutdown`](Self::shutdown) is the
/// polite way.
///
/// All futures of its methods are lazy and cancel safe: nothing happens before the first poll, and dropping one takes
/// back its own wait and nothing else.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::App;
/// let world = App::builder("world").listen("mem://app")?
///     .ability("double", |n: u32| async move { Ok(2 * n) })
///     .start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://app").await?;
/// assert_eq!(hello.call::<_, u32>("world", "double", &21u32).await?, 42);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct App {
    handle: Arc<Handle>,
}

/// What ends the App when it is dropped.
pub(crate) struct Handle {
    shared: Arc<Shared>,
    local_urls: Vec<String>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.terminate();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "App({:?})", self.id())
    }
}

impl App {
    /// An App that is to be. `id` = 1 to 255 bytes; checked at the start.
    pub fn builder(id: &str) -> Builder {
        Builder::new(id)
    }

    pub(crate) fn new(shared: Arc<Shared>, local_urls: Vec<String>) -> Self {
        let handle = Arc::new(Handle { shared, local_urls });
        handle
            .shared
            .handle
            .set(Arc::downgrade(&handle))
            .expect("an App has one handle");
        Self { handle }
    }

    /// The App behind a handler's context, if it is not being dropped.
    pub(crate) fn of(shared: &Shared) -> Option<Self> {
        let handle = shared.handle.get()?.upgrade()?;
        Some(Self { handle })
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    /// Its own ID.
    pub fn id(&self) -> &AppId {
        &self.shared().app
    }

    /// Where it listens, as URLs that can be dialled: port 0 has become the real one.
    pub fn local_urls(&self) -> &[String] {
        &self.handle.local_urls
    }

    /// Connects to the App `app` at `url`, and keeps the link: when it breaks, it is made again, with exponential
    /// backoff and full jitter (LINK-17), until [`disconnect`](Self::disconnect), the remote's unregister, or this App's
    /// end. Resolves when the first register is done.
    ///
    /// Calling it again for the same App gives a new URL for the attempts to come, and tries at once if the link is
    /// down; a link that stands stays, whoever dialled it. Dropping the future stops nothing: use `disconnect`.
    ///
    /// # Errors
    /// [`ConnectError`], when the first attempt fails: there will be no others. See
    /// [`connect_patiently`](Self::connect_patiently).
    pub async fn connect(&self, app: &str, url: &str) -> Result<(), ConnectError> {
        let app = AppId::new(app)?;
        self.shared().connect(app, url, false).await
    }

    /// As [`connect`](Self::connect), but failing attempts are repeated from the first one on: for programs that start in
    /// any order. Resolves when there is a link.
    ///
    /// # Errors
    /// [`ConnectError::GivenUp`] after a `disconnect` or this App's end; otherwise only for a bad App ID.
    pub async fn connect_patiently(&self, app: &str, url: &str) -> Result<(), ConnectError> {
        let app = AppId::new(app)?;
        self.shared().connect(app, url, true).await
    }

    /// Leaves `app`: it is told, and dropped at once (LINK-12); what waited for it is abandoned, and no connection to it
    /// is made any more. False if it was unknown.
    pub async fn disconnect(&self, app: &str) -> bool {
        let Ok(app) = AppId::new(app) else {
            return false;
        };
        self.shared().stop_dialing(&app);
        self.shared().visit(|visit| {
            let now = visit.now;
            visit.nacp().disconnect(now, &app)
        })
    }

    /// Calls the ability `name` of `app` and waits for its response, across broken connections if need be.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call<T, R>(&self, app: &str, name: &str, request: &T) -> Result<R, CallError>
    where
        T: Serialize + ?Sized,
        R: DeserializeOwned + 'static,
    {
        self.call_with(app, name, request, CallOptions::default())
            .await
    }

    /// As [`call`](Self::call), with options.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call_with<T, R>(
        &self,
        app: &str,
        name: &str,
        request: &T,
        options: CallOptions,
    ) -> Result<R, CallError>
    where
        T: Serialize + ?Sized,
        R: DeserializeOwned + 'static,
    {
        let payload = encode_payload(request).map_err(CallError::Encode)?;
        let response = self.call_payload(app, name, &payload, options).await?;
        decode(response).map_err(CallError::Decode)
    }

    /// As [`call_with`](Self::call_with), of what is encoded already.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call_payload(
        &self,
        app: &str,
        name: &str,
        payload: &Payload,
        options: CallOptions,
    ) -> Result<Payload, CallError> {
        let asking = Asking {
            to: app,
            kind: RequestKind::Ability,
            name,
            payload,
            options,
        };
        let span = tracing::debug_span!("call", app, name);
        self.shared().call(asking).instrument(span).await
    }

    /// Calls the event `name` of `app`. Resolves when the request is queued; what follows is read from the
    /// [`EventCall`].
    ///
    /// # Errors
    /// [`CallError`] when the request cannot be sent.
    pub async fn event<T: Serialize + ?Sized>(
        &self,
        app: &str,
        name: &str,
        request: &T,
    ) -> Result<EventCall, CallError> {
        self.event_with(app, name, request, CallOptions::default())
            .await
    }

    /// As [`event`](Self::event), with options.
    ///
    /// # Errors
    /// As [`event`](Self::event).
    pub async fn event_with<T: Serialize + ?Sized>(
        &self,
        app: &str,
        name: &str,
        request: &T,
        options: CallOptions,
    ) -> Result<EventCall, CallError> {
        let payload = &encode_payload(request).map_err(CallError::Encode)?;
        let asking = Asking {
            to: app,
            kind: RequestKind::Event,
            name,
            payload,
            options,
        };
        self.shared().event(asking).await
    }

    /// Sends a signal to the event request `request` that somebody else made at `app`; for tools that do not hold the
    /// [`EventCall`]. The payload goes with [`SignalKind::Normal`] only. Resolves when the remote has it (true) or never
    /// will (false).
    ///
    /// # Errors
    /// [`CallError`] when it cannot be sent.
    pub async fn signal_to<T: Serialize + ?Sized>(
        &self,
        app: &str,
        request: &str,
        kind: SignalKind,
        payload: Option<&T>,
    ) -> Result<bool, CallError> {
        let app = AppId::new(app)?;
        let payload = payload
            .map(Payload::encode)
            .transpose()
            .map_err(CallError::Encode)?;
        let request = MessageId::from(request);
        self.shared()
            .signal_to(&app, &request, kind, payload.as_ref())
            .await
    }

    /// Subscribes to a name or pattern (`*` = one segment) on the event bus of `app`. Resolves when the remote has said
    /// yes; hits that come before that are kept.
    ///
    /// # Errors
    /// [`CallError`]; [`CallError::Timeout`] after 10 s without an answer.
    pub async fn subscribe(&self, app: &str, pattern: &str) -> Result<Subscription, CallError> {
        self.subscribe_with(app, pattern, SubscribeOptions::default())
            .await
    }

    /// As [`subscribe`](Self::subscribe), with options.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub async fn subscribe_with(
        &self,
        app: &str,
        pattern: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, CallError> {
        let app = AppId::new(app)?;
        self.shared().subscribe(app, pattern, options).await
    }

    /// Asks `app` what it can do.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn introduce(&self, app: &str) -> Result<Declaration, CallError> {
        self.call(app, "NApp.introduce", &()).await
    }

    /// Emits an event on this App's own bus, to listeners here and to remote subscribers; tells how many there were.
    /// Nothing is encoded when nobody listens. Never waits: a subscriber whose queue is full misses it (CAP-2).
    ///
    /// # Errors
    /// The payload cannot be encoded.
    pub fn emit<T: Serialize + ?Sized>(
        &self,
        name: &str,
        payload: &T,
    ) -> Result<usize, PayloadError> {
        let heard = self
            .shared()
            .visit(|visit| visit.is_heard() && visit.is_heard_as(name));
        if !heard {
            return Ok(0);
        }
        // The user's own code encodes it, so not under the lock.
        let payload = Payload::encode(payload)?;
        Ok(self
            .shared()
            .visit(|visit| visit.emit(name, &payload, Audience::All)))
    }

    /// Listens to a name or pattern (`*` = one segment) on this App's own bus, where its user's events and all that the
    /// protocol reports come by.
    ///
    /// # Errors
    /// [`BadName`].
    pub fn listen(&self, pattern: &str) -> Result<Listener, BadName> {
        self.shared().listen(pattern)
    }

    /// The Apps that are known, by App ID: online, or offline within their grace.
    pub fn connected_apps(&self) -> Vec<AppStatus> {
        self.shared().app_statuses()
    }

    /// Watches the link to `app`, which need not be known yet.
    ///
    /// # Errors
    /// The App ID is empty or too long.
    pub fn link(&self, app: &str) -> Result<LinkWatch, InvalidAppId> {
        Ok(self.shared().watch_link(AppId::new(app)?))
    }

    /// All that is known, waits and is counted. Linear in the number of links.
    pub fn snapshot(&self) -> Snapshot {
        self.shared().look(|state| state.nacp.snapshot())
    }

    /// Ends the App for all its clones: see [`Shutdown`]. Gives what was not delivered. Later calls of any method end with
    /// [`CallError::Terminated`] or [`ConnectError::GivenUp`].
    ///
    /// When it resolves, connections and listeners are closed and tasks have ended (those that do not end within 1 s
    /// are left). Dropping the future leaves the App as far ended as it was; dropping the last clone ends the rest.
    pub async fn shutdown(&self, how: Shutdown) -> Vec<Undelivered> {
        self.shared().shut_down(how).await
    }
}
