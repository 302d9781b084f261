//! Messages arrive whole, once, in the promised order.

use crate::place::{Place, content, message, receive, send_once};

const SIZES: [usize; 14] = [
    0,
    1,
    31,
    32,
    33,
    4_096,
    4_097,
    65_503,
    65_504,
    65_505,
    131_008,
    131_009,
    1 << 20,
    (3 << 20) + 17,
];

pub async fn messages_of_every_size_arrive_whole_and_in_order(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    for (token, size) in SIZES.into_iter().enumerate() {
        let token = token as u64;
        near.sender.push(message(token, size));
        let (accepted, messages) =
            tokio::join!(near.sender.flush(), receive(far.receiver.as_mut(), 1));
        assert_eq!(accepted.unwrap(), [token]);
        assert!(
            messages == [content(token, size)],
            "a message of {size} bytes came as it was sent"
        );
        assert!(near.sender.is_idle());
    }
}

pub async fn both_ways_at_once_nothing_blocks(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    for token in 0..8 {
        near.sender.push(message(token, 1 << 20));
        far.sender.push(message(100 + token, 1 << 20));
    }
    let (near_accepted, far_accepted, far_messages, near_messages) = tokio::join!(
        near.sender.flush(),
        far.sender.flush(),
        receive(far.receiver.as_mut(), 8),
        receive(near.receiver.as_mut(), 8)
    );
    assert_eq!(near_accepted.unwrap(), (0..8).collect::<Vec<_>>());
    assert_eq!(far_accepted.unwrap(), (100..108).collect::<Vec<_>>());
    assert!((0..8).map(|token| content(token, 1 << 20)).eq(far_messages));
    assert!(
        (100..108)
            .map(|token| content(token, 1 << 20))
            .eq(near_messages)
    );
}

pub async fn a_message_of_64_mib_arrives_whole(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    near.sender.push(message(1, 64 << 20));
    let (accepted, messages) = tokio::join!(near.sender.flush(), receive(far.receiver.as_mut(), 1));
    assert_eq!(accepted.unwrap(), [1]);
    assert!(messages == [content(1, 64 << 20)]);
}

pub async fn a_small_message_overtakes_a_large_one_between_its_chunks_b37(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    let mut accepted = Vec::new();
    near.sender.push(message(1, 8 << 20));
    send_once(near.sender.as_mut(), &mut accepted)
        .await
        .unwrap()
        .unwrap();
    near.sender.push(message(2, 100));
    near.sender.push(message(3, 0));
    let (flushed, messages) = tokio::join!(near.sender.flush(), receive(far.receiver.as_mut(), 3));
    accepted.extend(flushed.unwrap());
    assert_eq!(accepted, [2, 3, 1]);
    assert!(messages == [content(2, 100), content(3, 0), content(1, 8 << 20)]);
}

pub async fn large_messages_do_not_wait_for_each_other(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    near.sender.push(message(1, 4 << 20));
    near.sender.push(message(2, 1 << 20));
    let (accepted, messages) = tokio::join!(near.sender.flush(), receive(far.receiver.as_mut(), 2));
    assert_eq!(accepted.unwrap(), [2, 1]);
    assert!(messages == [content(2, 1 << 20), content(1, 4 << 20)]);
}

pub async fn many_small_messages_keep_their_order(place: &Place) {
    const COUNT: u64 = 20_000;
    let (mut near, mut far) = place.pair().await;
    let sending = async {
        let (mut next, mut accepted) = (0, Vec::new());
        // Taken by the transport is not yet flushed: it is driven until it is idle.
        while accepted.len() < COUNT as usize || !near.sender.is_idle() {
            while near.sender.wants_more() && next < COUNT {
                near.sender.push(message(next, (next % 300) as usize));
                next += 1;
            }
            std::future::poll_fn(|cx| near.sender.poll_send(cx, &mut accepted))
                .await
                .unwrap();
        }
        accepted
    };
    let (accepted, messages) =
        tokio::join!(sending, receive(far.receiver.as_mut(), COUNT as usize));
    assert!(accepted.into_iter().eq(0..COUNT));
    assert!(
        (0..COUNT)
            .map(|token| content(token, (token % 300) as usize))
            .eq(messages)
    );
}
