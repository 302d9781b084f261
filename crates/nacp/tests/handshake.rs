//! Register: refusals, two programs with one ID, restarts.

mod rig;

use std::collections::BTreeMap;

use nacp::message::{Head, Meta, Registration};
use nacp::*;
use rig::*;

fn refused(rig: &mut Rig, peer: PeerId) -> Option<String> {
    rig.out(peer)
        .into_iter()
        .find(|sent| sent.is_ok == Some(false))
        .and_then(|sent| sent.why)
}

#[test]
fn a_register_for_somebody_else_is_dropped_and_never_forwarded() {
    let mut rig = Rig::new(|config| config.is_gateway = true);
    let moon = rig.register("moon");
    let peer = rig.accept();
    let registration = Rig::registration(None, &[], false);
    let error = rig
        .try_send(
            peer,
            "lost",
            "moon",
            "1",
            Meta::Register,
            Some(&registration),
        )
        .unwrap_err();
    assert_eq!(error.reason(), "wrong-app");
    assert!(rig.out(moon).is_empty());
    let events = rig.events();
    assert_eq!(
        reports(&events),
        [("nacp:internal:register:error", "wrong-app")]
    );
    assert_eq!(closed(&events), [(peer, "wrong-app".to_owned())]);
}

#[test]
fn another_major_version_is_refused() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.accept();
    let head = Head {
        id: "1",
        from: "old",
        to: "me",
        t_ms: 0,
        meta: Meta::Register,
    };
    let registration = Rig::registration(None, &[], false);
    let bytes = nacp::message::encode(&head, Some(&registration)).to_bytes();
    let position = bytes
        .windows(6)
        .position(|window| window == b"emajor" || &window[..5] == b"major")
        .unwrap();
    let mut bytes = bytes.to_vec();
    let digit = bytes[position..]
        .iter()
        .position(|&byte| byte == 2)
        .unwrap();
    bytes[position + digit] = 3;
    rig.nacp
        .handle_message(rig.now, peer, &bytes.into())
        .unwrap();
    assert_eq!(refused(&mut rig, peer).as_deref(), Some("version-mismatch"));
    rig.events();
    rig.advance(10_000 * MS);
    assert_eq!(
        closed(&rig.events()),
        [(peer, "version-mismatch".to_owned())],
        "closed within 10 s"
    );
}

#[test]
fn a_register_with_a_bad_payload_is_refused_and_says_why() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.accept();
    let payload = Payload::encode(&vec![1, 2, 3]).unwrap();
    let error = rig
        .try_send(peer, "b", "me", "1", Meta::Register, Some(&payload))
        .unwrap_err();
    assert_eq!(error.reason(), "bad-payload");
    assert_eq!(refused(&mut rig, peer).as_deref(), Some("bad-payload"));
}

#[test]
fn b64_a_program_that_registers_with_our_own_id_is_refused() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.accept();
    rig.send_register(peer, "me", &Rig::registration(None, &[], false));
    assert_eq!(refused(&mut rig, peer).as_deref(), Some("appId-in-use"));
    let peer = rig.dial("me");
    assert_eq!(
        closed(&rig.events()).last(),
        Some(&(peer, "self-addressed".to_owned()))
    );
}

#[test]
fn a_connection_that_never_registers_is_closed() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.accept();
    rig.advance(10_000 * MS);
    assert_eq!(
        closed(&rig.events()),
        [(peer, "never-registered".to_owned())]
    );
}

#[test]
fn gw_4_nothing_but_a_register_is_taken_from_an_unregistered_connection() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.accept();
    let meta = Meta::Request {
        kind: RequestKind::Ability,
        target: None,
    };
    let error = rig.try_send(peer, "b", "me", "1", meta, None).unwrap_err();
    assert_eq!(error.reason(), "from-mismatch");
    assert_eq!(closed(&rig.events()), [(peer, "from-mismatch".to_owned())]);
}

#[test]
fn the_answer_of_another_app_than_dialled_closes_the_connection() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.dial("b");
    let register = rig.out(peer).remove(0);
    let meta = Meta::Response {
        parent_id: register.id.as_str().into(),
        is_ok: true,
        why_not_ok: None,
        kind: None,
    };
    let error = rig
        .try_send(
            peer,
            "c",
            "me",
            "1",
            meta,
            Some(&Rig::registration(None, &[], false)),
        )
        .unwrap_err();
    assert_eq!(error.reason(), "expect-mismatch");
    assert_eq!(
        closed(&rig.events()),
        [(peer, "expect-mismatch".to_owned())]
    );
}

#[test]
fn link_14_b26_a_second_program_is_refused_while_the_first_is_alive() {
    let mut rig = Rig::new(|_| {});
    let first = rig.register("x");
    let second = rig.accept();
    rig.send_register(second, "x", &Rig::registration(None, &[], false));
    assert!(
        rig.out(second).is_empty(),
        "not answered before the incumbent is"
    );
    let probe = rig.out(first).remove(0);
    assert!(probe.is_heartbeat());
    rig.advance(2_900 * MS);
    rig.ack(first, "x", &probe.id);
    assert_eq!(refused(&mut rig, second).as_deref(), Some("appId-in-use"));
    assert_eq!(
        rig.nacp.link_state(&app("x")),
        Some(LinkState::Online { peer: first })
    );
    assert_eq!(links(&rig.events()), []);
}

#[test]
fn link_14_a_second_program_takes_the_place_of_a_silent_first() {
    let mut rig = Rig::new(|_| {});
    let first = rig.register("x");
    rig.signal_to("x", "m1");
    rig.out(first);
    let second = rig.accept();
    rig.send_register(second, "x", &Rig::registration(None, &[], false));
    rig.out(first);
    rig.advance(3_000 * MS);
    let events = rig.events();
    assert_eq!(
        links(&events),
        [("offline", "x".to_owned()), ("online", "x".to_owned())]
    );
    assert_eq!(closed(&events), [(first, "challenge-lost".to_owned())]);
    assert_eq!(kinds(&rig.out(second)), ["ack", "response", "signal"]);
}

#[test]
fn link_14_a_third_program_is_refused_while_two_are_being_told_apart() {
    let mut rig = Rig::new(|_| {});
    let first = rig.register("x");
    let (second, third) = (rig.accept(), rig.accept());
    let registration = Rig::registration(None, &[], false);
    rig.send_register(second, "x", &registration);
    rig.send_register(third, "x", &registration);
    assert_eq!(refused(&mut rig, third).as_deref(), Some("appId-in-use"));
    rig.cut(first);
    assert_eq!(
        kinds(&rig.out(second)),
        ["ack", "response"],
        "the incumbent is gone: no need to wait"
    );
}

#[test]
fn link_14_b27_the_same_program_takes_its_binding_over_at_once() {
    let mut rig = Rig::new(|_| {});
    let registration = Rig::registration(Some("i1"), &[], false);
    let first = rig.register_as("x", &registration);
    rig.signal_to("x", "m1");
    rig.out(first);
    rig.events();
    let second = rig.accept();
    rig.send_register(second, "x", &registration);
    let events = rig.events();
    assert_eq!(
        links(&events),
        [("online", "x".to_owned())],
        "never offline"
    );
    assert_eq!(closed(&events), [(first, "superseded".to_owned())]);
    assert_eq!(texts(&rig.out(second)[2..]), ["m1"]);
}

#[test]
fn link_14_b23_a_late_disconnect_of_the_old_connection_never_touches_the_new_binding() {
    let mut rig = Rig::new(|_| {});
    let registration = Rig::registration(Some("i1"), &[], false);
    let first = rig.register_as("x", &registration);
    let second = rig.accept();
    rig.send_register(second, "x", &registration);
    rig.out(second);
    rig.events();
    rig.cut(first);
    assert_eq!(links(&rig.events()), []);
    assert_eq!(
        rig.nacp.link_state(&app("x")),
        Some(LinkState::Online { peer: second })
    );
    rig.signal_to("x", "m1");
    assert_eq!(texts(&rig.out(second)), ["m1"]);
}

#[test]
fn b16_late_messages_of_a_superseded_connection_are_discarded() {
    let mut rig = Rig::new(|_| {});
    let registration = Rig::registration(Some("i1"), &[], false);
    let first = rig.register_as("x", &registration);
    let second = rig.register_as("x", &registration);
    let meta = Meta::Request {
        kind: RequestKind::Ability,
        target: Some("do".into()),
    };
    assert!(matches!(
        rig.try_send(first, "x", "me", "r1", meta, None),
        Err(PeerViolation::UnknownPeer)
    ));
    rig.ask(second, "x", "r1", RequestKind::Ability, "do");
    assert_eq!(requests(&rig.events()).len(), 1);
}

#[test]
fn two_apps_that_dial_each_other_at_once_end_with_one_connection() {
    let mut now = Instant::EPOCH;
    let node = |name: &str, seed| {
        let mut config = Config::new(app(name));
        config.heartbeat_interval = None;
        Nacp::new(config, 0, [seed; 32])
    };
    let (mut a, mut b) = (node("a", 1), node("b", 2));
    a.handle_peer_up(now, PeerId(1), Role::Dialer { expect: app("b") });
    b.handle_peer_up(now, PeerId(1), Role::Acceptor);
    b.handle_peer_up(now, PeerId(2), Role::Dialer { expect: app("a") });
    a.handle_peer_up(now, PeerId(2), Role::Acceptor);
    for _ in 0..10 {
        now += MS;
        for peer in [PeerId(1), PeerId(2)] {
            let from_a: Vec<_> = std::iter::from_fn(|| a.poll_transmit(now, peer)).collect();
            let from_b: Vec<_> = std::iter::from_fn(|| b.poll_transmit(now, peer)).collect();
            for transmit in from_a {
                a.handle_accepted(now, peer, transmit.token);
                let _ = b.handle_message(now, peer, &transmit.message.to_bytes());
            }
            for transmit in from_b {
                b.handle_accepted(now, peer, transmit.token);
                let _ = a.handle_message(now, peer, &transmit.message.to_bytes());
            }
        }
    }
    let kept = LinkState::Online { peer: PeerId(1) };
    assert_eq!(
        (a.link_state(&app("b")), b.link_state(&app("a"))),
        (Some(kept), Some(kept))
    );
}

#[test]
fn link_15_b22_another_incarnation_has_lost_what_it_knew() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register_as("b", &Rig::registration(Some("i1"), &[], false));
    let acked = rig.call("b", "acked");
    let unacked = rig.call("b", "unacked");
    let sent = rig.out(peer);
    rig.ack(peer, "b", &sent[0].id);
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    let pattern = BTreeMap::from([("targetSubName", "x")]);
    let pattern = Payload::encode(&pattern).unwrap();
    rig.send(peer, "b", "s1", Meta::Subscribe, Some(&pattern));
    rig.out(peer);
    let serving = requests(&rig.events())[0].0;
    rig.cut(peer);
    rig.events();

    let peer = rig.accept();
    rig.send_register(peer, "b", &Rig::registration(Some("i2"), &[], false));
    let events = rig.events();
    assert_eq!(outcomes(&events), [(acked, Outcome::PeerRestarted)]);
    let is_return = |event: &Event| {
        matches!(
            event,
            Event::Online {
                restarted: true,
                resumed: true,
                ..
            }
        )
    };
    assert!(events.iter().any(is_return));
    let is_gone =
        |event: &Event| matches!(event, Event::RequesterGone { serving: gone } if *gone == serving);
    assert!(events.iter().any(is_gone));
    assert_eq!(
        texts(&rig.out(peer)[2..]),
        ["unacked"],
        "what it may not have is replayed"
    );
    let published = rig.nacp.publish(rig.now, "x", &text("hit"), None);
    assert_eq!(published, 0, "its subscriptions here are gone");
    let unacked_id = rig.id_of(unacked);
    rig.answer(peer, "b", &unacked_id, None, &text("done"));
    assert_eq!(outcomes(&rig.events()).len(), 1);
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    assert_eq!(
        requests(&rig.events()).len(),
        1,
        "its dedup record is gone: the id is new"
    );
}

#[test]
fn link_15_b30_an_explicit_subscription_is_made_again_on_another_incarnation() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register_as("b", &Rig::registration(Some("i1"), &[], false));
    let subscription = rig
        .nacp
        .subscribe(rig.now, &app("b"), "task:*", false)
        .unwrap();
    let id = rig.id_of(subscription);
    rig.out(peer);
    rig.ack(peer, "b", &id);
    rig.answer(peer, "b", &id, None, &Payload::default());
    rig.cut(peer);
    rig.events();
    let peer = rig.accept();
    rig.send_register(peer, "b", &Rig::registration(Some("i2"), &[], false));
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["ack", "response", "subscribe"]);
    assert_eq!(
        sent[2].id, id,
        "under its old name: the hits find their stream"
    );
    rig.answer(peer, "b", &id, None, &Payload::default());
    assert!(
        outcomes(&rig.events()).is_empty(),
        "the renewal is no call of the application"
    );
}

#[test]
fn link_15_a_subscription_that_cannot_be_renewed_ends_with_one_event() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register_as("b", &Rig::registration(Some("i1"), &[], false));
    let subscription = rig
        .nacp
        .subscribe(rig.now, &app("b"), "task:*", false)
        .unwrap();
    let id = rig.id_of(subscription);
    rig.out(peer);
    rig.answer(peer, "b", &id, None, &Payload::default());
    rig.cut(peer);
    let peer = rig.register_as("b", &Rig::registration(Some("i2"), &[], false));
    rig.events();
    rig.answer(
        peer,
        "b",
        &id,
        Some("bad-target-sub-name"),
        &Payload::default(),
    );
    let events = rig.events();
    assert!(outcomes(&events).is_empty());
    assert!(
        matches!(&events[..], [.., Event::SubscriptionEnded { call, .. }] if *call == subscription)
    );
}

#[test]
fn link_15_our_instance_stays_through_reconnects_and_is_renewed_when_we_drop_the_remote() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 1_000 * MS);
    let instance = |rig: &mut Rig| {
        let peer = rig.dial("b");
        let register = rig.out(peer).remove(0);
        let registration: Registration = register.payload.decode().unwrap();
        (peer, register.id, registration.instance.unwrap())
    };
    let (peer, _, first) = instance(&mut rig);
    rig.cut(peer);
    let (peer, id, second) = instance(&mut rig);
    assert_eq!(
        first, second,
        "the same program, also before the first success"
    );
    rig.answer(peer, "b", &id, None, &Rig::registration(None, &[], false));
    rig.cut(peer);
    let (peer, _, third) = instance(&mut rig);
    assert_eq!(first, third);
    rig.cut(peer);
    rig.advance(1_000 * MS);
    let (_, _, fourth) = instance(&mut rig);
    assert_ne!(first, fourth, "we dropped it: it must know");
}

#[test]
fn link_15_without_instances_a_return_is_plain() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.call("b", "r1");
    let sent = rig.out(peer);
    rig.ack(peer, "b", &sent[0].id);
    rig.cut(peer);
    rig.register("b");
    assert!(outcomes(&rig.events()).is_empty());
    assert!(rig.nacp.call_message_id(call).is_some());
}

#[test]
fn b25_an_answer_of_the_old_session_does_not_reach_the_new_one() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register_as("b", &Rig::registration(Some("i1"), &[], false));
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    rig.out(peer);
    let serving = requests(&rig.events())[0].0;
    rig.cut(peer);
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("late")), false)
        .unwrap();
    let peer = rig.accept();
    rig.send_register(peer, "b", &Rig::registration(Some("i2"), &[], false));
    assert_eq!(kinds(&rig.out(peer)), ["ack", "response"]);
    assert_eq!(rig.nacp.snapshot().backlog, QueueSize::default());
}

#[test]
fn msg_4_the_ack_of_a_register_waits_for_the_binding_and_a_base_peer_is_answered_in_base() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.accept();
    rig.send_register(peer, "b", &Rig::registration(None, &[], false));
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["ack", "response"]);
    let registration: Registration = sent[1].payload.decode().unwrap();
    assert_eq!(
        (registration.instance, registration.features),
        (None, vec![]),
        "no unknown keys towards base"
    );
}

#[test]
fn features_are_on_only_when_both_sides_list_them() {
    let lossless = |config_on: bool, features: &[&str]| {
        let mut rig = Rig::new(|config| config.lossless_streams = config_on);
        let peer = rig.register_as("b", &Rig::registration(Some("i1"), features, false));
        rig.ask(peer, "b", "r1", RequestKind::Event, "do");
        let event = rig.events().pop();
        matches!(event, Some(Event::Request { lossless: true, .. }))
    };
    assert!(lossless(true, &["reliable-notify", "something-new"]));
    assert!(!lossless(true, &["something-new"]));
    assert!(!lossless(false, &["reliable-notify"]));
}
