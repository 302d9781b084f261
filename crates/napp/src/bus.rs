//! The event bus of an App: names, and who listens. What this module keeps true: an event that nobody listens to costs a
//! look at two counters and builds nothing; a listener that does not read loses its oldest events, and only its own.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use nacp::message::{Envelope, Meta, PayloadError};
use nacp::pattern::{Patterns, is_valid_pattern};
use nacp::{MessageId, Payload};
use serde::de::DeserializeOwned;

use crate::driver::{Shared, Table, Visit};
use crate::feed::Feed;
use crate::handler::decode;

/// One event of the bus.
///
/// For an example see [`Listener`].
#[derive(Clone, Debug, PartialEq)]
pub struct BusEvent {
    /// Its name, such as `task:done`.
    pub name: Arc<str>,
    /// What it says.
    pub payload: Payload,
}

impl BusEvent {
    /// The payload as a type.
    ///
    /// # Errors
    /// It is not of that type.
    pub fn decode<T: DeserializeOwned + 'static>(&self) -> Result<T, PayloadError> {
        decode(self.payload.clone())
    }
}

type EventFeed = Feed<BusEvent, ()>;

/// Those who listen within this process, and what keeps subscriptions from feeding on themselves.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    patterns: Patterns<u64>,
    feeds: Table<u64, Arc<EventFeed>>,
    last: u64,
    echoes: Echoes,
}

/// To which remote subscriptions an event may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience<'a> {
    All,
    /// The event is about a notify that this subscription caused (SUB-4).
    Except(&'a str),
    /// To listeners in this process only: as a notify it would cause another event of its own kind.
    Local,
}

/// The notifies that carry events about messages, by id: their ACKs are no news for any subscription.
#[derive(Debug, Default)]
struct Echoes {
    known: HashSet<MessageId>,
    order: VecDeque<MessageId>,
}

/// More than the ACKs that one link may be waiting for.
const ECHOES_MAX: usize = 4_096;

impl Echoes {
    fn remember(&mut self, id: &str) {
        let id = MessageId::from(id);
        if !self.known.insert(id.clone()) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > ECHOES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Events about messages: a subscription to them turns each message into one more.
fn is_about_messages(name: &str) -> bool {
    ["nacp:outbound:", "nacp:inbound:", "nacp:internal:"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

impl Bus {
    /// SUB-4: to whom an event about this message may go.
    pub(crate) fn audience<'a>(&mut self, envelope: &'a Envelope<'_>) -> Audience<'a> {
        match &envelope.meta {
            Meta::Notify {
                parent_id,
                hit_sub_name,
                ..
            } => {
                if is_about_messages(hit_sub_name) {
                    self.echoes.remember(&envelope.id);
                    Audience::Local
                } else {
                    Audience::Except(parent_id)
                }
            }
            meta if meta
                .acknowledged()
                .iter()
                .any(|id| self.echoes.known.contains(id)) =>
            {
                Audience::Local
            }
            _ => Audience::All,
        }
    }

    pub(crate) fn end(&mut self) {
        for (_, feed) in self.feeds.drain() {
            feed.end(());
        }
        self.patterns = Patterns::default();
    }
}

impl Visit<'_> {
    /// Whether anybody listens to anything at all. When not, events need not be thought of.
    pub(crate) fn is_heard(&self) -> bool {
        !self.state.bus.patterns.is_empty() || self.state.nacp.has_listeners()
    }

    /// Whether anybody listens to `name`.
    pub(crate) fn is_heard_as(&self, name: &str) -> bool {
        let mut local = false;
        self.state
            .bus
            .patterns
            .for_each_match(name, &mut |_| local = true);
        local || self.state.nacp.is_listened(name)
    }

    /// Emits an event; tells how many listeners and subscriptions it went to.
    pub(crate) fn emit(&mut self, name: &str, payload: &Payload, audience: Audience<'_>) -> usize {
        let bus = &self.state.bus;
        let mut heard = 0;
        let mut shared_name: Option<Arc<str>> = None;
        bus.patterns.for_each_match(name, &mut |key| {
            let name = shared_name.get_or_insert_with(|| name.into());
            if let Some(feed) = bus.feeds.get(key) {
                heard += 1;
                feed.push_or_drop_oldest(BusEvent {
                    name: Arc::clone(name),
                    payload: payload.clone(),
                });
            }
        });
        let except = match audience {
            Audience::Local => return heard,
            Audience::Except(subscription) => Some(subscription),
            Audience::All => None,
        };
        if self.state.nacp.has_listeners() {
            heard += self.state.nacp.publish(self.now, name, payload, except);
        }
        heard
    }

    /// Emits an event whose payload is built only if anybody listens.
    pub(crate) fn announce(
        &mut self,
        name: &str,
        audience: Audience<'_>,
        payload: impl FnOnce() -> Payload,
    ) {
        if self.is_heard() && self.is_heard_as(name) {
            self.emit(name, &payload(), audience);
        }
    }
}

/// The events of this App's bus whose names match a pattern: a bounded `Stream`. When it is not read, the oldest events
/// go, and [`dropped`](Self::dropped) counts them. Ends when the App does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::App;
/// let app = App::builder("world").start().await?;
/// let mut done = app.listen("task:*")?;
/// app.emit("task:done", &7)?;
/// app.emit("other", &8)?;
/// let event = done.next().await.unwrap();
/// assert_eq!((&*event.name, event.decode::<u32>()?), ("task:done", 7));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    feed: Arc<EventFeed>,
    pattern: String,
    key: u64,
}

/// A name or pattern of the event bus that is none: 1 to 1,024 bytes and at most 64 `:`-separated segments.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, BadName};
/// let app = App::builder("world").start().await?;
/// assert_eq!(app.listen("").unwrap_err(), BadName);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad name on the event bus: 1 to 1,024 bytes and at most 64 segments, separated by \":\"")]
pub struct BadName;

impl Shared {
    pub(crate) fn listen(self: &Arc<Self>, pattern: &str) -> Result<Listener, BadName> {
        if !is_valid_pattern(pattern) {
            return Err(BadName);
        }
        let feed = Arc::new(Feed::new(self.settings.queue_count_max));
        let key = self.visit(|visit| {
            if visit.state.terminated {
                feed.end(());
                return 0;
            }
            let bus = &mut visit.state.bus;
            bus.last += 1;
            bus.patterns.insert(pattern, bus.last);
            bus.feeds.insert(bus.last, Arc::clone(&feed));
            bus.last
        });
        Ok(Listener {
            shared: Arc::clone(self),
            feed,
            pattern: pattern.to_owned(),
            key,
        })
    }
}

impl Listener {
    /// The next event. Cancel safe. `None` when the App has ended.
    pub async fn next(&mut self) -> Option<BusEvent> {
        std::future::poll_fn(|cx| self.feed.poll_next(cx)).await
    }

    /// How many events were lost because nobody read them in time.
    pub fn dropped(&self) -> u64 {
        self.feed.dropped()
    }
}

impl Stream for Listener {
    type Item = BusEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<BusEvent>> {
        self.feed.poll_next(cx)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.visit(|visit| {
            let bus = &mut visit.state.bus;
            bus.patterns.remove(&self.pattern, &self.key);
            bus.feeds.remove(&self.key);
        });
    }
}
