//! Liveness. What this module keeps true: once the faults have stopped, everything that can still happen happens within
//! a time that the settings bound: links come back, messages arrive, calls end, queues empty.

use crate::broken::{Broken, Verdict};
use crate::settings::Settings;
use crate::world::{MS, World};

/// How often it is looked whether all is at rest.
const LOOK: u64 = 50 * MS;

impl World {
    /// Stops all faults, and waits until everything is at rest.
    pub(crate) fn calm_down(&mut self) -> Verdict {
        self.cut = [[false; 5]; 5];
        (self.settings.refusals, self.settings.verdict_ms) = (0, 0);
        for node in 0..self.nodes.len() {
            self.thaw(node)?;
        }
        for conn in self.live.clone() {
            for side in 0..2 {
                self.block(conn, side, false);
                self.stall(conn, side, false)?;
            }
        }
        for wish in 0..self.wishes.len() {
            self.wishes[wish].wanted = true;
            if self.wishes[wish].attempt.is_none() {
                self.plan_redial(wish);
            }
        }
        let until = self.now + self.patience();
        loop {
            self.advance(LOOK)?;
            let Some(unrest) = self.unrest() else { break };
            if self.now >= until {
                let state = self.picture();
                return Err(Broken::new(
                    unrest.rule,
                    format!("{} (for ever)\n{state}", unrest.what),
                ));
            }
        }
        for node in 0..self.nodes.len() {
            self.check(node, true)?;
        }
        self.check_subscriptions()
    }

    /// Longer than any honest delay: timeouts, a whole grace, backoff, slow handlers one after the other.
    fn patience(&self) -> u64 {
        let settings = &self.settings;
        let timeouts = settings.ack_timeout_ms * 8 + settings.heartbeat_ms * 8;
        (timeouts + settings.grace_ms * 2 + settings.protocol_timeout_ms * 4 + 120_000) * MS
    }

    /// SUB-1: both sides agree who subscribes to whom.
    fn check_subscriptions(&self) -> Verdict {
        for node in 0..self.nodes.len() {
            for link in self.nodes[node].core.snapshot().links {
                let other = self.model.node_named(link.app.as_str())?;
                if self.settings.is_forwarded(node, other) {
                    // Whether the other side forgot is not told through a Gateway.
                    continue;
                }
                let theirs = self.nodes[other].core.snapshot();
                let app = Settings::app(node);
                let Some(back) = theirs.links.iter().find(|link| link.app == app) else {
                    continue;
                };
                // Base peers forget without a word, and what the other side has stays there (LINK-8).
                let forgot = self.model.epoch(node, other) + self.model.epoch(other, node) > 0;
                if forgot && self.settings.is_base_pair(node, other) {
                    continue;
                }
                if back.listens > link.subscriptions + self.model.strays(node, other)
                    || back.listens < link.subscriptions
                {
                    let what = format!(
                        "app-{node} has {} subscriptions on app-{other}, which knows {}",
                        link.subscriptions, back.listens
                    );
                    return Err(Broken::new("SUB-1", what));
                }
            }
        }
        Ok(())
    }

    /// Everything, for people.
    pub(crate) fn picture(&self) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            text += &format!("{:?}\n", node.core);
            for one in node.core.undelivered() {
                text += &format!("  undelivered {one:?}\n");
            }
        }
        for &conn in &self.live {
            text += &format!("conn {conn}: {:?}\n", self.conns[conn as usize]);
        }
        text
    }
}
