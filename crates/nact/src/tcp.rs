//! `tcp://host:port`.
//!
//! What it keeps true: nothing waits for a delayed ACK (TCP_NODELAY); little waits unsent in the kernel, so that a small
//! message soon follows the chunk before it; a connection that met itself is not a channel; a shortage of file
//! descriptors does not end a listener.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use crate::accept_pause::AcceptPause;
use crate::channel::{BoxFuture, Channel, Listener, Provider};
use crate::error::{AcceptError, DialError, ListenError};
use crate::options::Options;
use crate::stream;
use crate::url::Url;

/// The TCP transport. Host names may have several addresses: a dial tries each, a listen takes the first that works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Provider for Tcp {
    fn schemes(&self) -> &[&str] {
        &["tcp"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            url.expect_no_path()?;
            let stream = connect(url, url.expect_port()?, options).await?;
            channel(stream, options).map_err(|source| DialError::Io {
                url: url.to_string(),
                source,
            })
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        Box::pin(async move {
            url.expect_no_path()?;
            let (listener, url) = bind(url, url.expect_port()?, options).await?;
            Ok(Box::new(Listening {
                listener,
                url,
                options: options.clone(),
                pause: AcceptPause::default(),
            }) as Box<dyn Listener>)
        })
    }
}

/// The remote address, as text for people.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) fn remote(stream: &TcpStream, url: &Url) -> Result<String, DialError> {
    let address = stream.peer_addr().map_err(|source| DialError::Io {
        url: url.to_string(),
        source,
    })?;
    Ok(address.to_string())
}

fn channel(stream: TcpStream, options: &Options) -> io::Result<Channel> {
    let remote = stream.peer_addr()?;
    let (read, write) = stream.into_split();
    Ok(stream::channel(read, write, remote.to_string(), options).with_address(Some(remote)))
}

/// Connects to the first address of the URL's host that answers, within `connect_timeout`. For every transport over
/// TCP.
pub(crate) async fn connect(
    url: &Url,
    port: u16,
    options: &Options,
) -> Result<TcpStream, DialError> {
    let limit = options.connect_timeout;
    let deadline = Instant::now() + limit;
    let late = |_| DialError::Timeout {
        url: url.to_string(),
        limit,
    };
    let addresses: Vec<SocketAddr> = timeout_at(deadline, lookup_host((url.host(), port)))
        .await
        .map_err(late)?
        .map_err(|source| DialError::Resolve {
            url: url.to_string(),
            source,
        })?
        .collect();
    let mut error = DialError::Resolve {
        url: url.to_string(),
        source: io::Error::other("the name has no address"),
    };
    for (index, address) in addresses.iter().enumerate() {
        // An address that does not answer must not use up the time of those after it.
        let share =
            deadline.saturating_duration_since(Instant::now()) / (addresses.len() - index) as u32;
        error = match timeout(share, connect_address(url, *address, options)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error,
            Err(elapsed) => late(elapsed),
        };
    }
    Err(error)
}

async fn connect_address(
    url: &Url,
    address: SocketAddr,
    options: &Options,
) -> Result<TcpStream, DialError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| match source.kind() {
            io::ErrorKind::ConnectionRefused => DialError::Refused {
                url: url.to_string(),
            },
            _ => DialError::Io {
                url: url.to_string(),
                source,
            },
        })?;
    checked(stream, url, options)
}

/// Makes a fresh connection ready, unless it met itself.
fn checked(stream: TcpStream, url: &Url, options: &Options) -> Result<TcpStream, DialError> {
    let fail = |source| DialError::Io {
        url: url.to_string(),
        source,
    };
    if met_itself(
        stream.local_addr().map_err(fail)?,
        stream.peer_addr().map_err(fail)?,
    ) {
        // Reset, not closed: the port must not linger, its rightful listener wants it.
        let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        return Err(DialError::SelfConnected {
            url: url.to_string(),
        });
    }
    prepare(&stream, options).map_err(fail)?;
    Ok(stream)
}

/// When nobody listens on a port of the ephemeral range, the system may choose that port for the dialling end too, and
/// TCP connects the socket to itself.
fn met_itself(local: SocketAddr, remote: SocketAddr) -> bool {
    local.ip() == remote.ip() && local.port() == remote.port()
}

/// Sets what every connection needs, dialled or accepted.
pub(crate) fn prepare(stream: &TcpStream, options: &Options) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(options.unsent_bytes_max)?;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = options;
    Ok(())
}

/// Listens on the first address of the URL's host that works; gives the URL with the real port. For every transport
/// over TCP.
pub(crate) async fn bind(
    url: &Url,
    port: u16,
    options: &Options,
) -> Result<(TcpListener, Url), ListenError> {
    let io_error = |source| ListenError::Io {
        url: url.to_string(),
        source,
    };
    let mut error = io_error(io::Error::other("the name has no address"));
    for address in lookup_host((url.host(), port)).await.map_err(io_error)? {
        match bind_address(address, options) {
            Ok(listener) => {
                let port = listener.local_addr().map_err(io_error)?.port();
                return Ok((listener, url.clone().with_port(port)));
            }
            Err(source) if source.kind() == io::ErrorKind::AddrInUse => {
                // Another address of the same name would make a listener that only some can reach.
                return Err(ListenError::AlreadyListening {
                    url: url.to_string(),
                });
            }
            Err(source) => error = io_error(source),
        }
    }
    Err(error)
}

fn bind_address(address: SocketAddr, options: &Options) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    // So that connections of a former listener that linger do not keep the port. On Windows the option means another
    // thing: to take the port from a living listener.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(options.accept_queue_max)
}

struct Listening {
    listener: TcpListener,
    url: Url,
    options: Options,
    pause: AcceptPause,
}

impl Listener for Listening {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Channel, AcceptError>> {
        loop {
            ready!(self.pause.poll(cx));
            match ready!(self.listener.poll_accept(cx)) {
                Ok((stream, _)) => {
                    self.pause.reset();
                    // It fails when the remote is gone already.
                    if let Ok(channel) = prepare(&stream, &self.options)
                        .and_then(|()| channel(stream, &self.options))
                    {
                        return Poll::Ready(Ok(channel));
                    }
                }
                Err(error) => self.pause.after(error, &self.url)?,
            }
        }
    }

    fn local_url(&self) -> Url {
        self.url.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_met_itself_when_both_ends_are_one_address_b64() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(met_itself(
            address("127.0.0.1:40000"),
            address("127.0.0.1:40000")
        ));
        assert!(met_itself(address("[::1]:40000"), address("[::1]:40000")));
        assert!(!met_itself(
            address("127.0.0.1:40001"),
            address("127.0.0.1:40000")
        ));
        assert!(!met_itself(
            address("127.0.0.2:40000"),
            address("127.0.0.1:40000")
        ));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_dial_that_met_itself_is_no_channel_b64() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        // What the system does when it picks the dialled port for the dialling end.
        let stream = socket.connect(address).await.unwrap();
        let url = Url::new("tcp", "127.0.0.1", Some(address.port()));
        let error = checked(stream, &url, &Options::default()).unwrap_err();
        assert_eq!(error.reason(), "self-connected");
        bind(&url, address.port(), &Options::default())
            .await
            .expect("its rightful listener gets the port at once");
    }

    #[tokio::test]
    async fn dialled_and_accepted_connections_delay_nothing_and_hold_little_b37() {
        let (options, url) = (Options::default(), Url::new("tcp", "127.0.0.1", Some(0)));
        let (listener, url) = bind(&url, 0, &options).await.unwrap();
        let stream = connect(&url, url.port().unwrap(), &options).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        prepare(&accepted, &options).unwrap();
        for stream in [stream, accepted] {
            assert!(stream.nodelay().unwrap());
            #[cfg(target_os = "linux")]
            assert_eq!(
                socket2::SockRef::from(&stream).tcp_notsent_lowat().unwrap(),
                options.unsent_bytes_max
            );
        }
    }
}
