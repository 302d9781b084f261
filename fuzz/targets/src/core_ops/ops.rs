//! One operation on the world: a verb of a user, a caprice of the network, time, or a lie.

use std::time::Duration;

use arbitrary::Unstructured;

use super::verbs::{self, Verb};
use crate::hostile::{self, APPS};
use crate::world::{World, app};

#[derive(Debug)]
pub(super) enum Op {
    Verb {
        node: u8,
        verb: Verb,
    },
    /// Everything that can move, moves.
    Flow,
    Pump {
        conn: u8,
        end: usize,
        count: u8,
        urgent: bool,
    },
    Accept {
        conn: u8,
        end: usize,
        count: u8,
    },
    Deliver {
        conn: u8,
        end: usize,
        count: u8,
        overtake: bool,
    },
    /// Bytes of a message that is not complete yet came.
    Progress {
        conn: u8,
        end: usize,
    },
    Cut {
        conn: u8,
        told: [bool; 2],
    },
    Connect {
        dialer: u8,
        acceptor: u8,
        expect: u8,
    },
    Advance {
        ms: u64,
        flowing: bool,
    },
    Jump {
        ms: u64,
    },
    Restart {
        node: u8,
    },
    /// Somebody who follows no rules connects, or is dialled.
    Stranger {
        node: u8,
        dialled: bool,
        expect: u8,
    },
    /// He sends something; what it is follows.
    Lie {
        conn: u8,
    },
}

const TIMES: [u64; 8] = [1, 7, 20, 50, 100, 200, 500, 1_100];

impl Op {
    pub(super) fn read(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let code: u8 = u.arbitrary()?;
        let (a, b): (u8, u8) = (u.arbitrary()?, u.arbitrary()?);
        let end = usize::from(b & 1);
        let count = 1 + (b >> 2) % 32;
        let flag = b & 2 != 0;
        let ms = TIMES[usize::from(a & 7)];
        Ok(match code % 32 {
            0..9 => Self::Verb {
                node: a,
                verb: Verb::read(u, b)?,
            },
            9..11 => Self::Flow,
            11..14 => Self::Pump {
                conn: a,
                end,
                count,
                urgent: b >= 0xe0,
            },
            14..16 => Self::Accept {
                conn: a,
                end,
                count,
            },
            16..18 => Self::Deliver {
                conn: a,
                end,
                count,
                overtake: flag,
            },
            18 => Self::Progress { conn: a, end },
            19..21 => Self::Cut {
                conn: a,
                told: [b & 1 == 0, b & 2 == 0],
            },
            21..23 => Self::Connect {
                dialer: a,
                acceptor: b,
                expect: b >> 2,
            },
            23..25 => Self::Advance { ms, flowing: flag },
            25 => Self::Jump { ms },
            26 if a >= 0x80 => Self::Restart { node: b },
            26..28 => Self::Stranger {
                node: a,
                dialled: flag,
                expect: b >> 2,
            },
            _ => Self::Lie { conn: a },
        })
    }

    pub(super) fn apply(
        self,
        world: &mut World,
        u: &mut Unstructured<'_>,
    ) -> arbitrary::Result<()> {
        let (nodes, conns) = (world.nodes.len(), world.conns.len());
        let node_of = |number: u8| usize::from(number) % nodes;
        // The latest connections are those that matter.
        let conn_of = |number: u8| conns - 1 - usize::from(number) % conns;
        match self {
            Self::Verb { node, verb } => verbs::apply(world, node_of(node), verb),
            Self::Flow => world.flow(),
            Self::Pump {
                conn,
                end,
                count,
                urgent,
            } => {
                world.pump(conn_of(conn), end, count.into(), urgent);
            }
            Self::Accept { conn, end, count } => {
                world.accept(conn_of(conn), end, count.into());
            }
            Self::Deliver {
                conn,
                end,
                count,
                overtake,
            } => {
                world.deliver(conn_of(conn), end, count.into(), overtake);
            }
            Self::Progress { conn, end } => world.progress(conn_of(conn), end),
            Self::Cut { conn, told } => world.cut(conn_of(conn), told),
            Self::Connect {
                dialer,
                acceptor,
                expect,
            } => {
                let (dialer, acceptor) = (node_of(dialer), node_of(acceptor));
                let right = if expect < 0x38 { acceptor } else { dialer };
                world.connect(Some(dialer), Some(acceptor), &app(APPS[right]));
            }
            Self::Advance { ms, flowing } => world.advance(Duration::from_millis(ms), flowing),
            Self::Jump { ms } => world.jump(Duration::from_millis(ms)),
            Self::Restart { node } => world.restart(node_of(node)),
            Self::Stranger {
                node,
                dialled,
                expect,
            } => {
                let node = Some(node_of(node));
                let (dialer, acceptor) = if dialled { (node, None) } else { (None, node) };
                let expect = APPS[usize::from(expect) % APPS.len()];
                world.connect(dialer, acceptor, &app(expect));
            }
            Self::Lie { conn } => {
                let conn = conn_of(conn);
                let bytes = hostile::message(u, world)?;
                world.lie(conn, &bytes);
            }
        }
        Ok(())
    }
}
