//! What an honest driver knows of its core: the calls it made, the requests it serves. What this module keeps true: each
//! event is one that the core may say now, so a second end of a call, a twice handled request or a message out of order
//! is noticed where it happens.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use nacp::{
    AppId, CallId, Event, MessageId, NotifyTarget, Outcome, Payload, PeerId, RequestKind, SendId,
    ServingId,
};
use serde_bytes::ByteBuf;

use super::STAMP;

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Ability,
    Event,
    Subscribe,
    Unsubscribe,
}

/// An open call.
#[derive(Clone, Debug)]
pub struct Call {
    pub to: AppId,
    pub what: What,
}

/// What came from one App since it was last forgotten.
#[derive(Default)]
struct From {
    handled: HashSet<MessageId>,
    stamps: BTreeSet<u64>,
}

/// The driver's books.
#[derive(Default)]
pub struct Ledger {
    pub calls: BTreeMap<CallId, Call>,
    /// Subscriptions, and whether they are established.
    pub subscriptions: BTreeMap<CallId, (AppId, bool)>,
    pub serving: BTreeMap<ServingId, RequestKind>,
    pub sends: BTreeSet<SendId>,
    /// How the calls ended.
    pub done: Vec<(CallId, bool)>,
    /// The last that was said of each App: whether it is online.
    pub online: BTreeMap<AppId, bool>,
    from: BTreeMap<AppId, From>,
    disorder_is_expected: bool,
}

impl Ledger {
    /// Empty, but for what it may expect of others.
    pub(super) fn of_a_new_life(&self) -> Self {
        Self {
            disorder_is_expected: self.disorder_is_expected,
            ..Self::default()
        }
    }

    pub(super) fn distrust_order(&mut self) {
        self.disorder_is_expected = true;
    }

    /// Writes down what happened; gives the connection that is to be closed.
    pub(super) fn on_event(&mut self, event: Event) -> Option<PeerId> {
        match event {
            Event::ClosePeer { peer, reason } => {
                assert!(!reason.reason().is_empty());
                return Some(peer);
            }
            Event::Online { app, restarted, .. } => {
                if restarted {
                    self.from.remove(&app);
                }
                self.online.insert(app, true);
            }
            Event::Offline { app, .. } => {
                self.online.insert(app, false);
            }
            Event::Dropped { app, .. } => {
                self.from.remove(&app);
                self.online.remove(&app);
            }
            Event::Request { .. } => self.on_request(event),
            Event::Signal {
                serving,
                from,
                payload,
                ..
            } => {
                let kind = self.serving.get(&serving);
                assert_eq!(kind, Some(&RequestKind::Event), "a signal for nobody");
                self.ordered(&from, &payload, true);
            }
            Event::RequesterGone { serving } => {
                assert!(self.serving.remove(&serving).is_some(), "gone twice");
            }
            Event::StreamWritable { serving } => {
                assert!(self.serving.contains_key(&serving), "a stream of nobody");
            }
            Event::Notify {
                target,
                payload,
                reliable,
                ..
            } => self.on_notify(target, &payload, reliable),
            Event::Done { call, outcome } => self.on_done(call, &outcome),
            Event::SubscriptionEnded { call, .. } => {
                let ended = self.subscriptions.remove(&call);
                assert!(matches!(ended, Some((_, true))), "{call:?} was none");
            }
            Event::Settled { send, .. } => {
                assert!(
                    self.sends.remove(&send),
                    "{send:?} settles twice, or was never asked for"
                );
            }
            Event::Report(report) => {
                assert!(report.name.starts_with("nacp:") && !report.reason.is_empty());
            }
            Event::Room
            | Event::Hold { .. }
            | Event::Release { .. }
            | Event::RegisterAsked { .. } => {}
        }
        None
    }

    fn on_request(&mut self, event: Event) {
        let Event::Request {
            serving,
            from,
            id,
            kind,
            payload,
            ..
        } = event
        else {
            return;
        };
        assert!(self.serving.insert(serving, kind).is_none(), "served twice");
        let known = self.from.entry(from.clone()).or_default();
        assert!(
            known.handled.insert(id.clone()),
            "{from:?} asked {id:?} once, and is served twice"
        );
        self.ordered(&from, &payload, true);
    }

    fn on_notify(&mut self, target: NotifyTarget, payload: &Payload, reliable: bool) {
        let from = match target {
            NotifyTarget::Call(call) => {
                let call = &self.calls.get(&call).expect("a chunk of an open call");
                assert_eq!(call.what, What::Event);
                &call.to
            }
            NotifyTarget::Subscription(call) => {
                &self
                    .subscriptions
                    .get(&call)
                    .expect("a hit of a subscription")
                    .0
            }
        };
        // A plain one that was not accepted when the connection broke is sent again and may have arrived (MSG-3); and two
        // subscriptions have the same hit.
        let once = reliable && matches!(target, NotifyTarget::Call(_));
        self.ordered(&from.clone(), payload, once);
    }

    fn on_done(&mut self, id: CallId, outcome: &Outcome) {
        let call = self.calls.remove(&id).expect("each call ends once");
        let is_ok = matches!(outcome, Outcome::Response { is_ok: true, .. });
        self.done.push((id, is_ok));
        if let Outcome::Response { payload, .. } = outcome {
            self.ordered(&call.to, payload, true);
        }
        if call.what == What::Subscribe {
            if is_ok {
                self.subscriptions.get_mut(&id).expect("asked for").1 = true;
            } else {
                self.subscriptions.remove(&id);
            }
        }
    }

    /// MSG-7: what `from` sent comes in the order in which it was sent.
    fn ordered(&mut self, from: &AppId, payload: &Payload, once: bool) {
        let Ok((text, stamp, _)) = payload.decode::<(String, u64, ByteBuf)>() else {
            return;
        };
        if text != STAMP || self.disorder_is_expected {
            return;
        }
        let stamps = &mut self.from.entry(from.clone()).or_default().stamps;
        let last = stamps.last().copied().unwrap_or(0);
        if stamps.insert(stamp) {
            assert!(stamp > last, "{stamp} of {from:?} comes after {last}");
        } else {
            assert!(!once, "{stamp} of {from:?} comes twice");
        }
    }

    /// The core has forgotten everybody.
    pub(super) fn forget_apps(&mut self) {
        self.keep_only(|_| false);
    }

    /// An App that was behind a Gateway, and that nobody used, is forgotten without a word.
    pub(super) fn keep_only(&mut self, known: impl Fn(&AppId) -> bool) {
        self.from.retain(|app, _| known(app));
        self.online.retain(|app, _| known(app));
    }
}
