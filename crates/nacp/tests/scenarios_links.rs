//! Failures that users of comparable systems reported, between two cores over a wire that misbehaves: who is who after a
//! break, what is noticed when, and what becomes of calls that were open.

mod pair;

use std::time::Duration;

use nacp::*;
use pair::*;

fn notified(event: &Event) -> bool {
    matches!(event, Event::Notify { .. })
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
    let restarted = |event: &Event| {
        matches!(
            event,
            Event::Online {
                restarted: true,
                ..
            }
        )
    };
    assert_eq!(pair.b.count(restarted), 1, "told once");
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
    assert!(pair.a.only_answered(call));

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

/// A connection that is long replaced ends at last: before the new one comes, while it registers, and after it did.
#[test]
fn b23_link_14_the_end_of_an_old_connection_never_takes_the_new_one_along() {
    for late in [None, Some(1), Some(2), Some(3), Some(50)] {
        let mut pair = Pair::online();
        let old = pair.newest();
        pair.black_hole(1);
        pair.run(50 * MS);
        if late.is_none() {
            pair.cut();
        }
        pair.dial();
        if let Some(late) = late {
            pair.run(late * MS);
            pair.end(old);
        }
        pair.run_until(50 * MS, |pair| {
            pair.a.is_online("b") && pair.b.is_online("a")
        });
        let before = (pair.a.count(offline), pair.b.count(offline));
        pair.run(100 * MS);
        pair.call("m1");
        pair.run(1_000 * MS);
        assert_eq!(pair.b.handled, ["m1"], "{late:?}");
        assert_eq!(pair.a.outcomes().len(), 1, "{late:?}");
        let after = (pair.a.count(offline), pair.b.count(offline));
        assert_eq!(after, before, "{late:?}: who is back stays");
    }
}

/// The same program five times in 100 ms is no other program.
#[test]
fn b26_link_14_a_program_that_reconnects_five_times_in_a_row_is_bound_and_left_alone() {
    let mut pair = Pair::online();
    for _ in 0..5 {
        pair.dial();
        pair.run(20 * MS);
    }
    assert!(pair.a.is_online("b") && pair.b.is_online("a"));
    for n in 1..=20 {
        pair.call(&format!("m{n}"));
        pair.run(500 * MS);
    }
    assert_eq!(pair.b.handled.len(), 20);
    assert_eq!(
        (pair.b.count(online), pair.b.count(offline)),
        (6, 0),
        "bound six times, and nothing happened since"
    );
    assert_eq!(pair.connections(), 1);
}

/// What it sends says nothing of what it hears.
#[test]
fn b33_hb_3_sending_all_the_time_does_not_postpone_the_watchdog() {
    let mut pair = Pair::online();
    pair.b
        .nacp
        .subscribe(pair.now, &app("a"), "news", false)
        .unwrap();
    pair.run(20 * MS);
    pair.black_hole(1);
    let last_heard = pair.now + pair.latency;
    let before = pair.b.count(notified);
    while pair.a.is_online("b") {
        pair.a
            .nacp
            .publish(pair.now, "news", &text("still here"), None);
        pair.run(50 * MS);
        assert!(pair.now - last_heard <= 300 * MS);
    }
    assert!(pair.b.count(notified) > before, "they did arrive");
}

/// The register is not answered by whom it was meant for, but by the program that was started in its place.
#[test]
fn b48_link_15_a_call_made_while_registering_with_a_restarted_program_is_answered() {
    let mut pair = Pair::online();
    pair.restart_b(9);
    pair.latency = 40 * MS;
    pair.dial();
    pair.run(50 * MS);
    let call = pair.call("m1");
    pair.run(500 * MS);
    assert_eq!(pair.b.handled, ["m1"]);
    assert!(pair.a.only_answered(call));
}
