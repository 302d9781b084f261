//! Makes up what happens next. What this module keeps true: the choice depends on the seed and on the state of the
//! world alone; what makes sense now is likely, what is merely possible is possible too.

use crate::op::Op;
use crate::rng::Rng;
use crate::world::{MS, World};

/// The faults, by the bit of `Settings::fault_mask` that allows them.
const FAULTS: [Fault; 16] = [
    Fault::Reset,
    Fault::Reset,
    Fault::Block,
    Fault::Unblock,
    Fault::Stall,
    Fault::Resume,
    Fault::Cut,
    Fault::Heal,
    Fault::Dial,
    Fault::LateDial,
    Fault::Freeze,
    Fault::Restart,
    Fault::SilentRestart,
    Fault::Disconnect,
    Fault::Terminate,
    Fault::LongFreeze,
];

#[derive(Clone, Copy, Debug)]
enum Fault {
    Reset,
    Block,
    Unblock,
    Stall,
    Resume,
    Cut,
    Heal,
    Dial,
    LateDial,
    Freeze,
    LongFreeze,
    Restart,
    SilentRestart,
    Disconnect,
    Terminate,
}

impl World {
    /// The next Op.
    pub(crate) fn generate(&self, rng: &mut Rng) -> Op {
        let settings = &self.settings;
        if rng.chance(settings.advance_rate) {
            return advance(rng, settings.advance_us);
        }
        if rng.chance(settings.fault_rate) {
            let bit = rng.below(FAULTS.len() as u64);
            if settings.fault_mask >> bit & 1 == 1 {
                return self.fault(rng, FAULTS[bit as usize]);
            }
        }
        self.ask(rng)
    }

    fn two(&self, rng: &mut Rng) -> (u32, u32) {
        let count = self.nodes.len() as u64;
        let a = rng.below(count);
        let b = (a + 1 + rng.below(count - 1)) % count;
        (a as u32, b as u32)
    }

    fn size(&self, rng: &mut Rng) -> u32 {
        let max = self.settings.payload_max;
        match rng.below(8) {
            0 => rng.below(max + 1) as u32,
            _ => rng.below(max.min(40) + 1) as u32,
        }
    }

    fn ask(&self, rng: &mut Rng) -> Op {
        let (node, to) = self.two(rng);
        let calls = self.nodes[node as usize].calls.len() as u64;
        let size = self.size(rng);
        match rng.below(100) {
            0..=44 => {
                let event = u32::from(rng.chance(500));
                Op::Request {
                    node,
                    to,
                    event,
                    delay_ms: rng.pick(&[0, 0, 0, 1, 5, 50, 800]),
                    chunks: if event == 1 {
                        rng.pick(&[0, 1, 2, 3, 8, 15])
                    } else {
                        0
                    },
                    ok: u32::from(rng.chance(900)),
                    size,
                    deadline_ms: rng.pick(&[0, 0, 0, 0, 0, 1, 40, 2_000]),
                }
            }
            45..=64 if calls > 0 => Op::Signal {
                node,
                call: rng.below(calls) as u32,
                kind: rng.pick(&[0, 0, 0, 1, 2, 3]),
                size,
            },
            65..=67 if calls > 0 => Op::Cancel {
                node,
                call: rng.below(calls) as u32,
            },
            68..=69 => Op::Introduce { node, to },
            70..=74 => Op::Subscribe {
                node,
                to,
                pattern: rng.below(8) as u32,
                lossless: u32::from(rng.chance(500)),
            },
            75..=78 => Op::Unsubscribe {
                node,
                sub: rng.below(16) as u32,
            },
            79..=93 => Op::Publish {
                node,
                name: rng.below(8) as u32,
                size,
            },
            _ => advance(rng, self.settings.advance_us),
        }
    }

    fn fault(&self, rng: &mut Rng, fault: Fault) -> Op {
        let (node, to) = self.two(rng);
        let conn = rng.below(16) as u32;
        let side = rng.below(2) as u32;
        let notice = |rng: &mut Rng| rng.pick(&[0, 0, 0, 1, 20, 900]);
        match fault {
            Fault::Reset => Op::Reset {
                conn,
                dialler_ms: notice(rng),
                acceptor_ms: notice(rng),
                flush: side,
            },
            Fault::Block => Op::Block { conn, side },
            Fault::Unblock => Op::Unblock { conn, side },
            Fault::Stall => Op::Stall { conn, side },
            Fault::Resume => Op::Resume { conn, side },
            Fault::Cut => Op::Cut { a: node, b: to },
            Fault::Heal => Op::Heal { a: node, b: to },
            Fault::Dial => Op::Dial {
                node,
                to,
                delay_ms: 0,
            },
            Fault::LateDial => Op::Dial {
                node,
                to,
                delay_ms: rng.below(2_000) as u32,
            },
            Fault::Freeze => Op::Freeze {
                node,
                ms: rng.below(300) as u32,
                clock_stops: side,
            },
            Fault::LongFreeze => Op::Freeze {
                node,
                ms: rng.below(8_000) as u32,
                clock_stops: side,
            },
            Fault::Restart => Op::Restart { node, silent: 0 },
            Fault::SilentRestart => Op::Restart { node, silent: 1 },
            Fault::Disconnect => Op::Disconnect { node, to },
            Fault::Terminate => Op::Terminate { node },
        }
    }
}

/// Mostly the usual step; now and then long enough for timeouts.
fn advance(rng: &mut Rng, usual_us: u64) -> Op {
    let nanos = match rng.below(100) {
        0 => 400 * MS,
        1..=4 => 40 * MS,
        _ => (usual_us * 1_000).max(Op::STEP_NANOS),
    };
    let most = (nanos * 2 / Op::STEP_NANOS).min(65_535);
    Op::Advance {
        steps: rng.between(1, most) as u32,
    }
}
