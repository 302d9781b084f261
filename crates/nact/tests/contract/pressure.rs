//! Acceptance means the transport took it; a transport that takes no more is not fed.

use std::future::poll_fn;

use nact::{Options, SendError};

use crate::place::{Place, content, message, receive, send_once};

pub async fn a_message_is_accepted_only_after_its_last_byte(place: &Place) {
    const SIZE: usize = 32 << 20;
    let (mut near, mut far) = place.pair().await;
    let mut accepted = Vec::new();
    near.sender.push(message(1, SIZE));
    while send_once(near.sender.as_mut(), &mut accepted)
        .await
        .is_some()
    {}
    assert_eq!(
        accepted,
        [],
        "more than the system buffers: it cannot have been taken"
    );
    assert!(!near.sender.is_idle());
    let (accepted, messages) = tokio::join!(near.sender.flush(), receive(far.receiver.as_mut(), 1));
    assert_eq!(accepted.unwrap(), [1]);
    assert!(messages == [content(1, SIZE)]);
}

pub async fn a_stalled_reader_stops_the_sender_and_a_moving_one_starts_it_b42(place: &Place) {
    const SIZE: usize = 8 * 1024;
    let (mut near, mut far) = place.pair().await;
    let (mut pushed, mut accepted) = (0u64, Vec::new());
    loop {
        while near.sender.wants_more() {
            near.sender.push(message(pushed, SIZE));
            pushed += 1;
            assert!(pushed < 8_192, "64 MiB and still not full");
        }
        if send_once(near.sender.as_mut(), &mut accepted)
            .await
            .is_none()
            && !near.sender.wants_more()
        {
            break;
        }
    }
    let waiting = (pushed as usize - accepted.len()) * SIZE;
    assert!(waiting < 1 << 20, "{waiting} bytes wait in the sender");

    let (flushed, messages) = tokio::join!(
        near.sender.flush(),
        receive(far.receiver.as_mut(), pushed as usize)
    );
    accepted.extend(flushed.unwrap());
    assert!(accepted.into_iter().eq(0..pushed));
    assert!((0..pushed).map(|token| content(token, SIZE)).eq(messages));
    assert!(near.sender.wants_more());
}

pub async fn small_messages_may_pass_when_large_ones_crowd_the_channel(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    let mut pushed = 0;
    while near.sender.wants_more() {
        near.sender.push(message(pushed, 1 << 20));
        pushed += 1;
    }
    assert!(pushed <= 4);
    assert!(near.sender.wants_small());
    assert!(near.sender.small_size_max() < 1 << 20);
    near.sender.push(message(99, 50));
    let (accepted, messages) = tokio::join!(
        near.sender.flush(),
        receive(far.receiver.as_mut(), pushed as usize + 1)
    );
    assert_eq!(accepted.unwrap().last(), Some(&(pushed - 1)));
    assert_eq!(messages.len(), pushed as usize + 1);
}

pub async fn a_message_over_the_bound_fails_the_sender_and_is_named(place: &Place) {
    let (mut near, _far) = place
        .pair_with(Options {
            message_size_max: 1000,
            ..Options::default()
        })
        .await;
    near.sender.push(message(5, 1001));
    assert!(
        !near.sender.is_idle(),
        "a driver polls, and so learns of it"
    );
    let result = poll_fn(|cx| near.sender.poll_send(cx, &mut Vec::new())).await;
    assert!(matches!(
        result,
        Err(SendError::MessageTooLarge {
            token: 5,
            size: 1001,
            size_max: 1000
        })
    ));
    assert!(matches!(
        poll_fn(|cx| near.sender.poll_send(cx, &mut Vec::new())).await,
        Err(SendError::Closed)
    ));
}
