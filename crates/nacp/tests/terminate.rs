//! TERM: everything ends at once, and what was not delivered can be listed.

mod rig;

use nacp::*;
use rig::*;

#[test]
fn term_1_terminate_settles_everything_once_and_leaves_nothing() {
    let mut rig = Rig::new(|config| config.heartbeat_interval = Some(60_000 * MS));
    let b = rig.register("b");
    let c = rig.register("c");
    let call = rig.call("b", "r1");
    let signal = rig.signal_to("c", "m1");
    let subscription = rig.nacp.subscribe(rig.now, &app("c"), "x", false).unwrap();
    rig.ask(b, "b", "r1", RequestKind::Event, "do");
    rig.events();
    rig.nacp.terminate();
    let events = rig.events();
    let ended = [
        (call, Outcome::Terminated),
        (subscription, Outcome::Terminated),
    ];
    assert_eq!(outcomes(&events), ended);
    assert_eq!(settled(&events), [(signal, false)]);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::RequesterGone { .. }))
    );
    let reason = "terminated".to_owned();
    assert_eq!(closed(&events), [(b, reason.clone()), (c, reason)]);
    let snapshot = rig.nacp.snapshot();
    assert_eq!(
        (
            snapshot.links.len(),
            snapshot.messages,
            snapshot.timers,
            snapshot.peers
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(rig.nacp.poll_timeout(), None);
    assert!(matches!(
        rig.try_send(b, "b", "me", "x", nacp::message::Meta::Unregister, None),
        Err(PeerViolation::UnknownPeer)
    ));
    rig.nacp.terminate();
    assert!(rig.events().is_empty());
    rig.register("b");
}

#[test]
fn term_2_what_is_not_delivered_is_known_by_app_and_in_order() {
    let mut rig = Rig::new(|_| {});
    let b = rig.register("b");
    assert!(rig.nacp.is_drained());
    rig.signal_to("b", "m1");
    rig.call("b", "r1");
    let sent = rig.out(b);
    rig.signal_to("b", "m2");
    let list = |rig: &Rig| {
        rig.nacp
            .undelivered()
            .into_iter()
            .map(|message| message.what)
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&rig), ["signal", "request", "signal"]);
    assert!(!rig.nacp.is_drained());
    for message in sent.iter().chain(&rig.out(b)) {
        rig.ack(b, "b", &message.id);
    }
    assert_eq!((list(&rig), rig.nacp.is_drained()), (vec![], true));
}
