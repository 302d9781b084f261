//! Measures a to d: round trips, throughput, cost of a request, streams.

use super::{Case, Scale, case_of, size_name};
use crate::contender::{Ask, Contender, Kit, Socket};
use crate::trial::Cores;

/// a: one call in flight.
pub fn round_trip(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let over_any = [
        Contender::RawBlocking,
        Contender::RawTokio,
        Contender::Nacp,
        Contender::Tarpc,
        Contender::Tonic,
    ];
    // The brokers and their clients are measured where they are used: over TCP.
    let over_tcp = [Contender::Nats, Contender::JetStream, Contender::Mqtt];
    let sizes: &[u64] = &[16, 1 << 10, 64 << 10];
    let sizes = if scale.is_quick { &sizes[..1] } else { sizes };
    let mut cases = Vec::new();
    for socket in [Socket::Tcp, Socket::Unix] {
        for (cores, pinned) in [(Cores::One, "one core"), (Cores::All, "unpinned")] {
            for payload in sizes.iter().copied() {
                let name = format!("{}, {}, {pinned}", socket.name(), size_name(payload));
                let ask = Ask {
                    socket,
                    payload,
                    ..scale.ask()
                };
                let mut who = over_any.to_vec();
                if socket == Socket::Tcp {
                    who.extend(over_tcp);
                }
                cases.push(case_of(kit, 'a', &name, &who, cores, &ask));
            }
        }
    }
    cases
}

/// How measure b calls a case.
pub fn throughput_name(in_flight: u64, connections: u64, runtime: &str) -> String {
    let plural = if connections == 1 { "" } else { "s" };
    format!("{in_flight} in flight, {connections} connection{plural}, {runtime}_thread")
}

/// b: many calls in flight.
pub fn throughput(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for runtime in ["current", "multi"] {
        for in_flight in [64, 1_024] {
            for connections in [1, 8] {
                let mut who = vec![Contender::Nacp];
                if in_flight == 1_024 {
                    who.push(Contender::NacpBase);
                }
                who.extend([Contender::Tarpc, Contender::Tonic, Contender::Nats]);
                who.extend([Contender::JetStream, Contender::Mqtt]);
                let ask = Ask {
                    in_flight,
                    connections,
                    runtime,
                    ..scale.ask()
                };
                let name = throughput_name(in_flight, connections, runtime);
                cases.push(case_of(kit, 'b', &name, &who, Cores::All, &ask));
            }
        }
    }
    cases
}

/// The case of measure c in which CPU time is read.
pub const COST_TIMED_CASE: &str = "64 in flight, timed";
/// The case of measure c in which system calls and allocations are counted, which takes time of its own.
pub const COST_CASE: &str = "64 in flight, counted";

/// c: what a request costs.
pub fn cost(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let ask = Ask {
        in_flight: 64,
        ..scale.ask()
    };
    let who = [
        Contender::Nacp,
        Contender::Tarpc,
        Contender::Tonic,
        Contender::Nats,
    ];
    let mut counted = case_of(kit, 'c', COST_CASE, &who, Cores::All, &ask);
    for trial in &mut counted {
        trial.is_counted = true;
    }
    let timed = case_of(kit, 'c', COST_TIMED_CASE, &who, Cores::All, &ask);
    vec![timed, counted]
}

/// The one case of measure d.
pub const STREAM_CASE: &str = "chunks of 1 KiB";

/// d: chunks of a stream, from the server to the client.
pub fn streams(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let ask = Ask {
        case: "chunks",
        payload: 1 << 10,
        ..scale.ask()
    };
    let base = Contender::NacpBase;
    let who = [Contender::Nacp, base, Contender::Tonic, Contender::Nats];
    let mut case = case_of(kit, 'd', STREAM_CASE, &who, Cores::All, &ask);
    for trial in &mut case {
        // What two Apps of this project negotiate makes a stream lossless; without it, it is the base protocol's.
        match trial.contender.as_str() {
            "NACP" => trial.contender = "NACP lossless".into(),
            "NACP base" => trial.contender = "NACP plain".into(),
            _ => {}
        }
    }
    vec![case]
}
