//! Failures that users of comparable systems reported, between two cores over a wire that misbehaves: what is lost, doubled
//! or out of order around a break. Messages are requests, whose handler runs are recorded: once, and in order.

mod pair;

use nacp::message::Meta;
use nacp::*;
use pair::*;

fn values(range: std::ops::RangeInclusive<usize>) -> Vec<String> {
    range.map(|n| format!("m{n}")).collect()
}

#[test]
fn b01_link_6_a_link_that_dies_without_a_sign_loses_nothing_and_doubles_nothing() {
    let mut pair = Pair::online();
    pair.black_hole(0);
    pair.black_hole(1);
    pair.run(10 * MS);
    pair.call("m1");
    pair.run(40 * MS);
    pair.call("m2");
    pair.run(350 * MS);
    assert!(!pair.a.is_online("b"));
    pair.call("m3");
    pair.run(500 * MS);
    assert!(pair.b.handled.is_empty());
    assert!(pair.a.outcomes().is_empty() && pair.a.settled().is_empty());
    pair.dial();
    pair.run(50 * MS);
    assert_eq!(pair.b.handled, values(1..=3));
    assert_eq!((pair.a.count(offline), pair.a.count(online)), (1, 2));
    assert_eq!(pair.a.outcomes().len(), 3);
}

#[test]
fn b04_link_9_a_lost_ack_does_not_run_a_message_twice() {
    let mut pair = Pair::online();
    let mut lost = false;
    pair.lose(1, move |envelope| {
        matches!(envelope.meta, Meta::Ack { .. }) && !std::mem::replace(&mut lost, true)
    });
    pair.b.answers = false;
    pair.call("m1");
    pair.run(100 * MS);
    pair.call("m2");
    pair.run_until(200 * MS, |pair| !pair.a.is_online("b"));
    pair.dial();
    pair.run(50 * MS);
    assert_eq!(pair.b.handled, values(1..=2));
    assert_eq!(pair.a.nacp.snapshot().ack_pending, QueueSize::default());
}

#[test]
fn b05_msg_7_a_thousand_random_cuts_keep_send_order() {
    for seed in 0..1_000u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut pick = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut pair = Pair::online();
        pair.latency = MS * u32::try_from(pick(4)).unwrap();
        for n in 1..=25 {
            pair.call(&format!("m{n}"));
            if pick(4) == 0 {
                pair.run(MS * u32::try_from(pick(3)).unwrap());
            }
            if pick(10) == 0 {
                pair.cut();
                if pick(2) == 0 {
                    pair.dial();
                }
            }
        }
        pair.cut();
        pair.dial();
        pair.run(50 * MS);
        assert_eq!(pair.b.handled, values(1..=25), "seed {seed}");
        assert_eq!(pair.a.outcomes().len(), 25, "seed {seed}");
    }
}

#[test]
fn b16_link_14_a_frozen_program_runs_each_request_once_when_it_thaws() {
    let mut pair = Pair::online();
    pair.frozen[1] = true;
    pair.call("m1");
    pair.run(300 * MS);
    assert!(!pair.a.is_online("b"));
    for pause in [500, 900, 200] {
        pair.dial();
        pair.run(pause * MS);
    }
    pair.frozen[1] = false;
    pair.run(50 * MS);
    assert_eq!(pair.b.handled, ["m1"]);
    assert_eq!(pair.a.outcomes().len(), 1);
    assert!(pair.a.is_online("b") && pair.b.is_online("a"));
}

#[test]
fn b20_wait_4_a_restarted_program_is_not_taken_for_its_former_self() {
    let mut pair = Pair::online();
    for n in 1..=3 {
        pair.call(&format!("m{n}"));
    }
    pair.run(10 * MS);
    // The caller dies and is back in 100 ms, with its old name.
    pair.cut();
    pair.a = Node::new(config("a"), 77);
    pair.run(100 * MS);
    pair.dial();
    pair.run(10 * MS);
    for n in 4..=8 {
        pair.call(&format!("m{n}"));
    }
    pair.run(20 * MS);
    assert_eq!(pair.b.handled, values(1..=8));
}

#[test]
fn b22_link_15_a_peer_that_lost_its_memory_is_noticed() {
    // Killed before it ACKed: the request goes to the new incarnation.
    let mut pair = Pair::online();
    pair.lose(1, |envelope| {
        matches!(envelope.meta, Meta::Ack { .. } | Meta::Response { .. })
    });
    pair.call("m1");
    pair.run(10 * MS);
    assert_eq!(pair.b.handled, ["m1"]);
    pair.restart_b(9);
    pair.run(200 * MS);
    pair.dial();
    pair.run(20 * MS);
    assert!(pair.a.events.iter().any(|event| matches!(
        event,
        Event::Online {
            restarted: true,
            ..
        }
    )));
    assert_eq!(pair.b.handled, ["m1", "m1"], "once in each incarnation");
    assert_eq!(pair.a.outcomes().len(), 1);
    // Killed after it ACKed: whether it was carried out is unknown, and the caller is told so.
    let mut pair = Pair::online();
    pair.b.answers = false;
    let call = pair.call("m1");
    pair.run(10 * MS);
    pair.restart_b(9);
    pair.run(200 * MS);
    pair.dial();
    pair.run(20 * MS);
    assert_eq!(pair.a.outcomes(), [(call, Outcome::PeerRestarted)]);
    assert_eq!(pair.b.handled, ["m1"]);
}

/// A thousand messages of 64 KiB through a window of ten, at 20 ms each, with 10 ms to spare before the ACK timeout.
#[test]
fn b10_cap_6_a_replay_never_overruns_the_window_and_no_clock_runs_before_acceptance() {
    const MESSAGES: usize = 1_024;
    let pad = "x".repeat(64 << 10);
    let mut window = config("a");
    window.queue_count_max = 10;
    window.overflow = Overflow::Wait;
    // Longer than a round trip, which is all the others' time here.
    let mut other = config("b");
    for end in [&mut window, &mut other] {
        end.heartbeat_interval = Some(400 * MS);
    }
    let mut pair = Pair::new(window, other);
    pair.latency = 94 * MS;
    pair.dial();
    pair.run(400 * MS);
    pair.serve_signals();
    pair.cut();
    let mut sends = Vec::new();
    let mut fill = |pair: &mut Pair| {
        while sends.len() < MESSAGES {
            match pair.try_signal(&format!("m{} {pad}", sends.len() + 1)) {
                Ok(send) => sends.push((send, true)),
                Err(error) => return assert_eq!(error, SendError::Full),
            }
        }
    };
    fill(&mut pair);
    pair.run(1_000 * MS);
    pair.dial();
    for _ in 0..21_000 {
        pair.run(MS);
        fill(&mut pair);
        assert!(pair.a.nacp.snapshot().ack_pending.messages <= 10);
    }
    let handled = |value: &String| value.split(' ').next().unwrap().to_owned();
    let handled: Vec<_> = pair.b.handled.iter().map(handled).collect();
    assert_eq!(handled, values(1..=MESSAGES));
    assert_eq!(pair.a.settled(), sends, "each was ACKed, in order");
    assert_eq!(pair.a.count(offline), 1, "only the cut itself");
    assert_eq!(pair.a.count(|event| matches!(event, Event::Report(_))), 0);
}

/// Its ACK and its answer are lost for ten seconds, and it comes again with every connection.
#[test]
fn b19_msg_4_a_request_that_is_sent_again_for_ten_seconds_runs_once() {
    let mut pair = Pair::online();
    let call = pair.call("m1");
    for _ in 0..20 {
        pair.lose(1, |envelope| {
            matches!(envelope.meta, Meta::Response { .. } | Meta::Ack { .. })
        });
        pair.run(500 * MS);
        assert!(!pair.a.is_online("b"), "its ACK is overdue");
        assert_eq!(pair.b.handled, ["m1"]);
        pair.dial();
        pair.run(3 * MS);
    }
    pair.run(50 * MS);
    assert_eq!(pair.b.handled, ["m1"]);
    assert!(pair.a.only_answered(call));
}
