//! Who may register, where a program has a word in it. What this module keeps true: nobody is bound who was not asked
//! about and let in; each register is asked about once; and while a program ponders it sees nothing else of that
//! connection, which may end meanwhile, as may everything else.

use nacp::PeerId;

use crate::broken::{Verdict, ensure};
use crate::model::{Door, Model};
use crate::net::{Stage, conn_of, peer_of};
use crate::settings::Settings;
use crate::world::{MS, Wake, World};

impl World {
    /// The program was asked.
    pub(crate) fn ponder(&mut self, peer: PeerId) {
        let (conn, side) = conn_of(peer);
        self.conns[conn as usize].ends[side].asked = true;
        let delay = self.rng.below(self.settings.verdict_ms * MS + 1);
        let side = side as u8;
        self.schedule(self.now + delay, Wake::Verdict { conn, side });
    }

    /// The program answers, and looks at what came meanwhile.
    pub(crate) fn decide(&mut self, conn: u32, side: usize) -> Verdict {
        let end = &mut self.conns[conn as usize].ends[side];
        end.asked = false;
        if end.stage != Stage::Up {
            // Too late. A core must not mind, if it is still the one that asked.
            if end.life == self.nodes[end.node].life {
                self.answer_door(conn, side);
            }
            return Ok(());
        }
        let node = end.node;
        self.answer_door(conn, side);
        self.settle(node)?;
        self.look_at_inbox(conn, side)?;
        let end = &self.conns[conn as usize].ends[side];
        if end.asked || end.stage != Stage::Up {
            return Ok(());
        }
        self.settle(node)?;
        let out = &self.conns[conn as usize].ends[1 - side].out;
        if out.unread > 0 && !out.stalled {
            return self.read(conn, 1 - side);
        }
        self.notice_end(conn, 1 - side)
    }

    fn answer_door(&mut self, conn: u32, side: usize) {
        let refuses = self.rng.chance(self.settings.refusals);
        let node = self.conns[conn as usize].ends[side].node;
        let verdict = if refuses { Err("not now") } else { Ok(()) };
        let door = if refuses { Door::Shut } else { Door::Open };
        self.model.dials[conn as usize].door = Some(door);
        let now = self.local(node);
        let core = &mut self.nodes[node].core;
        core.admit_register(now, peer_of(conn, side), verdict);
    }
}

impl Model {
    pub(crate) fn asked(&mut self, node: usize, peer: PeerId, app: &str) -> Verdict {
        let (conn, side) = conn_of(peer);
        let from = self.node_named(app)?;
        let dial = &mut self.dials[conn as usize];
        ensure!(
            Settings::names(self.settings.asks_mask, node)
                && side == 1
                && dial.ends == [from, node],
            "LINK-2",
            "app-{node} is asked about app-{from} on connection {conn}, which is not its"
        );
        let before = dial.door.replace(Door::Asked);
        ensure!(
            before.is_none(),
            "LINK-2",
            "app-{node} is asked about app-{from} on connection {conn} again, after {before:?}"
        );
        Ok(())
    }

    /// `other` was bound.
    pub(crate) fn let_in(&mut self, node: usize, other: usize, peer: PeerId) -> Verdict {
        let (conn, side) = conn_of(peer);
        let dial = &self.dials[conn as usize];
        let direct = side == 1 && dial.ends == [other, node];
        if !direct || !Settings::names(self.settings.asks_mask, node) {
            return Ok(());
        }
        let door = dial.door;
        ensure!(
            door == Some(Door::Open),
            "LINK-2",
            "app-{node}: app-{other} was bound over connection {conn}, and its door is {door:?}"
        );
        Ok(())
    }
}
