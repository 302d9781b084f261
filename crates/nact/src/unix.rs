//! `unix:///path`, `unix:path`: Unix domain sockets.
//!
//! What it keeps true: of several that start to listen at one path exactly one does, also when a killed process left its
//! socket file there; nobody removes a socket file that is not his own, or a file that is no socket.
//!
//! A listener holds a lock on `path.lock` for as long as it lives; the system frees it when the process dies. Only under
//! that lock is a stale socket file removed. Listeners that know nothing of the lock are found by connecting to them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::{sleep, timeout};

use crate::accept_pause::AcceptPause;
use crate::channel::{BoxFuture, Channel, Listener, Provider};
use crate::error::{AcceptError, DialError, ListenError};
use crate::options::Options;
use crate::stream;
use crate::url::Url;

/// Between two attempts to connect to a listener whose queue is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Attempts to lock a lock file that its former owner removes at the same time.
const LOCK_ATTEMPTS_MAX: u32 = 100;

/// The Unix socket transport. The rights of the socket file are those that the process's umask gives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unix;

impl Provider for Unix {
    fn schemes(&self) -> &[&str] {
        &["unix"]
    }

    fn dial<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Channel, DialError>> {
        Box::pin(async move {
            let limit = options.connect_timeout;
            let stream = timeout(limit, connect(url))
                .await
                .map_err(|_| DialError::Timeout {
                    url: url.to_string(),
                    limit,
                })??;
            Ok(channel(stream, url, options))
        })
    }

    fn listen<'a>(
        &'a self,
        url: &'a Url,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Box<dyn Listener>, ListenError>> {
        Box::pin(async move {
            let (listener, file) = bind(url, options).await?;
            let url = file.path.to_str().map_or_else(|| url.clone(), Url::unix);
            let pause = AcceptPause::default();
            Ok(Box::new(Listening {
                listener,
                _file: file,
                url,
                options: options.clone(),
                pause,
            }) as Box<dyn Listener>)
        })
    }
}

async fn connect(url: &Url) -> Result<UnixStream, DialError> {
    loop {
        let error = match UnixStream::connect(url.path()).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        match error.kind() {
            // Its queue is full: it is there, and busy.
            io::ErrorKind::WouldBlock => sleep(RETRY_INTERVAL).await,
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                return Err(DialError::Refused {
                    url: url.to_string(),
                });
            }
            _ => {
                return Err(DialError::Io {
                    url: url.to_string(),
                    source: error,
                });
            }
        }
    }
}

fn channel(stream: UnixStream, url: &Url, options: &Options) -> Channel {
    let pid = stream
        .peer_cred()
        .ok()
        .and_then(|credentials| credentials.pid());
    let remote = pid.map_or_else(|| url.to_string(), |pid| format!("{url} (process {pid})"));
    let (read, write) = stream.into_split();
    stream::channel(read, write, remote, options)
}

async fn bind(url: &Url, options: &Options) -> Result<(UnixListener, SocketFile), ListenError> {
    let io_error = |source| ListenError::Io {
        url: url.to_string(),
        source,
    };
    let taken = || ListenError::AlreadyListening {
        url: url.to_string(),
    };
    // Absolute, so that it stays the same file when the process changes its directory.
    let path = std::path::absolute(url.path()).map_err(io_error)?;
    let lock = LockFile::acquire(&path)
        .map_err(io_error)?
        .ok_or_else(taken)?;
    remove_stale(&path, url).await?;
    let socket = UnixSocket::new_stream().map_err(io_error)?;
    socket.bind(&path).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => taken(),
        _ => io_error(source),
    })?;
    let identity = identity_at(&path).map_err(io_error)?;
    // From here on the file goes away again if anything fails.
    let file = SocketFile {
        path,
        identity,
        _lock: lock,
    };
    let listener = socket.listen(options.accept_queue_max).map_err(io_error)?;
    Ok((listener, file))
}

/// Removes the socket file at `path` if nobody listens there. Call it under the lock.
async fn remove_stale(path: &Path, url: &Url) -> Result<(), ListenError> {
    let io_error = |source| ListenError::Io {
        url: url.to_string(),
        source,
    };
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => {
            return Err(ListenError::NotASocket {
                path: path.display().to_string(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(error)),
    }
    match UnixStream::connect(path)
        .await
        .map_err(|error| (error.kind(), error))
    {
        Ok(_) | Err((io::ErrorKind::WouldBlock, _)) => Err(ListenError::AlreadyListening {
            url: url.to_string(),
        }),
        Err((io::ErrorKind::ConnectionRefused, _)) => fs::remove_file(path).map_err(io_error),
        Err((io::ErrorKind::NotFound, _)) => Ok(()),
        Err((_, error)) => Err(io_error(error)),
    }
}

/// The file of a living listener; removed at its end, under the lock, if it is still the same file.
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    _lock: LockFile,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity_at(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn identity_at(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| identity(&metadata))
}

/// A locked `path.lock`. It is removed at the end while still locked, so that nothing is left behind.
struct LockFile {
    path: PathBuf,
    identity: (u64, u64),
    _file: File,
}

impl LockFile {
    /// `None` when another one holds it.
    fn acquire(socket: &Path) -> io::Result<Option<Self>> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        for _ in 0..LOCK_ATTEMPTS_MAX {
            let mut options = OpenOptions::new();
            options
                .create(true)
                .truncate(false)
                .write(true)
                .custom_flags(OFlags::NOFOLLOW.bits() as i32);
            let file = options.open(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            // The former owner may have removed the file between our open and our lock: then another starter makes a
            // new one, and ours guards nothing.
            let identity = identity(&file.metadata()?);
            if identity_at(&path).is_ok_and(|there| there == identity) {
                return Ok(Some(Self {
                    path,
                    identity,
                    _file: file,
                }));
            }
        }
        Ok(None)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if identity_at(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

struct Listening {
    /// First: it ends before its file goes.
    listener: UnixListener,
    _file: SocketFile,
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
                    return Poll::Ready(Ok(channel(stream, &self.url, &self.options)));
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
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn a_lock_whose_file_comes_and_goes_has_one_holder_at_most_b62() {
        let directory = tempfile::tempdir().unwrap();
        let (path, holders, held) = (
            directory.path().join("a.sock"),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let starter = || {
            for _ in 0..20_000 {
                if let Some(lock) = LockFile::acquire(&path).unwrap() {
                    assert_eq!(holders.fetch_add(1, SeqCst), 0, "two hold one lock");
                    held.fetch_add(1, SeqCst);
                    std::thread::yield_now();
                    holders.fetch_sub(1, SeqCst);
                    drop(lock);
                }
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(starter))));
        assert!(held.into_inner() > 0);
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            0,
            "nothing is left behind"
        );
    }
}
