//! The calling side: echoes, large messages, streams of chunks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use napp::{App, CallOptions, Payload};
use serde_bytes::ByteBuf;
use yardstick::{Args, Call, Control, Failure, Load, control, measure};

use crate::apps::{SERVER, builder, next_hop};

/// Connects, and calls as told.
pub async fn run(args: &Args, mut control: Control) -> Result<(), Failure> {
    let load = Load::from_args(args)?;
    let name = args.text("name", "client");
    let lost = Arc::new(AtomicU64::new(0));
    let does = match args.text("case", "echo") {
        "echo" => Does::Echo(ByteBuf::from(vec![7; load.payload])),
        "swallow" => Does::Swallow(large(load.payload)?),
        "chunks" => Does::Chunks {
            count: load.chunks,
            size: load.payload,
            lost: Arc::clone(&lost),
        },
        other => return Err(format!("no such case: {other}").into()),
    };
    let mut callers = Vec::new();
    for index in 0..load.connections {
        let app = builder(&format!("{name}-{index}"), args)?.start().await?;
        app.connect(next_hop(args), args.required("url")?).await?;
        let does = does.clone();
        callers.push(Caller { app, does });
    }
    // The callers share what they send; nothing else is to keep a large message in memory.
    drop(does);
    let mut figures = measure(&load, &mut control, &callers).await?;
    figures.insert("lost".into(), lost.load(Ordering::Relaxed) as f64);
    control::done(&figures);
    std::future::pending::<()>().await;
    drop(callers);
    Ok(())
}

/// A CBOR byte string of this size, made in place: encoding one from a buffer would need both in memory.
fn large(size: usize) -> Result<Payload, Failure> {
    let length = u32::try_from(size)?.to_be_bytes();
    let mut cbor = Vec::with_capacity(size + 5);
    cbor.push(0x5a);
    cbor.extend_from_slice(&length);
    cbor.resize(size + 5, 7);
    Ok(Payload::from_cbor(Bytes::from(cbor))?)
}

#[derive(Clone)]
struct Caller {
    app: App,
    does: Does,
}

#[derive(Clone)]
enum Does {
    Echo(ByteBuf),
    Swallow(Payload),
    Chunks {
        count: u64,
        size: usize,
        lost: Arc<AtomicU64>,
    },
}

impl Call for Caller {
    async fn call(&self) -> Result<u64, Failure> {
        match &self.does {
            Does::Echo(body) => {
                let answer: ByteBuf = self.app.call(SERVER, "echo", body).await?;
                expect(answer.len(), body.len())?;
                Ok(1)
            }
            Does::Swallow(body) => {
                let options = CallOptions::default();
                let answer = self.app.call_payload(SERVER, "swallow", body, options);
                let size: u64 = answer.await?.decode()?;
                expect(usize::try_from(size)?, body.as_bytes().len())?;
                Ok(1)
            }
            Does::Chunks { count, size, lost } => self.chunks(*count, *size, lost).await,
        }
    }
}

impl Caller {
    async fn chunks(&self, count: u64, size: usize, lost: &AtomicU64) -> Result<u64, Failure> {
        let wanted = (count, size as u64);
        let mut stream = self.app.event(SERVER, "chunks", &wanted).await?;
        let mut chunks = 0;
        while let Some(chunk) = stream.next_as::<ByteBuf>().await {
            expect(chunk?.len(), size)?;
            chunks += 1;
        }
        stream.response::<()>().await?;
        lost.fetch_add(count - chunks, Ordering::Relaxed);
        Ok(chunks)
    }
}

fn expect(got: usize, wanted: usize) -> Result<(), Failure> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("got {got} bytes, wanted {wanted}").into())
}
