//! tonic (gRPC over HTTP/2) under measurement.
//!
//! `bench-tonic server|client --url tcp://… | unix:///… [--case echo|swallow|chunks] [--windows default|wide]`.
//! TCP_NODELAY is on, as tonic does by itself. `--windows wide` raises the HTTP/2 windows and frames for large
//! messages, which tonic's defaults slow down a lot; both are measured.

mod service;

use std::process::ExitCode;

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use service::{BenchClient, BenchServer, Body, Server, Wanted};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::{Channel, Endpoint, Server as Transport, Uri};
use tower::service_fn;
use yardstick::{Args, Call, Control, Failure, Load, control, measure};

const WIDE_WINDOW_BYTES: u32 = 64 << 20;
const WIDE_FRAME_BYTES: u32 = 1 << 20;

fn main() -> ExitCode {
    control::run_async(run)
}

async fn run(args: Args, control: Control) -> Result<(), Failure> {
    let url = args.required("url")?.to_owned();
    let is_wide = args.text("windows", "default") == "wide";
    match args.role.as_str() {
        "server" => serve(&url, is_wide).await,
        "client" => client(&args, &url, is_wide, control).await,
        other => Err(format!("no such role: {other}").into()),
    }
}

async fn serve(url: &str, is_wide: bool) -> Result<(), Failure> {
    let service = BenchServer::new(Server)
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX);
    let mut transport = Transport::builder().tcp_nodelay(true);
    if is_wide {
        transport = transport
            .initial_stream_window_size(WIDE_WINDOW_BYTES)
            .initial_connection_window_size(WIDE_WINDOW_BYTES)
            .max_frame_size(WIDE_FRAME_BYTES);
    }
    let router = transport.add_service(service);
    if let Some(path) = url.strip_prefix("unix://") {
        let listener = UnixListener::bind(path)?;
        control::ready();
        router
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await?;
    } else {
        let listener = TcpListener::bind(url.trim_start_matches("tcp://")).await?;
        control::ready();
        router
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await?;
    }
    Ok(())
}

async fn connect(url: &str, is_wide: bool) -> Result<Channel, Failure> {
    let widen = |endpoint: Endpoint| {
        if !is_wide {
            return endpoint;
        }
        endpoint
            .initial_stream_window_size(WIDE_WINDOW_BYTES)
            .initial_connection_window_size(WIDE_WINDOW_BYTES)
    };
    let Some(path) = url.strip_prefix("unix://") else {
        let authority = url.trim_start_matches("tcp://");
        let endpoint = Endpoint::from_shared(format!("http://{authority}"))?.tcp_nodelay(true);
        return Ok(widen(endpoint).connect().await?);
    };
    let path = path.to_owned();
    let dial = move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    // The name is never looked up: the connector goes to the socket's path.
    let endpoint = Endpoint::from_static("http://localhost");
    Ok(widen(endpoint)
        .connect_with_connector(service_fn(dial))
        .await?)
}

async fn client(
    args: &Args,
    url: &str,
    is_wide: bool,
    mut control: Control,
) -> Result<(), Failure> {
    let load = Load::from_args(args)?;
    let data = Bytes::from(vec![7; load.payload]);
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let channel = connect(url, is_wide).await?;
        callers.push(Caller {
            client: BenchClient::new(channel)
                .max_decoding_message_size(usize::MAX)
                .max_encoding_message_size(usize::MAX),
            case: Case::named(args.text("case", "echo"))?,
            data: data.clone(),
            chunks: load.chunks,
        });
    }
    let figures = measure(&load, &mut control, &callers).await?;
    control::done(&figures);
    Ok(())
}

#[derive(Clone, Copy)]
enum Case {
    Echo,
    Swallow,
    Chunks,
}

impl Case {
    fn named(name: &str) -> Result<Self, Failure> {
        match name {
            "echo" => Ok(Self::Echo),
            "swallow" => Ok(Self::Swallow),
            "chunks" => Ok(Self::Chunks),
            other => Err(format!("no such case: {other}").into()),
        }
    }
}

#[derive(Clone)]
struct Caller {
    client: BenchClient<Channel>,
    case: Case,
    data: Bytes,
    chunks: u64,
}

impl Call for Caller {
    async fn call(&self) -> Result<u64, Failure> {
        let mut client = self.client.clone();
        let data = self.data.clone();
        let wanted = data.len();
        match self.case {
            Case::Echo => {
                let answer = client.echo(Body { data }).await?.into_inner();
                expect(answer.data.len(), wanted)?;
                Ok(1)
            }
            Case::Swallow => {
                let answer = client.swallow(Body { data }).await?.into_inner();
                expect(answer.bytes as usize, wanted)?;
                Ok(1)
            }
            Case::Chunks => {
                let ask = Wanted {
                    count: self.chunks,
                    size: wanted as u64,
                };
                let mut stream = client.chunks(ask).await?.into_inner();
                let mut chunks = 0;
                while let Some(chunk) = stream.message().await? {
                    expect(chunk.data.len(), wanted)?;
                    chunks += 1;
                }
                expect(chunks, self.chunks as usize)?;
                Ok(self.chunks)
            }
        }
    }
}

fn expect(got: usize, wanted: usize) -> Result<(), Failure> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("got {got}, wanted {wanted}").into())
}
