//! Finding each other, and not.

use std::future::poll_fn;
use std::task::Poll;

use nact::{DialError, ListenError};

use crate::place::{Place, connect, content, message, receive};

pub async fn dialling_where_nobody_listens_is_refused(place: &Place) {
    let listener = place.listen().await;
    let url = listener.local_url().to_string();
    drop(listener);
    let error = place.transports().dial(&url).await.unwrap_err();
    assert!(matches!(error, DialError::Refused { .. }), "{error:?}");
    assert!(
        error.to_string().contains(&url),
        "it names what was dialled"
    );
}

pub async fn a_place_that_is_taken_is_a_clear_error(place: &Place) {
    let mut listener = place.listen().await;
    let (transports, url) = (place.transports(), listener.local_url().to_string());
    for _ in 0..3 {
        let error = transports.listen(&url).await.unwrap_err();
        assert!(
            matches!(error, ListenError::AlreadyListening { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("already listening"));
    }
    // The one who has it is none the worse; what the attempts left in its queue is gone or closed.
    let (mut near, mut far) = loop {
        let (dialled, accepted) = tokio::join!(transports.dial(&url), listener.accept());
        let (dialled, mut accepted) = (dialled.unwrap(), accepted.unwrap());
        accepted.sender.push(message(1, 1));
        if accepted.sender.flush().await.is_ok() {
            break (dialled, accepted);
        }
    };
    assert!(receive(near.receiver.as_mut(), 1).await == [content(1, 1)]);
    far.sender.close().await.unwrap();
}

pub async fn a_place_is_free_again_when_its_listener_is_gone(place: &Place) {
    let mut url = place.url.clone();
    let transports = place.transports();
    for _ in 0..5 {
        let mut listener = transports.listen(&url).await.unwrap();
        url = listener.local_url().to_string();
        // A channel outlives its listener.
        let (mut near, mut far) = connect(&transports, listener.as_mut()).await;
        drop(listener);
        near.sender.push(message(1, 10));
        near.sender.flush().await.unwrap();
        receive(far.receiver.as_mut(), 1).await;
    }
}

pub async fn several_channels_of_one_listener_are_independent(place: &Place) {
    let transports = place.transports();
    let mut listener = transports.listen(&place.url).await.unwrap();
    let (mut near_1, mut far_1) = connect(&transports, listener.as_mut()).await;
    let (near_2, far_2) = connect(&transports, listener.as_mut()).await;
    assert!(!near_1.remote.is_empty() && !far_1.remote.is_empty());
    drop((near_2, far_2));
    near_1.sender.push(message(1, 1000));
    near_1.sender.flush().await.unwrap();
    assert!(receive(far_1.receiver.as_mut(), 1).await == [content(1, 1000)]);
}

pub async fn a_dropped_accept_loses_no_connection(place: &Place) {
    let transports = place.transports();
    let mut listener = transports.listen(&place.url).await.unwrap();
    let url = listener.local_url().to_string();
    for _ in 0..20 {
        let mut accepting = Box::pin(listener.accept());
        poll_fn(|cx| Poll::Ready(accepting.as_mut().poll(cx).is_pending())).await;
        drop(accepting);
        let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
        assert!(near.is_ok() && far.is_ok());
    }
}

pub async fn an_accepted_channel_has_the_address_that_its_remote_text_tells(place: &Place) {
    let (_near, far) = place.pair().await;
    let told: Option<std::net::SocketAddr> = far.remote.parse().ok();
    assert_eq!(far.address, told, "{far:?}");
    let is_local = place.url.starts_with("mem:") || place.url.starts_with("unix:");
    assert_eq!(far.address.is_none(), is_local, "{far:?}");
}
