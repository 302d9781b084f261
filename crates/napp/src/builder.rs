//! An App before it runs: its ID, handlers, addresses and limits. What this module keeps true: whatever cannot work is
//! said before the App has started, and a failed start leaves nothing behind.

mod door;
mod limits;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nacp::{AppId, Config, Nacp, Overflow, RequestKind};
use nact::{Transports, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::admission::Admission;
use crate::app::App;
use crate::context::{AbilityContext, EventContext};
use crate::driver::{Settings, Shared, entropy};
use crate::error::{BuildError, StartError};
use crate::handler::{HandlerError, Handlers, erase, erase_plain};
use crate::listening::{UNREGISTERED_MAX, accept};

/// Makes an [`App`]. Mistakes that only the whole can show are kept until [`start`](Self::start).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::App;
/// use std::time::Duration;
/// let app = App::builder("world")
///     .listen("mem://builder")?
///     .reconnect_grace(Duration::from_secs(30))
///     .heartbeat_interval(None)
///     .ability("double", |n: u32| async move { Ok(2 * n) })
///     .describe("double", "Twice the number.")
///     .start().await?;
/// assert_eq!(app.local_urls(), ["mem://builder"]);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "an App runs when it is started"]
pub struct Builder {
    app: String,
    config: Config,
    handlers: Handlers,
    listen: Vec<String>,
    transports: Transports,
    admission: Admission,
    handlers_max: usize,
    backoff_base: Duration,
    backoff_ceiling: Duration,
    first_mistake: Option<StartError>,
}

impl Builder {
    pub(crate) fn new(app: &str) -> Self {
        // The real ID is checked at the start; options can be set on any.
        let placeholder = AppId::new("unnamed").expect("it has 7 bytes");
        Self {
            app: app.to_owned(),
            config: Config::new(placeholder),
            handlers: Handlers::default(),
            listen: Vec::new(),
            transports: Transports::default(),
            admission: Admission::default(),
            handlers_max: 4_096,
            backoff_base: Duration::from_millis(100),
            backoff_ceiling: Duration::from_secs(30),
            first_mistake: None,
        }
    }

    /// Listens at `url` from the start on: `tcp://host:port` (port 0 = any), `unix:path`, `mem://name`, and whatever
    /// the [`transports`](Self::transports) know. May be said more than once.
    ///
    /// # Errors
    /// [`BuildError::Url`]. Whether the address is free shows at the start.
    pub fn listen(mut self, url: &str) -> Result<Self, BuildError> {
        url.parse::<Url>()?;
        self.listen.push(url.to_owned());
        Ok(self)
    }

    /// Serves ability calls of `name`. Handlers run concurrently; those of one connection start in order of arrival. `T`
    /// and `R` may be [`Payload`](nacp::Payload), which is handed through.
    ///
    /// A request that is no `T` is answered not ok `bad-payload: …`; a handler that panics, `handler-panicked`. A
    /// lost connection does not cancel a handler; dropping the requester does, unless it is [`detached`](Self::detached).
    pub fn ability<T, R, Fut>(
        self,
        name: impl Into<String>,
        handler: impl Fn(T) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned + 'static,
        R: Serialize + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let run = erase_plain(handler);
        self.add(RequestKind::Ability, name.into(), run)
    }

    /// As [`ability`](Self::ability), for a handler that wants to know who asks.
    pub fn ability_with<T, R, Fut>(
        self,
        name: impl Into<String>,
        handler: impl Fn(AbilityContext, T) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned + 'static,
        R: Serialize + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let run = erase(move |cell, input| handler(AbilityContext::new(cell), input));
        self.add(RequestKind::Ability, name.into(), run)
    }

    /// Serves event calls of `name`: long-running, with a stream of chunks and signals, see [`EventContext`].
    pub fn event<T, R, Fut>(
        self,
        name: impl Into<String>,
        handler: impl Fn(EventContext, T) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        T: DeserializeOwned + 'static,
        R: Serialize + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let run = erase(move |cell, input| handler(EventContext::new(cell), input));
        self.add(RequestKind::Event, name.into(), run)
    }

    fn add(mut self, kind: RequestKind, name: String, run: impl Into<crate::handler::Run>) -> Self {
        let added = self.handlers.add(kind, name, run.into());
        self.note(added)
    }

    fn note(mut self, done: Result<(), StartError>) -> Self {
        if let Err(mistake) = done {
            self.first_mistake.get_or_insert(mistake);
        }
        self
    }

    /// What others are told about the handler `name`, which must be registered before. Default: nothing.
    pub fn describe(mut self, name: &str, text: &str) -> Self {
        let done = self.handlers.change(name, |handler| handler.describe(text));
        self.note(done)
    }

    /// Losing the requester does not cancel the handler `name`, which must be registered before (WAIT-7).
    pub fn detached(mut self, name: &str) -> Self {
        let done = self
            .handlers
            .change(name, |handler| handler.detached = true);
        self.note(done)
    }

    /// A reliable message that is not ACKed this long after the transport took it takes the link offline. Default 10 s.
    pub fn ack_timeout(mut self, limit: Duration) -> Self {
        self.config.ack_timeout = limit;
        self
    }

    /// How long an offline App is kept before it is dropped. Default 120 s.
    pub fn reconnect_grace(mut self, grace: Duration) -> Self {
        self.config.reconnect_grace = grace;
        self
    }

    /// Between two heartbeats on a link; `None` sends none. Default 60 s.
    pub fn heartbeat_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.config.heartbeat_interval = interval.into();
        self
    }

    /// Messages in the Backlog, and in AckPending, of all remote Apps together; also unread chunks or hits of one plain
    /// stream. Default 1,024.
    pub fn queue_count_max(mut self, count: usize) -> Self {
        self.config.queue_count_max = count;
        self
    }

    /// Bytes in the Backlog, and in AckPending, of all remote Apps together. Default 4 GiB.
    pub fn queue_bytes_max(mut self, bytes: u64) -> Self {
        self.config.queue_bytes_max = bytes;
        self
    }

    /// What a full queue does: [`Overflow::Evict`] (default, as base peers do) or [`Overflow::Wait`]: senders wait for
    /// room and nothing is ever evicted.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.config.overflow = overflow;
        self
    }

    /// Whether this App forwards messages between the Apps that are connected to it. Default false.
    pub fn gateway(mut self, is_gateway: bool) -> Self {
        self.config.is_gateway = is_gateway;
        self
    }

    /// Whether a second Gateway is kept as a plain link instead of being refused. Default false.
    pub fn auto_multi_gateway_downgrade(mut self, downgrade: bool) -> Self {
        self.config.auto_multi_gateway_downgrade = downgrade;
        self
    }

    /// Whether streams are lossless towards Apps that know how. Default true.
    pub fn lossless_streams(mut self, lossless: bool) -> Self {
        self.config.lossless_streams = lossless;
        self
    }

    /// Chunks of one lossless stream that its reader has not taken, before the writer waits. Default 512. A reader
    /// takes up to four times its own window, so those of two Apps should not differ by more than that.
    pub fn stream_window(mut self, chunks: u64) -> Self {
        self.config.stream_window = chunks.max(1);
        self
    }

    /// Between attempts to reconnect: a random part of `base`, doubled with each failure up to `ceiling`. Default
    /// 100 ms and 30 s.
    pub fn reconnect_backoff(mut self, base: Duration, ceiling: Duration) -> Self {
        self.backoff_base = base.min(ceiling);
        self.backoff_ceiling = ceiling;
        self
    }

    /// Handlers that run at a time; one more request is answered not ok `overloaded`. Default 4,096.
    pub fn handlers_max(mut self, count: usize) -> Self {
        self.handlers_max = count;
        self
    }

    /// Transports and their limits. Default: all that the `nact` crate brings.
    pub fn transports(mut self, transports: Transports) -> Self {
        self.transports = transports;
        self
    }

    /// Starts the App: when this is done, it listens. Must run inside of a tokio runtime with time, and I/O for
    /// sockets; the App's tasks run there.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left then. Dropping the future leaves nothing either.
    pub async fn start(self) -> Result<App, StartError> {
        if let Some(mistake) = self.first_mistake {
            return Err(mistake);
        }
        let mut config = self.config;
        config.app = AppId::new(&self.app)?;
        config.declaration = self.handlers.declaration();
        let options = self.transports.options();
        config.message_bytes_max = u64::from(options.message_size_max);
        config.large_message_bytes = options.chunk_size.saturating_sub(nact::frame::HEADER_SIZE);
        let mut listeners = Vec::new();
        for url in &self.listen {
            listeners.push(self.transports.listen(url).await?);
        }
        let local_urls: Vec<_> = listeners
            .iter()
            .map(|listener| listener.local_url().to_string())
            .collect();
        self.admission
            .warn_if_open(&config.app, &self.transports, &local_urls);
        config.asks_before_binding = self.admission.is_asked();
        let settings = Settings {
            handlers_max: self.handlers_max,
            backoff_base: self.backoff_base,
            backoff_ceiling: self.backoff_ceiling,
            queue_count_max: config.queue_count_max,
            stream_window: config.stream_window,
            ack_timeout: config.ack_timeout,
        };
        let seed = entropy().map_err(StartError::NoRandomness)?;
        // For the `t` of messages, which people read; nothing is decided by it (LINK-18).
        #[allow(clippy::disallowed_methods)]
        let wall_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        let nacp = Nacp::new(config, u64::try_from(wall_ms).unwrap_or(u64::MAX), seed);
        let shared = Shared::new(
            nacp,
            self.handlers,
            self.transports,
            self.admission,
            settings,
        );
        let shared = Arc::new(shared);
        shared.spawn(crate::timer::run(Arc::clone(&shared)));
        let unregistered = Arc::new(Semaphore::new(UNREGISTERED_MAX));
        for listener in listeners {
            shared.spawn(accept(
                Arc::clone(&shared),
                listener,
                Arc::clone(&unregistered),
            ));
        }
        Ok(App::new(shared, local_urls))
    }
}
