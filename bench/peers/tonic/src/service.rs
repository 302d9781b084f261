//! The messages of the service, and what the server does: echo, take a large message, stream chunks.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

#[allow(missing_docs, unreachable_pub)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/bench.Bench.rs"));
}

pub use generated::bench_client::BenchClient;
pub use generated::bench_server::{Bench, BenchServer};

/// Opaque bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Body {
    /// A slice of what was received, not a copy.
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

/// How much was received.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Size {
    /// In bytes.
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

/// How many chunks of which size to stream.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct Wanted {
    /// How many.
    #[prost(uint64, tag = "1")]
    pub count: u64,
    /// Bytes of each.
    #[prost(uint64, tag = "2")]
    pub size: u64,
}

/// The server's side.
#[derive(Debug)]
pub struct Server;

/// A finite stream of equal chunks; always ready, so that tonic's flow control alone sets the pace.
#[derive(Debug)]
pub struct Chunks {
    left: u64,
    body: Body,
}

impl Stream for Chunks {
    type Item = Result<Body, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(self.body.clone())))
    }
}

#[tonic::async_trait]
impl Bench for Server {
    async fn echo(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn swallow(&self, request: Request<Body>) -> Result<Response<Size>, Status> {
        let bytes = request.into_inner().data.len() as u64;
        Ok(Response::new(Size { bytes }))
    }

    type ChunksStream = Chunks;

    async fn chunks(&self, request: Request<Wanted>) -> Result<Response<Chunks>, Status> {
        let Wanted { count, size } = request.into_inner();
        let data = Bytes::from(vec![7; size as usize]);
        Ok(Response::new(Chunks {
            left: count,
            body: Body { data },
        }))
    }
}
