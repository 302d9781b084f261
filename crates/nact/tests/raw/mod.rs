//! HTTP by hand, and a server to speak it to.

#![allow(dead_code)] // Each test file uses its part.

use bytes::Bytes;
use nact::frame::{Header, PacketId};
use nact::web::{Web, WebConfig};
use nact::{Channel, Options, Provider, Url};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// A listener that is always accepting.
pub struct Server {
    pub port: u16,
    channels: mpsc::Receiver<Channel>,
}

impl Server {
    pub async fn start(config: WebConfig) -> Self {
        Self::start_with(config, Options::default()).await
    }

    pub async fn start_with(config: WebConfig, options: Options) -> Self {
        let url: Url = "http://127.0.0.1:0".parse().unwrap();
        let mut listener = Web::new(config).listen(&url, &options).await.unwrap();
        let port = listener.local_url().port().unwrap();
        let (sender, channels) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok(channel) = listener.accept().await {
                if sender.send(channel).await.is_err() {
                    return;
                }
            }
        });
        Self { port, channels }
    }

    pub async fn accept(&mut self) -> Channel {
        self.channels.recv().await.unwrap()
    }

    pub async fn connect(&self) -> Raw {
        Raw::new(TcpStream::connect(("127.0.0.1", self.port)).await.unwrap())
    }

    /// One request on a connection of its own; its answer.
    pub async fn ask(&self, request: &str) -> Answer {
        let mut raw = self.connect().await;
        raw.send(request).await;
        raw.answer().await
    }

    /// A session: the connection of its downlink, its token, its channel.
    pub async fn open(&mut self) -> (Raw, String, Channel) {
        let mut raw = self.connect().await;
        raw.send("GET /nacp HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let answer = raw.answer().await;
        assert_eq!(answer.status, 200);
        let token = answer.header("x-nact-session").unwrap().to_owned();
        assert_eq!(raw.chunk().await.as_deref(), Some(&[0x01, 0xCF][..]));
        (raw, token, self.accept().await)
    }

    pub async fn post(&self, token: &str, body: &[u8]) -> Answer {
        let mut raw = self.connect().await;
        raw.send(&post_head(token, body.len())).await;
        raw.send_bytes(body).await;
        raw.answer().await
    }
}

pub fn post_head(token: &str, size: usize) -> String {
    format!(
        "POST /nacp HTTP/1.1\r\nhost: x\r\nx-nact-session: {token}\r\n\
         content-type: application/octet-stream\r\ncontent-length: {size}\r\n\r\n"
    )
}

pub struct Raw {
    pub stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }
}

impl Raw {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub async fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        // It fails when the other side has had enough; its answer is what is judged.
        let _ = self.stream.write_all(bytes).await;
    }

    /// The head of an answer, or of a request (then the status is 0).
    pub async fn answer(&mut self) -> Answer {
        let first = self.line().await.expect("an answer");
        let status = first.split(' ').nth(1).unwrap().parse().unwrap_or(0);
        let mut headers = Vec::new();
        while let Some((name, value)) = self
            .line()
            .await
            .filter(|line| !line.is_empty())
            .as_deref()
            .and_then(|line| line.split_once(':'))
        {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Answer { status, headers }
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.stream.read_line(&mut line).await.unwrap_or(0);
        (count > 0).then(|| line.trim_end().to_owned())
    }

    /// The next chunk of a chunked body; empty at its orderly end, `None` when the connection was cut.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        let size = usize::from_str_radix(&self.line().await?, 16).ok()?;
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes).await.ok()?;
        bytes.truncate(size);
        Some(bytes.into())
    }

    pub async fn bytes(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    /// True when nothing more comes.
    pub async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = self.stream.read_to_end(&mut rest).await;
        rest.is_empty()
    }
}

/// A NACT frame that is a whole message.
pub fn frame(body: &[u8]) -> Vec<u8> {
    part(0, body.len() as u32, body)
}

/// A NACT frame that is a part of one.
pub fn part(offset: u32, total: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        packet: PacketId([7; 16]),
        offset,
        total,
        body: body.len() as u32,
    };
    [&header.encode(), body].concat()
}

/// Receives until the end; the messages and the reason of the end.
pub async fn drain(channel: &mut Channel) -> (Vec<Bytes>, String) {
    let mut messages = Vec::new();
    loop {
        if let Err(error) = channel.receiver.receive(&mut messages).await {
            return (messages, error.reason().to_owned());
        }
    }
}

pub async fn receive_one(channel: &mut Channel) -> Bytes {
    let mut messages = Vec::new();
    channel.receiver.receive(&mut messages).await.unwrap();
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}
