//! The core's picture of itself, held against the driver's books. What this module keeps true is what it asserts: sums,
//! caps, and that nothing is left when nothing is known.

use nacp::{Instant, LinkSnapshot, LinkState, Overflow, PeerId, QueueSize, Reach, Snapshot};

use super::Node;

impl Node {
    /// `live` = connections that this node believes in. Tells whether it reaches anybody through a Gateway.
    pub(super) fn check(&mut self, now: Instant, live: usize, up: impl Fn(PeerId) -> bool) -> bool {
        let snapshot = self.nacp.snapshot();
        self.ledger
            .keep_only(|app| snapshot.links.iter().any(|link| link.app == *app));
        assert_eq!(snapshot.peers, live, "connections");
        let is_online = |link: &LinkSnapshot| matches!(link.state, LinkState::Online { .. });
        let gateway = |link: &LinkSnapshot| link.is_gateway && is_online(link);
        let has_gateway = snapshot.links.iter().any(gateway);
        for link in &snapshot.links {
            self.check_link(link, has_gateway, now, &up);
        }
        check_sums(&snapshot);
        self.check_caps(&snapshot);
        self.check_books(&snapshot);
        let undelivered = self.nacp.undelivered();
        let sum = |of: fn(&LinkSnapshot) -> usize| snapshot.links.iter().map(of).sum::<usize>();
        let ours = sum(|link| link.backlog + link.submitted + link.ack_pending);
        let forwarded = sum(|link| link.forwarded.messages);
        assert!((ours..=ours + forwarded).contains(&undelivered.len()));
        assert_eq!(self.nacp.is_drained(), undelivered.is_empty());
        assert_eq!(self.nacp.has_listeners(), snapshot.listens > 0);
        assert_eq!(self.nacp.poll_timeout(), snapshot.next);
        let timers_max = 3 * snapshot.links.len() + 2 * snapshot.peers + snapshot.waiters;
        assert!(snapshot.timers <= timers_max, "{} timers", snapshot.timers);
        let through = |link: &LinkSnapshot| link.reach == Reach::Gateway;
        snapshot.links.iter().any(through)
    }

    fn check_link(
        &self,
        link: &LinkSnapshot,
        has_gateway: bool,
        now: Instant,
        up: &impl Fn(PeerId) -> bool,
    ) {
        assert_eq!(self.nacp.link_state(&link.app), Some(link.state));
        assert!(link.dedup <= self.config.dedup_window());
        let forwarded = &link.forwarded;
        assert!(
            forwarded.messages <= self.config.forward_count_max,
            "{forwarded:?}"
        );
        assert!(
            forwarded.bytes <= self.config.forward_bytes_max,
            "{forwarded:?}"
        );
        assert_eq!(
            forwarded.messages == 0,
            forwarded.bytes == 0,
            "{forwarded:?}"
        );
        assert!(link.listens <= self.config.subscriptions_max);
        match link.state {
            LinkState::Online { peer } => {
                assert!(up(peer), "{:?} is online over a dead connection", link.app);
                assert_eq!(self.nacp.peer_of_app(&link.app), Some(peer));
            }
            LinkState::Offline { until } => {
                assert!(until > now || until - now <= self.config.reconnect_grace);
                // Only the probe of a silent App behind the Gateway (LINK-16).
                let probes = usize::from(link.reach == Reach::Gateway && has_gateway);
                assert!(
                    link.control <= probes,
                    "control messages end with the connection: {link:?}"
                );
                if link.reach == Reach::Direct {
                    assert_eq!((link.submitted, link.ack_pending), (0, 0), "LINK-6");
                }
            }
        }
        if link.reach == Reach::Direct {
            let online = matches!(link.state, LinkState::Online { .. });
            assert_eq!(
                self.ledger.online.get(&link.app),
                Some(&online),
                "{:?}",
                link.app
            );
        }
    }

    fn check_caps(&self, snapshot: &Snapshot) {
        let (count, bytes) = (self.config.queue_count_max, self.config.queue_bytes_max);
        let fits = |size: &QueueSize| size.messages <= count && size.bytes <= bytes;
        if self.config.overflow == Overflow::Evict {
            assert!(fits(&snapshot.backlog), "{:?}", snapshot.backlog);
            assert!(fits(&snapshot.ack_pending), "{:?}", snapshot.ack_pending);
        } else {
            // Submission stops when it is full: the last one may stand out.
            assert!(snapshot.ack_pending.messages <= count);
            assert!(snapshot.ack_pending.bytes <= 2 * bytes);
        }
    }

    fn check_books(&self, snapshot: &Snapshot) {
        let books = &self.ledger;
        let established = books.subscriptions.values().filter(|(_, is)| *is).count();
        let renewals = snapshot.waiters.checked_sub(books.calls.len());
        assert!(
            renewals.is_some_and(|renewals| renewals <= established),
            "{} waiters, {:?}",
            snapshot.waiters,
            books.calls
        );
        assert_eq!(snapshot.serving, books.serving.len());
        assert_eq!(snapshot.subscriptions, books.subscriptions.len());
        assert!(
            books
                .calls
                .keys()
                .all(|&call| self.nacp.call_message_id(call).is_some())
        );
    }

    /// TERM-1, and the end of every book.
    pub(super) fn assert_empty(&self) {
        let empty = Snapshot {
            links: Vec::new(),
            peers: 0,
            backlog: QueueSize::default(),
            ack_pending: QueueSize::default(),
            messages: 0,
            waiters: 0,
            serving: 0,
            subscriptions: 0,
            listens: 0,
            timers: 0,
            next: None,
        };
        assert_eq!(self.nacp.snapshot(), empty);
        let books = &self.ledger;
        assert!(books.calls.is_empty(), "{:?}", books.calls);
        assert!(books.sends.is_empty(), "{:?}", books.sends);
        assert!(books.subscriptions.is_empty(), "{:?}", books.subscriptions);
        assert!(books.serving.is_empty(), "{:?}", books.serving);
    }
}

fn check_sums(snapshot: &Snapshot) {
    let sum = |of: fn(&LinkSnapshot) -> usize| snapshot.links.iter().map(of).sum::<usize>();
    assert_eq!(sum(|link| link.backlog), snapshot.backlog.messages);
    assert_eq!(sum(|link| link.ack_pending), snapshot.ack_pending.messages);
    // What is forwarded and submitted is counted under both names.
    let ours = sum(|link| link.backlog + link.submitted + link.ack_pending + link.control);
    let forwarded = sum(|link| link.forwarded.messages);
    assert!(
        (ours..=ours + forwarded).contains(&snapshot.messages),
        "{snapshot:?}"
    );
    assert_eq!(sum(|link| link.waiters), snapshot.waiters);
    assert_eq!(sum(|link| link.serving), snapshot.serving);
    assert_eq!(sum(|link| link.subscriptions), snapshot.subscriptions);
    assert_eq!(sum(|link| link.listens), snapshot.listens);
    for size in [snapshot.backlog, snapshot.ack_pending] {
        assert_eq!(size.messages == 0, size.bytes == 0, "CAP-5: {size:?}");
    }
}
