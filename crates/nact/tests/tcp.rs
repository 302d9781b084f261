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

/// Nobody listens, and the system takes the port that is dialled for the dialling end: that happens to who dials again
/// and again. It is noticed, and leaves the port to who will listen there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn whoever_dials_a_dead_port_until_the_system_connects_it_to_itself_notices_b64() {
    /// The system has 28,232 ports to choose from, and goes through them.
    const DIALS_MAX: u32 = 400_000;
    let transports = Transports::default();
    let url = free_even_port().await;
    let mut dials = 0;
    loop {
        assert!(dials < DIALS_MAX, "{url} never met itself");
        dials += 1;
        match transports.dial(&url).await {
            Err(DialError::Refused { .. }) => {}
            Err(error) => {
                assert_eq!(error.reason(), "self-connected", "after {dials} dials");
                break;
            }
            Ok(_) => panic!("a channel to itself after {dials} dials"),
        }
    }
    let listening = async {
        loop {
            match transports.listen(&url).await {
                Ok(listener) => return listener,
                // Another program's connection can have the port for a while.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let limit = std::time::Duration::from_secs(60);
    let mut listener = tokio::time::timeout(limit, listening).await.unwrap();
    let (near, far) = tokio::join!(transports.dial(&url), listener.accept());
    assert!(near.is_ok() && far.is_ok());
}

/// Linux prefers even ports for the ends that dial.
#[cfg(target_os = "linux")]
async fn free_even_port() -> String {
    let transports = Transports::default();
    loop {
        let any = transports.listen("tcp://127.0.0.1:0").await.unwrap();
        let even = any.local_url().port().unwrap() & !1;
        drop(any);
        let url = format!("tcp://127.0.0.1:{even}");
        if transports.listen(&url).await.is_ok() {
            return url;
        }
    }
}
