//! Names and addresses of TCP.

use nact::{DialError, ListenError, Transports};

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let transports = Transports::default();
    // "localhost" may mean ::1 first, where nobody listens.
    let mut listener = transports.listen("tcp://127.0.0.1:0").await.unwrap();
    let url = format!("tcp://localhost:{}", listener.local_url().port().unwrap());
    let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
    assert!(near.unwrap().remote.starts_with("127.0.0.1:"));
    assert!(far.unwrap().remote.starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn an_ipv6_address_stands_in_brackets() {
    let transports = Transports::default();
    // A system without IPv6 has nothing to show here.
    let Ok(mut listener) = transports.listen("tcp://[::1]:0").await else {
        return;
    };
    let url = listener.local_url().to_string();
    assert!(
        url.starts_with("tcp://[::1]:") && !url.ends_with(":0"),
        "{url}"
    );
    let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
    assert!(near.is_ok() && far.is_ok());
}

#[tokio::test]
async fn a_wrong_url_is_the_callers_mistake_and_says_what_to_write() {
    let transports = Transports::default();
    for (url, hint) in [
        ("tcp://localhost", "tcp://localhost:port"),
        ("tcp://localhost:1/path", "takes no path"),
        ("mem://name:1", "mem://name"),
        ("mem://name/path", "takes no path"),
        ("quic://localhost:1", "known are: "),
        ("localhost:1", "no scheme"),
        ("", "tcp://host:port"),
    ] {
        let dial = transports.dial(url).await.unwrap_err();
        let listen = transports.listen(url).await.unwrap_err();
        assert!(matches!(
            dial,
            DialError::Url(_) | DialError::UnknownScheme { .. }
        ));
        assert!(matches!(
            listen,
            ListenError::Url(_) | ListenError::UnknownScheme { .. }
        ));
        assert!(dial.to_string().contains(hint), "{dial}");
        assert_eq!(dial.to_string(), listen.to_string());
    }
}
