//! The web transports inside somebody else's server.
#![cfg(feature = "web")]

mod raw;

use axum::Router;
use axum::routing::get;
use nact::web::Web;
use nact::{Options, Outbound, Transports};
use raw::receive_one;

#[tokio::test]
async fn an_axum_server_serves_both_transports_on_a_path_beside_its_own() {
    let url = "http://example.org/links/nacp".parse().unwrap();
    let (service, mut listener) = Web::default().mount(&url, &Options::default());
    assert_eq!(listener.local_url(), url);
    let app = Router::new()
        .route("/", get(|| async { "its own" }))
        .nest("/links", Router::new().route_service("/nacp", service));
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(tcp, app).await });

    let transports = Transports::default();
    for scheme in ["ws", "http"] {
        let url = format!("{scheme}://127.0.0.1:{port}/links/nacp");
        let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let message = |token, size| Outbound {
            token,
            body: vec![7; size].into(),
            ..Outbound::default()
        };
        near.sender.push(message(1, 1 << 20));
        let (accepted, received) = tokio::join!(near.sender.flush(), receive_one(&mut far));
        assert_eq!((accepted.unwrap(), received.len()), (vec![1], 1 << 20));
        far.sender.push(message(2, 1 << 20));
        let (accepted, received) = tokio::join!(far.sender.flush(), receive_one(&mut near));
        assert_eq!((accepted.unwrap(), received.len()), (vec![2], 1 << 20));
        near.sender.close().await.unwrap();
        assert_eq!(raw::drain(&mut far).await.1, "closed");
    }
}
