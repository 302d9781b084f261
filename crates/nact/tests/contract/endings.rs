//! How channels end: in order, cut, or one direction first.

use nact::{ReceiveError, SendError};

use crate::place::{Place, connect, content, message, receive, send_once};

pub async fn an_orderly_close_comes_after_every_message(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    (0..100).for_each(|token| near.sender.push(message(token, 1000)));
    near.sender.push(message(100, 1 << 20));
    let reading = async {
        let messages = receive(far.receiver.as_mut(), 101).await;
        for _ in 0..2 {
            let end = far.receiver.receive(&mut Vec::new()).await;
            assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
        }
        messages
    };
    let (accepted, messages) = tokio::join!(near.sender.close(), reading);
    assert!(accepted.unwrap().into_iter().eq(0..=100));
    assert!(messages[100] == content(100, 1 << 20));
    assert!(
        near.sender.close().await.is_ok(),
        "closing twice is no mistake"
    );
    assert!(!near.sender.wants_more());
}

pub async fn a_cut_in_the_middle_of_a_message_gives_no_message_b02(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    near.sender.push(message(1, 10));
    near.sender.push(message(2, 32 << 20));
    near.sender.push(message(3, 10));
    while send_once(near.sender.as_mut(), &mut Vec::new())
        .await
        .is_some()
    {}
    // So that something of them has come, whatever the transport does between.
    let mut messages = receive(far.receiver.as_mut(), 1).await;
    drop(near);
    let end = loop {
        match far.receiver.receive(&mut messages).await {
            Ok(()) => {}
            Err(end) => break end,
        }
    };
    assert!(place.cut_reasons.contains(&end.reason()), "{end:?}");
    assert!(messages == [content(1, 10), content(3, 10)] || messages == [content(1, 10)]);
}

pub async fn nothing_of_a_cut_channel_survives_into_the_next_b11(place: &Place) {
    let transports = place.transports();
    let mut listener = transports.listen(&place.url).await.unwrap();
    for round in 1..=5 {
        let (mut near, mut far) = connect(&transports, listener.as_mut()).await;
        far.sender.push(message(round, 100));
        far.sender.push(message(round, 32 << 20));
        while send_once(far.sender.as_mut(), &mut Vec::new())
            .await
            .is_some()
        {}
        assert!(receive(near.receiver.as_mut(), 1).await == [content(round, 100)]);
        drop(far);
    }
}

pub async fn sending_to_one_who_is_gone_fails_and_stays_failed(place: &Place) {
    let (mut near, far) = place.pair().await;
    drop(far);
    let error = loop {
        // The system may take some before it knows.
        near.sender.push(message(1, 1000));
        if let Err(error) = near.sender.flush().await {
            break error;
        }
    };
    assert!(place.gone_reasons.contains(&error.reason()), "{error:?}");
    near.sender.push(message(2, 1000));
    assert!(!near.sender.wants_more());
    assert!(matches!(near.sender.close().await, Err(SendError::Closed)));
}

pub async fn one_direction_may_end_before_the_other(place: &Place) {
    let (mut near, mut far) = place.pair().await;
    near.sender.close().await.unwrap();
    assert!(matches!(
        far.receiver.receive(&mut Vec::new()).await,
        Err(ReceiveError::Closed)
    ));
    far.sender.push(message(1, 1000));
    far.sender.close().await.unwrap();
    assert!(receive(near.receiver.as_mut(), 1).await == [content(1, 1000)]);
}
