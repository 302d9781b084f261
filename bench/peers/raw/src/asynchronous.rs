//! Ping-pong with one tokio task on each side: what a runtime and its reactor cost on top of the kernel.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Mutex;
use yardstick::{Args, Call, Control, Failure, Load, control, measure};

/// Either side.
pub async fn run(args: Args, control: Control) -> Result<(), Failure> {
    let load = Load::from_args(&args)?;
    let url = args.required("url")?;
    match args.role.as_str() {
        "tokio-server" => serve(url, load.payload).await,
        "tokio-client" => client(url, &load, control).await,
        other => Err(format!("no such role: {other}").into()),
    }
}

async fn serve(url: &str, payload: usize) -> Result<(), Failure> {
    if let Some(path) = url.strip_prefix("unix://") {
        let listener = UnixListener::bind(path)?;
        control::ready();
        let (socket, _) = listener.accept().await?;
        return echo(socket, payload).await;
    }
    let listener = TcpListener::bind(url.trim_start_matches("tcp://")).await?;
    control::ready();
    let (socket, _) = listener.accept().await?;
    socket.set_nodelay(true)?;
    echo(socket, payload).await
}

async fn echo<S: AsyncReadExt + AsyncWriteExt + Unpin>(
    mut socket: S,
    payload: usize,
) -> Result<(), Failure> {
    let mut body = vec![0; payload];
    // The end of the connection is the end of the run.
    while socket.read_exact(&mut body).await.is_ok() {
        socket.write_all(&body).await?;
    }
    Ok(())
}

async fn client(url: &str, load: &Load, control: Control) -> Result<(), Failure> {
    if let Some(path) = url.strip_prefix("unix://") {
        let socket = UnixStream::connect(path).await?;
        return drive(socket, load, control).await;
    }
    let socket = TcpStream::connect(url.trim_start_matches("tcp://")).await?;
    socket.set_nodelay(true)?;
    drive(socket, load, control).await
}

async fn drive<S>(socket: S, load: &Load, mut control: Control) -> Result<(), Failure>
where
    S: AsyncReadExt + AsyncWriteExt + Unpin + Send + 'static,
{
    let body = vec![7; load.payload];
    // The lock is never contended: there is one caller, and it costs an atomic on either side of 10 µs.
    let ping = Ping(Arc::new(Mutex::new((socket, body))));
    let figures = measure(load, &mut control, &[ping]).await?;
    control::done(&figures);
    Ok(())
}

struct Ping<S>(Arc<Mutex<(S, Vec<u8>)>>);

impl<S> Clone for Ping<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S> Call for Ping<S>
where
    S: AsyncReadExt + AsyncWriteExt + Unpin + Send + 'static,
{
    async fn call(&self) -> Result<u64, Failure> {
        let (socket, body) = &mut *self.0.lock().await;
        socket.write_all(body).await?;
        socket.read_exact(body).await?;
        Ok(1)
    }
}
