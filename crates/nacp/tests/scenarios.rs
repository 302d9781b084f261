//! Failures that users of comparable systems reported, between two cores over a wire that misbehaves. Messages are
//! requests, whose handler runs are recorded: once, and in order.

mod pair;

use std::time::Duration;

use nacp::message::Meta;
use nacp::*;
use pair::*;

fn offline(event: &Event) -> bool {
    matches!(event, Event::Offline { .. })
}

fn online(event: &Event) -> bool {
    matches!(event, Event::Online { .. })
}

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

#[test]
fn b25_link_15_of_two_graces_that_differ_the_shorter_ends_the_session_for_both() {
    let mut short = config("a");
    short.reconnect_grace = 1_000 * MS;
    let mut pair = Pair::new(short, config("b"));
    pair.dial();
    pair.run(10 * MS);
    pair.b.answers = false;
    pair.call("m1");
    let to = app("a");
    let old = pair
        .b
        .nacp
        .request(pair.now, &to, RequestKind::Ability, "do", &text("x"), None)
        .unwrap();
    pair.a.answers = false;
    pair.run(10 * MS);
    pair.cut();
    pair.run(1_500 * MS);
    assert_eq!(pair.a.outcomes().len(), 1, "dropped here");
    let serving = pair.b.open[0];
    pair.b
        .nacp
        .respond(pair.now, serving, &Answer::ok(text("late")), false)
        .unwrap();
    pair.dial();
    pair.run(20 * MS);
    assert_eq!(pair.b.outcomes(), [(old, Outcome::PeerRestarted)]);
    let strays = |event: &Event| matches!(event, Event::Report(report) if report.reason == "has-no-consumer");
    assert_eq!(
        pair.a.count(strays),
        0,
        "nothing of the old session reaches the new one"
    );
    pair.b.answers = true;
    pair.call("m2");
    pair.run(20 * MS);
    assert_eq!(pair.a.outcomes().len(), 2);
}

#[test]
fn b27_link_14_an_early_reconnect_over_a_new_connection_is_accepted_and_never_deaf() {
    let mut pair = Pair::online();
    pair.black_hole(0);
    pair.black_hole(1);
    pair.run(50 * MS);
    pair.frozen[1] = true;
    pair.dial();
    pair.call("m1");
    pair.run(190 * MS);
    pair.frozen[1] = false;
    pair.run(20 * MS);
    assert!(pair.a.is_online("b") && pair.b.is_online("a"));
    assert_eq!(pair.b.handled, ["m1"]);
    assert_eq!(pair.b.count(offline), 0, "taken over, not lost");
}

#[test]
fn b31_hb_3_both_ends_notice_a_half_open_idle_link_and_the_call_follows_the_grace() {
    let mut pair = Pair::online();
    pair.b.answers = false;
    let call = pair.call("m1");
    pair.run(50 * MS);
    pair.black_hole(0);
    pair.black_hole(1);
    pair.run(300 * MS);
    assert!(!pair.a.is_online("b") && !pair.b.is_online("a"));
    let closes = |event: &Event| matches!(event, Event::ClosePeer { .. });
    assert_eq!((pair.a.count(closes), pair.b.count(closes)), (1, 1));
    assert!(pair.a.outcomes().is_empty());
    pair.run(2_000 * MS);
    assert_eq!(pair.a.outcomes(), [(call, Outcome::PeerGone)]);
}

#[test]
fn b35_link_18_a_short_freeze_is_survived_and_a_long_one_found_out_once() {
    let mut pair = Pair::online();
    pair.b.answers = false;
    let call = pair.call("m1");
    pair.run(20 * MS);
    pair.frozen[0] = true;
    pair.run(1_000 * MS);
    pair.frozen[0] = false;
    pair.run(5 * MS);
    pair.dial();
    pair.run(20 * MS);
    let serving = pair.b.open[0];
    pair.b
        .nacp
        .respond(pair.now, serving, &Answer::ok(text("done")), false)
        .unwrap();
    pair.run(20 * MS);
    assert!(matches!(&pair.a.outcomes()[..], [(done, Outcome::Response { .. })] if *done == call));

    let call = pair.call("m2");
    pair.run(20 * MS);
    pair.frozen[0] = true;
    pair.run(Duration::from_secs(10));
    pair.frozen[0] = false;
    pair.run(5 * MS);
    pair.dial();
    pair.run(50 * MS);
    let last = pair.a.outcomes().pop().unwrap();
    assert!(
        matches!(last, (ended, Outcome::PeerRestarted | Outcome::PeerGone) if ended == call),
        "{last:?}"
    );
    assert_eq!(pair.a.outcomes().len(), 2);
}

#[test]
fn b48_link_13_a_call_made_while_registering_again_waits_and_is_answered() {
    let mut pair = Pair::online();
    pair.cut();
    pair.latency = 40 * MS;
    pair.dial();
    pair.run(50 * MS);
    pair.call("m1");
    assert!(pair.a.outcomes().is_empty());
    pair.run(35 * MS);
    assert!(
        pair.b.handled.is_empty(),
        "not before the handshake is done"
    );
    pair.run(500 * MS);
    assert_eq!((pair.b.handled.len(), pair.a.outcomes().len()), (1, 1));
}

#[test]
fn b60_two_hundred_reconnects_leave_as_much_as_one() {
    let mut pair = Pair::online();
    let subscription = pair
        .a
        .nacp
        .subscribe(pair.now, &app("b"), "task:*", false)
        .unwrap();
    pair.run(10 * MS);
    let mut sizes = Vec::new();
    for _ in 0..200 {
        pair.cut();
        pair.dial();
        pair.run(20 * MS);
        let (a, b) = (pair.a.nacp.snapshot(), pair.b.nacp.snapshot());
        sizes.push((
            a.messages,
            a.timers,
            a.peers,
            a.subscriptions,
            b.listens,
            b.timers,
            b.peers,
            b.messages,
        ));
    }
    assert_eq!(sizes.first(), sizes.last());
    pair.b
        .nacp
        .publish(pair.now, "task:done", &text("hit"), None);
    pair.run(10 * MS);
    let target = NotifyTarget::Subscription(subscription);
    let hit = |event: &Event| matches!(event, Event::Notify { target: got, .. } if *got == target);
    assert_eq!(pair.a.count(hit), 1);
}

#[test]
fn b10_cap_6_a_replay_never_overruns_the_window_and_no_clock_runs_before_acceptance() {
    let mut window = config("a");
    window.queue_count_max = 10;
    window.overflow = Overflow::Wait;
    let mut pair = Pair::new(window, config("b"));
    pair.latency = 20 * MS;
    pair.dial();
    pair.run(100 * MS);
    pair.cut();
    let mut sent = 0;
    let mut fill = |pair: &mut Pair| {
        let kind = RequestKind::Ability;
        while sent < 200 {
            let value = text(&format!("m{}", sent + 1));
            match pair
                .a
                .nacp
                .request(pair.now, &app("b"), kind, "do", &value, None)
            {
                Ok(_) => sent += 1,
                Err(error) => return assert_eq!(error, SendError::Full),
            }
        }
    };
    fill(&mut pair);
    pair.run(1_000 * MS);
    pair.dial();
    for _ in 0..2_000 {
        pair.run(MS);
        fill(&mut pair);
        assert!(pair.a.nacp.snapshot().ack_pending.messages <= 10);
    }
    assert_eq!(pair.b.handled, values(1..=200));
    assert_eq!(pair.a.count(offline), 1, "only the cut itself");
}
