//! What is measured: cases, and in each the contenders that take turns.

pub mod calls;
pub mod large;
pub mod own;

use crate::contender::{Ask, Contender, Kit, Socket};
use crate::trial::{Cores, Trial};

/// The contenders of one case; they take turns, A B C A B C, so that whatever else happens on the machine meets all.
pub type Case = Vec<Trial>;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Scale {
    /// A smoke test: one short round of fewer cases.
    pub is_quick: bool,
    /// Rounds of each case.
    pub rounds: usize,
    /// Milliseconds of warm-up.
    pub warm_up_ms: u64,
    /// Milliseconds of measuring.
    pub duration_ms: u64,
}

impl Scale {
    /// What the results are made of.
    pub fn full(rounds: usize) -> Self {
        Self {
            is_quick: false,
            rounds,
            warm_up_ms: 300,
            duration_ms: 1_000,
        }
    }

    /// Whether everything works.
    pub fn quick() -> Self {
        Self {
            is_quick: true,
            rounds: 1,
            warm_up_ms: 50,
            duration_ms: 200,
        }
    }

    fn ask(&self) -> Ask {
        Ask {
            socket: Socket::Tcp,
            case: "echo",
            payload: 16,
            in_flight: 1,
            connections: 1,
            runtime: "current",
            warm_up_ms: self.warm_up_ms,
            duration_ms: self.duration_ms,
            calls_max: None,
            chunks: 20_000,
        }
    }
}

/// All cases of the measures in `only` (all if it is empty).
pub fn cases(kit: &Kit, scale: &Scale, only: &[char]) -> Vec<Case> {
    let wanted = |measure: char| only.is_empty() || only.contains(&measure);
    let all = [
        ('a', calls::round_trip as fn(&Kit, &Scale) -> Vec<Case>),
        ('b', calls::throughput),
        ('c', calls::cost),
        ('d', calls::streams),
        ('e', large::large_messages),
        ('f', own::idle_links),
        ('g', own::forwarding),
        ('h', own::reconnect),
        ('i', own::event_bus),
    ];
    all.into_iter()
        .filter(|(measure, _)| wanted(*measure))
        .flat_map(|(_, plan)| plan(kit, scale))
        .collect()
}

/// The same thing asked of each of these.
fn case_of(
    kit: &Kit,
    measure: char,
    name: &str,
    who: &[Contender],
    cores: Cores,
    ask: &Ask,
) -> Case {
    let trial = |who: &Contender| Trial {
        measure,
        case: name.to_owned(),
        contender: who.name().to_owned(),
        programs: kit.programs(*who, ask),
        cores,
        is_counted: false,
        payload: ask.payload,
    };
    who.iter().map(trial).collect()
}

/// Bytes, for people.
fn size_name(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}
