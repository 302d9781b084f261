//! Requests of remote Apps: handed on, answered, their streams fed. What this module keeps true: every request that was
//! handed on is answered at most once and its chunks go before its answer (SUB-3); losing the link changes nothing
//! here (WAIT-7); a lossless stream never runs further ahead of its reader than the window (MSG-11).

use std::sync::Arc;

use bytes::Bytes;

use crate::arena::Key;
use crate::event::{CallId, Event, SendId, ServingId};
use crate::link::Debt;
use crate::message::{Envelope, MessageId, Meta, Payload, RequestKind, Target};
use crate::outbox::Class;
use crate::peers::Urgent;
use crate::send::Draft;
use crate::{Instant, Nacp, SendError};

/// A request that waits for our answer.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) link: Key,
    pub(crate) id: MessageId,
    pub(crate) kind: RequestKind,
    pub(crate) lossless: bool,
    /// `nacp:event:{id}:process`; abilities have none.
    process_name: Option<Arc<str>>,
    /// Chunks sent, and how many of them the reader has taken.
    sent: u64,
    taken: u64,
    /// The writer was told to wait.
    waiting: bool,
    /// Lossless chunks that fell to the caps.
    pub(crate) chunks_lost: u64,
}

impl Serving {
    /// Chunks that the reader may still take.
    fn under_way(&self) -> u64 {
        self.sent.saturating_sub(self.taken + self.chunks_lost)
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Whether the handler succeeded.
    pub is_ok: bool,
    /// Why it did not.
    pub why_not_ok: Option<String>,
    /// What it gives back.
    pub payload: Payload,
}

impl Answer {
    /// Success.
    pub fn ok(payload: Payload) -> Self {
        Self {
            is_ok: true,
            why_not_ok: None,
            payload,
        }
    }

    /// Failure, and why.
    pub fn not_ok(why: impl Into<String>) -> Self {
        Self {
            is_ok: false,
            why_not_ok: Some(why.into()),
            payload: Payload::default(),
        }
    }
}

/// The abilities that every App has.
pub(crate) const HEARTBEAT: &str = "NApp.heartbeat";
pub(crate) const INTRODUCE: &str = "NApp.introduce";

/// Heartbeat answers that may wait in the urgent lane; more than that are ordinary Responses under the caps.
const URGENT_ANSWERS_MAX: usize = 64;

/// "Taken" of a stream that nobody reads: more than any stream has, and exact in every number format.
const ALL_TAKEN: u64 = (1 << 53) - 1;
/// Streams of one App that are remembered as abandoned.
const ABANDONED_MAX: usize = 65_536;

impl Nacp {
    pub(crate) fn on_request(
        &mut self,
        now: Instant,
        link: Key,
        envelope: &Envelope<'_>,
        kind: RequestKind,
        target: Option<&str>,
        bytes: &Bytes,
    ) {
        let id = MessageId::from(&*envelope.id);
        match (kind, target) {
            (RequestKind::Ability, Some(HEARTBEAT)) => {
                return self.answer_heartbeat(now, link, &id);
            }
            (RequestKind::Ability, Some(INTRODUCE)) => {
                let declaration = Payload::encode(&self.config.declaration).expect("text encodes");
                return self.answer_at_once(now, link, &id, Some(kind), Answer::ok(declaration));
            }
            _ => {}
        }
        let serving = self.identity.next_seq();
        let lossless = kind == RequestKind::Event && self.links[link].features.reliable_notify;
        let process_name = match kind {
            RequestKind::Event => Some(format!("nacp:event:{id}:process").into()),
            RequestKind::Ability => None,
        };
        if kind == RequestKind::Event
            && self
                .serving_events
                .insert((link, id.clone()), serving)
                .is_some()
        {
            // An id outside the dedup window that is being served still: the same request once more.
            return;
        }
        if kind == RequestKind::Event {
            self.steered.insert(id.clone(), serving);
        }
        let record = Serving {
            link,
            id: id.clone(),
            kind,
            lossless,
            process_name,
            sent: 0,
            taken: 0,
            waiting: false,
            chunks_lost: 0,
        };
        self.serving.insert(serving, record);
        self.links[link].serving.insert(serving);
        self.events.push_back(Event::Request {
            serving: ServingId(serving),
            from: self.links[link].app.clone(),
            id,
            kind,
            target: target.map(Target::from),
            payload: envelope.payload_of(bytes),
            lossless,
        });
    }

    /// Takes an event request out of what signals can find.
    pub(crate) fn forget_event(&mut self, link: Key, id: &MessageId, serving: u64) {
        self.serving_events.remove(&(link, id.clone()));
        if self.steered.get(id) == Some(&serving) {
            self.steered.remove(id);
        }
    }

    fn answer_heartbeat(&mut self, now: Instant, link: Key, id: &MessageId) {
        let alive = Payload::encode(&true).expect("a flag encodes");
        // It may have come through the Gateway from an App whose own connection is gone.
        let has_connection = self.peer_of(link).is_some();
        if !has_connection || self.links[link].queues.control.len() >= URGENT_ANSWERS_MAX {
            return self.answer_at_once(
                now,
                link,
                id,
                Some(RequestKind::Ability),
                Answer::ok(alive),
            );
        }
        let meta = Meta::Response {
            parent_id: id.as_str().into(),
            is_ok: true,
            why_not_ok: None,
            kind: Some(RequestKind::Ability),
        };
        self.push_control(now, link, meta, Some(&alive));
    }

    /// Answers without a handler. A full queue (CAP-6) makes it a control message, which no cap counts.
    pub(crate) fn answer_at_once(
        &mut self,
        now: Instant,
        link: Key,
        parent: &MessageId,
        kind: Option<RequestKind>,
        answer: Answer,
    ) {
        let meta = Meta::Response {
            parent_id: parent.as_str().into(),
            is_ok: answer.is_ok,
            why_not_ok: answer.why_not_ok.as_deref().map(Into::into),
            kind,
        };
        let class = Class::Response {
            parent: parent.clone(),
            kind,
            is_ok: answer.is_ok,
        };
        let draft = Draft::own(meta.clone(), Some(&answer.payload), class);
        if self.enqueue(now, link, draft, |_, _, _| {}).is_err() {
            let parent = parent.clone();
            let has_connection = self.peer_of(link).is_some();
            let seq = if has_connection {
                self.push_control(now, link, meta, Some(&answer.payload))
            } else {
                self.identity.next_seq()
            };
            // It is lost with the connection, but whoever asked must not wait for ever (WAIT-5).
            self.remember_debt(link, seq, Debt { parent, kind }, has_connection);
        }
    }

    /// Answers a request; with `tracked`, what becomes of the answer comes as [`Event::Settled`].
    ///
    /// # Errors
    /// [`SendError::Gone`] when the requester was dropped; [`SendError::Full`] (CAP-6) and [`SendError::TooLarge`]
    /// leave the request open for another try.
    pub fn respond(
        &mut self,
        now: Instant,
        serving: ServingId,
        answer: &Answer,
        tracked: bool,
    ) -> Result<SendId, SendError> {
        let request = self.serving.get(&serving.0).ok_or(SendError::Gone)?;
        let (link, kind, parent) = (request.link, request.kind, request.id.clone());
        let complete = request.chunks_lost == 0;
        let why = if complete {
            answer.why_not_ok.as_deref()
        } else {
            Some("stream-evicted")
        };
        let meta = Meta::Response {
            parent_id: parent.as_str().into(),
            is_ok: answer.is_ok && complete,
            why_not_ok: why.map(Into::into),
            kind: Some(kind),
        };
        let class = Class::Response {
            parent: parent.clone(),
            kind: Some(kind),
            is_ok: answer.is_ok && complete,
        };
        let draft = Draft::own(meta, Some(&answer.payload), class).tracked(tracked);
        // The answer may push out a chunk of its own stream: from here on, such a loss concerns the answer.
        let seq = self.enqueue(now, link, draft, |nacp, _, _| {
            nacp.serving.remove(&serving.0);
            nacp.links[link].serving.remove(serving.0);
            if kind == RequestKind::Event {
                nacp.forget_event(link, &parent, serving.0);
            }
        })?;
        Ok(SendId(seq))
    }

    /// Sends a chunk of an event request's stream to its requester. It goes out before the answer.
    ///
    /// # Errors
    /// [`SendError::Full`] on a lossless stream: wait for [`Event::StreamWritable`] or [`Event::Room`], then try
    /// again. [`SendError::NotifyRefused`] on a plain one: the chunk is lost (CAP-2). [`SendError::Gone`] when the
    /// requester was dropped, the request is answered, or it was no event.
    pub fn emit(
        &mut self,
        now: Instant,
        serving: ServingId,
        payload: &Payload,
        tracked: bool,
    ) -> Result<SendId, SendError> {
        let request = self.serving.get_mut(&serving.0).ok_or(SendError::Gone)?;
        if request.kind != RequestKind::Event {
            return Err(SendError::Gone);
        }
        let (link, lossless) = (request.link, request.lossless);
        let limited = lossless && self.links[link].features.stream_credit;
        if limited && request.under_way() >= self.config.stream_window {
            request.waiting = true;
            return Err(SendError::Full);
        }
        let (id, name) = (request.id.clone(), request.process_name.clone());
        let name = name.as_deref().unwrap_or_default();
        let meta = Meta::Notify {
            parent_id: id.as_str().into(),
            target_sub_name: name.into(),
            hit_sub_name: name.into(),
            reliable: lossless,
        };
        let class = if lossless {
            Class::Chunk {
                serving: serving.0,
                parent: id.clone(),
            }
        } else {
            Class::Notify
        };
        let draft = Draft::own(meta, Some(payload), class).tracked(tracked);
        let seq = self.enqueue(now, link, draft, |_, _, _| {})?;
        if let Some(request) = self.serving.get_mut(&serving.0) {
            request.sent += 1;
        }
        Ok(SendId(seq))
    }

    /// The bus name of an event request's stream, `nacp:event:{id}:process`; `None` when it is over or no event.
    pub fn process_name(&self, serving: ServingId) -> Option<&str> {
        self.serving
            .get(&serving.0)
            .and_then(|request| request.process_name.as_deref())
    }

    /// The reader of the event call `call` has taken `count` chunks in all. On a lossless stream the writer learns it
    /// in steps of a quarter of the window, and when nothing is left to take. Telling it seldom is cheaper, but not
    /// later than when the reader has nothing left.
    pub fn taken(&mut self, call: CallId, count: u64) {
        let Some(waiter) = self.waiters.get_mut(call.0) else {
            return;
        };
        waiter.taken = waiter.taken.max(count);
        let step = (self.config.stream_window / 4).max(1);
        // With nothing left to take, a writer with a smaller window than ours would wait for ever.
        let behind = waiter.taken - waiter.taken_told;
        if behind >= step || (behind > 0 && waiter.taken >= waiter.came) {
            waiter.taken_told = waiter.taken;
            let (link, parent, taken) = (waiter.link, waiter.id.clone(), waiter.taken);
            self.tell_taken(link, parent, taken);
        }
    }

    fn tell_taken(&mut self, link: Key, parent: MessageId, taken: u64) {
        let record = &self.links[link];
        if let Some(peer) = record.peer().filter(|_| record.features.stream_credit) {
            let to = record.app.clone();
            self.peers.push_urgent(
                peer,
                Urgent::Ack {
                    to,
                    parent,
                    taken: Some(taken),
                },
            );
        }
    }

    /// Nobody reads this stream any more: its writer must not wait for a reader, or it would wait for ever.
    pub(crate) fn abandon_stream(&mut self, link: Key, parent: MessageId) {
        let record = &mut self.links[link];
        if record.features.stream_credit {
            record.abandoned.insert(parent.clone());
            if record.abandoned.len() > ABANDONED_MAX {
                record.abandoned.pop_first();
            }
            self.tell_taken(link, parent, ALL_TAKEN);
        }
    }

    /// What was told may have been lost with the connection; saying it again is harmless.
    pub(crate) fn tell_taken_again(&mut self, link: Key) {
        let taken: Vec<_> = self.links[link]
            .waiters
            .sorted()
            .into_iter()
            .map(|seq| &self.waiters[seq])
            .filter(|waiter| waiter.taken > 0)
            .map(|waiter| (waiter.id.clone(), waiter.taken))
            .collect();
        let abandoned = self.links[link].abandoned.iter();
        let abandoned: Vec<_> = abandoned.map(|id| (id.clone(), ALL_TAKEN)).collect();
        for (parent, taken) in taken.into_iter().chain(abandoned) {
            self.tell_taken(link, parent, taken);
        }
    }

    pub(crate) fn on_taken(&mut self, link: Key, parent: &str, taken: u64) {
        let Some(serving) = self.serving_events.get(&(link, MessageId::from(parent))) else {
            return;
        };
        let Some(request) = self.serving.get_mut(serving) else {
            return;
        };
        request.taken = request.taken.max(taken.min(request.sent));
        let serving = *serving;
        self.tell_stream_writable(serving);
    }

    fn tell_stream_writable(&mut self, serving: u64) {
        let window = self.config.stream_window;
        if let Some(request) = self.serving.get_mut(&serving)
            && request.waiting
            && request.under_way() < window
        {
            request.waiting = false;
            self.events.push_back(Event::StreamWritable {
                serving: ServingId(serving),
            });
        }
    }

    /// A lossless chunk fell to the caps. Its stream ends not ok, also when the answer is queued already (MSG-11);
    /// and nobody will take the chunk, so its writer must not wait for that.
    pub(crate) fn lose_chunk(&mut self, link: Key, serving: u64, parent: &MessageId) {
        if let Some(request) = self.serving.get_mut(&serving) {
            request.chunks_lost += 1;
            return self.tell_stream_writable(serving);
        }
        let queues = &self.links[link].queues;
        let answer = [&queues.backlog, &queues.submitted, &queues.pending]
            .into_iter()
            .flat_map(|list| self.outbox.seqs(list))
            .filter_map(|seq| self.outbox.get(seq))
            .find(|outgoing| matches!(&outgoing.class, Class::Response { parent: answered, is_ok: true, .. } if answered == parent))
            .map(|outgoing| (outgoing.seq, outgoing.encoded.clone()));
        if let Some((seq, encoded)) = answer {
            self.discard(seq);
            let name = "nacp:internal:backlog:warning";
            self.report(name, "fifo-evicted", Some(link), Some(encoded));
        }
    }
}
