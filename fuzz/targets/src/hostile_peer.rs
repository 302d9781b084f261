//! One core between a friend and up to four strangers who send whatever they like, as fast as they like, and read or do
//! not. The core is a Gateway, so that no stranger becomes its Gateway, whom it would have to believe. What is asserted:
//! - no panic, and the core's picture of itself stays right ([`crate::world`]);
//! - what a stranger can make the core hold is bounded by what he sent and by the limits of the configuration;
//! - in half of the runs the core's application is asked who may register: nobody is bound whom it did not let in;
//! - every few operations the friend asks something, and is answered over the same connection as ever.

use std::time::Duration;

use arbitrary::Unstructured;
use bytes::Bytes;
use nacp::message::{Head, Meta, Registration, encode};
use nacp::{Answer, Config, Payload, RequestKind};

use crate::counting::live;
use crate::hostile;
use crate::world::{Call, What, World, app};

const ME: usize = 0;
const FRIEND: usize = 1;
const STRANGERS_MAX: usize = 4;
const OPS_MAX: usize = 300;
const HOLD: Duration = Duration::from_millis(20);
/// A message kept, its place in the queues, its id in the dedup window, the answers to it.
const PER_BYTE: isize = 64;
const CONSTANT: isize = 1 << 20;

/// Runs the target.
pub fn run(input: &[u8]) {
    // No input is too short: what is missing reads as zero.
    let _ = play(&mut Unstructured::new(input));
}

fn configs(limits: u8) -> Vec<Config> {
    let mut me = Config::new(app("a"));
    me.is_gateway = true;
    me.queue_count_max = if limits & 1 == 0 { 16 } else { 1_024 };
    me.queue_bytes_max = if limits & 2 == 0 { 64 << 10 } else { 4 << 30 };
    me.forward_count_max = me.queue_count_max;
    me.forward_bytes_max = 64 << 10;
    me.forward_hold = HOLD;
    me.batched_acks = limits & 8 == 0;
    me.asks_before_binding = limits & 16 != 0;
    me.subscriptions_max = 8;
    me.acks_waiting_max = 100;
    me.ack_timeout = Duration::from_millis(500);
    me.heartbeat_interval = (limits & 4 == 0).then_some(Duration::from_millis(400));
    me.reconnect_grace = Duration::from_secs(1);
    me.challenge_timeout = Duration::from_millis(100);
    let mut friend = me.clone();
    friend.app = app("b");
    friend.is_gateway = false;
    friend.asks_before_binding = false;
    // What is forwarded to him comes all at once here: more than he can ACK in between.
    friend.acks_waiting_max = Config::new(app("b")).acks_waiting_max;
    vec![me, friend]
}

fn play(u: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut world = World::new(configs(u.arbitrary()?));
    // Whoever reads the friend's register knows the token that makes him the friend (LINK-15): that is not a stranger.
    world.everything_is_overheard = false;
    world.connect(Some(FRIEND), Some(ME), &app("a"));
    world.flow();
    stranger(&mut world, "c", u.arbitrary()?);
    let (before, mut sent) = (live(), 0);
    for round in 0..OPS_MAX {
        if u.is_empty() {
            break;
        }
        sent += operation(u, &mut world)?;
        world.check();
        let held = live() - before;
        let bound = PER_BYTE * sent.cast_signed() + CONSTANT;
        assert!(held <= bound, "{held} bytes held after {sent} sent");
        if round % 8 == 7 {
            ask(&mut world);
        }
    }
    ask(&mut world);
    for node in [ME, FRIEND] {
        world.terminate(node);
    }
    Ok(())
}

/// One thing happens; gives the bytes that strangers sent.
fn operation(u: &mut Unstructured<'_>, world: &mut World) -> arbitrary::Result<usize> {
    let (code, which): (u8, u8) = (u.arbitrary()?, u.arbitrary()?);
    let strangers = world.conns.len() - 1;
    let conn = 1 + usize::from(which) % strangers;
    match code % 32 {
        0..20 => {
            let bytes = hostile::message(u, world)?;
            // Once more, and again: asking costs nothing.
            let times = if code & 0xe0 == 0xe0 { 40 } else { 1 };
            for _ in 0..times {
                world.lie(conn, &bytes);
            }
            return Ok(times * bytes.len());
        }
        20..23 if strangers < STRANGERS_MAX => {
            stranger(world, hostile::APPS[2 + usize::from(which) % 4], which);
        }
        20..24 => {
            world.pump(conn, 1, usize::from(which), false);
            world.accept(conn, 1, usize::from(code >> 5));
        }
        24 | 25 => {
            world.flow();
        }
        26 => world.cut(conn, [true, true]),
        27 | 28 => world.advance(Duration::from_millis(u64::from(which)), true),
        29 => {
            let payload = Payload::encode(&which).expect("a number");
            let now = world.now;
            world.nodes[ME].nacp.publish(now, "news", &payload, None);
            world.drain(ME);
        }
        _ => serve(world, usize::from(which)),
    }
    Ok(0)
}

/// Somebody connects and registers, as most who mean ill do first.
fn stranger(world: &mut World, name: &str, form: u8) {
    world.connect(None, Some(ME), &app("a"));
    let conn = world.conns.len() - 1;
    let registration = Registration {
        instance: (form & 1 == 0).then(|| "one".to_owned()),
        features: if form & 2 == 0 {
            vec![
                "reliable-notify".into(),
                "stream-credit".into(),
                "batched-acks".into(),
            ]
        } else {
            Vec::new()
        },
        ..Registration::default()
    };
    let payload = Payload::encode(&registration).expect("plain values");
    let id = format!("hello-{}", world.fresh());
    let head = Head {
        id: &id,
        from: name,
        to: "a",
        t_ms: 0,
        meta: Meta::Register,
    };
    let bytes: Bytes = encode(&head, Some(&payload)).to_bytes();
    world.lie(conn, &bytes);
}

/// The core's user answers up to `count` of those who wait.
fn serve(world: &mut World, count: usize) {
    let open: Vec<_> = world.nodes[ME].ledger.serving.keys().copied().collect();
    for serving in open.into_iter().take(count) {
        if !world.nodes[ME].ledger.serving.contains_key(&serving) {
            continue;
        }
        let answer = Answer::ok(Payload::default());
        let now = world.now;
        let answered = world.nodes[ME].nacp.respond(now, serving, &answer, false);
        answered.expect("there is always room for an answer: others fall");
        world.nodes[ME].ledger.serving.remove(&serving);
        world.drain(ME);
    }
}

/// The friend's call is answered, whatever the strangers do.
fn ask(world: &mut World) {
    let to = app("a");
    let (payload, now) = (Payload::default(), world.now);
    let friend = &mut world.nodes[FRIEND];
    let call = friend
        .nacp
        .request(now, &to, RequestKind::Ability, "do", &payload, None)
        .expect("the friend stays connected");
    let what = What::Ability;
    friend.ledger.calls.insert(call, Call { to, what });
    friend.ledger.done.clear();
    world.drain(FRIEND);
    talk(world);
    serve(world, usize::MAX);
    talk(world);
    assert_eq!(world.nodes[FRIEND].ledger.done, [(call, true)]);
}

/// Only the friend's connection moves: strangers may be as deaf as they like. When the core holds the friend, because
/// his answers to a stranger who is behind pile up, that ends by itself.
fn talk(world: &mut World) {
    for _ in 0..1_000 {
        let mut moved = 0;
        for end in 0..2 {
            moved += world.pump(0, end, usize::MAX, false);
            moved += world.accept(0, end, usize::MAX);
            moved += world.deliver(0, end, usize::MAX, false);
        }
        let held = world.conns[0].ends.iter().any(|end| end.held);
        if moved == 0 && !held {
            return;
        }
        if held {
            world.advance(HOLD, false);
        }
    }
    panic!("the friend's connection is never quiet");
}
