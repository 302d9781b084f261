//! The simulator itself: the same seed gives the same run, kept failures stay mended, the faults end and everything
//! comes to rest.

use std::path::Path;

use nacp_sim::{
    Broken, Failure, Mutant, Op, Settings, Trace, record, replay, replay_logged, shrink, swarm,
};

#[test]
fn the_same_seed_gives_the_same_run_word_for_word() {
    for seed in [3, 21, 58] {
        let (ops, first) = record(seed, 1_500, Settings::mixed(seed));
        let (again, second) = record(seed, 1_500, Settings::mixed(seed));
        assert_eq!(ops, again);
        let first = first.expect("all promises are kept");
        assert_eq!(first, second.expect("all promises are kept"));
        let settings = Settings::mixed(seed);
        let (replayed, log) = replay_logged(&settings, &ops);
        assert_eq!(first, replayed.expect("all promises are kept"));
        let (_, second_log) = replay_logged(&settings, &ops);
        assert!(log.len() > ops.len());
        assert_eq!(log, second_log);
    }
}

#[test]
fn another_seed_gives_another_run() {
    let hash = |seed| record(seed, 300, Settings::default()).1.unwrap().hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn all_promises_are_kept_in_many_worlds() {
    let mut worlds = 0;
    let result = swarm(300_000, 5_000_000, &mut |swarm| {
        worlds = swarm.worlds;
        true
    });
    if let Err(failure) = result {
        panic!("{failure}\n{}", Trace::from(&*failure));
    }
    assert!(worlds >= 75);
}

#[test]
fn kept_failures_stay_mended() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let text = std::fs::read_to_string(&name).unwrap();
        let trace: Trace = text.parse().unwrap();
        assert_eq!(
            trace.to_string(),
            text,
            "{} is as it is written",
            name.display()
        );
        if let Err(failure) = trace.replay() {
            panic!("{}: {failure}", name.display());
        }
    }
}

#[test]
fn every_mutant_still_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in std::fs::read_dir(root.join("mutants")).unwrap() {
        let path = entry.unwrap().path();
        let mutant: Mutant = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        let read = |file: &str| std::fs::read_to_string(root.join("../..").join(file)).ok();
        if let Err(bad) = mutant.apply(&read) {
            panic!("{}: {bad}", path.display());
        }
        count += 1;
    }
    assert!(count >= 25);
}

#[test]
fn everything_comes_to_rest_after_a_storm_of_faults() {
    for seed in 0..12 {
        let settings = Settings {
            nodes: 4,
            fault_rate: 400,
            fault_mask: u64::MAX,
            queue_count_max: 8,
            ..Settings::mixed(seed)
        };
        let (ops, result) = record(seed, 1_000, settings);
        assert_eq!(ops.len(), 1_000);
        if let Err(failure) = result {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_failure_shrinks_to_what_it_needs() {
    let (ops, result) = record(
        9,
        600,
        Settings {
            fault_rate: 200,
            fault_mask: u64::MAX,
            ..Settings::default()
        },
    );
    result.expect("all promises are kept");
    // It "fails" where a restart comes after a subscription.
    let fails = |ops: &[Op]| {
        let subscribe = ops
            .iter()
            .position(|op| matches!(op, Op::Subscribe { .. }))?;
        let rest = &ops[subscribe..];
        let restart = rest
            .iter()
            .position(|op| matches!(op, Op::Restart { .. }))?;
        Some(Failure {
            settings: Settings::default(),
            ops: ops[..=subscribe + restart].to_vec(),
            broken: Broken {
                rule: "TEST",
                what: format!("after {} ops", ops.len()),
            },
        })
    };
    let failure = fails(&ops).expect("both happen in 600 ops");
    let mut runs = 0;
    let small = shrink(failure, 1_000, &mut |ops| {
        runs += 1;
        fails(ops)
    });
    assert!(
        matches!(small.ops[..], [Op::Subscribe { .. }, Op::Restart { .. }]),
        "{:?}",
        small.ops
    );
    assert!(runs <= 1_000);
}

#[test]
fn a_trace_survives_its_file() {
    let settings = Settings::mixed(4);
    let (ops, _) = record(4, 200, settings.clone());
    let trace = Trace {
        notes: "one\ntwo".to_owned(),
        settings,
        ops,
    };
    assert_eq!(trace.to_string().parse(), Ok(trace.clone()));
    assert!("no trace".parse::<Trace>().is_err());
    assert!(replay(&trace.settings, &[]).is_ok());
}

#[test]
fn fuzz_bytes_make_worlds_too() {
    let bytes: Vec<u8> = (0..3_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let mut rest = &bytes[..];
    let ops: Vec<Op> = std::iter::from_fn(|| Op::from_bytes(&mut rest)).collect();
    let settings = Settings {
        fault_mask: u64::MAX,
        ..Settings::default()
    };
    replay(&settings, &ops).expect("all promises are kept");
}
