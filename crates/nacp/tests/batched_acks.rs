//! Acks that name many messages: between two Apps that both know them, and never towards a base peer.

mod rig;

use nacp::message::Meta;
use nacp::*;
use rig::*;

#[test]
fn batched_acks_name_all_that_came_together_and_only_towards_one_that_knows_them() {
    // Two cores of ours: what one sends in one go the other ACKs with one message.
    let mut rig = Rig::new(|_| {});
    let batched = Rig::registration(Some("i1"), &["batched-acks"], false);
    let peer = rig.register_as("b", &batched);
    let ids: Vec<_> = (1..=200).map(|n| format!("0123456789abcd-{n:x}")).collect();
    for id in &ids {
        rig.ask(peer, "b", id, RequestKind::Ability, "do");
    }
    let sent = rig.out(peer);
    assert_eq!((sent.len(), &sent[0].acked), (1, &ids));
    assert!(sent[0].bytes.len() < 400, "{} bytes", sent[0].bytes.len());
    // And the other way: one ack completes many.
    for n in 0..50 {
        rig.signal_to("b", &format!("m{n}"));
    }
    let sent = rig.out(peer);
    let number = |sent: &Sent| u64::from_str_radix(&sent.id[15..], 16).unwrap();
    let also: Vec<u8> = sent
        .windows(2)
        .map(|pair| number(&pair[1]) - number(&pair[0]))
        .map(|step| step as u8)
        .collect();
    let meta = Meta::AckMany {
        parent_id: sent[0].id.as_str().into(),
        also: also.into(),
    };
    rig.send(peer, "b", "acks", meta, None);
    let delivered = settled(&rig.events());
    assert_eq!(delivered.len(), 50);
    assert!(delivered.iter().all(|(_, delivered)| *delivered) && rig.nacp.is_drained());
    // A base peer gets one ack for each.
    let mut rig = Rig::new(|_| {});
    let peer = rig.register("b");
    for id in &ids[..3] {
        rig.ask(peer, "b", id, RequestKind::Ability, "do");
    }
    assert_eq!(kinds(&rig.out(peer)), ["ack", "ack", "ack"]);
}

#[test]
fn an_ack_that_names_unknown_messages_is_only_reported() {
    let mut rig = Rig::new(|_| {});
    let peer = rig.register_as(
        "b",
        &Rig::registration(Some("i1"), &["batched-acks"], false),
    );
    let meta = Meta::AckMany {
        parent_id: "0123456789abcd-1".into(),
        also: vec![1, 0xff, 0x80].into(),
    };
    rig.send(peer, "b", "acks", meta, None);
    assert_eq!(
        rig.reports(),
        [("nacp:internal:ack:error", "has-no-consumer"); 2]
    );
}
