//! Register, where the application has a word in it.

mod rig;

use nacp::message::MessageType;
use nacp::*;
use rig::*;

fn asking() -> Rig {
    Rig::new(|config| config.asks_before_binding = true)
}

/// A register of `from`, about which the application was asked.
fn asked(rig: &mut Rig, peer: PeerId, from: &str) {
    let registration = Rig::registration(None, &["batched-acks"], false);
    rig.send_register(peer, from, &registration);
    let events = rig.events();
    let [
        Event::RegisterAsked {
            peer: over,
            app: who,
            registration,
        },
    ] = events.as_slice()
    else {
        panic!("{events:?}");
    };
    assert_eq!((*over, who.as_str()), (peer, from));
    assert_eq!(registration.features, ["batched-acks"]);
}

fn admitted(rig: &mut Rig, from: &str) -> PeerId {
    let peer = rig.accept();
    asked(rig, peer, from);
    rig.nacp.admit_register(rig.now, peer, Ok::<_, &str>(()));
    let answer = rig.out(peer).into_iter().nth(1).unwrap();
    rig.ack(peer, from, &answer.id);
    rig.events();
    peer
}

#[test]
fn link_2_who_is_asked_about_has_no_state_and_no_answer_until_it_is_admitted() {
    let mut rig = asking();
    let peer = rig.accept();
    asked(&mut rig, peer, "hello");
    assert_eq!(rig.nacp.link_state(&app("hello")), None);
    assert!(rig.nacp.snapshot().links.is_empty() && rig.out(peer).is_empty());
    rig.nacp.admit_register(rig.now, peer, Ok::<_, &str>(()));
    let kinds: Vec<_> = rig.out(peer).into_iter().map(|sent| sent.kind).collect();
    assert_eq!(kinds, [MessageType::Ack, MessageType::Response]);
    let online =
        |event: &Event| matches!(event, Event::Online { app, .. } if app.as_str() == "hello");
    assert!(rig.events().iter().any(online));
}

#[test]
fn who_is_refused_reads_the_applications_reason_and_leaves_no_trace() {
    let mut rig = asking();
    let peer = rig.accept();
    asked(&mut rig, peer, "hello");
    let reason = "not on the list".to_owned();
    rig.nacp.admit_register(rig.now, peer, Err::<(), _>(reason));
    let sent = rig.out(peer);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].why.as_deref(), Some("not on the list"));
    let events = rig.events();
    let [Event::Report(report)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(
        (report.name, report.reason, report.said.as_deref()),
        (
            "nacp:internal:register:error",
            "not-authorised",
            Some("not on the list")
        )
    );
    assert!(rig.nacp.snapshot().links.is_empty());
    rig.advance(10_000 * MS);
    assert_eq!(
        closed(&rig.events()),
        [(peer, "not on the list".to_owned())],
        "within 10 s"
    );
}

#[test]
fn link_14_a_refused_claimant_does_not_even_make_the_holder_prove_that_it_lives() {
    let mut rig = asking();
    let holder = admitted(&mut rig, "hello");
    let claimant = rig.accept();
    asked(&mut rig, claimant, "hello");
    assert!(rig.out(holder).is_empty(), "no challenge before the answer");
    rig.nacp
        .admit_register(rig.now, claimant, Err::<(), _>("no"));
    rig.advance(60_000 * MS);
    assert!(rig.out(holder).is_empty());
    assert_eq!(
        rig.nacp.link_state(&app("hello")),
        Some(LinkState::Online { peer: holder })
    );
}

#[test]
fn link_13_a_refused_register_leaves_an_offline_app_and_its_backlog_alone() {
    let mut rig = asking();
    let peer = admitted(&mut rig, "hello");
    rig.cut(peer);
    rig.call("hello", "later");
    rig.events();
    let again = rig.accept();
    asked(&mut rig, again, "hello");
    rig.nacp.admit_register(rig.now, again, Err::<(), _>("no"));
    assert!(matches!(
        rig.nacp.link_state(&app("hello")),
        Some(LinkState::Offline { .. })
    ));
    assert_eq!(rig.nacp.snapshot().backlog.messages, 1);
    rig.out(again);
    rig.events();
    let third = rig.accept();
    asked(&mut rig, third, "hello");
    rig.nacp.admit_register(rig.now, third, Ok::<_, &str>(()));
    assert!(rig.out(third).iter().any(|sent| sent.target.is_some()));
}

#[test]
fn gw_4_another_app_over_the_same_connection_is_refused_alone() {
    let mut rig = asking();
    let peer = admitted(&mut rig, "hello");
    asked(&mut rig, peer, "intruder");
    rig.nacp.admit_register(rig.now, peer, Err::<(), _>("no"));
    assert_eq!(rig.out(peer)[0].why.as_deref(), Some("no"));
    rig.advance(60_000 * MS);
    assert!(closed(&rig.events()).is_empty());
    rig.ask(peer, "hello", "1", RequestKind::Ability, "do");
    let error = rig
        .try_send(
            peer,
            "intruder",
            "me",
            "2",
            nacp::message::Meta::Subscribe,
            None,
        )
        .unwrap_err();
    assert_eq!(error.reason(), "from-mismatch", "GW-4");
}

#[test]
fn an_app_that_we_dialled_may_not_bring_in_others_unasked() {
    let mut rig = asking();
    let peer = rig.dial("world");
    let register = rig.out(peer).remove(0).id;
    let registered = Rig::registration(None, &[], false);
    rig.answer(peer, "world", &register, None, &registered);
    let online = |event: &Event| matches!(event, Event::Online { .. });
    assert!(rig.events().iter().any(online), "whom we dial we want");
    asked(&mut rig, peer, "intruder");
    rig.nacp.admit_register(rig.now, peer, Err::<(), _>("no"));
    assert_eq!(rig.nacp.snapshot().links.len(), 1);
}

#[test]
fn an_answer_that_is_late_doubled_or_for_nobody_changes_nothing() {
    let mut rig = asking();
    let peer = rig.accept();
    rig.nacp.admit_register(rig.now, peer, Ok::<_, &str>(()));
    asked(&mut rig, peer, "hello");
    rig.send_register(peer, "hello", &Rig::registration(None, &[], false));
    assert!(rig.events().is_empty(), "it is asked about already");
    rig.cut(peer);
    rig.nacp.admit_register(rig.now, peer, Ok::<_, &str>(()));
    assert!(rig.nacp.snapshot().links.is_empty() && rig.events().is_empty());

    let silent = rig.accept();
    asked(&mut rig, silent, "hello");
    rig.advance(10_000 * MS);
    assert_eq!(
        closed(&rig.events()),
        [(silent, "never-registered".to_owned())],
        "an application that never answers holds no connection"
    );
}

#[test]
fn what_cannot_be_bound_anyway_is_not_asked_about() {
    let mut rig = Rig::new(|config| {
        config.asks_before_binding = true;
        config.is_gateway = true;
    });
    for (from, is_gateway, reason) in [
        ("me", false, "appId-in-use"),
        ("south", true, "dual-gateway"),
    ] {
        let peer = rig.accept();
        rig.send_register(peer, from, &Rig::registration(None, &[], is_gateway));
        assert_eq!(rig.reports(), [("nacp:internal:register:error", reason)]);
    }
}
