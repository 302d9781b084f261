//! Lossless chunks leave room for what cannot wait.

use nacp::*;

fn carry(now: Instant, peer: PeerId, from: &mut Nacp, to: &mut Nacp) {
    while let Some(transmit) = from.poll_transmit(now, peer) {
        from.handle_accepted(now, peer, transmit.token);
        to.handle_message(now, peer, &transmit.message.to_bytes())
            .unwrap();
    }
}

fn events(nacp: &mut Nacp) -> Vec<Event> {
    std::iter::from_fn(|| nacp.poll_event()).collect()
}

#[test]
fn msg_11_a_response_never_pushes_out_a_lossless_chunk() {
    let (now, peer) = (Instant::EPOCH, PeerId(1));
    let app = |name: &str| AppId::new(name).unwrap();
    let mut config = Config::new(app("world"));
    config.queue_count_max = 8;
    let mut world = Nacp::new(config, 0, [1; 32]);
    let mut hello = Nacp::new(Config::new(app("hello")), 0, [2; 32]);
    let expect = app("world");
    hello.handle_peer_up(now, peer, Role::Dialer { expect });
    world.handle_peer_up(now, peer, Role::Acceptor);
    for _ in 0..3 {
        carry(now, peer, &mut hello, &mut world);
        carry(now, peer, &mut world, &mut hello);
    }
    let empty = Payload::default();
    use RequestKind::{Ability, Event as Stream};
    for kind in [Stream, Ability, Ability, Ability, Ability] {
        hello
            .request(now, &app("world"), kind, "any", &empty, None)
            .unwrap();
    }
    carry(now, peer, &mut hello, &mut world);
    let mut requests = events(&mut world)
        .into_iter()
        .filter_map(|event| match event {
            Event::Request { serving, .. } => Some(serving),
            _ => None,
        });
    let stream = requests.next().unwrap();
    let mut chunks = 0u32;
    while world.emit(now, stream, &empty, false).is_ok() {
        chunks += 1;
    }
    assert_eq!(chunks, 4, "half of the table");
    for request in requests {
        let answer = Answer::ok(empty.clone());
        world.respond(now, request, &answer, false).unwrap();
    }
    let reports = events(&mut world);
    assert!(reports.is_empty(), "nothing fell: {reports:?}");
    carry(now, peer, &mut world, &mut hello);
    let seen = events(&mut hello)
        .into_iter()
        .filter(|event| matches!(event, Event::Notify { .. }));
    assert_eq!(seen.count(), 4);
    carry(now, peer, &mut hello, &mut world);
    assert!(
        events(&mut world)
            .iter()
            .any(|event| matches!(event, Event::Room)),
        "the writer is told"
    );
    world.emit(now, stream, &empty, false).unwrap();
}
