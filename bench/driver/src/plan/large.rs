//! Measure e: one large message to a receiver that has never seen one, alone and beside small calls.

use super::{Case, Scale, case_of, size_name};
use crate::contender::{Ask, Contender, Kit};
use crate::trial::{Cores, Part};

/// How measure e calls a case.
pub fn name(payload: u64, beside: bool) -> String {
    let beside = if beside {
        ", small calls beside it"
    } else {
        ""
    };
    format!("one message of {}{beside}", size_name(payload))
}

/// e: large messages.
pub fn large_messages(kit: &Kit, scale: &Scale) -> Vec<Case> {
    let sizes: &[u64] = &[256 << 20, 1 << 30];
    let sizes = if scale.is_quick { &sizes[..1] } else { sizes };
    let who = [Contender::Nacp, Contender::Tonic, Contender::TonicWide];
    let mut cases = Vec::new();
    for payload in sizes.iter().copied() {
        // No warm-up: the receiver is to be fresh, and so are the pages that it receives into.
        let ask = Ask {
            case: "swallow",
            payload,
            warm_up_ms: 0,
            duration_ms: 60_000,
            calls_max: Some(1),
            ..scale.ask()
        };
        cases.push(case_of(
            kit,
            'e',
            &name(payload, false),
            &who,
            Cores::All,
            &ask,
        ));
        let mut beside = case_of(kit, 'e', &name(payload, true), &who, Cores::All, &ask);
        for (trial, who) in beside.iter_mut().zip(who) {
            if let Ok(programs) = &mut trial.programs {
                let small = small_calls(kit, scale, who);
                programs.extend(small);
            }
        }
        cases.push(beside);
    }
    cases
}

/// A third program that makes small calls to the same server, one at a time, for as long as the large message takes.
fn small_calls(kit: &Kit, scale: &Scale, who: Contender) -> Option<crate::trial::Program> {
    let ask = Ask {
        duration_ms: 60_000,
        ..scale.ask()
    };
    let mut client = kit
        .programs(who, &ask)
        .ok()?
        .into_iter()
        .find(|program| program.part == Part::Client)?;
    client.part = Part::Bystander;
    client.label = "small";
    // A different App ID, where there is such a thing.
    if who == Contender::Nacp {
        client.args.extend(["--name".into(), "small".into()]);
    }
    Some(client)
}
