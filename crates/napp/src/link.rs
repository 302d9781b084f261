//! Links as the application sees them: who is known, who is reachable, and what changes. What this module keeps true: a
//! watcher sees every change in order, or knows that it missed some.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_core::Stream;
use nacp::{AppId, DropCause, LinkState, OfflineCause, Reach};

use crate::driver::{Shared, Visit};
use crate::feed::Feed;

/// Changes that a watcher has not read yet; beyond that the oldest go.
const CHANGES_MAX: usize = 256;

/// What a link came to be. For an example see [`LinkWatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// Reachable.
    Online {
        /// Whether it is our Gateway.
        is_gateway: bool,
        /// Whether it was offline before and its Backlog is replayed; false for a new App.
        resumed: bool,
        /// Whether it lost what it knew of us in between: it restarted, or its grace ended first.
        restarted: bool,
    },
    /// Unreachable; what is sent waits.
    Offline {
        /// Why.
        cause: OfflineCause,
        /// When it will be dropped; `None` = beyond the clock.
        until: Option<Instant>,
    },
    /// Forgotten.
    Dropped {
        /// Why.
        cause: DropCause,
    },
}

/// One known App, as of [`App::connected_apps`](crate::App::connected_apps).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, Reach};
/// let world = App::builder("world").listen("mem://app-status")?.start().await?;
/// let hello = App::builder("hello").start().await?;
/// hello.connect("world", "mem://app-status").await?;
/// let known = hello.connected_apps();
/// assert_eq!((known[0].app.as_str(), known[0].is_online, known[0].reach), ("world", true, Reach::Direct));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppStatus {
    /// The App.
    pub app: AppId,
    /// True when it is reachable now.
    pub is_online: bool,
    /// While it is offline: when it will be dropped.
    pub until: Option<Instant>,
    /// Direct, or through the Gateway.
    pub reach: Reach,
    /// Whether it is our Gateway.
    pub is_gateway: bool,
    /// Messages that wait to be submitted.
    pub backlog: usize,
    /// Messages under way without an ACK.
    pub unacked: usize,
    /// Calls of ours without a response.
    pub calls: usize,
    /// Its requests that are being served.
    pub serving: usize,
}

type StatusFeed = Feed<LinkStatus, ()>;

/// What is known of one App, and who watches.
#[derive(Debug, Default)]
pub(crate) struct LinkFeeds {
    last: Option<LinkStatus>,
    feeds: Vec<Arc<StatusFeed>>,
}

impl LinkFeeds {
    pub(crate) fn end(&self) {
        self.feeds.iter().for_each(|feed| feed.end(()));
    }
}

impl Visit<'_> {
    pub(crate) fn link_changed(&mut self, app: &AppId, status: LinkStatus) {
        match &status {
            LinkStatus::Online { resumed, .. } => {
                tracing::info!(%app, resumed, "online");
                self.shared.metrics.links_online.increment(1);
            }
            LinkStatus::Offline { cause, .. } => {
                tracing::info!(%app, ?cause, "offline");
                self.shared.metrics.links_offline.increment(1);
            }
            LinkStatus::Dropped { cause } => {
                tracing::info!(%app, ?cause, "dropped");
                self.shared.metrics.links_dropped.increment(1);
            }
        }
        let links = self.state.links.entry(app.clone()).or_default();
        for feed in &links.feeds {
            feed.push_or_drop_oldest(status);
        }
        if matches!(status, LinkStatus::Dropped { .. }) {
            links.last = None;
            if links.feeds.is_empty() {
                self.state.links.remove(app);
            }
        } else {
            links.last = Some(status);
        }
        if let Some(dialing) = self.state.dialing.get(app) {
            dialing.link_changed(&status);
        }
        self.announce_link(app, &status);
    }
}

/// The changes of one link, in order: a bounded `Stream`, whose first item is the present state if the App is known.
/// Ends when this App does. An App behind a Gateway does not register here: it counts as online from the first message to
/// it or from it, and its first item is the first time that it goes offline (LINK-16).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use napp::{App, LinkStatus};
/// let world = App::builder("world").listen("mem://link-watch")?.start().await?;
/// let hello = App::builder("hello").start().await?;
/// let mut link = hello.link("world")?;
/// hello.connect("world", "mem://link-watch").await?;
/// assert!(matches!(link.next().await, Some(LinkStatus::Online { resumed: false, .. })));
/// world.shutdown(napp::Shutdown::Now).await;
/// assert!(matches!(link.next().await, Some(LinkStatus::Dropped { .. })));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LinkWatch {
    shared: Arc<Shared>,
    app: AppId,
    feed: Arc<StatusFeed>,
}

impl Shared {
    pub(crate) fn watch_link(self: &Arc<Self>, app: AppId) -> LinkWatch {
        let feed = Arc::new(Feed::new(CHANGES_MAX));
        self.visit(|visit| {
            if visit.state.terminated {
                return feed.end(());
            }
            let links = visit.state.links.entry(app.clone()).or_default();
            if let Some(last) = links.last {
                feed.push_or_drop_oldest(last);
            }
            links.feeds.push(Arc::clone(&feed));
        });
        LinkWatch {
            shared: Arc::clone(self),
            app,
            feed,
        }
    }

    pub(crate) fn app_statuses(&self) -> Vec<AppStatus> {
        let links = self.look(|state| state.nacp.snapshot().links);
        let status = |link: nacp::LinkSnapshot| AppStatus {
            is_online: matches!(link.state, LinkState::Online { .. }),
            until: match link.state {
                LinkState::Offline { until } => self.tokio_time(until).map(Into::into),
                LinkState::Online { .. } => None,
            },
            app: link.app,
            reach: link.reach,
            is_gateway: link.is_gateway,
            backlog: link.backlog,
            unacked: link.submitted + link.ack_pending,
            calls: link.waiters,
            serving: link.serving,
        };
        links.into_iter().map(status).collect()
    }
}

impl LinkWatch {
    /// The next change. Cancel safe. `None` when this App has ended.
    pub async fn next(&mut self) -> Option<LinkStatus> {
        std::future::poll_fn(|cx| self.feed.poll_next(cx)).await
    }

    /// How many changes were lost because nobody read them in time.
    pub fn dropped(&self) -> u64 {
        self.feed.dropped()
    }

    /// Reads on until the App is online. Cancel safe. False when this App has ended.
    pub async fn online(&mut self) -> bool {
        while let Some(status) = self.next().await {
            if matches!(status, LinkStatus::Online { .. }) {
                return true;
            }
        }
        false
    }
}

impl Stream for LinkWatch {
    type Item = LinkStatus;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<LinkStatus>> {
        self.feed.poll_next(cx)
    }
}

impl Drop for LinkWatch {
    fn drop(&mut self) {
        self.shared.visit(|visit| {
            if let Some(links) = visit.state.links.get_mut(&self.app) {
                links.feeds.retain(|feed| !Arc::ptr_eq(feed, &self.feed));
                if links.feeds.is_empty() && links.last.is_none() {
                    visit.state.links.remove(&self.app);
                }
            }
        });
    }
}
