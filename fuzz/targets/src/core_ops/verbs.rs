//! What an App's user does. What this module keeps true: everything that the core gives out is written into the ledger
//! before the events that belong to it are taken.

use std::time::Duration;

use arbitrary::Unstructured;
use nacp::{Answer, Payload, RequestKind, SendError, ServingId, SignalKind};

use crate::hostile::APPS;
use crate::world::{Call, What, World, app};

#[derive(Debug)]
pub(super) enum Verb {
    Request {
        to: u8,
        event: bool,
        size: usize,
        deadline: Option<u64>,
    },
    Signal {
        which: u8,
        kind: SignalKind,
    },
    SignalTo {
        to: u8,
        which: u8,
    },
    Cancel {
        which: u8,
    },
    Subscribe {
        to: u8,
        pattern: u8,
        lossless: bool,
    },
    Unsubscribe {
        which: u8,
    },
    Publish {
        size: usize,
    },
    Respond {
        which: u8,
        is_ok: bool,
        size: usize,
        tracked: bool,
    },
    Emit {
        which: u8,
        size: usize,
        tracked: bool,
    },
    Taken {
        which: u8,
        count: u64,
    },
    Disconnect {
        to: u8,
    },
    Terminate,
    Other {
        which: u8,
    },
}

const SIZES: [usize; 8] = [0, 0, 10, 100, 300, 800, 1_500, 5_000];
const PATTERNS: [&str; 4] = ["news", "news:*", "*", "not:valid:"];
const SIGNALS: [SignalKind; 4] = [
    SignalKind::Normal,
    SignalKind::Pause,
    SignalKind::Resume,
    SignalKind::Abort,
];

impl Verb {
    pub(super) fn read(u: &mut Unstructured<'_>, which: u8) -> arbitrary::Result<Self> {
        let (code, detail): (u8, u8) = (u.arbitrary()?, u.arbitrary()?);
        let size = SIZES[usize::from(detail & 7)];
        let (flag, tracked) = (detail & 8 != 0, detail & 16 != 0);
        let to = which;
        Ok(match code % 32 {
            0..9 => Self::Request {
                to,
                event: flag,
                size,
                deadline: (detail >= 0xc0).then(|| u64::from(detail & 0x3f) * 5),
            },
            9 => Self::Signal {
                which,
                kind: SIGNALS[usize::from(detail & 3)],
            },
            10..12 => Self::SignalTo { to, which: detail },
            12 => Self::Cancel { which },
            13..15 => Self::Subscribe {
                to,
                pattern: detail & 3,
                lossless: flag,
            },
            15 => Self::Unsubscribe { which },
            16 | 17 => Self::Publish { size },
            18..22 => Self::Respond {
                which,
                is_ok: flag,
                size,
                tracked,
            },
            22..27 => Self::Emit {
                which,
                size,
                tracked,
            },
            27 => Self::Taken {
                which,
                count: u64::from(detail >> 2),
            },
            28 => Self::Disconnect { to },
            29 if detail < 32 => Self::Terminate,
            _ => Self::Other { which: detail },
        })
    }
}

pub(super) fn apply(world: &mut World, node: usize, verb: Verb) {
    match verb {
        Verb::Request {
            to,
            event,
            size,
            deadline,
        } => {
            let deadline = deadline.map(|ms| world.now + Duration::from_millis(ms));
            request(world, node, to, event, size, deadline);
        }
        Verb::Signal { which, kind } => signal(world, node, which, kind),
        Verb::SignalTo { to, which } => signal_to(world, node, to, which),
        Verb::Cancel { which } => cancel(world, node, which),
        Verb::Subscribe {
            to,
            pattern,
            lossless,
        } => subscribe(world, node, to, pattern, lossless),
        Verb::Unsubscribe { which } => unsubscribe(world, node, which),
        Verb::Publish { size } => {
            let payload = world.stamped(size);
            let now = world.now;
            world.nodes[node].nacp.publish(now, "news", &payload, None);
        }
        Verb::Respond {
            which,
            is_ok,
            size,
            tracked,
        } => {
            if let Some(serving) = nth(world.nodes[node].ledger.serving.keys(), which) {
                respond(world, node, serving, is_ok, size, tracked);
            }
        }
        Verb::Emit {
            which,
            size,
            tracked,
        } => emit(world, node, which, size, tracked),
        Verb::Taken { which, count } => {
            if let Some(call) = nth(world.nodes[node].ledger.calls.keys(), which) {
                world.nodes[node].nacp.taken(call, count);
            }
        }
        Verb::Disconnect { to } => {
            let to = to_app(to);
            let now = world.now;
            world.nodes[node].nacp.disconnect(now, &to);
        }
        Verb::Terminate => world.terminate(node),
        Verb::Other { which } => other(world, node, which),
    }
    world.drain(node);
}

fn nth<'a, T: Copy + 'a>(mut all: impl ExactSizeIterator<Item = &'a T>, which: u8) -> Option<T> {
    let length = all.len().max(1);
    all.nth(usize::from(which) % length).copied()
}

/// Mostly those who are there.
fn to_app(number: u8) -> nacp::AppId {
    let all = if number >= 0xf0 { APPS.len() } else { 3 };
    app(APPS[usize::from(number) % all])
}

fn request(
    world: &mut World,
    node: usize,
    to: u8,
    event: bool,
    size: usize,
    deadline: Option<nacp::Instant>,
) {
    let (to, payload, now) = (to_app(to), world.stamped(size), world.now);
    let (kind, what) = match event {
        true => (RequestKind::Event, What::Event),
        false => (RequestKind::Ability, What::Ability),
    };
    let nacp = &mut world.nodes[node].nacp;
    if let Ok(call) = nacp.request(now, &to, kind, "do", &payload, deadline) {
        world.nodes[node]
            .ledger
            .calls
            .insert(call, Call { to, what });
    }
}

fn signal(world: &mut World, node: usize, which: u8, kind: SignalKind) {
    let (payload, now) = (world.stamped(0), world.now);
    let node = &mut world.nodes[node];
    let Some(call) = nth(node.ledger.calls.keys(), which) else {
        return;
    };
    match node.nacp.signal(now, call, kind, Some(&payload)) {
        Ok(send) => assert!(node.ledger.sends.insert(send)),
        Err(error) => assert_ne!(error, SendError::Gone, "{call:?} is open"),
    }
}

fn signal_to(world: &mut World, node: usize, to: u8, which: u8) {
    let (to, payload, now) = (to_app(to), world.stamped(usize::from(which)), world.now);
    let node = &mut world.nodes[node];
    let request = nth(node.ledger.calls.keys(), which)
        .and_then(|call| node.nacp.call_message_id(call).cloned())
        .unwrap_or_else(|| "some-request".into());
    let sent = node
        .nacp
        .signal_to(now, &to, &request, SignalKind::Normal, Some(&payload));
    if let Ok(send) = sent {
        assert!(node.ledger.sends.insert(send));
    }
}

fn cancel(world: &mut World, node: usize, which: u8) {
    let now = world.now;
    let node = &mut world.nodes[node];
    if let Some(call) = nth(node.ledger.calls.keys(), which) {
        assert!(node.nacp.cancel(now, call), "{call:?} is open");
        node.ledger.calls.remove(&call);
        node.ledger.subscriptions.remove(&call);
        assert!(!node.nacp.cancel(now, call));
    }
}

fn subscribe(world: &mut World, node: usize, to: u8, pattern: u8, lossless: bool) {
    let (to, now) = (to_app(to), world.now);
    let node = &mut world.nodes[node];
    let pattern = PATTERNS[usize::from(pattern)];
    if let Ok(call) = node.nacp.subscribe(now, &to, pattern, lossless) {
        node.ledger.subscriptions.insert(call, (to.clone(), false));
        let what = What::Subscribe;
        node.ledger.calls.insert(call, Call { to, what });
    }
}

fn unsubscribe(world: &mut World, node: usize, which: u8) {
    let now = world.now;
    let node = &mut world.nodes[node];
    let Some(subscription) = nth(node.ledger.subscriptions.keys(), which) else {
        return;
    };
    let (to, _) = node
        .ledger
        .subscriptions
        .remove(&subscription)
        .expect("listed");
    node.ledger.calls.remove(&subscription);
    if let Some(call) = node.nacp.unsubscribe(now, subscription) {
        let what = What::Unsubscribe;
        node.ledger.calls.insert(call, Call { to, what });
    }
}

fn respond(
    world: &mut World,
    node: usize,
    serving: ServingId,
    is_ok: bool,
    size: usize,
    tracked: bool,
) {
    let (payload, now) = (world.stamped(size), world.now);
    let node = &mut world.nodes[node];
    let answer = Answer {
        is_ok,
        why_not_ok: (!is_ok).then(|| "no".to_owned()),
        payload,
    };
    match node.nacp.respond(now, serving, &answer, tracked) {
        Ok(send) => {
            node.ledger.serving.remove(&serving);
            if tracked {
                assert!(node.ledger.sends.insert(send));
            }
            let again = node.nacp.respond(now, serving, &answer, tracked);
            assert_eq!(again, Err(SendError::Gone), "answered twice");
        }
        Err(error) => assert_ne!(error, SendError::Gone, "{serving:?} is served"),
    }
}

fn emit(world: &mut World, node: usize, which: u8, size: usize, tracked: bool) {
    let (payload, now) = (world.stamped(size), world.now);
    let node = &mut world.nodes[node];
    let Some(serving) = nth(node.ledger.serving.keys(), which) else {
        return;
    };
    let is_event = node.ledger.serving[&serving] == RequestKind::Event;
    assert_eq!(node.nacp.process_name(serving).is_some(), is_event);
    match node.nacp.emit(now, serving, &payload, tracked) {
        Ok(send) if tracked => assert!(node.ledger.sends.insert(send)),
        Ok(_) => {}
        Err(error) => assert_eq!(error == SendError::Gone, !is_event, "{error:?}"),
    }
}

/// What changes little and must not break anything.
fn other(world: &mut World, node: usize, which: u8) {
    let to = to_app(which);
    let node = &mut world.nodes[node];
    match which % 4 {
        0 => node.nacp.mix_entropy([which; 32]),
        1 => node.nacp.forget_dialled(&to),
        2 => node.nacp.observe_forwarded(which & 4 == 0),
        _ => {
            let sendable = node.nacp.check_route(&to).is_ok();
            assert!(sendable || node.nacp.link_state(&to).is_none());
            assert!(!node.nacp.is_listened("nobody:listens:to:this:one"));
        }
    }
}

/// Answers what is being served, wherever there is room; tells whether anything was answered.
pub(super) fn answer_all(world: &mut World) -> bool {
    let mut any = false;
    for node in 0..world.nodes.len() {
        let open: Vec<ServingId> = world.nodes[node].ledger.serving.keys().copied().collect();
        for serving in open {
            if world.nodes[node].ledger.serving.contains_key(&serving) {
                let empty = Answer::ok(Payload::default());
                let now = world.now;
                let answered = world.nodes[node].nacp.respond(now, serving, &empty, false);
                if answered.is_ok() {
                    world.nodes[node].ledger.serving.remove(&serving);
                    any = true;
                }
                world.drain(node);
            }
        }
    }
    any
}
