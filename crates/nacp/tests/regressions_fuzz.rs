//! What the fuzzer found, once each, as a script that a person can read. The inputs themselves are in `fuzz/corpus`.

mod rig;

use std::time::Duration;

use nacp::message::payload::Date;
use nacp::*;
use rig::*;

#[test]
fn a_date_beyond_the_year_141_000_comes_back_to_the_millisecond() {
    for ms in [
        4_448_321_057_366_359,
        -4_448_321_057_366_359,
        8_639_999_999_999_999,
        8_640_000_000_000_000,
    ] {
        let date = Date { ms };
        let bytes = Value::Date(date).encode().unwrap();
        assert_eq!(Value::decode(&bytes).unwrap(), Value::Date(date));
        assert_eq!(
            Payload::encode(&date).unwrap().decode::<Date>().unwrap(),
            date
        );
    }
    // All of a stretch where neighbours are closest.
    for ms in 8_500_000_000_000_000..8_500_000_000_010_000 {
        let bytes = Value::Date(Date { ms }).encode().unwrap();
        assert_eq!(Value::decode(&bytes).unwrap(), Value::Date(Date { ms }));
    }
}

/// It ACKed the request, left its Gateway and never came back: nothing was under way to it any more, so no ACK could be
/// missed, and the caller waited for ever.
#[test]
fn link_16_a_call_that_was_acked_by_an_app_behind_the_gateway_ends_when_the_app_is_gone() {
    let mut rig = Rig::new(|config| config.reconnect_grace = Duration::from_secs(20));
    let gateway = rig.register_as("g", &Rig::registration(None, &[], true));
    let call = rig.call("far", "x");
    let request = rig.out(gateway)[0].id.clone();
    rig.ack(gateway, "far", &request);

    // Whoever answers the question whether he is there may take his time with the call.
    rig.advance(Duration::from_secs(81));
    let probe = &rig.out(gateway)[0];
    assert!(probe.is_heartbeat() && probe.to == "far");
    let probe = probe.id.clone();
    rig.ack(gateway, "far", &probe);
    rig.answer(gateway, "far", &probe, None, &Payload::default());
    assert_eq!(kinds(&rig.out(gateway)), ["ack"]);
    assert_eq!(outcomes(&rig.events()), []);

    // Whoever does not is gone.
    rig.advance(Duration::from_secs(81));
    assert!(rig.out(gateway)[0].is_heartbeat());
    rig.advance(Duration::from_secs(31));
    let events = rig.events();
    assert_eq!(
        links(&events),
        [("offline", "far".to_owned()), ("dropped", "far".to_owned())]
    );
    assert_eq!(outcomes(&events), [(call, Outcome::PeerGone)]);
}

/// It was dropped without a word, so its sender sent it again until the App behind was given up.
#[test]
fn gw_6_a_request_too_large_to_be_forwarded_is_answered_and_reported() {
    let mut rig = Rig::new(|config| {
        config.is_gateway = true;
        config.message_bytes_max = 500;
    });
    let (a, b) = (rig.register("a"), rig.register("b"));
    let meta = nacp::message::Meta::Request {
        kind: RequestKind::Ability,
        target: Some("do".into()),
    };
    let large = text(&"x".repeat(1_000));
    rig.try_send(a, "a", "b", "r1", meta, Some(&large)).unwrap();
    assert!(rig.out(b).is_empty());
    let answer = &rig.out(a)[0];
    assert_eq!(
        (answer.parent.as_deref(), answer.is_ok),
        (Some("r1"), Some(false))
    );
    assert_eq!(answer.why.as_deref(), Some("too-large"));
    assert_eq!(rig.reports(), [("nacp:internal:gateway:error", "dropped")]);
}

/// Its subscribe call ended long ago, and ended once more; that the subscription ended was not said.
#[test]
fn wait_4_terminate_while_a_subscription_is_renewed_ends_the_subscription_and_no_call() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register_as("b", &Rig::registration(Some("one"), &[], false));
    let call = rig
        .nacp
        .subscribe(rig.now, &app("b"), "news", false)
        .unwrap();
    let subscribe = rig.out(peer)[0].id.clone();
    rig.ack(peer, "b", &subscribe);
    rig.answer(peer, "b", &subscribe, None, &Payload::default());
    assert_eq!(outcomes(&rig.events()).len(), 1);

    rig.cut(peer);
    rig.register_as("b", &Rig::registration(Some("two"), &[], false));
    assert_eq!(rig.nacp.snapshot().waiters, 1, "it is being renewed");
    rig.nacp.terminate();
    let events = rig.events();
    assert_eq!(outcomes(&events), []);
    let ended = |event: &&Event| matches!(event, Event::SubscriptionEnded { call: ended, .. } if *ended == call);
    assert_eq!(events.iter().filter(ended).count(), 1);
}

/// It went back into the Backlog past the caps.
#[test]
fn cap_1_a_probe_without_an_ack_does_not_overfill_the_backlog() {
    let mut rig = Rig::new(|config| config.queue_count_max = 4);
    let gateway = rig.register_as("g", &Rig::registration(None, &[], true));
    let first = rig.call("far", "0");
    rig.out(gateway);
    rig.advance(Duration::from_secs(10));
    rig.advance(Duration::from_millis(500));
    assert_eq!(texts(&rig.out(gateway)), ["0"], "the probe");
    for value in ["1", "2", "3", "4"] {
        rig.call("far", value);
    }
    rig.events();
    rig.advance(Duration::from_secs(10));
    assert_eq!(rig.nacp.snapshot().backlog.messages, 4);
    assert_eq!(outcomes(&rig.events()), [(first, Outcome::Discarded)]);
}

/// Both were handed to the Gateway, fell to CAP-3 before their ACKs came, and were lost at the Gateway, while other
/// messages kept the link online: nobody was told.
#[test]
fn wait_5_what_fell_to_the_cap_and_was_lost_at_the_gateway_is_given_up_or_replaced() {
    let mut rig = Rig::new(|config| {
        config.queue_count_max = 4;
        config.reconnect_grace = Duration::from_secs(20);
    });
    let gateway = rig.register_as("g", &Rig::registration(None, &[], true));
    rig.ask(gateway, "far", "q", RequestKind::Ability, "do");
    let (serving, _) = requests(&rig.events())[0];
    let call = rig.call("far", "lost");
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("lost")), false)
        .unwrap();
    rig.out(gateway);
    for value in ["1", "2", "3", "4"] {
        rig.signal_to("far", value);
    }
    for signal in rig.out(gateway) {
        rig.ack(gateway, "far", &signal.id);
    }
    rig.events();
    rig.advance(Duration::from_secs(41));
    let answer = &rig.out(gateway)[0];
    assert_eq!(answer.why.as_deref(), Some("response-evicted"));
    rig.ack(gateway, "far", &answer.id);
    assert_eq!(outcomes(&rig.events()), []);
    rig.advance(Duration::from_secs(40));
    assert_eq!(outcomes(&rig.events()), [(call, Outcome::Discarded)]);
}

/// We had dialled it before we dropped it, and its answer bound us under the incarnation that it had known: it did not
/// learn that we had forgotten its call, and waited for ever.
#[test]
fn link_15_a_register_sent_before_its_app_was_dropped_binds_nobody() {
    let mut rig = Rig::new(|_| {});
    rig.register_as("b", &Rig::registration(Some("one"), &[], false));
    let dialled = rig.dial("b");
    let register = rig.out(dialled)[0].clone();
    assert!(rig.nacp.disconnect(rig.now, &app("b")));
    rig.events();
    let accepted = Rig::registration(Some("one"), &[], false);
    rig.answer(dialled, "b", &register.id, None, &accepted);
    assert_eq!(kinds(&rig.out(dialled)), ["ack"]);
    let events = rig.events();
    assert_eq!(links(&events), []);
    assert_eq!(closed(&events), [(dialled, "superseded".to_owned())]);

    let again = rig.dial("b");
    let instance = |sent: &Sent| {
        let registration: nacp::message::Registration = sent.payload.decode().unwrap();
        registration.instance.unwrap()
    };
    assert_ne!(instance(&rig.out(again)[0]), instance(&register));
}
