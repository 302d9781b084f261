//! Who competes, and as which programs.

use std::path::PathBuf;

use crate::trial::{Part, Program};

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Over loopback.
    Tcp,
    /// A Unix domain socket.
    Unix,
}

impl Socket {
    /// How cases call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix => "Unix",
        }
    }

    fn url(self) -> &'static str {
        match self {
            Self::Tcp => "tcp://127.0.0.1:{port}",
            Self::Unix => "unix://{dir}/socket",
        }
    }
}

/// Who competes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Bare sockets, blocking.
    RawBlocking,
    /// Bare sockets, tokio.
    RawTokio,
    /// This project, as it comes.
    Nacp,
    /// This project without what two Apps of its own negotiate: what a base peer would get.
    NacpBase,
    /// This project, through a Gateway.
    NacpGateway,
    /// gRPC.
    Tonic,
    /// gRPC with wide HTTP/2 windows.
    TonicWide,
    /// tarpc over bincode.
    Tarpc,
    /// NATS core.
    Nats,
    /// NATS JetStream publish with ack.
    JetStream,
    /// MQTT publish with QoS 1.
    Mqtt,
}

impl Contender {
    /// How the results call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RawBlocking => "raw blocking",
            Self::RawTokio => "raw tokio",
            Self::Nacp => "NACP",
            Self::NacpBase => "NACP base",
            Self::NacpGateway => "NACP via Gateway",
            Self::Tonic => "tonic",
            Self::TonicWide => "tonic wide",
            Self::Tarpc => "tarpc",
            Self::Nats => "NATS",
            Self::JetStream => "JetStream",
            Self::Mqtt => "MQTT QoS 1",
        }
    }
}

/// What the client is to do.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Over what.
    pub socket: Socket,
    /// `echo`, `swallow`, `chunks`, or what only one contender knows.
    pub case: &'static str,
    /// Bytes.
    pub payload: u64,
    /// Calls in flight, over all connections.
    pub in_flight: u64,
    /// Connections.
    pub connections: u64,
    /// `current` or `multi`.
    pub runtime: &'static str,
    /// Before it counts.
    pub warm_up_ms: u64,
    /// While it counts.
    pub duration_ms: u64,
    /// Calls of each caller at most.
    pub calls_max: Option<u64>,
    /// Chunks of a stream.
    pub chunks: u64,
}

impl Ask {
    /// The arguments that every client understands.
    fn args(&self) -> Vec<String> {
        let mut args = Vec::new();
        let mut put = |key: &str, value: String| args.extend([format!("--{key}"), value]);
        put("case", self.case.into());
        put("payload", self.payload.to_string());
        put("in-flight", self.in_flight.to_string());
        put("connections", self.connections.to_string());
        put("runtime", self.runtime.into());
        put("warm-up-ms", self.warm_up_ms.to_string());
        put("duration-ms", self.duration_ms.to_string());
        put("chunks", self.chunks.to_string());
        if let Some(calls) = self.calls_max {
            put("calls-max", calls.to_string());
        }
        args
    }
}

/// Where the programs are, or why there are none.
#[derive(Clone, Debug)]
pub struct Kit {
    /// Directory of our own.
    pub bin: PathBuf,
    /// Somebody else's.
    pub nats_server: Result<PathBuf, String>,
    /// Somebody else's.
    pub mosquitto: Result<PathBuf, String>,
}

impl Kit {
    /// The programs with which `who` does what is asked.
    pub fn programs(&self, who: Contender, ask: &Ask) -> Result<Vec<Program>, String> {
        match who {
            Contender::RawBlocking => Ok(self.pair("bench-raw", "blocking-", ask, &[])),
            Contender::RawTokio => Ok(self.pair("bench-raw", "tokio-", ask, &[])),
            Contender::Nacp => Ok(self.pair("bench-nacp", "", ask, &[])),
            Contender::NacpBase => Ok(self.pair("bench-nacp", "", ask, &["--features", "base"])),
            Contender::NacpGateway => {
                let via = ["--via", "gateway"];
                let gateway = self.own("gateway", Part::Server, "bench-nacp", "gateway", ask, &[]);
                let mut programs = vec![gateway];
                programs.extend(self.pair("bench-nacp", "", ask, &via));
                Ok(programs)
            }
            Contender::Tonic => Ok(self.pair("bench-tonic", "", ask, &[])),
            Contender::TonicWide => Ok(self.pair("bench-tonic", "", ask, &["--windows", "wide"])),
            Contender::Tarpc => Ok(self.pair("bench-tarpc", "", ask, &[])),
            Contender::Nats => {
                let mut programs = vec![self.nats_broker()?];
                let extra = ["--url", "nats://127.0.0.1:{port}"];
                programs.extend(self.pair("bench-nats", "", ask, &extra));
                Ok(programs)
            }
            Contender::JetStream => {
                let extra = ["--url", "nats://127.0.0.1:{port}", "--case", "jetstream"];
                let client = self.own("client", Part::Client, "bench-nats", "client", ask, &extra);
                Ok(vec![self.nats_broker()?, client])
            }
            Contender::Mqtt => {
                let extra = ["--url", "mqtt://127.0.0.1:{port}"];
                let client = self.own("client", Part::Client, "bench-mqtt", "client", ask, &extra);
                Ok(vec![self.mqtt_broker()?, client])
            }
        }
    }

    fn pair(&self, binary: &str, prefix: &str, ask: &Ask, extra: &[&str]) -> Vec<Program> {
        let role = |role: &str| format!("{prefix}{role}");
        vec![
            self.own("server", Part::Server, binary, &role("server"), ask, extra),
            self.own("client", Part::Client, binary, &role("client"), ask, extra),
        ]
    }

    /// One of our own programs; `extra` comes last, and the last of several values counts.
    pub fn own(
        &self,
        label: &'static str,
        part: Part,
        binary: &str,
        role: &str,
        ask: &Ask,
        extra: &[&str],
    ) -> Program {
        let mut args = vec![role.to_owned(), "--url".into(), ask.socket.url().into()];
        args.extend(ask.args());
        args.extend(extra.iter().map(ToString::to_string));
        Program {
            label,
            part,
            path: self.bin.join(binary),
            args,
            file: None,
        }
    }

    fn nats_broker(&self) -> Result<Program, String> {
        Ok(broker(self.nats_server.clone()?, NATS_CONFIG))
    }

    fn mqtt_broker(&self) -> Result<Program, String> {
        Ok(broker(self.mosquitto.clone()?, MOSQUITTO_CONFIG))
    }
}

/// Both brokers are told everything by a file, after `-c`.
fn broker(path: PathBuf, config: &'static str) -> Program {
    Program {
        label: "broker",
        part: Part::Broker,
        path,
        args: vec!["-c".into(), "{dir}/broker.conf".into()],
        file: Some(("broker.conf", config.into())),
    }
}

/// Limits that would end a run early are raised; everything else is the default.
const NATS_CONFIG: &str = "\
listen: 127.0.0.1:{port}
max_pending: 1GB
max_payload: 8MB
jetstream { store_dir: \"{dir}\", max_mem: 2GB }
";
/// Limits that would throttle a client are raised; nothing is written to disk, as with the others.
const MOSQUITTO_CONFIG: &str = "\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_inflight_messages 0
max_queued_messages 0
set_tcp_nodelay true
log_type error
";
