//! MSG: two queues, ACKs, order, dedup, poison, lossless streams.

mod rig;

use nacp::message::Meta;
use nacp::*;
use rig::*;

fn lossless(rig: &mut Rig, name: &str) -> PeerId {
    rig.register_as(
        name,
        &Rig::registration(Some("i1"), &["reliable-notify", "stream-credit"], false),
    )
}

fn serve_event(rig: &mut Rig, peer: PeerId, id: &str) -> ServingId {
    rig.ask(peer, "b", id, RequestKind::Event, "do");
    let serving = requests(&rig.events())[0].0;
    rig.out(peer);
    serving
}

#[test]
fn msg_1_a_submitted_message_does_not_count_in_the_backlog() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.signal_to("b", "m1");
    let sizes = |rig: &Rig| {
        let link = rig.nacp.snapshot().links.remove(0);
        (link.backlog, link.submitted, link.ack_pending)
    };
    assert_eq!(sizes(&rig), (1, 0, 0));
    let sent = rig.submit(peer);
    assert_eq!(sizes(&rig), (0, 1, 0));
    rig.nacp.handle_accepted(rig.now, peer, sent[0].token);
    assert_eq!(sizes(&rig), (0, 0, 1));
    rig.ack(peer, "b", &sent[0].id);
    assert_eq!(sizes(&rig), (0, 0, 0));
}

#[test]
fn msg_2_the_ack_clock_starts_at_acceptance() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    let peer = rig.register("b");
    rig.signal_to("b", "m1");
    rig.advance(1_000 * MS);
    let sent = rig.submit(peer);
    rig.advance(1_000 * MS);
    assert!(rig.events().is_empty());
    rig.nacp.handle_accepted(rig.now, peer, sent[0].token);
    rig.advance(200 * MS);
    assert_eq!(links(&rig.events()), [("offline", "b".to_owned())]);
}

#[test]
fn msg_3_a_notify_is_complete_when_accepted_and_pending_while_offline() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let serving = serve_event(&mut rig, peer, "r1");
    rig.cut(peer);
    let send = rig.nacp.emit(rig.now, serving, &text("n1"), true).unwrap();
    assert!(settled(&rig.events()).is_empty());
    let peer = rig.register_unacked("b");
    let sent = rig.submit(peer);
    assert!(settled(&rig.events()).is_empty());
    rig.nacp.handle_accepted(rig.now, peer, sent[0].token);
    assert_eq!(settled(&rig.events()), [(send, true)]);
    assert_eq!(rig.nacp.snapshot().ack_pending, QueueSize::default());
}

#[test]
fn msg_4_the_ack_goes_out_before_the_handler_is_done() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.ask(peer, "b", "r1", RequestKind::Ability, "do");
    assert_eq!(rig.out(peer)[0].parent.as_deref(), Some("r1"));
    let serving = requests(&rig.events())[0].0;
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("done")), false)
        .unwrap();
    assert_eq!(kinds(&rig.out(peer)), ["response"]);
}

#[test]
fn msg_5_every_send_waiter_settles_once() {
    let mut rig = Rig::new(|config| config.reconnect_grace = 1_000 * MS);
    let peer = rig.register("b");
    let acked = rig.signal_to("b", "acked");
    let sent = rig.out(peer);
    rig.ack(peer, "b", &sent[0].id);
    rig.ack(peer, "b", &sent[0].id);
    assert_eq!(settled(&rig.events()), [(acked, true)]);
    let dropped = rig.signal_to("b", "dropped");
    rig.cut(peer);
    rig.advance(1_000 * MS);
    assert_eq!(settled(&rig.events()), [(dropped, false)]);
    assert!(settled(&rig.events()).is_empty());
}

#[test]
fn msg_6_an_ack_counts_before_acceptance_is_known_and_an_unknown_one_is_only_reported() {
    let mut rig = Rig::new(|config| config.ack_timeout = 200 * MS);
    let peer = rig.register("b");
    let send = rig.signal_to("b", "m1");
    let sent = rig.submit(peer);
    rig.ack(peer, "b", &sent[0].id);
    assert_eq!(settled(&rig.events()), [(send, true)]);
    rig.nacp.handle_accepted(rig.now, peer, sent[0].token);
    rig.ack(peer, "b", "nobody-knows");
    assert_eq!(
        rig.reports(),
        [("nacp:internal:ack:error", "has-no-consumer")]
    );
    rig.advance(10_000 * MS);
    assert!(rig.events().is_empty());
}

#[test]
fn msg_6_an_ack_of_one_app_settles_nothing_of_another() {
    let mut rig = Rig::new(|_| {});
    let (b, c) = (rig.register("b"), rig.register("c"));
    rig.signal_to("b", "m1");
    let sent = rig.out(b);
    rig.ack(c, "c", &sent[0].id);
    let events = rig.events();
    assert_eq!(
        reports(&events),
        [("nacp:internal:ack:error", "has-no-consumer")]
    );
    assert_eq!(rig.nacp.snapshot().ack_pending.messages, 1);
}

#[test]
fn b15_a_stale_ack_of_an_older_link_is_harmless() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.signal_to("b", "m1");
    let sent = rig.out(peer);
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    rig.out(peer);
    rig.ack(peer, "b", &sent[0].id);
    rig.events();
    rig.ack(peer, "b", &sent[0].id);
    assert_eq!(
        rig.reports(),
        [("nacp:internal:ack:error", "has-no-consumer")]
    );
    assert_eq!(rig.nacp.snapshot().ack_pending, QueueSize::default());
}

#[test]
fn msg_7_b06_new_sends_queue_behind_the_replay() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.cut(peer);
    let mut expected: Vec<_> = (1..=500).map(|n| format!("m{n}")).collect();
    for value in &expected {
        rig.signal_to("b", value);
    }
    let peer = rig.register_unacked("b");
    let mut got = Vec::new();
    for n in 0..502 {
        if n == 100 {
            rig.signal_to("b", "m501");
            rig.signal_to("b", "m502");
            expected.extend(["m501".to_owned(), "m502".to_owned()]);
        }
        let transmit = rig.nacp.poll_transmit(rig.now, peer).unwrap();
        rig.nacp.handle_accepted(rig.now, peer, transmit.token);
        let bytes = transmit.message.to_bytes();
        let envelope = nacp::message::decode(&bytes).unwrap();
        got.push(envelope.payload_of(&bytes).decode::<String>().unwrap());
    }
    assert_eq!(got, expected);
}

#[test]
fn msg_7_b05_order_survives_a_second_cut_in_the_middle_of_the_replay() {
    let mut rig = Rig::new(|_| {});
    let mut peer = rig.register("b");
    for n in 1..=25 {
        rig.signal_to("b", &format!("m{n}"));
    }
    let mut seen: Vec<String> = Vec::new();
    for (accepted, submitted) in [(12, 15), (3, 9), (0, 4), (25, 25)] {
        let sent: Vec<_> = (0..submitted)
            .map_while(|_| rig.nacp.poll_transmit(rig.now, peer))
            .collect();
        for transmit in &sent[..accepted.min(sent.len())] {
            rig.nacp.handle_accepted(rig.now, peer, transmit.token);
            let bytes = transmit.message.to_bytes();
            let envelope = nacp::message::decode(&bytes).unwrap();
            let value: String = envelope.payload_of(&bytes).decode().unwrap();
            if !seen.contains(&value) {
                seen.push(value);
            }
        }
        if let Some(first) = sent.first().filter(|_| accepted > 0) {
            let bytes = first.message.to_bytes();
            let id = nacp::message::decode(&bytes).unwrap().id.to_string();
            rig.ack(peer, "b", &id);
        }
        rig.cut(peer);
        peer = rig.register_unacked("b");
    }
    assert_eq!(seen, (1..=25).map(|n| format!("m{n}")).collect::<Vec<_>>());
}

#[test]
fn msg_9_a_message_over_the_limit_fails_at_the_call_and_leaves_nothing() {
    let mut rig = Rig::new(|config| config.message_bytes_max = 1_000);
    rig.register("b");
    let big = text(&"x".repeat(1_000));
    let error = rig
        .nacp
        .request(rig.now, &app("b"), RequestKind::Ability, "do", &big, None)
        .unwrap_err();
    assert!(
        matches!(error, SendError::TooLarge { limit: 1_000, .. }),
        "{error}"
    );
    assert_eq!(
        (rig.nacp.snapshot().messages, rig.nacp.snapshot().waiters),
        (0, 0)
    );
}

#[test]
fn msg_9_a_message_over_which_the_link_always_breaks_is_parked_alone() {
    let mut rig = Rig::new(|config| config.delivery_attempts_max = 5);
    let mut peer = rig.register("b");
    let poison = rig.call("b", "poison");
    rig.signal_to("b", "innocent");
    let mut breaks = 0;
    let events = loop {
        // The remote dies of the poison; it ACKs whatever else comes first.
        let sent = rig.out(peer);
        match sent
            .iter()
            .position(|message| message.kind.as_str() == "request")
        {
            None => break rig.events(),
            Some(_) => {
                rig.cut(peer);
                breaks += 1;
                assert!(breaks <= 5);
                let events = rig.events();
                if !outcomes(&events).is_empty() {
                    break events;
                }
                peer = rig.register_unacked("b");
            }
        }
    };
    assert_eq!(breaks, 5);
    assert_eq!(outcomes(&events), [(poison, Outcome::Discarded)]);
    assert!(reports(&events).contains(&("nacp:internal:backlog:warning", "parked")));
    let peer = rig.register_unacked("b");
    assert_eq!(texts(&rig.out(peer)), ["innocent"]);
}

#[test]
fn msg_9_a_link_that_delivers_something_between_breaks_parks_nothing() {
    let mut rig = Rig::new(|config| config.delivery_attempts_max = 2);
    let mut peer = rig.register("b");
    for n in 0..10 {
        rig.signal_to("b", &format!("m{n}"));
    }
    for _ in 0..10 {
        let sent = rig.out(peer);
        rig.ack(peer, "b", &sent[0].id);
        rig.cut(peer);
        peer = rig.register_unacked("b");
    }
    assert!(reports(&rig.events()).is_empty());
}

#[test]
fn msg_9_a_link_that_broke_twice_sends_one_at_a_time_until_something_is_acked() {
    let mut rig = Rig::new(|_| {});
    let mut peer = rig.register("b");
    for n in 0..5 {
        rig.signal_to("b", &format!("m{n}"));
    }
    for _ in 0..2 {
        rig.out(peer);
        rig.cut(peer);
        peer = rig.register_unacked("b");
    }
    let sent = rig.out(peer);
    assert_eq!(texts(&sent), ["m0"], "careful now");
    rig.ack(peer, "b", &sent[0].id);
    assert_eq!(texts(&rig.out(peer)), ["m1", "m2", "m3", "m4"]);
}

#[test]
fn msg_11_lossless_chunks_are_acked_replayed_deduplicated_and_before_their_response() {
    let mut rig = Rig::new(|_| {});
    let peer = lossless(&mut rig, "b");
    let serving = serve_event(&mut rig, peer, "r1");
    for n in 1..=3 {
        rig.nacp
            .emit(rig.now, serving, &text(&format!("c{n}")), false)
            .unwrap();
    }
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("end")), false)
        .unwrap();
    let sent = rig.out(peer);
    assert!(sent[..3].iter().all(|chunk| chunk.reliable));
    assert_eq!(rig.nacp.snapshot().ack_pending.messages, 4);
    rig.ack(peer, "b", &sent[0].id);
    rig.cut(peer);
    let peer = lossless_unacked(&mut rig);
    assert_eq!(texts(&rig.out(peer)), ["c2", "c3", "end"]);

    // The receiving side.
    let mut rig = Rig::new(|_| {});
    let peer = lossless(&mut rig, "b");
    let call = rig.event_call("b", "?");
    let id = rig.id_of(call);
    rig.out(peer);
    for _ in 0..2 {
        rig.send(peer, "b", "c1", chunk(&id), Some(&text("c1")));
    }
    assert_eq!(kinds(&rig.out(peer)), ["ack", "ack"]);
    let notified = rig
        .events()
        .iter()
        .filter(|event| matches!(event, Event::Notify { .. }))
        .count();
    assert_eq!(notified, 1);
}

fn lossless_unacked(rig: &mut Rig) -> PeerId {
    let peer = rig.accept();
    rig.send_register(
        peer,
        "b",
        &Rig::registration(Some("i1"), &["reliable-notify", "stream-credit"], false),
    );
    for _ in 0..2 {
        let transmit = rig.nacp.poll_transmit(rig.now, peer).unwrap();
        rig.nacp.handle_accepted(rig.now, peer, transmit.token);
    }
    peer
}

fn chunk(parent: &str) -> Meta<'_> {
    Meta::Notify {
        parent_id: parent.into(),
        target_sub_name: "nacp:event:x:process".into(),
        hit_sub_name: "nacp:event:x:process".into(),
        reliable: true,
    }
}

#[test]
fn msg_11_a_lossless_writer_waits_for_its_reader_and_goes_on_when_told() {
    let mut rig = Rig::new(|config| config.stream_window = 8);
    let peer = lossless(&mut rig, "b");
    let serving = serve_event(&mut rig, peer, "r1");
    for _ in 0..8 {
        rig.nacp.emit(rig.now, serving, &text("c"), false).unwrap();
    }
    assert_eq!(
        rig.nacp.emit(rig.now, serving, &text("c"), false),
        Err(SendError::Full)
    );
    for message in rig.out(peer) {
        rig.ack(peer, "b", &message.id);
    }
    assert_eq!(
        rig.nacp.emit(rig.now, serving, &text("c"), false),
        Err(SendError::Full),
        "ACKed is not taken"
    );
    let id = rig.new_id();
    rig.send(
        peer,
        "b",
        &id,
        Meta::Ack {
            parent_id: "r1".into(),
            taken: Some(2),
        },
        None,
    );
    assert!(
        rig.events()
            .iter()
            .any(|event| matches!(event, Event::StreamWritable { .. }))
    );
    rig.nacp.emit(rig.now, serving, &text("c"), false).unwrap();
    rig.nacp.emit(rig.now, serving, &text("c"), false).unwrap();
    assert_eq!(
        rig.nacp.emit(rig.now, serving, &text("c"), false),
        Err(SendError::Full)
    );
}

#[test]
fn msg_11_what_the_reader_has_taken_is_told_in_steps_and_again_after_a_cut() {
    let mut rig = Rig::new(|config| config.stream_window = 8);
    let peer = lossless(&mut rig, "b");
    let call = rig.event_call("b", "?");
    let id = rig.id_of(call);
    for message in rig.out(peer) {
        rig.ack(peer, "b", &message.id);
    }
    for n in 0..5 {
        rig.send(peer, "b", &format!("c{n}"), chunk(&id), Some(&text("c")));
    }
    rig.out(peer);
    rig.nacp.taken(call, 1);
    assert!(rig.out(peer).is_empty());
    rig.nacp.taken(call, 3);
    let told = rig.out(peer).remove(0);
    assert_eq!(
        (told.parent.as_deref(), told.taken),
        (Some(id.as_str()), Some(3))
    );
    rig.cut(peer);
    rig.nacp.taken(call, 4);
    let peer = lossless_unacked(&mut rig);
    let told = rig.out(peer).remove(0);
    assert_eq!(
        (told.parent.as_deref(), told.taken),
        (Some(id.as_str()), Some(4))
    );
    rig.nacp.taken(call, 5);
    let told = rig.out(peer).remove(0);
    assert_eq!(
        told.taken,
        Some(5),
        "nothing is left to take: a writer with a smaller window must not wait"
    );
}

#[test]
fn msg_11_towards_a_base_peer_chunks_are_plain_notifies() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let serving = serve_event(&mut rig, peer, "r1");
    rig.nacp.emit(rig.now, serving, &text("c1"), false).unwrap();
    let sent = rig.out(peer);
    assert!(!sent[0].reliable);
    assert!(!sent[0].bytes.windows(8).any(|window| window == b"reliable"));
    assert_eq!(rig.nacp.snapshot().ack_pending, QueueSize::default());
}

#[test]
fn msg_11_a_stream_that_lost_chunks_to_the_caps_never_ends_ok() {
    let mut rig = Rig::new(|config| config.queue_count_max = 4);
    let peer = lossless(&mut rig, "b");
    let serving = serve_event(&mut rig, peer, "r1");
    rig.cut(peer);
    for _ in 0..2 {
        rig.nacp.emit(rig.now, serving, &text("c"), false).unwrap();
    }
    assert_eq!(
        rig.nacp.emit(rig.now, serving, &text("c"), false),
        Err(SendError::Full),
        "it waits for room"
    );
    // Other messages push chunks out (CAP-2.3).
    for n in 1..=3 {
        rig.signal_to("b", &format!("m{n}"));
    }
    rig.nacp
        .respond(rig.now, serving, &Answer::ok(text("end")), false)
        .unwrap();
    let peer = lossless_unacked(&mut rig);
    let answers = rig
        .out(peer)
        .into_iter()
        .filter(|sent| sent.parent.as_deref() == Some("r1"));
    let answers: Vec<_> = answers
        .filter_map(|sent| sent.is_ok.map(|is_ok| (is_ok, sent.why)))
        .collect();
    assert!(
        matches!(&answers[..], [(false, Some(why))] if why.ends_with("-evicted")),
        "{answers:?}"
    );
}

#[test]
fn b19_a_flood_of_other_ids_costs_only_the_flooder() {
    let mut rig = Rig::new(|_| {});
    let (b, c) = (rig.register("b"), rig.register("c"));
    rig.ask(b, "b", "r1", RequestKind::Ability, "do");
    for n in 0..20_000 {
        rig.ask(
            c,
            "c",
            &format!("flood-{n}"),
            RequestKind::Ability,
            "NApp.introduce",
        );
        rig.out(c).clear();
    }
    rig.events();
    for _ in 0..20 {
        rig.ask(b, "b", "r1", RequestKind::Ability, "do");
    }
    assert!(requests(&rig.events()).is_empty());
    assert_eq!(rig.nacp.snapshot().links[1].dedup, 4_096);
}

#[test]
fn b02_a_large_message_starts_again_from_its_beginning_after_a_cut() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    let big = "x".repeat(1 << 20);
    rig.signal_to("b", &big);
    rig.signal_to("b", "m2");
    let sent = rig.submit(peer);
    assert_eq!(sent.len(), 1, "what follows in the same pair waits");
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    let sent = rig.submit(peer);
    assert_eq!(sent[0].text(), big);
    rig.nacp.handle_accepted(rig.now, peer, sent[0].token);
    assert_eq!(texts(&rig.out(peer)), ["m2"]);
}

#[test]
fn msg_6_msg_7_what_follows_a_large_message_goes_on_when_its_ack_comes_before_its_acceptance() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    rig.signal_to("b", &"x".repeat(1 << 20));
    rig.signal_to("b", "m2");
    let large = rig.submit(peer).remove(0);
    rig.ack(peer, "b", &large.id);
    assert_eq!(texts(&rig.out(peer)), ["m2"]);
}

#[test]
fn msg_9_a_notify_in_front_does_not_hold_up_a_link_that_sends_one_at_a_time() {
    let mut rig = Rig::new(|_| {});
    let mut peer = rig.register("b");
    let serving = serve_event(&mut rig, peer, "r1");
    rig.signal_to("b", "m1");
    for _ in 0..2 {
        rig.out(peer);
        rig.cut(peer);
        peer = rig.register_unacked("b");
    }
    let sent = rig.out(peer);
    assert_eq!(texts(&sent), ["m1"], "careful now");
    rig.nacp.emit(rig.now, serving, &text("n1"), false).unwrap();
    rig.nacp.emit(rig.now, serving, &text("n2"), false).unwrap();
    rig.ack(peer, "b", &sent[0].id);
    rig.cut(peer);
    let peer = rig.register_unacked("b");
    assert_eq!(texts(&rig.out(peer)), ["n1", "n2"]);
}
