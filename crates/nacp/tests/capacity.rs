//! CAP: what is bounded, who falls, and that every count ends at zero.

mod rig;

use std::collections::BTreeMap;

use nacp::message::Meta;
use nacp::*;
use proptest::prelude::*;
use rig::*;

const BACKLOG: &str = "nacp:internal:backlog:warning";

fn offline(max: usize) -> (Rig, ServingId) {
    let mut rig = Rig::new(|config| config.queue_count_max = max);
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "do");
    let serving = requests(&rig.events())[0].0;
    rig.cut(peer);
    rig.events();
    (rig, serving)
}

fn emit(rig: &mut Rig, serving: ServingId, value: &str) -> Result<SendId, SendError> {
    rig.nacp.emit(rig.now, serving, &text(value), true)
}

#[test]
fn cap_1_the_backlog_of_all_apps_together_is_bounded_by_count_and_by_bytes() {
    let mut rig = Rig::new(|config| config.queue_count_max = 4);
    let (b, c) = (rig.register("b"), rig.register("c"));
    rig.cut(b);
    rig.cut(c);
    for n in 0..4 {
        rig.signal_to("b", &format!("b{n}"));
        rig.signal_to("c", &format!("c{n}"));
    }
    assert_eq!(rig.nacp.snapshot().backlog.messages, 4);
    let (b, c) = (rig.register_unacked("b"), rig.register_unacked("c"));
    assert_eq!(
        (texts(&rig.out(b)), texts(&rig.out(c))),
        (
            vec!["b2".into(), "b3".into()],
            vec!["c2".into(), "c3".into()]
        )
    );

    let mut rig = Rig::new(|config| config.queue_bytes_max = 1_000);
    let peer = rig.register("b");
    rig.cut(peer);
    for n in 0..20 {
        rig.signal_to("b", &format!("{n:0>100}"));
    }
    let backlog = rig.nacp.snapshot().backlog;
    assert!(
        backlog.bytes <= 1_000 && backlog.messages >= 3,
        "{backlog:?}"
    );
}

#[test]
fn cap_2_1_a_notify_that_finds_the_backlog_full_is_refused() {
    let (mut rig, serving) = offline(2);
    emit(&mut rig, serving, "n1").unwrap();
    emit(&mut rig, serving, "n2").unwrap();
    assert_eq!(emit(&mut rig, serving, "n3"), Err(SendError::NotifyRefused));
    assert_eq!(rig.reports(), [(BACKLOG, "notify-dropped")]);
}

#[test]
fn cap_2_2_cap_2_3_the_oldest_notify_goes_first_then_the_oldest_message_and_the_order_stays() {
    let (mut rig, serving) = offline(4);
    rig.signal_to("b", "m1");
    let n1 = emit(&mut rig, serving, "n1").unwrap();
    rig.signal_to("b", "m2");
    let n2 = emit(&mut rig, serving, "n2").unwrap();
    rig.signal_to("b", "m3");
    let events = rig.events();
    assert_eq!(
        (reports(&events), settled(&events)),
        (vec![(BACKLOG, "notify-evicted")], vec![(n1, false)])
    );
    rig.signal_to("b", "m4");
    assert_eq!(settled(&rig.events()), [(n2, false)]);
    rig.signal_to("b", "m5");
    assert_eq!(rig.reports(), [(BACKLOG, "fifo-evicted")]);
    let peer = rig.register_unacked("b");
    assert_eq!(texts(&rig.out(peer)), ["m2", "m3", "m4", "m5"]);
}

#[test]
fn cap_2_what_returns_from_a_broken_link_is_under_the_same_cap() {
    let mut rig = Rig::new(|config| config.queue_count_max = 4);
    let peer = rig.register("b");
    for n in 0..4 {
        rig.signal_to("b", &format!("m{n}"));
    }
    rig.out(peer);
    for n in 4..7 {
        rig.signal_to("b", &format!("m{n}"));
    }
    rig.cut(peer);
    assert_eq!(rig.nacp.snapshot().backlog.messages, 4);
    assert_eq!(rig.reports(), [(BACKLOG, "fifo-evicted"); 3]);
    let peer = rig.register_unacked("b");
    assert_eq!(texts(&rig.out(peer)), ["m3", "m4", "m5", "m6"]);
}

#[test]
fn cap_3_cap_4_ack_pending_overflow_drops_the_oldest_and_settles_it_false() {
    let mut rig = Rig::new(|config| config.queue_count_max = 2);
    let peer = rig.register("b");
    let sends: Vec<_> = (0..3)
        .map(|n| {
            let send = rig.signal_to("b", &format!("m{n}"));
            rig.out(peer);
            send
        })
        .collect();
    let events = rig.events();
    assert_eq!(settled(&events), [(sends[0], false)]);
    assert_eq!(
        reports(&events),
        [("nacp:internal:ack:warning", "pending-overflow")]
    );
    assert_eq!(rig.nacp.snapshot().ack_pending.messages, 2);
}

#[test]
fn cap_1_a_message_that_could_never_fit_fails_at_the_call_and_evicts_nobody() {
    let mut rig = Rig::new(|config| config.queue_bytes_max = 1_000);
    let peer = rig.register("b");
    rig.cut(peer);
    rig.signal_to("b", "m1");
    let big = text(&"x".repeat(2_000));
    let to = app("b");
    let error = rig
        .nacp
        .request(rig.now, &to, RequestKind::Ability, "do", &big, None)
        .unwrap_err();
    assert!(matches!(error, SendError::TooLarge { limit: 1_000, .. }));
    assert_eq!(rig.nacp.snapshot().backlog.messages, 1);
}

#[test]
fn b12_after_a_full_backlog_is_drained_all_counters_are_zero_and_new_messages_flow() {
    let mut rig = Rig::new(|config| {
        config.queue_count_max = 8;
        config.queue_bytes_max = 1_024;
    });
    let peer = rig.register("b");
    rig.cut(peer);
    rig.events();
    let values: Vec<_> = (0..20).map(|n| format!("{n:0>100}")).collect();
    let sends: Vec<_> = values
        .iter()
        .map(|value| rig.signal_to("b", value))
        .collect();
    let events = rig.events();
    // 1 KiB comes sooner than eight messages.
    let left = rig.nacp.snapshot().backlog;
    assert!((1..8).contains(&left.messages) && left.bytes <= 1_024);
    let fallen = 20 - left.messages;
    let expected: Vec<_> = sends[..fallen].iter().map(|&send| (send, false)).collect();
    assert_eq!(settled(&events), expected);
    let warning = ("nacp:internal:backlog:warning", "fifo-evicted");
    assert_eq!(reports(&events), vec![warning; fallen]);
    let peer = rig.register_unacked("b");
    let sent = rig.out(peer);
    assert_eq!(texts(&sent), values[fallen..]);
    for message in &sent {
        rig.ack(peer, "b", &message.id);
    }
    let new: Vec<_> = (0..5).map(|n| format!("new{n}")).collect();
    for value in &new {
        rig.signal_to("b", value);
    }
    let sent = rig.out(peer);
    assert_eq!(texts(&sent), new);
    for message in sent {
        rig.ack(peer, "b", &message.id);
    }
    let delivered = settled(&rig.events());
    assert_eq!(delivered.len(), left.messages + 5);
    assert!(delivered.iter().all(|settled| settled.1));
    let snapshot = rig.nacp.snapshot();
    assert_eq!(
        (snapshot.backlog, snapshot.ack_pending),
        (QueueSize::default(), QueueSize::default())
    );
    assert!(rig.nacp.is_drained());
}

#[test]
fn cap_6_b10_with_the_policy_wait_nothing_is_evicted_and_ack_pending_never_overflows() {
    let mut rig = Rig::new(|config| {
        config.queue_count_max = 4;
        config.overflow = Overflow::Wait;
    });
    let mut peer = rig.register("b");
    let (mut sent, mut got, mut pending, mut events) = (0, Vec::new(), Vec::new(), Vec::new());
    for round in 0..400 {
        let value = text(&format!("m{sent}"));
        let request = MessageId::from("some-request");
        let to = app("b");
        match rig
            .nacp
            .signal_to(rig.now, &to, &request, SignalKind::Normal, Some(&value))
        {
            Ok(_) => sent += 1,
            Err(error) => assert_eq!(error, SendError::Full),
        }
        pending.extend(rig.out(peer));
        assert!(rig.nacp.snapshot().ack_pending.messages <= 4);
        events.extend(rig.events());
        if round % 50 == 49 {
            rig.cut(peer);
            peer = rig.register_unacked("b");
            pending.clear();
        }
        if round % 3 == 0 && !pending.is_empty() {
            let first = pending.remove(0);
            got.push(first.text());
            rig.ack(peer, "b", &first.id);
        }
    }
    assert!(reports(&events).is_empty(), "{:?}", reports(&events));
    assert!(events.iter().any(|event| matches!(event, Event::Room)));
    assert_eq!(
        got,
        (0..got.len()).map(|n| format!("m{n}")).collect::<Vec<_>>()
    );
}

#[test]
fn a_remote_that_does_not_read_its_acks_is_closed() {
    let mut rig = Rig::new(|config| config.acks_waiting_max = 100);
    let peer = rig.register("b");
    let meta = nacp::message::Meta::Request {
        kind: RequestKind::Ability,
        target: Some("do".into()),
    };
    let error = (0..200)
        .find_map(|n| {
            rig.try_send(peer, "b", "me", &format!("r{n}"), meta.clone(), None)
                .err()
        })
        .expect("bounded");
    assert_eq!(error.reason(), "not-reading");
    let events = rig.events();
    assert!(
        closed(&events).contains(&(peer, "not-reading".to_owned())),
        "{:?}",
        closed(&events)
    );
}

#[derive(Clone, Debug)]
enum Step {
    Signal(u8),
    Emit(u8),
    Out(u8),
    Ack,
    Cut,
    Back,
    Advance(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Signal),
        4 => any::<u8>().prop_map(Step::Emit),
        4 => (0..6u8).prop_map(Step::Out),
        3 => Just(Step::Ack),
        1 => Just(Step::Cut),
        2 => Just(Step::Back),
        1 => (0..300u16).prop_map(Step::Advance),
    ]
}

proptest! {
    /// CAP-5: whatever happened, the counters are those of what is there, and zero when nothing is.
    #[test]
    fn cap_5_counters_are_exact_and_end_at_zero(steps in prop::collection::vec(step(), 0..80)) {
        let mut rig = Rig::new(|config| {
            config.queue_count_max = 6;
            config.queue_bytes_max = 2_000;
            config.ack_timeout = 1_000 * MS;
        });
        let mut peer = Some(rig.register("b"));
        rig.ask(peer.unwrap(), "b", "r1", RequestKind::Event, "do");
        let serving = requests(&rig.events())[0].0;
        let mut unacked = Vec::new();
        for step in steps {
            match step {
                Step::Signal(size) => drop(rig.signal_to("b", &"x".repeat(size.into()))),
                Step::Emit(size) => drop(emit(&mut rig, serving, &"x".repeat(size.into()))),
                Step::Out(count) => {
                    let Some(peer) = peer else { continue };
                    for _ in 0..count {
                        let Some(transmit) = rig.nacp.poll_transmit(rig.now, peer) else { break };
                        rig.nacp.handle_accepted(rig.now, peer, transmit.token);
                        let bytes = transmit.message.to_bytes();
                        unacked.push(nacp::message::decode(&bytes).unwrap().id.to_string());
                    }
                }
                Step::Ack => {
                    if let (Some(peer), Some(id)) = (peer, unacked.pop()) {
                        rig.ack(peer, "b", &id);
                    }
                }
                Step::Cut => {
                    if let Some(peer) = peer.take() {
                        rig.cut(peer);
                        unacked.clear();
                    }
                }
                Step::Back if peer.is_none() => peer = Some(rig.register_unacked("b")),
                Step::Back => {}
                Step::Advance(ms) => {
                    rig.advance(MS * ms.into());
                    if rig.nacp.link_state(&app("b")).is_none_or(|state| matches!(state, LinkState::Offline { .. })) {
                        peer = None;
                    }
                }
            }
            let snapshot = rig.nacp.snapshot();
            prop_assert!(snapshot.backlog.messages <= 6 && snapshot.backlog.bytes <= 2_000);
            prop_assert!(snapshot.ack_pending.messages <= 6 && snapshot.ack_pending.bytes <= 2_000);
            let listed: usize = snapshot.links.iter().map(|link| link.backlog).sum();
            prop_assert_eq!(listed, snapshot.backlog.messages);
            let bytes: u64 = rig.nacp.undelivered().iter().map(|message| message.bytes).sum();
            prop_assert!(bytes >= snapshot.backlog.bytes + snapshot.ack_pending.bytes);
        }
        rig.nacp.disconnect(rig.now, &app("b"));
        let snapshot = rig.nacp.snapshot();
        prop_assert_eq!((snapshot.backlog, snapshot.ack_pending), (QueueSize::default(), QueueSize::default()));
        prop_assert_eq!(snapshot.messages, 0);
    }
}

/// The queue is full of signals, and nothing is taken from it, while the remote asks and says things.
#[test]
fn b39_acks_and_control_messages_neither_count_nor_fall() {
    let mut rig = Rig::new(|config| config.queue_count_max = 8);
    let peer = rig.register("b");
    let one = |key: &str, value: &str| Payload::encode(&BTreeMap::from([(key, value)])).unwrap();
    let name = one("targetSubName", "news");
    rig.send(peer, "b", "s1", Meta::Subscribe, Some(&name));
    rig.out(peer);
    for n in 0..8 {
        rig.signal_to("b", &format!("m{n}"));
    }
    rig.events();
    rig.ask(peer, "b", "h1", RequestKind::Ability, "NApp.heartbeat");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    let subscription = one("targetSubId", "s1");
    rig.send(peer, "b", "u1", Meta::Unsubscribe, Some(&subscription));
    let events = rig.events();
    let serving = requests(&events)[0].0;
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("done")), false)
        .unwrap();
    // Two answers of ours are data: the oldest signals make room for them (CAP-2), and we are told.
    let fell = [(BACKLOG, "fifo-evicted")];
    assert_eq!(
        (reports(&events), rig.reports()),
        (fell.into(), fell.into())
    );
    let sent = rig.submit(peer);
    assert_eq!(kinds(&sent[..4]), ["ack", "response", "ack", "ack"]);
    assert_eq!(sent[1].parent.as_deref(), Some("h1"));
    assert_eq!(kinds(&sent[4..10]), ["signal"; 6]);
    let answered = |sent: &Sent| (sent.parent.clone().unwrap(), sent.is_ok);
    let answers: Vec<_> = sent[10..].iter().map(answered).collect();
    let expected = ["u1", "r1"].map(|id| (id.to_owned(), Some(true)));
    assert_eq!(answers, expected);
}
