//! The verbs that send, and the one door into the queues. What this module keeps true: a message is encoded once, at
//! the call; what cannot be sent fails there and leaves nothing (MSG-9); the caps hold after every call, and who falls
//! to them is told (CAP-2, CAP-3, CAP-4, WAIT-5).

use crate::arena::Key;
use crate::calls::{Asked, Subscription};
use crate::config::Overflow;
use crate::event::{CallId, Event, Outcome, Report, SendId};
use crate::link::{Debt, Link, LinkState, Reach};
use crate::message::{AppId, Encoded, Head, MessageId, Meta, Payload, RequestKind, SignalKind};
use crate::outbox::{Class, Outgoing, Place};
use crate::{Instant, Nacp, SendError};

/// A message to be sent.
pub(crate) struct Draft<'a> {
    pub(crate) body: Body<'a>,
    pub(crate) class: Class,
    pub(crate) tracked: bool,
}

/// Whose bytes they are.
pub(crate) enum Body<'a> {
    /// Ours, to be encoded.
    Own {
        meta: Meta<'a>,
        payload: Option<&'a Payload>,
    },
    /// Somebody else's, as they came (GW-1).
    Forwarded {
        id: MessageId,
        encoded: Encoded,
        source: Key,
    },
}

impl<'a> Draft<'a> {
    pub(crate) fn own(meta: Meta<'a>, payload: Option<&'a Payload>, class: Class) -> Self {
        Self {
            body: Body::Own { meta, payload },
            class,
            tracked: false,
        }
    }

    pub(crate) fn tracked(self, tracked: bool) -> Self {
        Self { tracked, ..self }
    }
}

/// The most debts of evicted Responses that are kept for one App.
const DEBTS_MAX: usize = 65_536;

impl Nacp {
    /// Calls the handler `target` of `to`. Ends with exactly one [`Event::Done`]; `deadline` = the caller's own limit.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    pub fn request(
        &mut self,
        now: Instant,
        to: &AppId,
        kind: RequestKind,
        target: &str,
        payload: &Payload,
        deadline: Option<Instant>,
    ) -> Result<CallId, SendError> {
        let link = self.route(now, to)?;
        let meta = Meta::Request {
            kind,
            target: Some(target.into()),
        };
        let draft = Draft::own(meta, Some(payload), Class::Request);
        let seq = self.enqueue(now, link, draft, |nacp, seq, id| {
            nacp.await_response(seq, link, id.clone(), Asked::Request(kind), deadline);
        })?;
        Ok(CallId(seq))
    }

    /// Steers the event call `call`; the payload goes with [`SignalKind::Normal`] only.
    ///
    /// # Errors
    /// [`SendError::Gone`] when the call has ended, else as [`request`](Self::request).
    pub fn signal(
        &mut self,
        now: Instant,
        call: CallId,
        kind: SignalKind,
        payload: Option<&Payload>,
    ) -> Result<SendId, SendError> {
        let waiter = self.waiters.get(&call.0).ok_or(SendError::Gone)?;
        let (link, parent) = (waiter.link, waiter.id.clone());
        self.send_signal(now, link, &parent, kind, payload)
    }

    /// Steers the event request `request` of anybody at `to`; for tools that do not hold the call.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn signal_to(
        &mut self,
        now: Instant,
        to: &AppId,
        request: &MessageId,
        kind: SignalKind,
        payload: Option<&Payload>,
    ) -> Result<SendId, SendError> {
        let link = self.route(now, to)?;
        self.send_signal(now, link, request, kind, payload)
    }

    fn send_signal(
        &mut self,
        now: Instant,
        link: Key,
        parent: &MessageId,
        kind: SignalKind,
        payload: Option<&Payload>,
    ) -> Result<SendId, SendError> {
        let meta = Meta::Signal {
            parent_id: parent.as_str().into(),
            kind,
        };
        let empty = Payload::default();
        let payload = (kind == SignalKind::Normal).then(|| payload.unwrap_or(&empty));
        let draft = Draft::own(meta, payload, Class::Signal).tracked(true);
        Ok(SendId(self.enqueue(now, link, draft, |_, _, _| {})?))
    }

    /// Subscribes to `pattern` on the event bus of `to`. Ends its call with one [`Event::Done`]; when that is ok, hits
    /// come as [`Event::Notify`] until [`unsubscribe`](Self::unsubscribe) or [`Event::SubscriptionEnded`].
    /// `lossless` asks for reliable hits, if both sides know them (MSG-11).
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub fn subscribe(
        &mut self,
        now: Instant,
        to: &AppId,
        pattern: &str,
        lossless: bool,
    ) -> Result<CallId, SendError> {
        let link = self.route(now, to)?;
        let payload = subscribe_payload(pattern, lossless && self.config.lossless_streams);
        let until = now + self.config.protocol_timeout;
        let draft = Draft::own(Meta::Subscribe, Some(&payload), Class::Subscribe);
        let seq = self.enqueue(now, link, draft, |nacp, seq, id| {
            let subscription = Subscription {
                link,
                id: id.clone(),
                pattern: pattern.to_owned(),
                lossless,
                established: false,
                renewing: false,
            };
            nacp.subscriptions.insert(seq, subscription);
            nacp.links[link].subscriptions.insert(seq);
            nacp.await_response(seq, link, id.clone(), Asked::Subscribe, Some(until));
        })?;
        Ok(CallId(seq))
    }

    /// Ends a subscription at once: no hit is reported after this. The call that comes back ends with the remote's
    /// answer; `None` if there was nothing to tell it.
    pub fn unsubscribe(&mut self, now: Instant, subscription: CallId) -> Option<CallId> {
        if self.waiters.contains_key(&subscription.0) {
            self.cancel(now, subscription);
            return None;
        }
        let subscription = self.forget_subscription(subscription.0)?;
        self.send_unsubscribe(now, subscription.link, &subscription.id, true)
    }

    pub(crate) fn send_unsubscribe(
        &mut self,
        now: Instant,
        link: Key,
        id: &MessageId,
        asked: bool,
    ) -> Option<CallId> {
        let payload = text_map("targetSubId", id.as_str());
        let until = now + self.config.protocol_timeout;
        let draft = Draft::own(Meta::Unsubscribe, Some(&payload), Class::Unsubscribe);
        let sent = self.enqueue(now, link, draft, |nacp, seq, id| {
            if asked {
                nacp.await_response(seq, link, id.clone(), Asked::Unsubscribe, Some(until));
            }
        });
        sent.ok().filter(|_| asked).map(CallId)
    }

    /// Makes an explicit subscription again on a remote that lost it (LINK-15): the same message, in its old place.
    pub(crate) fn renew_subscription(&mut self, now: Instant, seq: u64) {
        if self.outbox.get(seq).is_some() {
            return;
        }
        let subscription = self.subscriptions.get_mut(&seq).expect("one of its link's");
        subscription.renewing = subscription.established;
        let (link, id, renewing) = (
            subscription.link,
            subscription.id.clone(),
            subscription.renewing,
        );
        let payload = subscribe_payload(&subscription.pattern, subscription.lossless);
        let encoded = self.encoded(now, link, &id, Meta::Subscribe, Some(&payload));
        if renewing {
            let until = now + self.config.protocol_timeout;
            self.await_response(seq, link, id.clone(), Asked::Subscribe, Some(until));
        }
        let outgoing = Outgoing::new(seq, id, link, Class::Subscribe, encoded);
        self.outbox.insert(&mut self.links[link].queues, outgoing);
        self.enforce_backlog_caps();
        self.mark_ready(link);
    }

    /// GW-2: the link to `to`, made if only a Gateway can know it.
    pub(crate) fn route(&mut self, now: Instant, to: &AppId) -> Result<Key, SendError> {
        if let Some(link) = self.links.find(to.as_str()) {
            return if self.links[link].leaving {
                Err(SendError::NoRoute(to.clone()))
            } else {
                Ok(link)
            };
        }
        if *to == self.config.app {
            return Err(SendError::SelfAddressed(to.clone()));
        }
        self.link_behind_gateway(now, to)
            .ok_or_else(|| SendError::NoRoute(to.clone()))
    }

    pub(crate) fn new_link(&mut self, app: AppId, state: LinkState, reach: Reach) -> Key {
        let instance = self
            .instances
            .remove(&app)
            .unwrap_or_else(|| self.identity.token());
        self.links.insert(Link::new(app, state, reach, instance))
    }

    /// A message of ours over `link`, encoded.
    pub(crate) fn encoded(
        &mut self,
        now: Instant,
        link: Key,
        id: &MessageId,
        meta: Meta<'_>,
        payload: Option<&Payload>,
    ) -> Encoded {
        let head = Head {
            id: id.as_str(),
            from: self.config.app.as_str(),
            to: self.links[link].app.as_str(),
            t_ms: self.wall_ms(now),
            meta,
        };
        self.encoder.encode(&head, payload)
    }

    /// The one door: encodes, checks, queues. `before_caps` runs when the message is in and before anybody is evicted
    /// for it, so that whatever hangs on the message exists when the message falls.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        link: Key,
        draft: Draft<'_>,
        before_caps: impl FnOnce(&mut Self, u64, &MessageId),
    ) -> Result<u64, SendError> {
        let (seq, own_id) = self.identity.next();
        let (id, encoded, source) = match draft.body {
            Body::Forwarded {
                id,
                encoded,
                source,
            } => (id, encoded, Some(source)),
            Body::Own { meta, payload } => {
                let encoded = self.encoded(now, link, &own_id, meta, payload);
                (own_id, encoded, None)
            }
        };
        self.admit(&draft.class, &encoded, link)?;
        let mut outgoing = Outgoing::new(seq, id.clone(), link, draft.class, encoded);
        outgoing.tracked = draft.tracked;
        outgoing.source = source;
        let record = &mut self.links[link];
        if source.is_some() {
            record.forwarded.add(outgoing.bytes);
        }
        self.outbox.insert(&mut record.queues, outgoing);
        before_caps(self, seq, &id);
        self.enforce_backlog_caps();
        self.mark_ready(link);
        Ok(seq)
    }

    fn admit(&mut self, class: &Class, encoded: &Encoded, link: Key) -> Result<(), SendError> {
        let bytes = encoded.len() as u64;
        let limit = self
            .config
            .message_bytes_max
            .min(self.config.queue_bytes_max);
        if bytes > limit {
            return Err(SendError::TooLarge { bytes, limit });
        }
        if let Class::Forwarded { notify } = *class {
            return self.admit_forwarded(notify, encoded, link);
        }
        let backlog = self.outbox.backlog();
        let over = |messages: usize, sum: u64| {
            messages >= self.config.queue_count_max || sum + bytes > self.config.queue_bytes_max
        };
        let full = match (class, self.config.overflow) {
            (Class::Chunk { .. }, _) => self.chunk_must_wait(bytes),
            // It ends something that was admitted, and the remote would never hear of it otherwise.
            (Class::Unsubscribe, _) => false,
            (_, Overflow::Wait) => over(backlog.messages, backlog.bytes),
            (_, Overflow::Evict) => false,
        };
        if full {
            self.room_wanted = true;
            return Err(SendError::Full);
        }
        if class.is_notify() && over(backlog.messages, backlog.bytes) {
            return Err(self.refuse_notify(link, encoded));
        }
        Ok(())
    }

    /// CAP-2.1.
    pub(crate) fn refuse_notify(&mut self, link: Key, encoded: &Encoded) -> SendError {
        let name = "nacp:internal:backlog:warning";
        self.report(name, "notify-dropped", Some(link), Some(encoded.clone()));
        SendError::NotifyRefused
    }

    /// A lossless chunk waits rather than push out another message, even after a requeue; and half of each table is left
    /// to what cannot wait, or a Response that comes into a table full of chunks would push one out (MSG-11).
    fn chunk_must_wait(&self, bytes: u64) -> bool {
        let (backlog, pending) = (self.outbox.backlog(), self.outbox.pending());
        let messages = backlog.messages + pending.messages;
        let sum = backlog.bytes + pending.bytes;
        messages > 0
            && (messages >= self.config.queue_count_max / 2
                || sum + bytes > self.config.queue_bytes_max / 2)
    }

    /// CAP-2 until the Backlog fits.
    pub(crate) fn enforce_backlog_caps(&mut self) {
        if self.config.overflow == Overflow::Wait {
            return;
        }
        loop {
            let backlog = self.outbox.backlog();
            if backlog.messages <= self.config.queue_count_max
                && backlog.bytes <= self.config.queue_bytes_max
            {
                return;
            }
            let oldest = self
                .outbox
                .eviction_candidate()
                .expect("what is counted is there");
            let reason = if oldest.class.is_notify() {
                "notify-evicted"
            } else {
                "fifo-evicted"
            };
            let (seq, link, encoded) = (oldest.seq, oldest.link, oldest.encoded.clone());
            self.discard(seq);
            self.report(
                "nacp:internal:backlog:warning",
                reason,
                Some(link),
                Some(encoded),
            );
        }
    }

    /// CAP-3 until AckPending fits.
    pub(crate) fn enforce_pending_caps(&mut self) {
        if self.config.overflow == Overflow::Wait {
            return;
        }
        loop {
            let pending = self.outbox.pending();
            if pending.messages <= self.config.queue_count_max
                && pending.bytes <= self.config.queue_bytes_max
            {
                return;
            }
            let oldest = self
                .outbox
                .oldest_pending()
                .expect("what is counted is there");
            let (seq, link, encoded) = (oldest.seq, oldest.link, oldest.encoded.clone());
            let outgoing = self.take(seq);
            self.settle_send(&outgoing, false);
            match outgoing.class {
                Class::Response { parent, kind, .. } => {
                    self.remember_debt(link, seq, Debt { parent, kind }, true);
                }
                // Lost only if the connection goes before its ACK comes.
                Class::Chunk { serving, parent } => {
                    let unsure = &mut self.links[link].unsure_chunks;
                    unsure.insert(seq, (serving, parent));
                    let given_up = (unsure.len() > DEBTS_MAX).then(|| unsure.pop_first());
                    if let Some((_, (serving, parent))) = given_up.flatten() {
                        self.lose_chunk(link, serving, &parent);
                    }
                }
                _ => {}
            }
            self.report(
                "nacp:internal:ack:warning",
                "pending-overflow",
                Some(link),
                Some(encoded),
            );
        }
    }

    /// Takes a message out of the queues. Whatever waited for its place may go on.
    pub(crate) fn take(&mut self, seq: u64) -> Outgoing {
        let link = self.outbox.get(seq).expect("the caller looked it up").link;
        let record = &mut self.links[link];
        let outgoing = self.outbox.remove(&mut record.queues, seq);
        if outgoing.source.is_some() {
            record.forwarded.sub(outgoing.bytes);
        }
        self.unblock_pair(link, &outgoing);
        self.release_if_caught_up(link);
        self.mark_ready(link);
        self.wake_starved();
        self.tell_room();
        outgoing
    }

    /// A large message holds its pair up; if the transport is writing it, then until that is done.
    fn unblock_pair(&mut self, link: Key, outgoing: &Outgoing) {
        let is_it = |&(large, _): &(u64, Option<Key>)| large == outgoing.seq;
        if !self.links[link].large.iter().any(is_it) {
            return;
        }
        let writer = self
            .peer_of(link)
            .filter(|_| outgoing.place == Place::Submitted);
        match writer.and_then(|peer| self.peers.get_mut(peer)) {
            Some(peer) => peer.withdrawn.push((outgoing.seq, link)),
            None => self.links[link].large.retain(|large| !is_it(large)),
        }
    }

    /// Takes a message out of the queues without a word to anybody but its send waiter.
    pub(crate) fn withdraw(&mut self, seq: u64) {
        if self.outbox.get(seq).is_some() {
            let outgoing = self.take(seq);
            self.settle_send(&outgoing, false);
        }
    }

    /// Gives a message up (evicted, parked): everything that waits for it learns so.
    pub(crate) fn discard(&mut self, seq: u64) {
        let outgoing = self.take(seq);
        self.settle_send(&outgoing, false);
        match outgoing.class {
            Class::Request | Class::Subscribe | Class::Unsubscribe => {
                // A request that was ACKed before it was replayed may still be answered.
                if self.waiters.get(&seq).is_some_and(|waiter| !waiter.acked) {
                    self.settle_call(seq, Outcome::Discarded);
                }
            }
            Class::Response { parent, kind, .. } => {
                self.remember_debt(outgoing.link, seq, Debt { parent, kind }, false);
                self.mark_ready(outgoing.link);
            }
            Class::Chunk { serving, parent } => self.lose_chunk(outgoing.link, serving, &parent),
            Class::Notify
            | Class::Hit
            | Class::Signal
            | Class::Forwarded { .. }
            | Class::Control => {}
        }
    }

    pub(crate) fn remember_debt(&mut self, link: Key, seq: u64, debt: Debt, out: bool) {
        let link = &mut self.links[link];
        let debts = if out {
            &mut link.unsure
        } else {
            &mut link.owed
        };
        debts.insert(seq, debt);
        if debts.len() > DEBTS_MAX {
            debts.pop_first();
        }
    }

    pub(crate) fn settle_send(&mut self, outgoing: &Outgoing, delivered: bool) {
        if outgoing.tracked {
            self.events.push_back(Event::Settled {
                send: SendId(outgoing.seq),
                delivered,
            });
        }
    }

    pub(crate) fn tell_room(&mut self) {
        if std::mem::take(&mut self.room_wanted) {
            self.events.push_back(Event::Room);
        }
    }

    pub(crate) fn report(
        &mut self,
        name: &'static str,
        reason: &'static str,
        link: Option<Key>,
        message: Option<Encoded>,
    ) {
        let app = link.map(|link| self.links[link].app.clone());
        let peer = link.and_then(|link| self.links[link].peer());
        self.events.push_back(Event::Report(Report {
            name,
            reason,
            said: None,
            peer,
            app,
            message,
        }));
    }
}

pub(crate) fn text_map(key: &str, value: &str) -> Payload {
    Payload::encode(&std::collections::BTreeMap::from([(key, value)]))
        .expect("a map of text encodes")
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct SubscribePayload<'a> {
    target_sub_name: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reliable: bool,
}

fn subscribe_payload(pattern: &str, lossless: bool) -> Payload {
    Payload::encode(&SubscribePayload {
        target_sub_name: pattern,
        reliable: lossless,
    })
    .expect("text encodes")
}
