//! HB: proof of life.

mod rig;

use nacp::message::Meta;
use nacp::*;
use rig::*;

fn beating() -> Rig {
    Rig::new(|config| {
        config.heartbeat_interval = Some(100 * MS);
        config.ack_timeout = 200 * MS;
    })
}

fn beats(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .filter(|message| message.is_heartbeat())
        .map(|message| message.id.clone())
        .collect()
}

fn dialled(rig: &mut Rig) -> PeerId {
    let peer = rig.dial("b");
    let register = rig.out(peer).remove(0);
    rig.answer(
        peer,
        "b",
        &register.id,
        None,
        &Rig::registration(None, &[], false),
    );
    rig.events();
    peer
}

#[test]
fn hb_1_an_idle_link_sends_a_heartbeat_each_interval() {
    let mut rig = beating();
    let peer = rig.register("b");
    rig.advance(50 * MS);
    for _ in 0..5 {
        let sent = rig.out(peer);
        let beat = sent
            .iter()
            .find(|message| message.is_heartbeat())
            .expect("one each interval");
        let from: std::collections::BTreeMap<String, String> = beat.payload.decode().unwrap();
        assert_eq!(from["from"], "me");
        let id = beat.id.clone();
        rig.ack(peer, "b", &id);
        rig.answer(peer, "b", &id, None, &Payload::encode(&true).unwrap());
        rig.out(peer);
        rig.advance(99 * MS);
        assert!(rig.out(peer).is_empty());
        rig.advance(MS);
    }
    assert!(rig.events().is_empty());
}

#[test]
fn hb_1_switched_off_none_is_sent_and_the_remotes_are_still_answered() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.advance(600_000 * MS);
    assert!(rig.out(peer).is_empty());
    rig.ask(peer, "b", "h1", RequestKind::Ability, "NApp.heartbeat");
    let sent = rig.out(peer);
    assert_eq!(kinds(&sent), ["ack", "response"]);
    assert_eq!(
        (sent[1].is_ok, sent[1].payload.decode::<bool>().unwrap()),
        (Some(true), true)
    );
    assert!(rig.events().is_empty(), "no handler is asked");
}

#[test]
fn hb_2_a_heartbeat_without_ack_takes_the_link_offline_at_the_ack_timeout() {
    let mut rig = Rig::new(|config| {
        config.heartbeat_interval = Some(60_000 * MS);
        config.ack_timeout = 200 * MS;
    });
    let peer = dialled(&mut rig);
    assert_eq!(beats(&rig.out(peer)).len(), 1);
    rig.advance(200 * MS);
    assert_eq!(links(&rig.events()), [("offline", "b".to_owned())]);
}

#[test]
fn hb_3_b31_a_missing_response_takes_the_link_offline_at_the_next_interval() {
    let mut rig = beating();
    let peer = dialled(&mut rig);
    let beat = beats(&rig.out(peer)).remove(0);
    rig.ack(peer, "b", &beat);
    rig.advance(99 * MS);
    assert!(rig.events().is_empty());
    rig.advance(MS);
    let events = rig.events();
    assert!(matches!(
        events[0],
        Event::Offline {
            cause: OfflineCause::HeartbeatMissed,
            ..
        }
    ));
    assert_eq!(closed(&events), [(peer, "heartbeat-missed".to_owned())]);
}

#[test]
fn hb_4_hb_5_going_offline_ends_only_the_heartbeat_and_probing_starts_anew() {
    let mut rig = beating();
    let peer = dialled(&mut rig);
    let old = beats(&rig.out(peer)).remove(0);
    let call = rig.call("b", "r1");
    rig.out(peer);
    rig.cut(peer);
    assert!(outcomes(&rig.events()).is_empty());
    assert_eq!(rig.nacp.snapshot().messages, 1, "only the request is left");
    let peer = dialled(&mut rig);
    let sent = rig.out(peer);
    assert_eq!(texts(&sent[sent.len() - 1..]), ["r1"]);
    let new = beats(&sent);
    assert_eq!(new.len(), 1);
    assert_ne!(new[0], old);
    assert!(rig.nacp.call_message_id(call).is_some());
}

#[test]
fn hb_6_a_response_that_is_not_ok_proves_life_too() {
    let mut rig = beating();
    let peer = dialled(&mut rig);
    let beat = beats(&rig.out(peer)).remove(0);
    rig.ack(peer, "b", &beat);
    rig.answer(
        peer,
        "b",
        &beat,
        Some("no ability 'NApp.heartbeat'"),
        &Payload::default(),
    );
    rig.advance(100 * MS);
    assert!(rig.events().is_empty());
}

#[test]
fn hb_6_the_dialling_side_beats_at_once_and_the_accepting_side_half_an_interval_later() {
    let mut rig = beating();
    let peer = dialled(&mut rig);
    assert_eq!(beats(&rig.out(peer)).len(), 1);
    let mut rig = beating();
    let peer = rig.register("b");
    assert!(rig.out(peer).is_empty());
    rig.advance(49 * MS);
    assert!(rig.out(peer).is_empty());
    rig.advance(MS);
    assert_eq!(beats(&rig.out(peer)).len(), 1);
}

#[test]
fn hb_7_acks_and_heartbeats_overtake_a_large_message_whose_ack_clock_starts_at_its_last_byte() {
    let mut rig = beating();
    let peer = rig.register("b");
    let big = Payload::encode(&"x".repeat(1 << 20)).unwrap();
    rig.nacp
        .request(rig.now, &app("b"), RequestKind::Ability, "do", &big, None)
        .unwrap();
    let large = rig.submit(peer).remove(0);
    // While it is being written, for longer than the ACK timeout:
    for round in 0..5 {
        rig.advance(50 * MS);
        rig.ask(
            peer,
            "b",
            &format!("h{round}"),
            RequestKind::Ability,
            "NApp.heartbeat",
        );
        let sent = rig.out(peer);
        let answered = sent.iter().any(|sent| sent.is_ok == Some(true));
        assert!(answered, "the answer passes: {:?}", kinds(&sent));
        for response in sent.iter().filter(|sent| sent.is_ok == Some(true)) {
            rig.ack(peer, "b", &response.id);
        }
        for beat in beats(&sent) {
            rig.ack(peer, "b", &beat);
            rig.answer(peer, "b", &beat, None, &Payload::encode(&true).unwrap());
        }
    }
    assert!(rig.events().is_empty(), "no false offline");
    rig.nacp.handle_accepted(rig.now, peer, large.token);
    rig.ack(peer, "b", &large.id);
    assert!(rig.events().is_empty());
}

#[test]
fn hb_7_bytes_of_a_large_message_that_comes_in_are_a_sign_of_life() {
    let mut rig = beating();
    let peer = dialled(&mut rig);
    rig.out(peer);
    for _ in 0..100 {
        rig.advance(20 * MS);
        rig.nacp.handle_progress(rig.now, peer);
        rig.out(peer);
    }
    assert!(rig.events().is_empty());
    rig.advance(300 * MS);
    assert_eq!(
        links(&rig.events()),
        [("offline", "b".to_owned())],
        "but only while they come"
    );
}

#[test]
fn heartbeat_answers_are_bounded_when_the_remote_does_not_read() {
    let mut rig = Rig::new(|config| config.queue_count_max = 16);
    let peer = rig.register("b");
    for n in 0..1_000 {
        let meta = Meta::Request {
            kind: RequestKind::Ability,
            target: Some("NApp.heartbeat".into()),
        };
        rig.send(peer, "b", &format!("h{n}"), meta, None);
    }
    let snapshot = rig.nacp.snapshot();
    assert!(snapshot.messages <= 64 + 16, "{snapshot:?}");
}
