//! Remote Apps' subscriptions on our event bus: the ListenTable. What this module keeps true: a hit costs what it hits,
//! not what is subscribed; and a row lives exactly as long as its subscription and its App.

use bytes::Bytes;

use crate::arena::Key;
use crate::event::{Event, Report};
use crate::message::{Encoded, Envelope, MessageId, Meta, Payload};
use crate::outbox::Class;
use crate::pattern::is_valid_pattern;
use crate::send::{Draft, text_map};
use crate::serving::Answer;
use crate::{Instant, Nacp};

/// A row of the ListenTable.
#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) link: Key,
    pub(crate) id: MessageId,
    pub(crate) pattern: String,
    pub(crate) lossless: bool,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubscribePayload {
    target_sub_name: String,
    #[serde(default)]
    reliable: bool,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct UnsubscribePayload {
    target_sub_id: String,
}

impl Nacp {
    /// Whether any remote App subscribes to anything: when not, [`publish`](Self::publish) need not be called.
    pub fn has_listeners(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Whether any remote App's subscription matches `name`.
    pub fn is_listened(&self, name: &str) -> bool {
        let mut hit = false;
        self.patterns.for_each_match(name, &mut |_| hit = true);
        hit
    }

    /// Sends `payload` to every remote App that subscribes to `name`, once per subscription; tells how many. The
    /// subscription `except` is passed over: the event is about a notify that it caused (SUB-4).
    pub fn publish(
        &mut self,
        now: Instant,
        name: &str,
        payload: &Payload,
        except: Option<&str>,
    ) -> usize {
        let mut rows = Vec::new();
        self.patterns
            .for_each_match(name, &mut |row: &u64| rows.push(*row));
        let mut sent = 0;
        for row in rows {
            let listen = &self.listens[&row];
            if except.is_some_and(|except| except.as_bytes() == listen.id.as_bytes()) {
                continue;
            }
            let (link, id, pattern) = (listen.link, listen.id.clone(), listen.pattern.clone());
            let lossless = listen.lossless && self.links[link].features.reliable_notify;
            let meta = Meta::Notify {
                parent_id: id.as_str().into(),
                target_sub_name: pattern.as_str().into(),
                hit_sub_name: name.into(),
                reliable: lossless,
            };
            let class = if lossless { Class::Hit } else { Class::Notify };
            let draft = Draft::own(meta, Some(payload), class);
            sent += usize::from(self.enqueue(now, link, draft, |_, _, _| {}).is_ok());
        }
        sent
    }

    pub(crate) fn on_subscribe(
        &mut self,
        now: Instant,
        link: Key,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) {
        let id = MessageId::from(&*envelope.id);
        let asked = envelope.payload_of(bytes).decode::<SubscribePayload>().ok();
        let Some(asked) = asked.filter(|asked| is_valid_pattern(&asked.target_sub_name)) else {
            return self.refuse_subscription(now, link, &id, "bad-target-sub-name", bytes);
        };
        if self.links[link].listens.len() >= self.config.subscriptions_max {
            return self.refuse_subscription(now, link, &id, "too-many-subscriptions", bytes);
        }
        self.forget_listen(link, &id);
        let row = self.identity.next_seq();
        self.patterns.insert(&asked.target_sub_name, row);
        self.listen_ids.insert((link, id.clone()), row);
        self.links[link].listens.insert(row);
        let listen = Listen {
            link,
            id: id.clone(),
            pattern: asked.target_sub_name,
            lossless: asked.reliable,
        };
        self.listens.insert(row, listen);
        let answer = Answer::ok(text_map("targetSubId", id.as_str()));
        self.answer_at_once(now, link, &id, None, answer);
    }

    pub(crate) fn on_unsubscribe(
        &mut self,
        now: Instant,
        link: Key,
        envelope: &Envelope<'_>,
        bytes: &Bytes,
    ) {
        let id = MessageId::from(&*envelope.id);
        let asked = envelope
            .payload_of(bytes)
            .decode::<UnsubscribePayload>()
            .ok();
        let target = asked.map(|asked| MessageId::from(asked.target_sub_id.as_str()));
        let known = target
            .as_ref()
            .is_some_and(|target| self.forget_listen(link, target));
        if known {
            return self.answer_at_once(now, link, &id, None, Answer::ok(Payload::default()));
        }
        if let Some(target) = target {
            // Its subscribe may come yet, late, over a connection that the remote has left: it is over already.
            let window = self.config.dedup_window();
            let dedup = &mut self.links[link].dedup;
            dedup.insert(&self.hasher, window, target.as_str());
        }
        self.refuse_subscription(now, link, &id, "unknown-subscription", bytes);
    }

    fn refuse_subscription(
        &mut self,
        now: Instant,
        link: Key,
        id: &MessageId,
        reason: &'static str,
        bytes: &Bytes,
    ) {
        self.answer_at_once(now, link, id, None, Answer::not_ok(reason));
        self.events.push_back(Event::Report(Report {
            name: "nacp:internal:subscribe:error",
            reason,
            said: None,
            peer: self.links[link].peer(),
            app: Some(self.links[link].app.clone()),
            message: Some(Encoded::from(bytes.clone())),
        }));
    }

    fn forget_listen(&mut self, link: Key, id: &MessageId) -> bool {
        let Some(row) = self.listen_ids.remove(&(link, id.clone())) else {
            return false;
        };
        let listen = self
            .listens
            .remove(&row)
            .expect("the two tables have the same rows");
        self.patterns.remove(&listen.pattern, &row);
        self.links[link].listens.remove(&row);
        true
    }

    pub(crate) fn forget_listens_of(&mut self, link: Key) {
        for row in std::mem::take(&mut self.links[link].listens) {
            let listen = self
                .listens
                .remove(&row)
                .expect("the two tables have the same rows");
            self.listen_ids.remove(&(link, listen.id));
            self.patterns.remove(&listen.pattern, &row);
        }
    }
}
