//! The whole core: two or three of them, the network between them, their users, and whoever else comes. What is
//! asserted after every operation is in [`crate::world`]: each event is one that may happen now, and the core's picture
//! of itself agrees with its driver's. At the end, in one run of eight, everybody hostile goes and everything heals:
//! then no call may stay open and no message stay behind; and in all runs `terminate` must leave nothing.

mod ops;
mod setup;
mod verbs;

use std::time::Duration;

use arbitrary::Unstructured;

use crate::world::World;
use ops::Op;
use setup::Setup;

const OPS_MAX: usize = 200;

/// Runs the target.
pub fn run(input: &[u8]) {
    // No input is too short: what is missing reads as zero.
    let _ = play(&mut Unstructured::new(input));
}

fn play(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let setup = Setup::read(u)?;
    let mut world = setup.world();
    for _ in 0..OPS_MAX {
        if u.is_empty() {
            break;
        }
        let op = Op::read(u)?;
        if world.trace {
            eprintln!("{:?} {op:?}", world.now);
        }
        op.apply(&mut world, u)?;
        world.check();
    }
    if setup.heals {
        heal(&mut world);
    }
    for node in 0..world.nodes.len() {
        world.terminate(node);
        world.check();
    }
    Ok(())
}

/// Nobody waits for ever (WAIT-4, LINK-16): given a network that works, a handler that answers, and time.
fn heal(world: &mut World) {
    if world.trace {
        eprintln!("{:?} heals", world.now);
    }
    for conn in 0..world.conns.len() {
        if world.conns[conn].is_hostile() || world.conns[conn].is_half_open() {
            world.cut(conn, [true, true]);
        }
    }
    for _ in 0..10 {
        world.flow();
        // Full queues (CAP-6) take a few answers at a time.
        while verbs::answer_all(world) {
            world.flow();
        }
        world.advance(Duration::from_millis(500), true);
        world.check();
    }
    world.flow();
    let past = &world.past;
    for (index, node) in world.nodes.iter().enumerate() {
        let open = &node.ledger.calls;
        // Who was asked may have forgotten it, unseen; or somebody with a stolen name has ACKed it.
        let excused = past.stranger || (past.gateway && past.forgotten);
        assert!(open.is_empty() || excused, "{index} still waits: {open:?}");
        for link in node.nacp.snapshot().links {
            let left = (link.backlog, link.submitted, link.ack_pending);
            let online = matches!(link.state, nacp::LinkState::Online { .. });
            if online && link.reach == nacp::Reach::Direct {
                assert_eq!(left, (0, 0, 0), "{index} is stuck: {link:?}");
            }
        }
    }
}
