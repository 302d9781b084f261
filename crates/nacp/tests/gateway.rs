//! GW: forwarding, and calls through a Gateway.

mod rig;

use nacp::message::{Head, Meta, encode};
use nacp::*;
use rig::*;

fn gateway() -> Rig {
    Rig::new(|config| config.is_gateway = true)
}

fn request() -> Meta<'static> {
    Meta::Request {
        kind: RequestKind::Ability,
        target: Some("echo".into()),
    }
}

/// We, registered with the Gateway `g`.
fn behind(rig: &mut Rig) -> PeerId {
    rig.register_as("g", &Rig::registration(None, &[], true))
}

#[test]
fn gw_1_a_gateway_forwards_the_original_bytes_without_ack_dedup_or_processing() {
    let mut rig = gateway();
    let (a, b) = (rig.register("a"), rig.register("b"));
    let head = Head {
        id: "r1",
        from: "a",
        to: "b",
        t_ms: 5,
        meta: request(),
    };
    let bytes = encode(&head, Some(&text("hi"))).to_bytes();
    for _ in 0..2 {
        rig.nacp.handle_message(rig.now, a, &bytes).unwrap();
        let sent = rig.out(b);
        assert_eq!((sent.len(), &sent[0].bytes), (1, &bytes));
    }
    assert!(rig.out(a).is_empty() && rig.events().is_empty());
    assert_eq!(rig.nacp.snapshot().ack_pending, QueueSize::default());
}

#[test]
fn gw_1_a_program_that_is_no_gateway_forwards_nothing() {
    let mut rig = Rig::new(|_| {});
    let (a, b) = (rig.register("a"), rig.register("b"));
    rig.try_send(a, "a", "b", "r1", request(), None).unwrap();
    assert!(rig.out(b).is_empty());
    assert_eq!(rig.reports(), [("nacp:internal:route:error", "no-route")]);
}

#[test]
fn gw_2_a_message_goes_to_the_link_or_its_backlog_or_the_gateway_or_fails() {
    let mut rig = Rig::new(|_| {});
    let call = |rig: &mut Rig, to: &str| {
        rig.nacp
            .request(
                rig.now,
                &app(to),
                RequestKind::Ability,
                "do",
                &text("x"),
                None,
            )
            .map(|_| ())
    };
    assert_eq!(
        call(&mut rig, "me"),
        Err(SendError::SelfAddressed(app("me")))
    );
    assert_eq!(call(&mut rig, "far"), Err(SendError::NoRoute(app("far"))));
    let b = rig.register("b");
    call(&mut rig, "b").unwrap();
    assert_eq!(rig.out(b)[0].to, "b");
    rig.cut(b);
    call(&mut rig, "b").unwrap();
    assert_eq!(rig.nacp.snapshot().backlog.messages, 2);
    let g = behind(&mut rig);
    call(&mut rig, "far").unwrap();
    assert_eq!(rig.out(g)[0].to, "far");
    call(&mut rig, "b").unwrap();
    assert!(
        rig.out(g).is_empty(),
        "known offline: its Backlog, not the Gateway"
    );
}

#[test]
fn gw_2_messages_for_an_offline_app_wait_at_the_gateway() {
    let mut rig = gateway();
    let (a, b) = (rig.register("a"), rig.register("b"));
    rig.cut(b);
    rig.try_send(a, "a", "b", "r1", request(), None).unwrap();
    let b = rig.register_unacked("b");
    assert_eq!(rig.out(b)[0].id, "r1");
    assert_eq!(
        rig.nacp.snapshot().messages,
        1,
        "only the register's response"
    );
}

#[test]
fn gw_3_a_second_gateway_is_refused_or_kept_as_a_plain_link() {
    let mut rig = Rig::new(|_| {});
    behind(&mut rig);
    let second = rig.accept();
    rig.send_register(second, "g2", &Rig::registration(None, &[], true));
    assert_eq!(rig.out(second)[0].why.as_deref(), Some("multi-gateway"));

    let mut rig = Rig::new(|config| config.auto_multi_gateway_downgrade = true);
    let g = behind(&mut rig);
    let second = rig.accept();
    rig.send_register(second, "g2", &Rig::registration(None, &[], true));
    let events = rig.events();
    assert_eq!(
        reports(&events),
        [("nacp:internal:gateway:warning", "multi-gateway-downgraded")]
    );
    rig.out(second);
    rig.nacp
        .request(
            rig.now,
            &app("far"),
            RequestKind::Ability,
            "do",
            &text("x"),
            None,
        )
        .unwrap();
    assert_eq!(rig.out(g)[0].to, "far");
    let error = rig
        .try_send(second, "far", "me", "1", request(), None)
        .unwrap_err();
    assert_eq!(
        error.reason(),
        "from-mismatch",
        "a plain link speaks for itself only"
    );
}

#[test]
fn gw_3_two_gateways_do_not_register_with_each_other() {
    let mut rig = gateway();
    let peer = rig.accept();
    rig.send_register(peer, "g2", &Rig::registration(None, &[], true));
    assert_eq!(rig.out(peer)[0].why.as_deref(), Some("dual-gateway"));
    let peer = rig.dial("g2");
    let register = rig.out(peer).remove(0);
    rig.answer(
        peer,
        "g2",
        &register.id,
        None,
        &Rig::registration(None, &[], true),
    );
    rig.out(peer);
    assert_eq!(
        closed(&rig.events()).last(),
        Some(&(peer, "dual-gateway".to_owned()))
    );
    assert_eq!(rig.nacp.link_state(&app("g2")), None);
}

#[test]
fn gw_4_a_forged_sender_is_dropped_and_named() {
    let mut rig = gateway();
    let (a, b) = (rig.register("a"), rig.register("b"));
    for to in ["me", "b"] {
        let error = rig.try_send(a, "b", to, "1", request(), None).unwrap_err();
        assert!(matches!(error, PeerViolation::FromMismatch { from } if from == "b"));
    }
    assert!(rig.out(b).is_empty() && rig.out(a).is_empty());
    assert_eq!(requests(&rig.events()), []);
    assert!(rig.nacp.link_state(&app("a")).is_some(), "the link stays");
}

#[test]
fn gw_5_a_message_never_goes_back_to_where_it_came_from() {
    let mut rig = gateway();
    let a = rig.register("a");
    rig.try_send(a, "a", "a", "1", request(), None).unwrap();
    assert!(rig.out(a).is_empty());
    assert_eq!(rig.reports(), [("nacp:internal:gateway:error", "dropped")]);
}

#[test]
fn gw_6_a_request_for_nobody_is_answered_by_the_gateway_and_the_caller_believes_it() {
    let mut rig = gateway();
    let a = rig.register("a");
    rig.try_send(a, "a", "nobody", "r1", request(), None)
        .unwrap();
    let answer = rig.out(a).remove(0);
    assert_eq!(
        (
            answer.from.as_str(),
            answer.parent.as_deref(),
            answer.why.as_deref()
        ),
        ("me", Some("r1"), Some("no-route"))
    );

    let mut rig = Rig::new(|_| {});
    let g = behind(&mut rig);
    let call = rig.call("nobody", "x");
    let id = rig.id_of(call);
    rig.out(g);
    rig.answer(g, "g", &id, Some("no-route"), &Payload::default());
    let expected = Outcome::Response {
        is_ok: false,
        why_not_ok: Some("no-route".to_owned()),
        payload: Payload::default(),
    };
    assert_eq!(outcomes(&rig.events()), [(call, expected)]);
    rig.advance(MS * 600_000);
    assert!(
        links(&rig.events())
            .iter()
            .all(|(change, _)| *change == "dropped"),
        "nothing hangs for ever"
    );
}

#[test]
fn b37_small_messages_of_another_pair_pass_a_large_one_and_those_of_the_same_do_not() {
    let mut rig = gateway();
    let (a, b, c) = (rig.register("a"), rig.register("b"), rig.register("c"));
    let big = text(&"x".repeat(1 << 20));
    let send = |rig: &mut Rig, peer, from: &str, id: &str, payload: &Payload| {
        rig.try_send(peer, from, "b", id, request(), Some(payload))
            .unwrap();
    };
    send(&mut rig, a, "a", "big", &big);
    send(&mut rig, a, "a", "after-big", &text("x"));
    let large = rig.submit(b);
    assert_eq!(large.len(), 1);
    send(&mut rig, c, "c", "small", &text("x"));
    let passed = rig.out(b);
    assert_eq!(
        passed
            .iter()
            .map(|sent| sent.id.as_str())
            .collect::<Vec<_>>(),
        ["small"]
    );
    rig.nacp.handle_accepted(rig.now, b, large[0].token);
    assert_eq!(rig.out(b)[0].id, "after-big");
    assert!(rig.nacp.is_drained());
}

#[test]
fn link_16_an_app_behind_the_gateway_that_stays_silent_is_probed_and_dropped_at_the_end_of_the_grace()
 {
    let mut rig = Rig::new(|config| {
        config.ack_timeout = 200 * MS;
        config.reconnect_grace = 5_000 * MS;
    });
    let g = behind(&mut rig);
    let call = rig.call("far", "r1");
    let id = rig.id_of(call);
    rig.out(g);
    rig.advance(200 * MS);
    assert_eq!(links(&rig.events()), [("offline", "far".to_owned())]);
    let mut probes = 0;
    for _ in 0..49 {
        rig.advance(100 * MS);
        let sent = rig.out(g);
        assert!(sent.iter().all(|sent| sent.id == id));
        probes += sent.len();
    }
    assert!(
        (2..=6).contains(&probes),
        "{probes} probes, further and further apart"
    );
    rig.advance(200 * MS);
    let events = rig.events();
    assert_eq!(links(&events), [("dropped", "far".to_owned())]);
    assert_eq!(outcomes(&events), [(call, Outcome::PeerGone)]);
    assert!(matches!(
        rig.nacp.link_state(&app("g")),
        Some(LinkState::Online { .. })
    ));
}

/// The Gateway's connection is busy, and what it brings comes in pieces: that says nothing of a message that is lost.
#[test]
fn link_16_hb_7_pieces_of_other_messages_do_not_keep_the_clock_of_what_a_gateway_lost() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    let g = behind(&mut rig);
    rig.call("far", "r1");
    rig.out(g);
    for n in 0..25 {
        rig.advance(10 * MS);
        rig.nacp.handle_progress(rig.now, g);
        rig.ask(g, "g", &format!("q{n}"), RequestKind::Ability, "do");
        rig.nacp.handle_progress(rig.now, g);
    }
    assert_eq!(links(&rig.events()), [("offline", "far".to_owned())]);
    // One message that has been coming all the time is another matter: the ACK may stand behind it.
    rig.call("afar", "r2");
    rig.out(g);
    for _ in 0..25 {
        rig.advance(10 * MS);
        rig.nacp.handle_progress(rig.now, g);
    }
    assert_eq!(links(&rig.events()), []);
}

#[test]
fn link_16_an_ack_to_a_probe_brings_the_app_online_and_replays() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    let g = behind(&mut rig);
    for n in 1..=3 {
        rig.call("far", &format!("r{n}"));
    }
    rig.out(g);
    rig.advance(200 * MS);
    rig.events();
    rig.advance(500 * MS);
    let probe = rig.out(g);
    assert_eq!(texts(&probe), ["r1"]);
    rig.try_send(
        g,
        "far",
        "me",
        "ack-1",
        Meta::Ack {
            parent_id: probe[0].id.as_str().into(),
            taken: None,
        },
        None,
    )
    .unwrap();
    assert_eq!(links(&rig.events()), [("online", "far".to_owned())]);
    assert_eq!(texts(&rig.out(g)), ["r2", "r3"]);
}

#[test]
fn link_16_when_the_gateway_returns_what_was_under_way_through_it_goes_again() {
    let mut rig = Rig::new(|_| {});
    let g = behind(&mut rig);
    rig.call("far", "r1");
    rig.out(g);
    rig.cut(g);
    assert_eq!(
        links(&rig.events()),
        [("offline", "g".to_owned()), ("offline", "far".to_owned())]
    );
    let g = behind(&mut rig);
    rig.advance(MS);
    assert_eq!(texts(&rig.out(g)), ["r1"]);
}

#[test]
fn link_16_msg_8_an_app_behind_the_gateway_that_nobody_needs_is_forgotten_when_nothing_can_come_again()
 {
    let mut rig = Rig::new(|config| {
        config.ack_timeout = 2_000 * MS;
        config.reconnect_grace = 600 * MS;
    });
    let g = behind(&mut rig);
    rig.try_send(g, "far", "me", "r1", request(), None).unwrap();
    rig.out(g);
    let serving = requests(&rig.events())[0].0;
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("x")), false)
        .unwrap();
    let response = rig.out(g).remove(0);
    rig.try_send(
        g,
        "far",
        "me",
        "a1",
        Meta::Ack {
            parent_id: response.id.as_str().into(),
            taken: None,
        },
        None,
    )
    .unwrap();
    // Its sender has not seen the ACK, and sends it again at the end of its grace: it is known, and ACKed.
    rig.advance(2_600 * MS);
    rig.try_send(g, "far", "me", "r1", request(), None).unwrap();
    assert_eq!(kinds(&rig.out(g)), ["ack"]);
    assert!(rig.events().is_empty());
    assert_eq!(rig.nacp.snapshot().links.len(), 2);
    rig.advance(2 * 4_600 * MS);
    assert_eq!(rig.nacp.snapshot().links.len(), 1);
    assert!(rig.events().is_empty());
}

#[test]
fn what_waits_for_one_destination_is_bounded_and_costs_no_other_its_room() {
    let mut rig = Rig::new(|config| {
        config.is_gateway = true;
        config.forward_count_max = 4;
        config.queue_count_max = 2;
    });
    let (a, b, c) = (rig.register("a"), rig.register("b"), rig.register("c"));
    rig.cut(b);
    rig.events();
    for n in 0..6 {
        rig.try_send(a, "a", "b", &format!("b{n}"), request(), None)
            .unwrap();
    }
    let notify = Meta::Notify {
        parent_id: "s".into(),
        target_sub_name: "x".into(),
        hit_sub_name: "x".into(),
        reliable: false,
    };
    rig.try_send(a, "a", "b", "n1", notify, None).unwrap();
    let warning = "nacp:internal:backlog:warning";
    let expected = [
        (warning, "fifo-evicted"),
        (warning, "fifo-evicted"),
        (warning, "notify-dropped"),
    ];
    assert_eq!(rig.reports(), expected);
    rig.try_send(a, "a", "c", "c1", request(), None).unwrap();
    assert_eq!(rig.out(c).len(), 1);
    assert_eq!(
        rig.nacp.snapshot().backlog,
        QueueSize::default(),
        "our own caps are not touched"
    );
    let b = rig.register_unacked("b");
    let ids: Vec<_> = rig.out(b).into_iter().map(|sent| sent.id).collect();
    assert_eq!(ids, ["b2", "b3", "b4", "b5"]);
    assert!(
        rig.nacp
            .snapshot()
            .links
            .iter()
            .all(|link| link.forwarded == QueueSize::default())
    );
}

fn holds(events: &[Event]) -> Vec<(&'static str, PeerId)> {
    let hold = |event: &Event| match event {
        Event::Hold { peer } => Some(("hold", *peer)),
        Event::Release { peer } => Some(("release", *peer)),
        _ => None,
    };
    events.iter().filter_map(hold).collect()
}

#[test]
fn a_source_is_held_before_anything_is_lost_and_released_when_its_destination_has_caught_up() {
    let mut rig = Rig::new(|config| {
        config.is_gateway = true;
        config.forward_count_max = 16;
    });
    let (a, b) = (rig.register("a"), rig.register("b"));
    for n in 0..8 {
        rig.try_send(a, "a", "b", &format!("b{n}"), request(), None)
            .unwrap();
    }
    assert_eq!(holds(&rig.events()), [("hold", a)]);
    assert_eq!(rig.out(b).len(), 8);
    assert_eq!(holds(&rig.events()), [("release", a)]);
    // A destination that takes nothing holds its source for a second, then loss may begin.
    for n in 8..20 {
        rig.try_send(a, "a", "b", &format!("b{n}"), request(), None)
            .unwrap();
    }
    assert_eq!(holds(&rig.events()), [("hold", a)]);
    rig.advance(1_000 * MS);
    assert_eq!(holds(&rig.events()), [("release", a)]);
    rig.try_send(a, "a", "b", "b20", request(), None).unwrap();
    assert!(holds(&rig.events()).is_empty(), "not again at once");
    rig.advance(2_000 * MS);
    rig.try_send(a, "a", "b", "b21", request(), None).unwrap();
    assert_eq!(holds(&rig.events()), [("hold", a)]);
    rig.cut(b);
    assert_eq!(
        holds(&rig.events()),
        [("release", a)],
        "offline: nobody waits for it"
    );
    rig.cut(a);
    assert_eq!(rig.nacp.snapshot().peers, 0);
}

/// The App "far" behind a Gateway asked for an event, and the Gateway went away before its first chunk.
fn a_chunk_waits_for_far(rig: &mut Rig) -> ServingId {
    let g = behind(rig);
    let event = Meta::Request {
        kind: RequestKind::Event,
        target: Some("do".into()),
    };
    rig.try_send(g, "far", "me", "r1", event, None).unwrap();
    let serving = requests(&rig.events())[0].0;
    rig.out(g);
    rig.cut(g);
    rig.nacp
        .emit(rig.now, serving, &text("chunk"), false)
        .unwrap();
    serving
}

#[test]
fn link_16_a_plain_notify_in_front_is_no_probe_and_the_response_behind_it_arrives() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    let serving = a_chunk_waits_for_far(&mut rig);
    let answer = Answer::ok(text("end"));
    rig.nacp.respond(rig.now, serving, &answer, false).unwrap();
    let g = behind(&mut rig);
    rig.advance(MS);
    let mut sent = rig.out(g);
    // A probe that nobody answers is followed by another.
    let mut waited = 0;
    while !sent.iter().any(|sent| sent.is_heartbeat()) || waited == 0 {
        rig.advance(500 * MS);
        waited += 1;
        assert!(waited < 10, "no second probe");
        sent = rig.out(g);
    }
    let probe = sent
        .iter()
        .find(|sent| sent.is_heartbeat())
        .unwrap()
        .id
        .clone();
    let ack = Meta::Ack {
        parent_id: probe.as_str().into(),
        taken: None,
    };
    rig.try_send(g, "far", "me", "ack-1", ack, None).unwrap();
    assert_eq!(texts(&rig.out(g)), ["chunk", "end"]);
}

#[test]
fn link_16_hb_4_a_probe_of_an_app_behind_the_gateway_is_gone_with_the_connection() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    a_chunk_waits_for_far(&mut rig);
    let control = |rig: &Rig| {
        let snapshot = rig.nacp.snapshot();
        let far = snapshot.links.iter().find(|link| link.app == app("far"));
        far.expect("it is known").control
    };
    let g = behind(&mut rig);
    rig.advance(MS);
    assert!(rig.out(g).iter().any(|sent| sent.is_heartbeat()));
    assert_eq!(control(&rig), 1);
    rig.cut(g);
    assert_eq!(control(&rig), 0);
    rig.advance(2_000 * MS);
    assert_eq!(control(&rig), 0, "nobody is there to be asked");
    let g = behind(&mut rig);
    rig.advance(MS);
    assert!(rig.out(g).iter().any(|sent| sent.is_heartbeat()));
}

#[test]
fn hb_4_what_answers_an_app_without_a_connection_of_its_own_waits_for_one() {
    let mut rig = Rig::new(|_| {});
    let far = rig.register("far");
    rig.out(far);
    rig.cut(far);
    let g = behind(&mut rig);
    let heartbeat = Meta::Request {
        kind: RequestKind::Ability,
        target: Some("NApp.heartbeat".into()),
    };
    rig.try_send(g, "far", "me", "h1", heartbeat, None).unwrap();
    let snapshot = rig.nacp.snapshot();
    let link = snapshot.links.iter().find(|link| link.app == app("far"));
    let link = link.expect("it is known");
    assert_eq!(
        (link.reach, link.control, link.backlog),
        (Reach::Direct, 0, 1)
    );
    let far = rig.register_unacked("far");
    let sent = rig.out(far);
    assert!(
        sent.iter().any(|sent| sent.parent.as_deref() == Some("h1")),
        "{sent:?}"
    );
}
