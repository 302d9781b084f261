//! Frames by hand: a base peer that is nothing but a socket.

use std::net::SocketAddr;

use bytes::Bytes;
use nacp::Payload;
use nacp::message::{Head, Meta, Registration, decode, encode};
use nact::frame::{HEADER_SIZE, Header, PacketId};
use nact_rig::{Place, Proxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The socket address of a `tcp://` URL.
pub fn address(url: &str) -> SocketAddr {
    url.strip_prefix("tcp://").unwrap().parse().unwrap()
}

/// The URL that leads through `proxy`.
pub fn through(proxy: &Proxy) -> String {
    let Place::Tcp(address) = proxy.local() else {
        unreachable!("it was started on TCP")
    };
    format!("tcp://{address}")
}

/// The base protocol, spoken by hand. It reads only while it waits for a response.
pub struct RawPeer {
    stream: TcpStream,
    id: String,
    to: String,
    sent: u64,
}

impl RawPeer {
    async fn connect(id: &str, to: &str, url: &str) -> Self {
        Self {
            stream: TcpStream::connect(address(url)).await.unwrap(),
            id: id.to_owned(),
            to: to.to_owned(),
            sent: 0,
        }
    }

    /// Connects and registers, as a peer without any extension does.
    pub async fn register(id: &str, to: &str, url: &str) -> Self {
        let mut peer = Self::connect(id, to, url).await;
        let registration = Payload::encode(&Registration::default()).unwrap();
        peer.ask(Meta::Register, &registration).await;
        peer
    }

    /// The same, but asks something in the same write, and waits for both responses.
    pub async fn register_and_ask(
        id: &str,
        to: &str,
        url: &str,
        meta: Meta<'_>,
        payload: &Payload,
    ) -> Self {
        let mut peer = Self::connect(id, to, url).await;
        let registration = Payload::encode(&Registration::default()).unwrap();
        let (register, first) = peer.frame(Meta::Register, Some(&registration));
        let (request, second) = peer.frame(meta, Some(payload));
        let both = [first, second].concat();
        peer.stream.write_all(&both).await.unwrap();
        peer.wait_for(&register).await;
        peer.wait_for(&request).await;
        peer
    }

    /// Sends and waits for the ok response; acknowledges what comes until then.
    pub async fn ask(&mut self, meta: Meta<'_>, payload: &Payload) {
        let id = self.send(meta, Some(payload)).await;
        self.wait_for(&id).await;
    }

    /// Acts as if it were another App behind this connection from now on.
    pub fn pretend(&mut self, id: &str, to: &str) {
        self.id = id.to_owned();
        self.to = to.to_owned();
    }

    async fn wait_for(&mut self, id: &str) {
        loop {
            let body = read_frame(&mut self.stream).await;
            let message = decode(&body).unwrap();
            if matches!(message.meta, Meta::Ack { .. }) {
                continue;
            }
            let parent_id = message.id.clone();
            let receipt = Meta::Ack {
                parent_id,
                taken: None,
            };
            self.send(receipt, None).await;
            match message.meta {
                Meta::Response {
                    parent_id, is_ok, ..
                } if parent_id == id => {
                    assert!(is_ok);
                    return;
                }
                _ => {}
            }
        }
    }

    pub async fn send(&mut self, meta: Meta<'_>, payload: Option<&Payload>) -> String {
        let (id, frame) = self.frame(meta, payload);
        self.stream.write_all(&frame).await.unwrap();
        id
    }

    fn frame(&mut self, meta: Meta<'_>, payload: Option<&Payload>) -> (String, Vec<u8>) {
        self.sent += 1;
        let id = format!("{}-{}", self.id, self.sent);
        let head = Head {
            id: &id,
            from: &self.id,
            to: &self.to,
            t_ms: 0,
            meta,
        };
        let body = encode(&head, payload).to_bytes();
        let size = u32::try_from(body.len()).unwrap();
        let mut packet = [0; 16];
        packet[..8].copy_from_slice(&self.sent.to_be_bytes());
        let header = Header {
            packet: PacketId(packet),
            offset: 0,
            total: size,
            body: size,
        };
        let frame = [header.encode().as_slice(), &body].concat();
        (id, frame)
    }
}

async fn read_frame(stream: &mut TcpStream) -> Bytes {
    let mut header = [0; HEADER_SIZE];
    stream.read_exact(&mut header).await.unwrap();
    let header = Header::parse(&header, u32::MAX).unwrap();
    assert_eq!(header.body, header.total, "a small message");
    let mut body = vec![0; header.body as usize];
    stream.read_exact(&mut body).await.unwrap();
    body.into()
}
