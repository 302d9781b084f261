//! Who is there, and under which limits: small ones, so that they are met. What this module keeps true: every interval
//! is above zero and every count at least one, as the core may expect.

use std::time::Duration;

use arbitrary::Unstructured;
use nacp::{Config, Overflow};

use crate::hostile::APPS;
use crate::world::{World, app};

/// How the Apps stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    /// Two of the same kind.
    Pair,
    /// Three, each with each.
    Mesh,
    /// The first is a Gateway for the others.
    Star,
}

#[derive(Debug)]
pub(super) struct Setup {
    topology: Topology,
    limits: [u8; 3],
    pub(super) heals: bool,
}

impl Setup {
    pub(super) fn read(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let first: u8 = u.arbitrary()?;
        Ok(Self {
            topology: match first & 3 {
                0 | 1 => Topology::Pair,
                2 => Topology::Mesh,
                _ => Topology::Star,
            },
            heals: first >> 5 == 7,
            limits: u.arbitrary()?,
        })
    }

    /// The Apps, connected and registered.
    pub(super) fn world(&self) -> World {
        let nodes = if self.topology == Topology::Pair {
            2
        } else {
            3
        };
        let mut world = World::new((0..nodes).map(|node| self.config(node)).collect());
        if world.trace {
            eprintln!("{self:?}");
        }
        let pairs: &[(usize, usize)] = match self.topology {
            Topology::Pair => &[(1, 0)],
            Topology::Mesh => &[(1, 0), (2, 0), (2, 1)],
            Topology::Star => &[(1, 0), (2, 0)],
        };
        for &(dialer, acceptor) in pairs {
            world.connect(Some(dialer), Some(acceptor), &app(APPS[acceptor]));
        }
        world.flow();
        world.check();
        world
    }

    fn config(&self, node: usize) -> Config {
        let ms = Duration::from_millis;
        let bits = self.limits[node];
        let pick = |at: u8, of: [u64; 2]| of[usize::from(bits >> at) & 1];
        let mut config = Config::new(app(APPS[node]));
        config.queue_count_max = pick(0, [4, 64]) as usize;
        config.queue_bytes_max = pick(1, [4 << 30, 4_000]);
        config.overflow = match pick(2, [0, 1]) {
            0 => Overflow::Evict,
            _ => Overflow::Wait,
        };
        config.heartbeat_interval = (bits & 8 == 0).then_some(ms(150));
        config.delivery_attempts_max = pick(4, [32, 3]) as u32;
        config.lossless_streams = bits & 32 == 0;
        config.stream_window = pick(6, [3, 512]);
        config.batched_acks = bits & 64 == 0;
        config.forward_count_max = pick(0, [4, 64]) as usize;
        config.forward_bytes_max = pick(1, [64 << 20, 4_000]);
        config.forward_hold = ms(30);
        config.is_gateway = self.topology == Topology::Star && node == 0;
        config.auto_multi_gateway_downgrade = bits & 128 != 0;
        config.large_message_bytes = 700;
        config.message_bytes_max = 3_000;
        config.acks_waiting_max = 30;
        config.subscriptions_max = 3;
        config.ack_timeout = ms(200);
        config.reconnect_grace = ms(1_000);
        config.protocol_timeout = ms(400);
        config.challenge_timeout = ms(60);
        config
    }
}
