//! Failures that the simulator found, each as a short script.

mod rig;

use nacp::*;
use rig::*;

/// A queue that overflowed while a link changed its connection left the link in the turn of the old one for ever.
#[test]
fn link_14_a_takeover_that_evicts_goes_on_over_the_new_connection() {
    let mut rig = Rig::new(|config| config.queue_count_max = 1);
    let same = Rig::registration(Some("one"), &[], false);
    let old = rig.register_as("b", &same);
    rig.call("b", "first");
    rig.out(old);
    rig.call("b", "second");
    let new = rig.accept();
    rig.send_register(new, "b", &same);
    let sent = rig.out(new);
    let calls: Vec<_> = sent.iter().filter(|sent| sent.target.is_some()).collect();
    assert_eq!(calls.len(), 1, "{sent:?}");
    assert_eq!(calls[0].text(), "second");
}

const LOSSLESS: &[&str] = &["reliable-notify", "stream-credit"];

/// A lossless event request of "b", which acks nothing of itself.
fn lossless(rig: &mut Rig, registration: &Payload) -> (PeerId, ServingId) {
    let peer = rig.register_as("b", registration);
    rig.ask(peer, "b", "r1", RequestKind::Event, "do");
    let serving = requests(&rig.events())[0].0;
    rig.out(peer);
    (peer, serving)
}

/// A chunk that fell to the caps kept its place in the window for ever, because nobody could take it.
#[test]
fn msg_11_an_evicted_chunk_gives_its_place_in_the_window_back() {
    let mut rig = Rig::new(|config| {
        config.queue_count_max = 1;
        config.stream_window = 1;
    });
    let (_, serving) = lossless(&mut rig, &Rig::registration(Some("one"), LOSSLESS, false));
    let emit = |rig: &mut Rig| rig.nacp.emit(rig.now, serving, &text("chunk"), false);
    emit(&mut rig).unwrap();
    assert_eq!(emit(&mut rig), Err(SendError::Full));
    rig.signal_to("b", "pushes the chunk out");
    let events = rig.events();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::StreamWritable { .. })),
        "{events:?}"
    );
}

/// The answer was queued as ok already when a chunk before it fell to the caps.
#[test]
fn msg_11_an_answer_that_waits_behind_an_evicted_chunk_is_not_ok() {
    let mut rig = Rig::new(|config| config.queue_count_max = 2);
    let (peer, serving) = lossless(&mut rig, &Rig::registration(Some("one"), LOSSLESS, false));
    rig.nacp
        .emit(rig.now, serving, &text("chunk"), false)
        .unwrap();
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("done")), false)
        .unwrap();
    rig.signal_to("b", "pushes the chunk out");
    let sent = rig.out(peer);
    let answers: Vec<_> = sent
        .iter()
        .filter(|sent| sent.parent.as_deref() == Some("r1") && sent.is_ok.is_some())
        .map(|sent| (sent.is_ok, sent.why.as_deref()))
        .collect();
    assert_eq!(answers, [(Some(false), Some("response-evicted"))]);
}

/// A chunk that fell out of AckPending was lost with the connection, and the stream ended ok without it.
#[test]
fn msg_11_a_chunk_that_left_ack_pending_and_was_lost_ends_its_stream_not_ok() {
    let mut rig = Rig::new(|config| config.queue_count_max = 1);
    let same = Rig::registration(Some("one"), LOSSLESS, false);
    let (peer, serving) = lossless(&mut rig, &same);
    rig.nacp
        .emit(rig.now, serving, &text("chunk"), false)
        .unwrap();
    rig.out(peer);
    rig.signal_to("b", "pushes the chunk out of AckPending");
    rig.out(peer);
    rig.cut(peer);
    let peer = rig.register_as("b", &same);
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("done")), false)
        .unwrap();
    let sent = rig.out(peer);
    let answer = sent.iter().find(|sent| sent.is_ok.is_some()).unwrap();
    assert_eq!(
        (answer.is_ok, answer.why.as_deref()),
        (Some(false), Some("stream-evicted"))
    );
}

/// Who lost interest in a lossless stream took no chunk any more, and its handler waited for that for ever.
#[test]
fn msg_11_the_writer_of_a_stream_that_nobody_reads_any_more_is_not_held_up() {
    let mut rig = Rig::new(|config| config.stream_window = 2);
    let same = Rig::registration(Some("one"), LOSSLESS, false);
    let peer = rig.register_as("b", &same);
    let call = rig.event_call("b", "count");
    let id = rig.id_of(call);
    rig.out(peer);
    let name = format!("nacp:event:{id}:process");
    let chunk = |rig: &mut Rig, peer| {
        let chunk_id = rig.new_id();
        let meta = nacp::message::Meta::Notify {
            parent_id: id.as_str().into(),
            target_sub_name: name.as_str().into(),
            hit_sub_name: name.as_str().into(),
            reliable: true,
        };
        rig.send(peer, "b", &chunk_id, meta, Some(&text("chunk")));
    };
    let taken = |sent: &[Sent]| sent.iter().filter_map(|sent| sent.taken).max();
    chunk(&mut rig, peer);
    assert_eq!(taken(&rig.out(peer)), None, "it may be read yet");
    rig.nacp.cancel(rig.now, call);
    assert!(taken(&rig.out(peer)) > Some(1_000_000), "at once");
    chunk(&mut rig, peer);
    assert!(taken(&rig.out(peer)) > Some(1_000_000), "for each chunk");
    rig.cut(peer);
    let peer = rig.accept();
    rig.send_register(peer, "b", &same);
    assert!(
        taken(&rig.out(peer)) > Some(1_000_000),
        "and over a new connection"
    );
    rig.answer(peer, "b", &id, None, &text("done"));
    rig.out(peer);
    rig.cut(peer);
    let peer = rig.accept();
    rig.send_register(peer, "b", &same);
    assert_eq!(taken(&rig.out(peer)), None, "until it is answered");
}

fn unregister(rig: &mut Rig, peer: PeerId) {
    let id = rig.new_id();
    rig.send(peer, "b", &id, nacp::message::Meta::Unregister, None);
}

/// Its goodbye was forgotten when the link went offline before our reply was accepted: it was kept for a whole grace.
#[test]
fn link_10_an_app_that_said_goodbye_is_dropped_even_if_it_falls_silent_before_our_reply_is_accepted()
 {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let call = rig.call("b", "never acked");
    rig.out(peer);
    unregister(&mut rig, peer);
    rig.advance(10_000 * MS);
    let events = rig.events();
    assert_eq!(links(&events), [("dropped", "b".to_owned())]);
    assert_eq!(outcomes(&events), [(call, Outcome::PeerGone)]);
    assert_eq!(closed(&events), [(peer, "unregistered".to_owned())]);
}

/// It came back before our reply to its goodbye was accepted, and found all that it had given up.
#[test]
fn link_10_an_app_that_said_goodbye_comes_back_as_a_new_one() {
    let mut rig = Rig::new(|_| {});
    let old = rig.register("b");
    let call = rig.call("b", "to the one that left");
    unregister(&mut rig, old);
    let new = rig.accept();
    rig.send_register(new, "b", &Rig::registration(None, &[], false));
    let events = rig.events();
    assert_eq!(
        links(&events),
        [("dropped", "b".to_owned()), ("online", "b".to_owned())]
    );
    assert_eq!(outcomes(&events), [(call, Outcome::PeerGone)]);
    assert_eq!(closed(&events), [(old, "unregistered".to_owned())]);
    assert_eq!(kinds(&rig.out(new)), ["ack", "response"]);
}

/// Chunks of a long declaration were overtaken by small messages, which the remote does not understand before it.
#[test]
fn link_8_nothing_passes_a_large_answer_to_a_register() {
    let mut rig = Rig::new(|config| config.large_message_bytes = 100);
    let peer = rig.register("b");
    rig.cut(peer);
    rig.signal_to("b", "waits");
    let peer = rig.accept();
    rig.send_register(peer, "b", &Rig::registration(None, &[], false));
    let answer = rig.submit(peer);
    assert_eq!(kinds(&answer), ["ack", "response"]);
    assert!(rig.nacp.poll_urgent(rig.now, peer).is_none());
    rig.nacp.handle_accepted(rig.now, peer, answer[0].token);
    assert!(rig.submit(peer).is_empty(), "its last byte is not out");
    while rig.nacp.poll_wake().is_some() {}
    rig.nacp.handle_accepted(rig.now, peer, answer[1].token);
    assert_eq!(rig.nacp.poll_wake(), Some(peer));
    assert_eq!(kinds(&rig.submit(peer)), ["signal"]);
}

/// Who lost interest in the answer took the unsubscribe itself back, and the remote sent hits for ever.
#[test]
fn sub_1_an_unsubscribe_is_sent_though_nobody_waits_for_its_answer() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let sub = rig
        .nacp
        .subscribe(rig.now, &app("b"), "a:*", false)
        .unwrap();
    let id = rig.id_of(sub);
    rig.out(peer);
    rig.ack(peer, "b", &id);
    rig.answer(peer, "b", &id, None, &text("ok"));
    rig.out(peer);
    let call = rig.nacp.unsubscribe(rig.now, sub).unwrap();
    rig.nacp.cancel(rig.now, call);
    assert_eq!(kinds(&rig.out(peer)), ["unsubscribe"]);
}

/// A subscribe that waits to be sent again may be known at the remote: taking it back is not enough.
#[test]
fn sub_1_a_subscribe_that_left_once_is_undone_at_the_remote() {
    for by_timeout in [false, true] {
        let mut rig = Rig::new(|_| {});
        let peer = rig.register("b");
        let sub = rig
            .nacp
            .subscribe(rig.now, &app("b"), "a:*", false)
            .unwrap();
        rig.out(peer);
        rig.cut(peer);
        if by_timeout {
            rig.advance(10_000 * MS);
        } else {
            assert_eq!(rig.nacp.unsubscribe(rig.now, sub), None);
        }
        let peer = rig.register_unacked("b");
        assert_eq!(kinds(&rig.out(peer)), ["unsubscribe"]);
    }
}

/// The answer of a program that is no more, late on the wire, took the binding from the one that had restarted.
#[test]
fn link_14_a_late_answer_of_an_old_incarnation_does_not_take_the_binding() {
    let mut rig = Rig::new(|_| {});
    let old = rig.dial("b");
    let register = rig.out(old)[0].id.clone();
    let new = rig.register_as("b", &Rig::registration(Some("new"), &[], false));
    let late = Rig::registration(Some("old"), &[], false);
    rig.answer(old, "b", &register, None, &late);
    assert!(links(&rig.events()).is_empty());
    assert_eq!(rig.nacp.peer_of_app(&app("b")), Some(new));
    let probe = rig.out(new);
    assert!(probe[0].is_heartbeat(), "{probe:?}");
    rig.out(old);
    assert_eq!(closed(&rig.events()), [(old, "superseded".to_owned())]);
}

/// The answer itself pushed a chunk of its stream out, and was ok all the same.
#[test]
fn msg_11_an_answer_that_pushes_out_a_chunk_of_its_own_stream_is_not_ok() {
    let mut rig = Rig::new(|config| config.queue_count_max = 1);
    let (peer, serving) = lossless(&mut rig, &Rig::registration(Some("one"), LOSSLESS, false));
    rig.nacp
        .emit(rig.now, serving, &text("chunk"), false)
        .unwrap();
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("done")), false)
        .unwrap();
    let sent = rig.out(peer);
    let answer = sent.iter().find(|sent| sent.is_ok.is_some()).unwrap();
    assert_eq!(
        (answer.is_ok, answer.why.as_deref()),
        (Some(false), Some("response-evicted"))
    );
}

/// A call that timed out while its large message was being written was overtaken by what was sent after it.
#[test]
fn msg_7_nothing_of_its_pair_passes_a_large_message_that_was_withdrawn_while_it_is_written() {
    let mut rig = Rig::new(|config| config.large_message_bytes = 200);
    let peer = rig.register("b");
    let long = text(&"x".repeat(300));
    let deadline = Some(rig.now + 100 * MS);
    let kind = RequestKind::Ability;
    rig.nacp
        .request(rig.now, &app("b"), kind, "do", &long, deadline)
        .unwrap();
    let large = rig.submit(peer);
    assert_eq!(kinds(&large), ["request"]);
    rig.advance(100 * MS);
    rig.signal_to("b", "later");
    assert!(rig.submit(peer).is_empty());
    rig.nacp.handle_accepted(rig.now, peer, large[0].token);
    assert_eq!(kinds(&rig.submit(peer)), ["signal"]);
}

/// A message was submitted though AckPending had no room for all of its bytes.
#[test]
fn cap_6_a_message_is_submitted_only_when_ack_pending_has_room_for_its_bytes() {
    let mut rig = Rig::new(|config| {
        config.queue_bytes_max = 1_000;
        config.overflow = Overflow::Wait;
    });
    let peer = rig.register("b");
    let mut out = 0;
    for n in 0..4 {
        rig.signal_to("b", &format!("{n:0>300}"));
        out += rig.out(peer).len();
        let pending = rig.nacp.snapshot().ack_pending;
        assert!(pending.bytes <= 1_000, "{pending:?}");
    }
    assert_eq!(out, 2);
}

/// The remote had subscribed us, its answer was evicted there, and it sent hits for ever to a subscription that failed.
#[test]
fn sub_1_a_subscribe_whose_answer_was_evicted_is_undone_at_the_remote() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let sub = rig
        .nacp
        .subscribe(rig.now, &app("b"), "a:*", false)
        .unwrap();
    let id = rig.id_of(sub);
    rig.out(peer);
    rig.answer(
        peer,
        "b",
        &id,
        Some("response-evicted"),
        &Payload::default(),
    );
    assert_eq!(kinds(&rig.out(peer)), ["ack", "unsubscribe"]);
}

/// The late answer to an earlier attempt took the binding from the later one, which the remote had kept.
#[test]
fn link_14_of_two_attempts_of_ours_the_later_one_stands() {
    let mut rig = Rig::new(|_| {});
    let first = rig.dial("b");
    let second = rig.dial("b");
    let registers = [first, second].map(|peer| rig.out(peer)[0].id.clone());
    let same = Rig::registration(Some("one"), &[], false);
    rig.answer(second, "b", &registers[1], None, &same);
    rig.answer(first, "b", &registers[0], None, &same);
    rig.out(first);
    let events = rig.events();
    assert_eq!(links(&events), [("online", "b".to_owned())]);
    assert_eq!(closed(&events), [(first, "superseded".to_owned())]);
    assert_eq!(rig.nacp.peer_of_app(&app("b")), Some(second));
}

/// Under CAP-6 an answer of the core that found the queue full was lost with the connection, and its caller waited.
#[test]
fn wait_5_an_answer_that_found_the_queue_full_is_made_up_for_when_its_connection_breaks() {
    let mut rig = Rig::new(|config| {
        config.queue_count_max = 1;
        config.overflow = Overflow::Wait;
    });
    let peer = rig.register("b");
    rig.signal_to("b", "fills the queue");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "NApp.introduce");
    let answers = |sent: &[Sent]| {
        let to_r1 = sent
            .iter()
            .filter(|sent| sent.parent.as_deref() == Some("r1"));
        let answers = to_r1.filter(|sent| sent.is_ok.is_some());
        answers.map(|sent| sent.is_ok).collect::<Vec<_>>()
    };
    assert_eq!(answers(&rig.out(peer)), [Some(true)]);
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    let sent = rig.out(peer);
    assert_eq!(answers(&sent), [Some(false)]);
    let answer = sent.iter().find(|sent| sent.is_ok.is_some()).unwrap();
    rig.ack(peer, "b", &answer.id);
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    assert!(answers(&rig.out(peer)).is_empty(), "it has it now");
}

/// Under CAP-6 a full queue swallowed the unsubscribe, and the remote sent hits for ever.
#[test]
fn cap_6_an_unsubscribe_is_sent_though_the_queue_is_full() {
    let mut rig = Rig::new(|config| {
        config.queue_count_max = 1;
        config.overflow = Overflow::Wait;
    });
    let peer = rig.register("b");
    let sub = rig
        .nacp
        .subscribe(rig.now, &app("b"), "a:*", false)
        .unwrap();
    let id = rig.id_of(sub);
    rig.out(peer);
    rig.answer(peer, "b", &id, None, &text("ok"));
    rig.signal_to("b", "fills the queue");
    assert!(rig.nacp.unsubscribe(rig.now, sub).is_some());
    assert_eq!(kinds(&rig.out(peer)), ["ack", "signal"]);
    let unsubscribed = rig.nacp.undelivered();
    assert_eq!(unsubscribed.last().unwrap().what, "unsubscribe");
}

/// The late answer to an earlier attempt bound the link to a connection that the remote had left, and brought messages
/// that were older than what had come over the later one.
#[test]
fn link_14_an_attempt_that_is_older_than_the_last_binding_is_given_up() {
    let mut rig = Rig::new(|_| {});
    let first = rig.dial("b");
    let second = rig.dial("b");
    let registers = [first, second].map(|peer| rig.out(peer)[0].id.clone());
    let same = Rig::registration(Some("one"), &[], false);
    rig.answer(second, "b", &registers[1], None, &same);
    rig.cut(second);
    rig.events();
    rig.answer(first, "b", &registers[0], None, &same);
    rig.out(first);
    let events = rig.events();
    assert_eq!(closed(&events), [(first, "superseded".to_owned())]);
    assert!(links(&events).is_empty());
    let third = rig.dial("b");
    let register = rig.out(third)[0].id.clone();
    rig.answer(third, "b", &register, None, &same);
    assert_eq!(links(&rig.events()), [("online", "b".to_owned())]);
}

/// A register of a program that was no more, late on the wire, took the place of the one that had followed it: what
/// this one had asked was forgotten, and its calls waited for ever.
#[test]
fn link_15_a_late_register_of_an_old_incarnation_is_refused() {
    let mut rig = Rig::new(|_| {});
    let [old, new] = ["old", "new"].map(|name| Rig::registration(Some(name), &[], false));
    let peer = rig.register_as("b", &old);
    rig.cut(peer);
    let late = rig.accept();
    let peer = rig.register_as("b", &new);
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    let serving = requests(&rig.events())[0].0;
    rig.cut(peer);
    rig.send_register(late, "b", &old);
    let answer = rig.out(late);
    assert_eq!(answer[0].why.as_deref(), Some("appId-in-use"));
    let gone = |events: &[Event]| {
        let mut events = events.iter();
        events.any(|event| matches!(event, Event::RequesterGone { .. }))
    };
    let events = rig.events();
    assert_eq!(links(&events), [("offline", "b".to_owned())]);
    assert!(!gone(&events));
    let peer = rig.register_as("b", &new);
    assert!(!gone(&rig.events()));
    let answer = Answer::ok(text("done"));
    rig.nacp.respond(rig.now, serving, &answer, false).unwrap();
    assert_eq!(texts(&rig.out(peer)), ["done"]);
}

/// The ACK of an event request was lost time and again until it was parked, though the remote had it and waited for its
/// reader to take chunks: a call that is given up is nobody's to read, and that must be said.
#[test]
fn msg_11_the_writer_of_a_stream_whose_request_was_parked_is_not_held_up() {
    let mut rig = Rig::new(|config| config.delivery_attempts_max = 1);
    let same = Rig::registration(Some("one"), LOSSLESS, false);
    let peer = rig.register_as("b", &same);
    let call = rig.event_call("b", "count");
    let id = rig.id_of(call);
    rig.submit(peer);
    let name = format!("nacp:event:{id}:process");
    let meta = nacp::message::Meta::Notify {
        parent_id: id.as_str().into(),
        target_sub_name: name.as_str().into(),
        hit_sub_name: name.as_str().into(),
        reliable: true,
    };
    rig.send(peer, "b", "c1", meta, Some(&text("chunk")));
    rig.cut(peer);
    assert_eq!(outcomes(&rig.events()), [(call, Outcome::Discarded)]);
    let peer = rig.accept();
    rig.send_register(peer, "b", &same);
    let taken = rig.out(peer).iter().filter_map(|sent| sent.taken).max();
    assert!(taken > Some(1_000_000), "{taken:?}");
}

/// A link that came back was careful no more, so the oldest message was blamed for the one behind it, and was parked.
#[test]
fn msg_9_an_innocent_message_in_front_of_the_poison_is_not_parked() {
    let mut rig = Rig::new(|config| config.delivery_attempts_max = 5);
    let mut peer = rig.register("b");
    let innocent = rig.call("b", "innocent");
    let poison = rig.call("b", "poison");
    let mut ended = Vec::new();
    for _ in 0..20 {
        let sent = rig.out(peer);
        let all = texts(&sent);
        if all.is_empty() {
            break;
        }
        if all == ["innocent"] {
            rig.ack(peer, "b", &rig.id_of(innocent));
            continue;
        }
        // The remote dies of it before it ACKs anything.
        rig.cut(peer);
        ended.extend(outcomes(&rig.events()));
        peer = rig.register_unacked("b");
    }
    assert_eq!(ended, [(poison, Outcome::Discarded)]);
}

/// Nothing is ever ACKed where there are only notifies: there a careful link is in a hurry again when it has caught up.
#[test]
fn msg_9_a_careful_link_that_has_only_notifies_hurries_again_when_it_has_caught_up() {
    let mut rig = Rig::new(|_| {});
    let mut peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Event, "do");
    let serving = requests(&rig.events())[0].0;
    rig.out(peer);
    let emit = |rig: &mut Rig| {
        let chunk = text("chunk");
        rig.nacp.emit(rig.now, serving, &chunk, false).unwrap();
    };
    emit(&mut rig);
    emit(&mut rig);
    for _ in 0..2 {
        rig.submit(peer);
        rig.cut(peer);
        peer = rig.register_unacked("b");
    }
    for _ in 0..2 {
        assert_eq!(texts(&rig.out(peer)).len(), 1, "careful");
    }
    emit(&mut rig);
    emit(&mut rig);
    assert_eq!(texts(&rig.out(peer)).len(), 2);
}

/// A subscribe that was under way over a connection that its App had left came after its own unsubscribe.
#[test]
fn sub_1_a_subscribe_that_comes_after_its_unsubscribe_subscribes_nobody() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let names = [("targetSubId", "s1"), ("targetSubName", "news")];
    let payload = |n: usize| {
        let map: std::collections::BTreeMap<_, _> = [names[n]].into();
        Payload::encode(&map).unwrap()
    };
    let meta = nacp::message::Meta::Unsubscribe;
    rig.send(peer, "b", "u1", meta, Some(&payload(0)));
    let meta = nacp::message::Meta::Subscribe;
    rig.send(peer, "b", "s1", meta, Some(&payload(1)));
    assert_eq!(rig.nacp.snapshot().listens, 0);
    let meta = nacp::message::Meta::Subscribe;
    rig.send(peer, "b", "s2", meta, Some(&payload(1)));
    assert_eq!(rig.nacp.snapshot().listens, 1);
}
