//! WAIT: received is not processed; every call ends once.

mod rig;

use std::time::Duration;

use nacp::message::Meta;
use nacp::*;
use rig::*;

#[test]
fn wait_1_wait_2_a_request_that_is_received_waits_for_its_response_without_limit() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.call("b", "r1");
    let id = rig.id_of(call);
    rig.out(peer);
    rig.ack(peer, "b", &id);
    rig.advance(Duration::from_secs(7 * 24 * 3_600));
    assert!(rig.events().is_empty());
    rig.answer(peer, "b", &id, None, &text("at last"));
    let response = Outcome::Response {
        is_ok: true,
        why_not_ok: None,
        payload: text("at last"),
    };
    assert_eq!(outcomes(&rig.events()), [(call, response)]);
}

#[test]
fn wait_2_wait_6_protocol_calls_end_after_ten_seconds_and_are_not_replayed() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.cut(peer);
    rig.events();
    let subscribe = rig
        .nacp
        .subscribe(rig.now, &app("b"), "task:*", false)
        .unwrap();
    rig.advance(Duration::from_millis(9_999));
    assert!(rig.events().is_empty());
    rig.advance(MS);
    assert_eq!(outcomes(&rig.events()), [(subscribe, Outcome::Timeout)]);
    assert_eq!(rig.nacp.snapshot().messages, 0);
    let peer = rig.register_unacked("b");
    assert!(rig.out(peer).is_empty());
}

#[test]
fn wait_6_a_subscribe_that_times_out_after_it_left_is_taken_back_at_the_remote() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let subscribe = rig
        .nacp
        .subscribe(rig.now, &app("b"), "task:*", false)
        .unwrap();
    let id = rig.id_of(subscribe);
    rig.out(peer);
    rig.ack(peer, "b", &id);
    rig.advance(Duration::from_secs(10));
    assert_eq!(outcomes(&rig.events()), [(subscribe, Outcome::Timeout)]);
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["unsubscribe"]);
}

#[test]
fn wait_3_a_business_call_lives_through_the_grace_and_ends_when_it_ends() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 1_000 * MS);
    let peer = rig.register("b");
    let call = rig.call("b", "r1");
    rig.cut(peer);
    rig.advance(999 * MS);
    assert!(outcomes(&rig.events()).is_empty());
    rig.advance(MS);
    assert_eq!(outcomes(&rig.events()), [(call, Outcome::PeerGone)]);
}

#[test]
fn wait_4_a_call_settles_once_whatever_comes_later() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.call("b", "r1");
    let id = rig.id_of(call);
    rig.out(peer);
    rig.answer(peer, "b", &id, Some("no"), &text("why"));
    rig.answer(peer, "b", &id, None, &text("yes"));
    let events = rig.events();
    let first = Outcome::Response {
        is_ok: false,
        why_not_ok: Some("no".to_owned()),
        payload: text("why"),
    };
    assert_eq!(outcomes(&events), [(call, first)]);
    assert_eq!(
        reports(&events),
        [("nacp:internal:response:error", "has-no-consumer")]
    );
}

#[test]
fn wait_4_a_call_ends_at_its_own_deadline_and_its_message_is_taken_back() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.cut(peer);
    rig.events();
    let until = rig.now + 500 * MS;
    let to = app("b");
    let call = rig
        .nacp
        .request(
            rig.now,
            &to,
            RequestKind::Ability,
            "do",
            &text("r1"),
            Some(until),
        )
        .unwrap();
    rig.advance(499 * MS);
    assert!(rig.events().is_empty());
    rig.advance(MS);
    assert_eq!(outcomes(&rig.events()), [(call, Outcome::Timeout)]);
    assert_eq!(rig.nacp.snapshot().backlog, QueueSize::default());
}

#[test]
fn wait_4_an_answer_counts_only_from_the_app_that_was_asked() {
    let mut rig = Rig::new(|_| {});
    let (b, c) = (rig.register("b"), rig.register("c"));
    let call = rig.call("b", "r1");
    let id = rig.id_of(call);
    rig.out(b);
    rig.answer(c, "c", &id, None, &text("forged"));
    assert!(outcomes(&rig.events()).is_empty());
    rig.answer(b, "b", &id, None, &text("true"));
    assert_eq!(outcomes(&rig.events()).len(), 1);
}

#[test]
fn wait_5_b41_an_evicted_request_is_rejected_at_once() {
    let mut rig = Rig::new(|config| config.queue_count_max = 8);
    let peer = rig.register("b");
    rig.cut(peer);
    rig.events();
    let first = rig.call("b", "r1");
    let fallen = rig.id_of(first);
    let others = (2..=10).map(|n| rig.call("b", &format!("r{n}")));
    let calls: Vec<_> = std::iter::once(first).chain(others).collect();
    let events = rig.events();
    assert_eq!(
        outcomes(&events),
        [
            (calls[0], Outcome::Discarded),
            (calls[1], Outcome::Discarded)
        ]
    );
    assert_eq!(
        reports(&events),
        [("nacp:internal:backlog:warning", "fifo-evicted"); 2]
    );
    let peer = rig.register_unacked("b");
    let sent = rig.out(peer);
    assert_eq!(texts(&sent).len(), 8);
    for request in &sent {
        rig.ack(peer, "b", &request.id);
        rig.answer(peer, "b", &request.id, None, &text("done"));
    }
    // What answers a call that fell changes nothing any more.
    rig.answer(peer, "b", &fallen, None, &text("late"));
    let events = rig.events();
    let ended: Vec<_> = outcomes(&events).iter().map(|ended| ended.0).collect();
    assert_eq!(ended, calls[2..], "each once");
    assert_eq!(
        reports(&events),
        [("nacp:internal:response:error", "has-no-consumer")]
    );
}

#[test]
fn wait_5_an_evicted_response_is_replaced_by_a_small_one_when_its_requester_is_back() {
    let mut rig = Rig::new(|config| config.queue_count_max = 2);
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    rig.out(peer);
    let serving = requests(&rig.events())[0].0;
    rig.cut(peer);
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("lost")), false)
        .unwrap();
    rig.signal_to("b", "m1");
    rig.signal_to("b", "m2");
    let peer = rig.register_unacked("b");
    let sent = rig.out(peer);
    let substitute = sent
        .iter()
        .find(|sent| sent.parent.as_deref() == Some("r1"))
        .expect("never silence");
    assert_eq!(
        (substitute.is_ok, substitute.why.as_deref()),
        (Some(false), Some("response-evicted"))
    );
    // Cut again before it is ACKed: it goes again. Once ACKed it does not.
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    let sent = rig.out(peer);
    let substitute = sent
        .iter()
        .find(|sent| sent.parent.as_deref() == Some("r1"))
        .unwrap();
    rig.ack(peer, "b", &substitute.id);
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    assert!(
        rig.out(peer)
            .iter()
            .all(|sent| sent.parent.as_deref() != Some("r1"))
    );
}

#[test]
fn wait_5_a_response_that_left_ack_pending_and_was_never_acked_is_made_good_after_a_cut() {
    let mut rig = Rig::new(|config| config.queue_count_max = 1);
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    rig.out(peer);
    let serving = requests(&rig.events())[0].0;
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("unsure")), false)
        .unwrap();
    rig.out(peer);
    rig.signal_to("b", "m1");
    rig.out(peer);
    assert!(
        rig.reports()
            .contains(&("nacp:internal:ack:warning", "pending-overflow"))
    );
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    let sent = rig.out(peer);
    assert!(
        sent.iter()
            .any(|sent| sent.why.as_deref() == Some("response-evicted")),
        "{sent:?}"
    );
}

#[test]
fn wait_5_a_request_that_left_ack_pending_is_rejected_if_the_link_breaks_before_its_ack() {
    let mut rig = Rig::new(|config| config.queue_count_max = 1);
    let peer = rig.register("b");
    let (r1, r2) = (rig.call("b", "r1"), ());
    let id = rig.id_of(r1);
    rig.out(peer);
    let r3 = rig.call("b", "r3");
    let id3 = rig.id_of(r3);
    rig.out(peer);
    let () = r2;
    rig.ack(peer, "b", &id3);
    assert!(
        outcomes(&rig.events()).is_empty(),
        "it may be answered still"
    );
    rig.cut(peer);
    assert_eq!(outcomes(&rig.events()), [(r1, Outcome::Discarded)]);
    let peer = rig.register("b");
    rig.answer(peer, "b", &id, None, &text("late"));
    assert_eq!(
        rig.reports(),
        [("nacp:internal:response:error", "has-no-consumer")]
    );
}

#[test]
fn wait_7_b49_a_cut_does_not_touch_a_running_handler_and_its_answer_comes_after_the_return() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 30_000 * MS);
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "job");
    let serving = requests(&rig.events())[0].0;
    rig.out(peer);
    rig.advance(3_000 * MS);
    rig.cut(peer);
    rig.advance(7_000 * MS);
    assert!(
        !rig.events()
            .iter()
            .any(|event| matches!(event, Event::RequesterGone { .. }))
    );
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("result")), false)
        .unwrap();
    rig.advance(2_000 * MS);
    let peer = rig.register_unacked("b");
    assert_eq!(texts(&rig.out(peer)), ["result"]);
}

#[test]
fn wait_7_b49_a_requester_that_never_returns_ends_its_handler_at_the_end_of_the_grace() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 30_000 * MS);
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "job");
    rig.cut(peer);
    rig.events();
    rig.advance(30_000 * MS);
    let gone = rig
        .events()
        .iter()
        .filter(|event| matches!(event, Event::RequesterGone { .. }))
        .count();
    assert_eq!((gone, rig.nacp.snapshot().serving), (1, 0));
}

#[test]
fn b44_calls_in_every_place_end_once_with_the_grace() {
    for variant in ["grace", "unregister", "disconnect", "terminate"] {
        let mut rig = Rig::new(|config| config.reconnect_grace = 2_000 * MS);
        let peer = rig.register("b");
        let r4 = rig.call("b", "r4");
        let r3 = rig.call("b", "r3");
        let sent = rig.out(peer);
        rig.ack(peer, "b", &sent[0].id);
        let r2 = rig.call("b", "r2");
        rig.submit(peer);
        let r1 = rig.call("b", "r1");
        rig.events();
        let expected = match variant {
            "terminate" => Outcome::Terminated,
            _ => Outcome::PeerGone,
        };
        match variant {
            "grace" => {
                rig.cut(peer);
                rig.advance(2_000 * MS);
            }
            "unregister" => {
                rig.send(peer, "b", "bye", Meta::Unregister, None);
                rig.out(peer);
            }
            "disconnect" => drop(rig.nacp.disconnect(rig.now, &app("b"))),
            _ => rig.nacp.terminate(),
        }
        let ended: Vec<_> = [r4, r3, r2, r1].map(|call| (call, expected.clone())).into();
        assert_eq!(outcomes(&rig.events()), ended, "{variant}");
        let snapshot = rig.nacp.snapshot();
        assert_eq!(
            (snapshot.messages, snapshot.waiters, snapshot.links.len()),
            (0, 0, 0),
            "{variant}"
        );
    }
}

#[test]
fn a_cancelled_call_reports_nothing_and_takes_its_unsent_request_back() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let unsent = rig.call("b", "unsent");
    assert!(rig.nacp.cancel(rig.now, unsent));
    assert!(!rig.nacp.cancel(rig.now, unsent));
    assert!(rig.out(peer).is_empty());
    let sent = rig.call("b", "sent");
    let id = rig.id_of(sent);
    rig.out(peer);
    rig.nacp.cancel(rig.now, sent);
    rig.ack(peer, "b", &id);
    rig.answer(peer, "b", &id, None, &text("unwanted"));
    let events = rig.events();
    assert!(outcomes(&events).is_empty());
    assert_eq!(
        reports(&events),
        [("nacp:internal:response:error", "has-no-consumer")]
    );
}
