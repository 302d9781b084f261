//! The byte streams that the fault proxy stands between: TCP, and Unix sockets where the system has them.
//!
//! What this module keeps true: whoever uses a stream need not know which kind it is; what a kind cannot do (a Unix
//! socket knows no reset) it does as nearly as it can, and the difference is said where it stands.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

/// Where a stream socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// TCP; port 0 = any, when listening.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Takes connections.
#[derive(Debug)]
pub(crate) enum SocketListener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, PathBuf),
}

pub(crate) type ReadEnd<'a> = Box<dyn AsyncRead + Send + Unpin + 'a>;
pub(crate) type WriteEnd<'a> = Box<dyn AsyncWrite + Send + Unpin + 'a>;

impl SocketListener {
    pub(crate) async fn bind(place: &Place) -> io::Result<Self> {
        Ok(match place {
            Place::Tcp(address) => Self::Tcp(TcpListener::bind(address).await?),
            #[cfg(unix)]
            Place::Unix(path) => Self::Unix(UnixListener::bind(path)?, path.clone()),
        })
    }

    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(listener.accept().await?.0),
            #[cfg(unix)]
            Self::Unix(listener, _) => Socket::Unix(listener.accept().await?.0),
        })
    }

    /// With the port that the system chose.
    pub(crate) fn place(&self) -> io::Result<Place> {
        Ok(match self {
            Self::Tcp(listener) => Place::Tcp(listener.local_addr()?),
            #[cfg(unix)]
            Self::Unix(_, path) => Place::Unix(path.clone()),
        })
    }
}

impl Socket {
    pub(crate) async fn connect(place: &Place) -> io::Result<Self> {
        Ok(match place {
            Place::Tcp(address) => Self::Tcp(TcpStream::connect(address).await?),
            #[cfg(unix)]
            Place::Unix(path) => Self::Unix(UnixStream::connect(path).await?),
        })
    }

    /// Small writes leave at once. Where that fails, or there is nothing to set, they are only slower.
    pub(crate) fn hurry(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }

    /// Makes the end of this socket a reset. A Unix socket just ends: for the other side that is an end of file, in the
    /// middle of a message or between two.
    pub(crate) fn reset_at_end(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_zero_linger(); // it is gone already
        }
    }

    pub(crate) fn split(&mut self) -> (ReadEnd<'_>, WriteEnd<'_>) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.split();
                (Box::new(read), Box::new(write))
            }
            #[cfg(unix)]
            Self::Unix(stream) => {
                let (read, write) = stream.split();
                (Box::new(read), Box::new(write))
            }
        }
    }
}
