//! Subscriptions on the event bus of a remote App. What this module keeps true: dropping one ends it on both sides; one
//! that ends by itself says why; a lossless one never loses a hit silently.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_core::Stream;
use nacp::message::PayloadError;
use nacp::{AppId, CallId, MessageId, Payload};
use serde::de::DeserializeOwned;

use crate::call::{CallSlot, Ended, unless_full};
use crate::driver::{Shared, Waiting};
use crate::error::CallError;
use crate::feed::Feed;
use crate::handler::decode;

/// How one subscription differs from the default.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, SubscribeOptions};
/// let world = App::builder("world").listen("mem://subscribe-options")?.start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://subscribe-options").await?;
/// let options = SubscribeOptions::default().lossless(true);
/// let mut orders = hello.subscribe_with("world", "order:*", options).await?;
/// for n in 0..100u32 { world.emit("order:new", &n)?; }
/// for n in 0..100u32 { assert_eq!(orders.next().await.unwrap().decode::<u32>()?, n); }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscribeOptions {
    lossless: bool,
}

impl SubscribeOptions {
    /// Asks for hits that are ACKed, replayed and in order, if both Apps know how (MSG-11). The reader must keep up:
    /// with `queue_count_max` hits unread the subscription ends with [`CallError::StreamOverflow`]. Default false.
    pub fn lossless(mut self, lossless: bool) -> Self {
        self.lossless = lossless;
        self
    }
}

/// A hit of a subscription. For an example see [`Subscription`].
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The name that was emitted at the remote.
    pub name: String,
    /// What it says.
    pub payload: Payload,
}

impl Hit {
    /// The payload as a type.
    ///
    /// # Errors
    /// It is not of that type.
    pub fn decode<T: DeserializeOwned + 'static>(&self) -> Result<T, PayloadError> {
        decode(self.payload.clone())
    }
}

/// What the driver and the reader of a subscription share.
#[derive(Debug)]
pub(crate) struct HitFeed {
    pub(crate) app: AppId,
    pub(crate) id: MessageId,
    pub(crate) pattern: String,
    hits: Feed<Hit, Ended>,
    max: usize,
}

impl HitFeed {
    pub(crate) fn push(&self, hit: Hit) -> Option<u64> {
        self.hits.push_or_drop_oldest(hit)
    }

    pub(crate) fn push_reliable(&self, hit: Hit) -> bool {
        self.hits.push_within(hit, self.max)
    }

    pub(crate) fn end(&self, ended: Ended) {
        self.hits.end(ended);
    }
}

/// The hits of a pattern on a remote App's event bus: a bounded `Stream`, which survives broken connections and restarts
/// of the remote within its grace. Unread hits beyond `queue_count_max` push out the oldest, counted by
/// [`dropped`](Self::dropped). Dropping it unsubscribes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::App;
/// let world = App::builder("world").listen("mem://subscription")?.start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://subscription").await?;
/// let mut tasks = hello.subscribe("world", "task:*").await?;
/// world.emit("task:done", &7)?;
/// let hit = tasks.next().await.unwrap();
/// assert_eq!((hit.name.as_str(), hit.decode::<u32>()?), ("task:done", 7));
/// tasks.unsubscribe().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    feed: Arc<HitFeed>,
    call: CallId,
}

impl Shared {
    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        to: AppId,
        pattern: &str,
        options: SubscribeOptions,
    ) -> Result<Subscription, CallError> {
        let slot = OnceLock::new();
        let max = self.settings.queue_count_max;
        let call = self
            .retry(|visit| {
                if visit.state.terminated {
                    return Ok(Err(CallError::Terminated));
                }
                let now = visit.now;
                let sent = visit.nacp().subscribe(now, &to, pattern, options.lossless);
                if let Ok(call) = &sent {
                    let id = visit.state.nacp.call_message_id(*call);
                    let feed = HitFeed {
                        app: to.clone(),
                        id: id.cloned().unwrap_or_else(|| "".into()),
                        pattern: pattern.to_owned(),
                        hits: Feed::new(max),
                        max: max.max(1),
                    };
                    let feed = slot.get_or_init(|| Arc::new(feed));
                    let state = &mut visit.state;
                    state.subscriptions.insert(call.as_u64(), Arc::clone(feed));
                    state
                        .calls
                        .insert(call.as_u64(), Waiting::Call(CallSlot::default()));
                }
                unless_full(sent)
            })
            .await?;
        let outcome = self.outcome(call).await?;
        CallError::of(outcome)?;
        Ok(Subscription {
            shared: Arc::clone(self),
            feed: slot.into_inner().expect("made with the request"),
            call,
        })
    }
}

impl Subscription {
    /// The subscription's id on both sides.
    pub fn id(&self) -> &MessageId {
        &self.feed.id
    }

    /// The next hit; `None` when it has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Hit> {
        std::future::poll_fn(|cx| self.feed.hits.poll_next(cx)).await
    }

    /// How many hits were lost because nobody read them in time.
    pub fn dropped(&self) -> u64 {
        self.feed.hits.dropped()
    }

    /// Why it ended, when it has: the App was dropped, or refused to renew it after its restart, or this App was
    /// terminated, or a lossless reader did not keep up.
    pub fn end_reason(&self) -> Option<CallError> {
        self.feed
            .hits
            .ended()
            .map(|ended| ended.result().err().unwrap_or(CallError::PeerGone))
    }

    /// Ends it: no hit comes after this. Resolves when the remote has said so. Dropping the future takes nothing back.
    ///
    /// # Errors
    /// The remote did not answer, or said no. It has ended here in every case.
    pub async fn unsubscribe(self) -> Result<(), CallError> {
        let asked = self.shared.visit(|visit| {
            visit.state.subscriptions.remove(&self.call.as_u64())?;
            let now = visit.now;
            let asked = visit.nacp().unsubscribe(now, self.call)?;
            visit
                .state
                .calls
                .insert(asked.as_u64(), Waiting::Call(CallSlot::default()));
            Some(asked)
        });
        let Some(asked) = asked else {
            return Ok(());
        };
        let outcome = self.shared.outcome(asked).await?;
        CallError::of(outcome).map(drop)
    }
}

impl Stream for Subscription {
    type Item = Hit;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hit>> {
        self.feed.hits.poll_next(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.visit(|visit| {
            if visit
                .state
                .subscriptions
                .remove(&self.call.as_u64())
                .is_some()
            {
                let now = visit.now;
                visit.nacp().unsubscribe(now, self.call);
            }
        });
    }
}
