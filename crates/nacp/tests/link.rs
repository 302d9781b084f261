//! LINK: online, offline, back, dropped.

mod rig;

use std::time::Duration;

use nacp::message::Meta;
use nacp::*;
use rig::*;

fn offline(rig: &mut Rig, peer: PeerId) {
    rig.cut(peer);
    rig.events();
}

#[test]
fn link_1_link_2_a_registered_app_is_online_then_offline_then_dropped() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 2_000 * MS);
    let peer = rig.accept();
    assert_eq!(rig.nacp.link_state(&app("b")), None);
    rig.send_register(peer, "b", &Rig::registration(None, &[], false));
    assert_eq!(links(&rig.events()), [("online", "b".to_owned())]);
    assert_eq!(
        rig.nacp.link_state(&app("b")),
        Some(LinkState::Online { peer })
    );
    rig.cut(peer);
    assert_eq!(links(&rig.events()), [("offline", "b".to_owned())]);
    assert_eq!(
        rig.nacp.link_state(&app("b")),
        Some(LinkState::Offline {
            until: rig.now + 2_000 * MS
        })
    );
    rig.advance(1_999 * MS);
    assert_eq!(links(&rig.events()), []);
    rig.advance(MS);
    assert_eq!(links(&rig.events()), [("dropped", "b".to_owned())]);
    assert_eq!(rig.nacp.link_state(&app("b")), None);
}

#[test]
fn link_3_an_online_message_passes_through_the_backlog_and_does_not_stay() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.signal_to("b", "m1");
    assert_eq!(rig.nacp.snapshot().backlog.messages, 1);
    assert_eq!(rig.nacp.poll_wake(), Some(peer));
    assert_eq!(texts(&rig.submit(peer)), ["m1"]);
    assert_eq!(rig.nacp.snapshot().backlog, QueueSize::default());
}

#[test]
fn link_4a_a_closed_connection_takes_its_apps_offline() {
    let mut rig = Rig::new(|_| {});
    let (b, c) = (rig.register("b"), rig.register("c"));
    rig.cut(b);
    assert_eq!(links(&rig.events()), [("offline", "b".to_owned())]);
    assert_eq!(
        rig.nacp.link_state(&app("c")),
        Some(LinkState::Online { peer: c })
    );
}

#[test]
fn link_4b_a_missing_ack_takes_the_app_offline_at_the_ack_timeout_and_closes_the_connection() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    let peer = rig.register("b");
    rig.advance(50 * MS);
    rig.signal_to("b", "m1");
    rig.out(peer);
    rig.advance(199 * MS);
    assert!(rig.events().is_empty());
    rig.advance(MS);
    let events = rig.events();
    assert_eq!(reports(&events), [("nacp:internal:ack:warning", "timeout")]);
    assert_eq!(links(&events), [("offline", "b".to_owned())]);
    assert_eq!(closed(&events), [(peer, "ack-timeout".to_owned())]);
}

#[test]
fn link_5_going_offline_keeps_waiters_and_subscriptions() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.event_call("b", "r1");
    let subscription = rig
        .nacp
        .subscribe(rig.now, &app("b"), "task:*", false)
        .unwrap();
    for message in rig.out(peer) {
        rig.ack(peer, "b", &message.id);
    }
    rig.send(
        peer,
        "b",
        "sub-1",
        Meta::Subscribe,
        Some(&map("targetSubName", "x:*")),
    );
    let id = rig.id_of(subscription);
    rig.answer(peer, "b", &id, None, &map("targetSubId", &id));
    rig.out(peer);
    rig.events();
    rig.cut(peer);
    let events = rig.events();
    assert!(outcomes(&events).is_empty());
    let link = &rig.nacp.snapshot().links[0];
    assert_eq!((link.waiters, link.subscriptions, link.listens), (1, 1, 1));
    assert!(rig.nacp.call_message_id(call).is_some());
    // Both still work after the return.
    let peer = rig.register("b");
    assert_eq!(rig.nacp.publish(rig.now, "x:y", &text("hit"), None), 1);
    rig.out(peer);
    let call_id = rig.id_of(call);
    rig.send(
        peer,
        "b",
        "n1",
        notify(&call_id, "nacp:event:x:process"),
        Some(&text("chunk")),
    );
    rig.send(
        peer,
        "b",
        "n2",
        notify(&id, "task:done"),
        Some(&text("done")),
    );
    let targets: Vec<_> = rig
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Notify { target, .. } => Some(target),
            _ => None,
        })
        .collect();
    assert_eq!(
        targets,
        [
            NotifyTarget::Call(call),
            NotifyTarget::Subscription(subscription)
        ]
    );
}

#[test]
fn link_6_everything_unacked_and_unaccepted_returns_to_the_front_in_send_order() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    for n in 1..=4 {
        rig.signal_to("b", &format!("m{n}"));
    }
    let submitted = rig.submit(peer);
    rig.nacp.handle_accepted(rig.now, peer, submitted[0].token);
    rig.nacp.handle_accepted(rig.now, peer, submitted[1].token);
    rig.ack(peer, "b", &submitted[1].id);
    rig.signal_to("b", "m5");
    offline(&mut rig, peer);
    rig.signal_to("b", "m6");
    let link = &rig.nacp.snapshot().links[0];
    assert_eq!((link.backlog, link.submitted, link.ack_pending), (5, 0, 0));
    let peer = rig.register_unacked("b");
    assert_eq!(texts(&rig.out(peer)), ["m1", "m3", "m4", "m5", "m6"]);
}

#[test]
fn link_7_messages_sent_while_offline_wait_in_the_backlog() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    offline(&mut rig, peer);
    rig.signal_to("b", "m1");
    rig.advance(Duration::from_secs(100));
    assert_eq!(rig.nacp.snapshot().backlog.messages, 1);
}

#[test]
fn link_8_a_register_inside_the_grace_replays_after_the_handshakes_own_messages() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 2_000 * MS);
    let peer = rig.register("b");
    offline(&mut rig, peer);
    rig.signal_to("b", "m1");
    rig.signal_to("b", "m2");
    rig.advance(1_999 * MS);
    let peer = rig.accept();
    rig.send_register(peer, "b", &Rig::registration(None, &[], false));
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["ack", "response", "signal", "signal"]);
    assert_eq!(texts(&sent[2..]), ["m1", "m2"]);
    for message in &sent[1..] {
        rig.ack(peer, "b", &message.id);
    }
    rig.advance(Duration::from_secs(600));
    assert_eq!(
        links(&rig.events()),
        [("online", "b".to_owned())],
        "the grace is cancelled"
    );
}

#[test]
fn link_9_a_replayed_message_is_acked_again_and_not_processed_again() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    assert_eq!(requests(&rig.events()).len(), 1);
    assert_eq!(rig.out(peer)[0].parent.as_deref(), Some("r1"));
    offline(&mut rig, peer);
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    assert_eq!(requests(&rig.events()), []);
    let sent = rig.out(peer);
    assert_eq!(
        (kinds(&sent), sent[0].parent.as_deref()),
        (vec!["ack"], Some("r1"))
    );
}

#[test]
fn link_10_unregister_is_answered_and_drops_the_app_when_the_answer_is_accepted() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.send(peer, "b", "bye", Meta::Unregister, None);
    let sent = rig.submit(peer);
    assert_eq!(kinds(&sent), ["ack", "response"]);
    assert!(
        rig.nacp.link_state(&app("b")).is_some(),
        "not before the answer is accepted"
    );
    rig.nacp.handle_accepted(rig.now, peer, sent[0].token);
    rig.nacp.handle_accepted(rig.now, peer, sent[1].token);
    let events = rig.events();
    assert_eq!(links(&events), [("dropped", "b".to_owned())]);
    assert_eq!(closed(&events), [(peer, "unregistered".to_owned())]);
}

#[test]
fn link_10_a_connection_that_breaks_during_the_farewell_drops_without_grace() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.send(peer, "b", "bye", Meta::Unregister, None);
    rig.cut(peer);
    assert_eq!(links(&rig.events()), [("dropped", "b".to_owned())]);
}

#[test]
fn link_11_dropping_leaves_nothing_and_settles_everything_once() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 2_000 * MS);
    let peer = rig.register("b");
    let acked = rig.event_call("b", "acked");
    let pending = rig.call("b", "pending");
    let sent = rig.out(peer);
    rig.ack(peer, "b", &sent[0].id);
    let submitted = rig.signal_to("b", "submitted");
    rig.submit(peer);
    rig.ask(peer, "b", "r1", RequestKind::Event, "do");
    rig.send(
        peer,
        "b",
        "sub-1",
        Meta::Subscribe,
        Some(&map("targetSubName", "x:*")),
    );
    let serving = requests(&rig.events())[0].0;
    offline(&mut rig, peer);
    let backlogged = rig.signal_to("b", "backlogged");
    rig.advance(2_000 * MS);
    let events = rig.events();
    let gone = |call| (call, Outcome::PeerGone);
    assert_eq!(outcomes(&events), [gone(acked), gone(pending)]);
    assert_eq!(settled(&events), [(submitted, false), (backlogged, false)]);
    assert!(
        events.iter().any(
            |event| matches!(event, Event::RequesterGone { serving: gone } if *gone == serving)
        )
    );
    assert_eq!(
        rig.nacp
            .respond(rig.now, serving, &Answer::ok(text("late")), false),
        Err(SendError::Gone)
    );
    assert_eq!(rig.nacp.publish(rig.now, "x:y", &text("hit"), None), 0);
    let empty = Snapshot {
        links: vec![],
        peers: 0,
        backlog: QueueSize::default(),
        ack_pending: QueueSize::default(),
        messages: 0,
        waiters: 0,
        serving: 0,
        subscriptions: 0,
        listens: 0,
        timers: 0,
        next: None,
    };
    assert_eq!(rig.nacp.snapshot(), empty);
    // And its dedup record: the same id is new again.
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "do");
    assert_eq!(requests(&rig.events()).len(), 1);
}

#[test]
fn link_12_our_own_disconnect_drops_at_once_and_says_goodbye() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.call("b", "r1");
    assert!(rig.nacp.disconnect(rig.now, &app("b")));
    let events = rig.events();
    assert_eq!(links(&events), [("dropped", "b".to_owned())]);
    assert_eq!(outcomes(&events), [(call, Outcome::PeerGone)]);
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["unregister"]);
    let id = sent[0].id.clone();
    rig.answer(peer, "b", &id, None, &Payload::default());
    assert_eq!(closed(&rig.events()), [(peer, "unregistered".to_owned())]);
    assert!(!rig.nacp.disconnect(rig.now, &app("b")));
    assert_eq!(rig.nacp.snapshot().timers, 0);
}

#[test]
fn link_12_a_farewell_that_nobody_answers_ends_after_the_protocol_timeout() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.nacp.disconnect(rig.now, &app("b"));
    rig.out(peer);
    rig.events();
    rig.advance(Duration::from_secs(10));
    assert_eq!(closed(&rig.events()), [(peer, "unregistered".to_owned())]);
}

#[test]
fn link_13_b08_failed_attempts_leave_an_offline_app_and_its_backlog_alone() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 60_000 * MS);
    let first = rig.dial("b");
    let register = rig.out(first).remove(0);
    let accepted = Rig::registration(None, &[], false);
    rig.answer(first, "b", &register.id, None, &accepted);
    rig.out(first);
    offline(&mut rig, first);
    for n in 1..=10 {
        rig.signal_to("b", &format!("m{n}"));
    }
    // Closed before the answer; silence; refusal.
    let second = rig.dial("b");
    assert_eq!(kinds(&rig.out(second)), ["register"]);
    offline(&mut rig, second);
    let third = rig.dial("b");
    assert_eq!(kinds(&rig.out(third)), ["register"]);
    rig.advance(10_000 * MS);
    assert_eq!(
        closed(&rig.events()),
        [(third, "response-timeout".to_owned())]
    );
    // Not sooner: it has ten seconds itself (WAIT-2).
    let to = app("b");
    rig.nacp.subscribe(rig.now, &to, "news", false).unwrap();
    let fourth = rig.dial("b");
    let register = rig.out(fourth).remove(0);
    rig.answer(
        fourth,
        "b",
        &register.id,
        Some("appId-in-use"),
        &Payload::default(),
    );
    assert_eq!(
        kinds(&rig.out(fourth)),
        ["ack"],
        "a refusal is ACKed, then we leave"
    );
    assert_eq!(closed(&rig.events()), [(fourth, "appId-in-use".to_owned())]);
    assert_eq!(rig.nacp.snapshot().backlog.messages, 11);
    let fifth = rig.dial("b");
    let sent = rig.out(fifth);
    assert_eq!(
        kinds(&sent),
        ["register"],
        "and nothing else before its answer"
    );
    rig.answer(fifth, "b", &sent[0].id, None, &accepted);
    let sent = rig.out(fifth);
    let all = [&["ack"][..], &["signal"; 10], &["subscribe"]].concat();
    assert_eq!(kinds(&sent), all);
    assert_eq!(
        texts(&sent[1..11]),
        (1..=10).map(|n| format!("m{n}")).collect::<Vec<_>>()
    );
}

#[test]
fn link_18_b34_only_the_given_clock_counts_and_an_overdue_tick_fires_once() {
    let mut rig = Rig::new(|config| config.heartbeat_interval = Some(100 * MS));
    let peer = rig.register("b");
    rig.advance(50 * MS);
    let beat = rig.out(peer).remove(0);
    assert!(beat.is_heartbeat());
    rig.ack(peer, "b", &beat.id);
    rig.answer(peer, "b", &beat.id, None, &Payload::encode(&true).unwrap());
    rig.out(peer);
    // The process was suspended for 60 intervals: one beat, not sixty.
    rig.now += 6_000 * MS;
    rig.nacp.handle_timeout(rig.now);
    rig.nacp.handle_timeout(rig.now);
    assert_eq!(
        rig.out(peer)
            .iter()
            .filter(|message| message.is_heartbeat())
            .count(),
        1
    );
    assert!(rig.events().is_empty());
}

fn map(key: &str, value: &str) -> Payload {
    Payload::encode(&std::collections::BTreeMap::from([(key, value)])).unwrap()
}

fn notify<'a>(parent: &'a str, hit: &'a str) -> Meta<'a> {
    Meta::Notify {
        parent_id: parent.into(),
        target_sub_name: hit.into(),
        hit_sub_name: hit.into(),
        reliable: false,
    }
}

#[test]
fn poll_timeout_names_the_reason_of_the_next_deadline() {
    let mut rig = Rig::new(|_| {});
    assert_eq!(rig.nacp.poll_timeout(), None);
    let peer = rig.register("b");
    rig.signal_to("b", "m1");
    rig.out(peer);
    assert_eq!(
        rig.nacp.poll_timeout(),
        Some((rig.now + Duration::from_secs(10), Timer::AckTimeout))
    );
    rig.cut(peer);
    assert_eq!(
        rig.nacp.poll_timeout(),
        Some((rig.now + Duration::from_secs(120), Timer::Grace))
    );
}
