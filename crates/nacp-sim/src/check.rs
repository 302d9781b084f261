//! Compares a core's own picture of itself with the judge's. What this module keeps true: the caps hold (CAP-1), what
//! is counted is there and nothing else (CAP-5), every record belongs to something that is open, and when an App knows
//! nobody it holds nothing (LINK-11). A picture costs more than an Op, so one is taken now and then, and at the end.

use nacp::{LinkState, Snapshot};

use crate::broken::{Broken, Verdict, ensure};
use crate::model::State;
use crate::settings::Settings;
use crate::world::World;

/// One picture in so many drains.
const SAMPLE: u64 = 64;
/// One careful addition in so many pictures.
const SAMPLE_SUMS: u64 = 8;

impl World {
    pub(crate) fn check_sampled(&mut self, node: usize) -> Verdict {
        self.drains += 1;
        if self.drains.is_multiple_of(SAMPLE) {
            self.check(node, self.drains.is_multiple_of(SAMPLE * SAMPLE_SUMS))
        } else {
            Ok(())
        }
    }

    pub(crate) fn check(&self, node: usize, sums: bool) -> Verdict {
        let picture = self.nodes[node].core.snapshot();
        self.check_caps(node, &picture)?;
        self.check_links(node, &picture)?;
        self.check_records(node, &picture)?;
        if sums {
            self.check_sums(node, &picture)?;
        }
        Ok(())
    }

    fn check_caps(&self, node: usize, picture: &Snapshot) -> Verdict {
        let settings = &self.settings;
        let (count, bytes) = (settings.queue_count_max as usize, settings.queue_bytes_max);
        let (backlog, pending) = (picture.backlog, picture.ack_pending);
        ensure!(
            pending.messages <= count && pending.bytes <= bytes,
            "CAP-1",
            "app-{node}: AckPending holds {pending:?}, above {count} messages or {bytes} bytes"
        );
        // Under CAP-6 nothing is evicted, so a lost connection may put all of AckPending on top of a full Backlog; on top
        // of that, notifies in the transport's hands, renewed subscriptions, and the ends of subscriptions.
        let (count, bytes) = if Settings::names(settings.wait_mask, node) {
            let extra = picture.subscriptions + 4 * picture.links.len() + 32;
            (2 * count + extra, 2 * bytes + 3_000 * extra as u64)
        } else {
            (count, bytes)
        };
        ensure!(
            backlog.messages <= count && backlog.bytes <= bytes,
            "CAP-1",
            "app-{node}: the Backlog holds {backlog:?}, above {count} messages or {bytes} bytes"
        );
        for size in [backlog, pending] {
            ensure!(
                (size.messages == 0) == (size.bytes == 0),
                "CAP-5",
                "app-{node}: {size:?}"
            );
        }
        Ok(())
    }

    fn check_links(&self, node: usize, picture: &Snapshot) -> Verdict {
        let record = &self.model.nodes[node];
        // Who is behind a Gateway comes and goes without a word.
        let silent = |other: usize| self.settings.is_forwarded(node, other);
        let mut known = 0;
        for link in &picture.links {
            let other = self.model.node_named(link.app.as_str())?;
            let told = record.links[other].state;
            known += usize::from(!silent(other));
            let same = match (link.state, told) {
                (LinkState::Online { .. }, State::Online) => true,
                (LinkState::Offline { until }, State::Offline { until: told }) => until == told,
                _ => false,
            };
            ensure!(
                same || silent(other),
                "LINK-1",
                "app-{node}: app-{other} is {:?}, and was told {told:?}",
                link.state
            );
        }
        let told = record.links.iter().enumerate();
        let told = told
            .filter(|&(other, link)| link.state != State::Unknown && !silent(other))
            .count();
        ensure!(
            known == told,
            "LINK-1",
            "app-{node} knows {known} Apps, and told of {told}"
        );
        Ok(())
    }

    fn check_records(&self, node: usize, picture: &Snapshot) -> Verdict {
        let record = &self.model.nodes[node];
        let (calls, subs) = (record.calls.len(), record.subs.len());
        ensure!(
            picture.serving == record.served.len(),
            "WAIT-7",
            "app-{node} serves {}, and was asked {} that it has not answered",
            picture.serving,
            record.served.len()
        );
        ensure!(
            picture.subscriptions == subs,
            "SUB-1",
            "app-{node} has {} subscriptions, and told of {subs}",
            picture.subscriptions
        );
        // A renewed subscription waits for its answer without being the App's call.
        ensure!(
            (calls..=calls + subs).contains(&picture.waiters),
            "WAIT-4",
            "app-{node} has {} waiters for {calls} calls",
            picture.waiters
        );
        let links = picture.links.len();
        let timers = 3 * links + picture.peers + picture.waiters;
        ensure!(
            picture.timers <= timers,
            "LINK-11",
            "app-{node} has {} timers for {links} links, {} peers, {} waiters",
            picture.timers,
            picture.peers,
            picture.waiters
        );
        if links == 0 {
            let left = [
                picture.messages,
                picture.waiters,
                picture.serving,
                picture.subscriptions,
                picture.listens,
            ];
            ensure!(
                left == [0; 5],
                "LINK-11",
                "app-{node} knows nobody and holds {left:?}"
            );
        }
        Ok(())
    }

    fn check_sums(&self, node: usize, picture: &Snapshot) -> Verdict {
        let core = &self.nodes[node].core;
        let undelivered = core.undelivered();
        let bytes: u64 = undelivered.iter().map(|one| one.bytes).sum();
        let sum =
            |of: fn(&nacp::LinkSnapshot) -> usize| picture.links.iter().map(of).sum::<usize>();
        let (backlog, pending) = (sum(|link| link.backlog), sum(|link| link.ack_pending));
        let (submitted, control) = (sum(|link| link.submitted), sum(|link| link.control));
        ensure!(
            backlog == picture.backlog.messages && pending == picture.ack_pending.messages,
            "CAP-5",
            "app-{node}: {backlog} and {pending} messages counted as {:?} and {:?}",
            picture.backlog,
            picture.ack_pending
        );
        // What a Gateway forwards and has submitted is counted under both names.
        let forwarded = sum(|link| link.forwarded.messages);
        let own = backlog + pending + submitted;
        ensure!(
            (own..=own + forwarded).contains(&undelivered.len())
                && (own + control..=own + control + forwarded).contains(&picture.messages),
            "CAP-5",
            "app-{node}: {} messages, of them {backlog} + {submitted} + {pending} queued and {control} control",
            picture.messages
        );
        let counted = picture.backlog.bytes + picture.ack_pending.bytes;
        ensure!(
            counted <= bytes && (submitted + forwarded > 0 || counted == bytes),
            "CAP-5",
            "app-{node}: {bytes} bytes counted as {counted}, {submitted} messages submitted"
        );
        ensure!(
            core.is_drained() == undelivered.is_empty(),
            "TERM-2",
            "app-{node}: drained: {}, undelivered: {}",
            core.is_drained(),
            undelivered.len()
        );
        Ok(())
    }

    /// What is not at rest yet; `None` when everything is.
    pub(crate) fn unrest(&self) -> Option<Broken> {
        for wish in &self.wishes {
            for (a, b) in [(wish.from, wish.to), (wish.to, wish.from)] {
                if self.model.nodes[a].links[b].state != State::Online {
                    let what = format!("app-{a} has not found back to app-{b}");
                    return Some(Broken::new("LINK-17", what));
                }
            }
        }
        for node in 0..self.nodes.len() {
            let busy = self.busy(node);
            if busy.is_some() {
                return busy;
            }
        }
        self.missing()
    }

    fn busy(&self, node: usize) -> Option<Broken> {
        let record = &self.model.nodes[node];
        for (id, call) in &record.calls {
            if !self.may_hang(node, call) {
                let what = format!("app-{node}: call {id} waits: {call:?}");
                return Some(Broken::new("WAIT-4", what));
            }
        }
        if let Some((id, served)) = record.served.iter().next() {
            let what = format!("app-{node}: request {id} is not answered: {served:?}");
            return Some(Broken::new("CAP-6", what));
        }
        let picture = self.nodes[node].core.snapshot();
        if picture.backlog.messages + picture.ack_pending.messages > 0
            || !self.nodes[node].core.is_drained()
        {
            let what = format!("app-{node}: not delivered: {picture:?}");
            return Some(Broken::new("LINK-3", what));
        }
        if let Some((send, (to, uid))) = record.sends.iter().next() {
            let what = format!("app-{node}: {send:?} ({uid}) to app-{to} is not settled");
            return Some(Broken::new("MSG-5", what));
        }
        None
    }

    /// Base peers do not say that they have lost their memory: who asked them before waits (LINK-15).
    fn may_hang(&self, node: usize, call: &crate::model::Call) -> bool {
        let forgot = self.model.epoch(call.to, node) != call.epoch;
        forgot
            && (self.settings.is_base_pair(node, call.to)
                || self.settings.is_forwarded(node, call.to))
    }

    /// Reliable messages that nobody has, and nobody was told of.
    fn missing(&self) -> Option<Broken> {
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                let pair = &self.model.pairs[from * 5 + to];
                let lost = |uid: &&u32| !self.model.msgs[**uid as usize].lost;
                if let Some(uid) = pair.outstanding.iter().find(lost) {
                    let kind = self.model.msgs[*uid as usize].kind;
                    let what = format!("{uid} ({kind:?}) of app-{from} never came to app-{to}");
                    return Some(Broken::new("MSG-7", what));
                }
            }
        }
        None
    }
}
