//! SUB: subscriptions both ways, process streams, signals.

mod rig;

use std::collections::BTreeMap;

use nacp::message::Meta;
use nacp::*;
use rig::*;

fn map(key: &str, value: &str) -> Payload {
    Payload::encode(&BTreeMap::from([(key, value)])).unwrap()
}

fn subscribed(rig: &mut Rig, peer: PeerId, id: &str, pattern: &str) -> Sent {
    rig.send(
        peer,
        "b",
        id,
        Meta::Subscribe,
        Some(&map("targetSubName", pattern)),
    );
    let sent = rig.out(peer);
    sent.into_iter()
        .find(|sent| sent.parent.as_deref() == Some(id) && sent.is_ok.is_some())
        .expect("an answer")
}

#[test]
fn sub_1_a_subscription_gets_every_hit_with_its_names() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let answer = subscribed(&mut rig, peer, "s1", "task:*");
    assert_eq!(answer.is_ok, Some(true));
    assert_eq!(
        answer.payload.decode::<BTreeMap<String, String>>().unwrap()["targetSubId"],
        "s1"
    );
    assert!(rig.nacp.is_listened("task:done") && !rig.nacp.is_listened("task"));
    assert_eq!(rig.nacp.publish(rig.now, "task:done", &text("42"), None), 1);
    assert_eq!(
        rig.nacp
            .publish(rig.now, "task:done:late", &text("42"), None),
        0
    );
    let hit = rig.out(peer).remove(0);
    assert_eq!(
        (hit.parent.as_deref(), hit.hit.as_deref()),
        (Some("s1"), Some("task:done"))
    );
    rig.send(
        peer,
        "b",
        "u1",
        Meta::Unsubscribe,
        Some(&map("targetSubId", "s1")),
    );
    assert_eq!(rig.out(peer)[1].is_ok, Some(true));
    assert_eq!(rig.nacp.publish(rig.now, "task:done", &text("42"), None), 0);
    assert!(!rig.nacp.has_listeners());
}

#[test]
fn sub_1_bad_names_and_unknown_subscriptions_are_refused_in_the_base_protocols_words() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    assert_eq!(
        subscribed(&mut rig, peer, "s1", "").why.as_deref(),
        Some("bad-target-sub-name")
    );
    rig.send(
        peer,
        "b",
        "s2",
        Meta::Subscribe,
        Some(&Payload::encode(&7).unwrap()),
    );
    assert_eq!(rig.out(peer)[1].why.as_deref(), Some("bad-target-sub-name"));
    rig.send(
        peer,
        "b",
        "u1",
        Meta::Unsubscribe,
        Some(&map("targetSubId", "nope")),
    );
    assert_eq!(
        rig.out(peer)[1].why.as_deref(),
        Some("unknown-subscription")
    );
    let name = "nacp:internal:subscribe:error";
    let expected = [
        (name, "bad-target-sub-name"),
        (name, "bad-target-sub-name"),
        (name, "unknown-subscription"),
    ];
    assert_eq!(rig.reports(), expected);
}

#[test]
fn sub_1_subscriptions_of_one_app_are_bounded() {
    let mut rig = Rig::new(|config| config.subscriptions_max = 2);
    let peer = rig.register("b");
    for id in ["s1", "s2"] {
        assert_eq!(subscribed(&mut rig, peer, id, "x").is_ok, Some(true));
    }
    assert_eq!(
        subscribed(&mut rig, peer, "s3", "x").why.as_deref(),
        Some("too-many-subscriptions")
    );
}

#[test]
fn sub_1_our_subscription_reports_hits_until_it_is_unsubscribed() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let subscription = rig
        .nacp
        .subscribe(rig.now, &app("b"), "task:*", false)
        .unwrap();
    let sent = rig.out(peer).remove(0);
    let asked: BTreeMap<String, String> = sent.payload.decode().unwrap();
    assert_eq!(
        (sent.kind.as_str(), asked["targetSubName"].as_str()),
        ("subscribe", "task:*")
    );
    rig.answer(peer, "b", &sent.id, None, &map("targetSubId", &sent.id));
    assert_eq!(outcomes(&rig.events()).len(), 1);
    let hit = |rig: &mut Rig| {
        let id = rig.new_id();
        let meta = Meta::Notify {
            parent_id: sent.id.as_str().into(),
            target_sub_name: "task:*".into(),
            hit_sub_name: "task:done".into(),
            reliable: false,
        };
        rig.send(peer, "b", &id, meta, Some(&text("42")));
        rig.events()
    };
    let events = hit(&mut rig);
    let target = NotifyTarget::Subscription(subscription);
    assert!(
        matches!(&events[..], [Event::Notify { target: got, hit_sub_name, .. }] if *got == target && hit_sub_name == "task:done")
    );
    let end = rig.nacp.unsubscribe(rig.now, subscription).unwrap();
    assert_eq!(
        reports(&hit(&mut rig)),
        [("nacp:internal:notify:error", "has-no-consumer")]
    );
    let unsubscribe = rig
        .out(peer)
        .into_iter()
        .find(|sent| sent.kind.as_str() == "unsubscribe")
        .unwrap();
    rig.answer(peer, "b", &unsubscribe.id, None, &Payload::default());
    assert_eq!(outcomes(&rig.events())[0].0, end);
    assert_eq!(rig.nacp.unsubscribe(rig.now, subscription), None);
}

#[test]
fn sub_2_sub_3_chunks_of_an_event_need_no_subscribe_and_come_before_the_response() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "countdown");
    let serving = requests(&rig.events())[0].0;
    assert_eq!(
        rig.nacp.process_name(serving),
        Some("nacp:event:r1:process")
    );
    rig.nacp.emit(rig.now, serving, &text("3"), false).unwrap();
    rig.nacp.emit(rig.now, serving, &text("2"), false).unwrap();
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("lift-off")), false)
        .unwrap();
    assert_eq!(
        rig.nacp.emit(rig.now, serving, &text("1"), false),
        Err(SendError::Gone)
    );
    assert_eq!(
        rig.nacp
            .respond(rig.now, serving, &Answer::ok(text("2nd")), false),
        Err(SendError::Gone)
    );
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["ack", "notify", "notify", "response"]);
    assert_eq!(texts(&sent), ["3", "2", "lift-off"]);
    assert_eq!(
        (sent[1].parent.as_deref(), sent[1].hit.as_deref()),
        (Some("r1"), Some("nacp:event:r1:process"))
    );
}

#[test]
fn sub_2_receiving_the_response_ends_the_stream() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.event_call("b", "?");
    let id = rig.id_of(call);
    rig.out(peer);
    rig.answer(peer, "b", &id, None, &text("end"));
    rig.events();
    let meta = Meta::Notify {
        parent_id: id.as_str().into(),
        target_sub_name: "x".into(),
        hit_sub_name: "x".into(),
        reliable: false,
    };
    rig.send(peer, "b", "late", meta, None);
    assert_eq!(
        rig.reports(),
        [("nacp:internal:notify:error", "has-no-consumer")]
    );
}

#[test]
fn sub_4_a_notify_never_triggers_another_for_the_subscription_that_caused_it() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    subscribed(&mut rig, peer, "s1", "nacp:outbound:*");
    subscribed(&mut rig, peer, "s2", "nacp:outbound:notify");
    assert_eq!(
        rig.nacp.publish(
            rig.now,
            "nacp:outbound:notify",
            &text("about s1"),
            Some("s1")
        ),
        1
    );
    assert_eq!(rig.out(peer)[0].parent.as_deref(), Some("s2"));
}

#[test]
fn a_signal_reaches_its_running_event_and_one_for_a_finished_event_is_acked_and_reported() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "countdown");
    let serving = requests(&rig.events())[0].0;
    let signal = |parent: &'static str, kind| Meta::Signal {
        parent_id: parent.into(),
        kind,
    };
    rig.send(
        peer,
        "b",
        "g1",
        signal("r1", SignalKind::Normal),
        Some(&text("faster")),
    );
    rig.send(peer, "b", "g2", signal("r1", SignalKind::Pause), None);
    let got: Vec<_> = rig
        .events()
        .into_iter()
        .map(|event| match event {
            Event::Signal {
                serving: to,
                kind,
                payload,
                ..
            } if to == serving => (kind, payload),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        got,
        [
            (SignalKind::Normal, text("faster")),
            (SignalKind::Pause, Payload::default())
        ]
    );
    rig.out(peer);
    rig.send(
        peer,
        "b",
        "g3",
        signal("no-such-request", SignalKind::Pause),
        None,
    );
    assert_eq!(kinds(&rig.out(peer)), ["ack"]);
    assert_eq!(
        rig.reports(),
        [("nacp:internal:signal:error", "no-event-processor")]
    );
}

#[test]
fn another_app_that_knows_the_id_may_steer_an_event_while_it_runs() {
    let mut rig = Rig::new(|_| {});
    let (b, c) = (rig.register("b"), rig.register("c"));
    rig.ask(b, "b", "r1", RequestKind::Event, "countdown");
    let serving = requests(&rig.events())[0].0;
    let abort = || Meta::Signal {
        parent_id: "r1".into(),
        kind: SignalKind::Abort,
    };
    rig.send(c, "c", "g1", abort(), None);
    let signalled = |event: &Event| matches!(event, Event::Signal { serving: to, from, .. } if *to == serving && *from == app("c"));
    assert!(rig.events().iter().any(signalled));
    rig.nacp
        .respond(rig.now, serving, &Answer::not_ok("aborted"), false)
        .unwrap();
    rig.send(c, "c", "g2", abort(), None);
    assert_eq!(
        rig.reports(),
        [("nacp:internal:signal:error", "no-event-processor")]
    );
}

#[test]
fn our_signals_carry_a_payload_only_when_normal_and_fail_when_the_call_is_over() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.event_call("b", "?");
    let id = rig.id_of(call);
    rig.out(peer);
    let send = rig
        .nacp
        .signal(rig.now, call, SignalKind::Abort, Some(&text("dropped")))
        .unwrap();
    let sent = rig.out(peer).remove(0);
    assert_eq!(sent.parent.as_deref(), Some(id.as_str()));
    assert!(!sent.bytes.windows(7).any(|window| window == b"payload"));
    rig.ack(peer, "b", &sent.id);
    assert_eq!(settled(&rig.events()), [(send, true)]);
    rig.answer(peer, "b", &id, Some("aborted"), &Payload::default());
    assert_eq!(
        rig.nacp.signal(rig.now, call, SignalKind::Abort, None),
        Err(SendError::Gone)
    );
}

#[test]
fn every_app_introduces_itself_without_a_handler() {
    let mut rig = Rig::new(|config| {
        config.declaration.abilities.push(Declared {
            name: "echo".to_owned(),
            description: "says it again".to_owned(),
        });
    });
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "NApp.introduce");
    let sent = rig.out(peer);
    let declaration: Declaration = sent[1].payload.decode().unwrap();
    assert_eq!(declaration.abilities[0].name, "echo");
}
