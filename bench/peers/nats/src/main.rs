//! NATS under measurement, against a broker that the driver starts.
//!
//! `bench-nats server|client --url nats://… [--case echo|chunks|jetstream]`: core request/reply with a responder in a
//! process of its own, a stream of plain publishes from that process to the client, and JetStream publish with ack (its
//! stream in memory, which is NATS' fastest).

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream::StorageType};
use async_nats::{Client, ConnectOptions, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::Mutex;
use yardstick::{Args, Call, Control, Failure, Load, control, measure};

/// Above the chunks of one stream, so that the client library never drops one for a full queue.
const SUBSCRIPTION_CAPACITY: usize = 1 << 17;
/// Requests and publishes that wait for the client's writer.
const CLIENT_CAPACITY: usize = 4_096;
/// Messages that JetStream keeps: old ones go, so memory stays bounded however fast it is.
const KEPT_MESSAGES: i64 = 100_000;
const SILENCE_MAX: Duration = Duration::from_secs(10);

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

async fn connect(url: &str) -> Result<Client, Failure> {
    let options = ConnectOptions::new()
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .client_capacity(CLIENT_CAPACITY)
        .request_timeout(Some(SILENCE_MAX));
    Ok(options.connect(url).await?)
}

async fn serve(url: &str) -> Result<(), Failure> {
    let client = connect(url).await?;
    let mut echoes = client.subscribe("echo").await?;
    let mut streams = client.subscribe("chunks").await?;
    client.flush().await?;
    control::ready();
    loop {
        tokio::select! {
            Some(message) = echoes.next() => {
                if let Some(reply) = message.reply {
                    client.publish(reply, message.payload).await?;
                }
            }
            Some(message) = streams.next() => {
                let (count, size) = wanted(&message.payload)?;
                let reply = message.reply.ok_or("a stream without an inbox")?;
                let chunk = Bytes::from(vec![7; size]);
                for _ in 0..count {
                    client.publish(reply.clone(), chunk.clone()).await?;
                }
            }
            else => return Ok(()),
        }
    }
}

fn wanted(text: &[u8]) -> Result<(u64, usize), Failure> {
    let text = std::str::from_utf8(text)?;
    let (count, size) = text.split_once(' ').ok_or("not a wish for chunks")?;
    Ok((count.parse()?, size.parse()?))
}

async fn client(args: &Args, url: &str, mut control: Control) -> Result<(), Failure> {
    let load = Load::from_args(args)?;
    let case = args.text("case", "echo");
    let body = Bytes::from(vec![7; load.payload]);
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        let client = connect(url).await?;
        let does = match case {
            "echo" => Does::Echo,
            "chunks" => stream(&client, load.chunks).await?,
            "jetstream" => Does::Publish(persistent(&client).await?),
            other => return Err(format!("no such case: {other}").into()),
        };
        let body = body.clone();
        callers.push(Caller { client, does, body });
    }
    let figures = measure(&load, &mut control, &callers).await?;
    control::done(&figures);
    Ok(())
}

async fn stream(client: &Client, chunks: u64) -> Result<Does, Failure> {
    let inbox = client.new_inbox();
    let hits = client.subscribe(inbox.clone()).await?;
    client.flush().await?;
    Ok(Does::Stream {
        inbox,
        hits: Arc::new(Mutex::new(hits)),
        chunks,
    })
}

async fn persistent(client: &Client) -> Result<jetstream::Context, Failure> {
    let context = jetstream::new(client.clone());
    let config = jetstream::stream::Config {
        name: "BENCH".into(),
        subjects: vec!["kept".into()],
        storage: StorageType::Memory,
        max_messages: KEPT_MESSAGES,
        ..Default::default()
    };
    context.get_or_create_stream(config).await?;
    Ok(context)
}

#[derive(Clone)]
struct Caller {
    client: Client,
    does: Does,
    body: Bytes,
}

#[derive(Clone)]
enum Does {
    Echo,
    Stream {
        inbox: String,
        hits: Arc<Mutex<Subscriber>>,
        chunks: u64,
    },
    Publish(jetstream::Context),
}

impl Call for Caller {
    async fn call(&self) -> Result<u64, Failure> {
        match &self.does {
            Does::Echo => {
                let answer = self.client.request("echo", self.body.clone()).await?;
                expect(answer.payload.len(), self.body.len())?;
                Ok(1)
            }
            Does::Stream {
                inbox,
                hits,
                chunks,
            } => {
                let ask = format!("{chunks} {}", self.body.len());
                self.client
                    .publish_with_reply("chunks", inbox.clone(), ask.into())
                    .await?;
                let mut hits = hits.lock().await;
                for _ in 0..*chunks {
                    let hit = tokio::time::timeout(SILENCE_MAX, hits.next()).await?;
                    let hit = hit.ok_or("the subscription ended")?;
                    expect(hit.payload.len(), self.body.len())?;
                }
                Ok(*chunks)
            }
            Does::Publish(context) => {
                context.publish("kept", self.body.clone()).await?.await?;
                Ok(1)
            }
        }
    }
}

fn expect(got: usize, wanted: usize) -> Result<(), Failure> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("got {got} bytes, wanted {wanted}").into())
}
