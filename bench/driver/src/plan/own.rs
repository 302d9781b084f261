//! Measures f to i: what only this project has.

use super::{Case, Scale, case_of};
use crate::contender::{Ask, Contender, Kit, Socket};
use crate::trial::{Cores, Part, Trial};

/// How measure f calls a case.
pub fn idle_name(links: u64) -> String {
    format!("{links} idle links")
}

/// f: memory of links that do nothing, many Apps in one program on one Gateway in another.
pub fn idle_links(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let one = |links: u64| {
        let ask = Ask {
            socket: Socket::Unix,
            case: "idle",
            connections: links,
            ..scale.ask()
        };
        let programs = vec![
            kit.own("gateway", Part::Server, "bench-nacp", "gateway", &ask, &[]),
            kit.own("client", Part::Client, "bench-nacp", "client", &ask, &[]),
        ];
        vec![nacp('f', idle_name(links), programs)]
    };
    [1_000, 10_000].map(one).into()
}

/// How measure g calls a case.
pub fn forwarding_name(in_flight: u64) -> String {
    format!("calls, {in_flight} in flight")
}

/// Messages that a Gateway forwards for one call: the request, the response, and an ack of each.
pub const FORWARDED_PER_CALL: f64 = 4.0;

/// The case of measure g in which what is forwarded flows one way only.
pub const FORWARDED_STREAM: &str = "chunks of 16 B";

/// g: through a Gateway, and directly for comparison.
pub fn forwarding(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let who = [Contender::NacpGateway, Contender::Nacp];
    let mut cases = Vec::new();
    for in_flight in [1, 64, 1_024] {
        let ask = Ask {
            in_flight,
            ..scale.ask()
        };
        let name = forwarding_name(in_flight);
        cases.push(case_of(kit, 'g', &name, &who, Cores::All, &ask));
    }
    let ask = Ask {
        case: "chunks",
        ..scale.ask()
    };
    cases.push(case_of(kit, 'g', FORWARDED_STREAM, &who, Cores::All, &ask));
    cases
}

/// How measure h calls a case.
pub fn reconnect_name(messages: u64) -> String {
    format!("{messages} queued messages")
}

/// h: what queued up while the link was down drains.
pub fn reconnect(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let one = |messages: u64| {
        let ask = Ask {
            socket: Socket::Unix,
            case: "reconnect",
            calls_max: Some(messages),
            ..scale.ask()
        };
        let programs = vec![
            kit.own("server", Part::Server, "bench-nacp", "server", &ask, &[]),
            kit.own("client", Part::Client, "bench-nacp", "client", &ask, &[]),
        ];
        vec![nacp('h', reconnect_name(messages), programs)]
    };
    [1_024, 100_000].map(one).into()
}

/// How measure i calls a case.
pub fn bus_name(listeners: u64) -> String {
    format!("emit, {listeners} listeners")
}

/// i: the event bus, in one process.
pub fn event_bus(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let one = |listeners: u64| {
        let ask = Ask {
            case: "bus",
            connections: listeners,
            ..scale.ask()
        };
        let client = kit.own("client", Part::Client, "bench-nacp", "client", &ask, &[]);
        vec![nacp('i', bus_name(listeners), vec![client])]
    };
    [0, 1, 1_000].map(one).into()
}

fn nacp(measure: char, case: String, programs: Vec<crate::trial::Program>) -> Trial {
    Trial {
        measure,
        case,
        contender: Contender::Nacp.name().to_owned(),
        programs: Ok(programs),
        cores: Cores::All,
        is_counted: false,
        payload: 16,
    }
}
