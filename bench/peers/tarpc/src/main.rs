//! tarpc (bincode) under measurement.
//!
//! `bench-tarpc server|client --url tcp://… | unix:///…`. A task per request, as tarpc's own examples do it; its limits
//! and buffers are raised so that 1,024 calls in flight never wait for a slot.

use std::process::ExitCode;

use futures_util::StreamExt;
use serde_bytes::ByteBuf;
use tarpc::server::{self, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{ClientMessage, Response, client, context, serde_transport};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::codec::LengthDelimitedCodec;
use yardstick::{Args, Call, Control, Failure, Load, control, measure};

/// Above the most calls in flight that are measured.
const IN_FLIGHT_MAX: usize = 4_096;
/// A deadline that no measured call reaches.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(600);

/// The service.
#[tarpc::service]
trait Bench {
    async fn echo(body: ByteBuf) -> ByteBuf;
}

#[derive(Clone)]
struct Server;

impl Bench for Server {
    async fn echo(self, _: context::Context, body: ByteBuf) -> ByteBuf {
        body
    }
}

fn main() -> ExitCode {
    control::run_async(run)
}

async fn run(args: Args, control: Control) -> Result<(), Failure> {
    let url = args.required("url")?.to_owned();
    match args.role.as_str() {
        "server" => serve(&url).await,
        "client" => client(&args, &url, control).await,
        other => Err(format!("no such role: {other}").into()),
    }
}

async fn serve(url: &str) -> Result<(), Failure> {
    if let Some(path) = url.strip_prefix("unix://") {
        let listener = UnixListener::bind(path)?;
        control::ready();
        loop {
            let (socket, _) = listener.accept().await?;
            tokio::spawn(connection(socket));
        }
    }
    let listener = TcpListener::bind(url.trim_start_matches("tcp://")).await?;
    control::ready();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(connection(socket));
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Send + 'static>(socket: S) {
    let framed = LengthDelimitedCodec::builder().new_framed(socket);
    let transport =
        serde_transport::new::<_, ClientMessage<BenchRequest>, Response<BenchResponse>, _>(
            framed,
            Bincode::default(),
        );
    let config = server::Config {
        pending_response_buffer: IN_FLIGHT_MAX,
    };
    server::BaseChannel::new(config, transport)
        .execute(Server.serve())
        .for_each(|handling| async {
            tokio::spawn(handling);
        })
        .await;
}

async fn client(args: &Args, url: &str, mut control: Control) -> Result<(), Failure> {
    let load = Load::from_args(args)?;
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let client = if let Some(path) = url.strip_prefix("unix://") {
            stub(UnixStream::connect(path).await?)
        } else {
            let socket = TcpStream::connect(url.trim_start_matches("tcp://")).await?;
            socket.set_nodelay(true)?;
            stub(socket)
        };
        let body = ByteBuf::from(vec![7; load.payload]);
        callers.push(Caller { client, body });
    }
    let figures = measure(&load, &mut control, &callers).await?;
    control::done(&figures);
    Ok(())
}

fn stub<S: AsyncRead + AsyncWrite + Send + 'static>(socket: S) -> BenchClient {
    let framed = LengthDelimitedCodec::builder().new_framed(socket);
    let transport = serde_transport::new(framed, Bincode::default());
    let mut config = client::Config::default();
    config.max_in_flight_requests = IN_FLIGHT_MAX;
    config.pending_request_buffer = IN_FLIGHT_MAX;
    BenchClient::new(config, transport).spawn()
}

#[derive(Clone)]
struct Caller {
    client: BenchClient,
    body: ByteBuf,
}

impl Call for Caller {
    async fn call(&self) -> Result<u64, Failure> {
        let mut context = context::current();
        context.deadline = std::time::Instant::now() + DEADLINE;
        let answer = self.client.echo(context, self.body.clone()).await?;
        if answer.len() != self.body.len() {
            return Err(format!("got {} bytes", answer.len()).into());
        }
        Ok(1)
    }
}
