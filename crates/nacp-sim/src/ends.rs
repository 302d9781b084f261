//! Judges how things end. What this module keeps true: each call, send and subscription ends once (WAIT-4, MSG-5), in a
//! way that its history allows.

use nacp::{CallId, Instant, Outcome, SendId};

use crate::broken::{Broken, Verdict, ensure};
use crate::model::{Asked, Model};

impl Model {
    pub(crate) fn sub_ended(&mut self, node: usize, call: CallId, outcome: &Outcome) -> Verdict {
        let Some(sub) = self.nodes[node].subs.remove(&call.as_u64()) else {
            return Err(Broken::new(
                "SUB-1",
                format!("app-{node}: {call:?} ended twice"),
            ));
        };
        let legal = match outcome {
            Outcome::PeerGone => self.facts.dropped[sub.to],
            Outcome::Terminated => self.facts.terminated,
            Outcome::Response { is_ok, .. } => !is_ok,
            Outcome::Timeout => true,
            Outcome::Discarded => self.facts.evicted > 0 || self.nodes[node].overflowed,
            Outcome::PeerRestarted => false,
        };
        ensure!(
            legal && sub.established,
            "SUB-1",
            "app-{node}: subscription {call:?} (established: {}) ended by {outcome:?}",
            sub.established
        );
        Ok(())
    }

    pub(crate) fn settled(&mut self, node: usize, send: SendId, delivered: bool) -> Verdict {
        let Some((to, uid)) = self.nodes[node].sends.remove(&send) else {
            return Err(Broken::new(
                "MSG-5",
                format!("app-{node}: {send:?} settled twice, or unknown"),
            ));
        };
        let Some(msg) = self.msg(uid).copied() else {
            return Ok(());
        };
        if delivered {
            let forwarded = self.settings.is_forwarded(node, to);
            ensure!(
                msg.handled > 0 || !msg.kind.is_reliable() || forwarded,
                "MSG-5",
                "app-{node}: {uid} ({:?}) to app-{to} settled true, and nobody has it",
                msg.kind
            );
            return Ok(());
        }
        let facts = &self.facts;
        let legal = msg.lost || facts.dropped[to] || facts.restarted[to] || facts.terminated;
        ensure!(
            legal,
            "MSG-5",
            "app-{node}: {uid} ({:?}) to app-{to} settled false for no reason",
            msg.kind
        );
        if let Some(msg) = self.msg(uid) {
            msg.lost = true;
        }
        Ok(())
    }

    pub(crate) fn done(
        &mut self,
        node: usize,
        now: Instant,
        id: CallId,
        outcome: &Outcome,
    ) -> Verdict {
        let Some(call) = self.nodes[node].calls.remove(&id.as_u64()) else {
            return Err(Broken::new(
                "WAIT-4",
                format!("app-{node}: {id:?} ended twice, or was never made: {outcome:?}"),
            ));
        };
        let answered = matches!(outcome, Outcome::Response { .. });
        if call.asked == Asked::Subscribe {
            match outcome {
                Outcome::Response { is_ok: true, .. } => {
                    if let Some(sub) = self.nodes[node].subs.get_mut(&id.as_u64()) {
                        sub.established = true;
                    }
                }
                _ => drop(self.nodes[node].subs.remove(&id.as_u64())),
            }
        }
        // WAIT-6: an unsubscribe that timed out is not sent again, so the other side keeps its row.
        let unheard = call.asked == Asked::Unsubscribe;
        self.nodes[node].strays[call.to] += usize::from(unheard && !answered);
        let lost = self.msg(call.uid).is_some_and(|msg| msg.lost);
        let legal = match outcome {
            Outcome::Response {
                is_ok,
                why_not_ok,
                payload,
            } => return self.answered_call(node, &call, *is_ok, why_not_ok.as_deref(), payload),
            Outcome::Timeout => call.deadline.is_some_and(|deadline| deadline <= now),
            Outcome::Discarded => {
                lost || (call.uid == 0 && (self.facts.evicted > 0 || self.nodes[node].overflowed))
            }
            Outcome::PeerGone => self.facts.dropped[call.to],
            Outcome::PeerRestarted => self.lost_memory_of(node, &call),
            Outcome::Terminated => self.facts.terminated,
        };
        ensure!(
            legal,
            "WAIT-4",
            "app-{node}: {id:?} to app-{} ({:?}, {}) ended by {outcome:?} for no reason",
            call.to,
            call.asked,
            call.uid
        );
        if let Some(msg) = self.msg(call.uid) {
            msg.lost = true;
            msg.call = 0;
        }
        Ok(())
    }

    /// LINK-15: the remote had it, and has lost its memory since.
    fn lost_memory_of(&self, node: usize, call: &crate::model::Call) -> bool {
        let epoch = self.epoch(call.to, node);
        let base = self.settings.is_base_pair(node, call.to);
        let handled = call.uid == 0 || {
            let msg = &self.msgs[call.uid as usize];
            msg.handled > 0 && msg.handled_epoch != epoch
        };
        !base && handled && epoch != call.epoch && self.facts.restarted[call.to]
    }
}
