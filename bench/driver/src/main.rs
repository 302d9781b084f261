//! Runs the measurements: client and server as processes of their own on loopback, contenders taking turns, medians and
//! ranges over the rounds; judges the targets; writes `results.json`, `results.md` and `results.svg`.
//!
//! `bench-driver --bin DIR --out DIR --lock FILE [--quick] [--rounds N] [--only a,b,…]`; `bench/run` calls it.

mod contender;
mod markdown;
mod meter;
mod plan;
mod plot;
mod process;
mod results;
mod run;
mod tools;
mod trial;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use contender::Kit;
use meter::Tracer;
use plan::{Case, Scale};
use results::{Record, Results};
use run::Bench;
use serde_json::json;

const ROUNDS: usize = 5;

struct Options {
    bin: PathBuf,
    out: PathBuf,
    lock: PathBuf,
    scale: Scale,
    only: Vec<char>,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| measure(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        bin: PathBuf::from("target/release"),
        out: PathBuf::from("results"),
        lock: PathBuf::from("Cargo.lock"),
        scale: Scale::full(ROUNDS),
        only: Vec::new(),
    };
    let mut rounds = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} has no value"));
        match word.as_str() {
            "--bin" => options.bin = value()?.into(),
            "--out" => options.out = value()?.into(),
            "--lock" => options.lock = value()?.into(),
            "--quick" => options.scale = Scale::quick(),
            "--rounds" => rounds = Some(value()?.parse().map_err(|_| "--rounds wants a number")?),
            "--only" => options.only = measures(&value()?)?,
            other => return Err(format!("no such option: {other}")),
        }
    }
    options.scale.rounds = rounds.unwrap_or(options.scale.rounds).max(1);
    Ok(options)
}

fn measures(list: &str) -> Result<Vec<char>, String> {
    let measure = |text: &str| match text.chars().next() {
        Some(measure @ 'a'..='i') if text.len() == 1 => Ok(measure),
        _ => Err(format!("no such measure: {text} (there are a to i)")),
    };
    list.split(',').map(measure).collect()
}

fn measure(options: &Options) -> Result<(), String> {
    let kit = Kit {
        bin: absolute(&options.bin)?,
        nats_server: tools::find("NATS_SERVER", "nats-server"),
        mosquitto: tools::find("MOSQUITTO", "mosquitto"),
    };
    let scratch = std::env::temp_dir().join(format!("nacp-bench-{}", std::process::id()));
    let cores = cores()?;
    let bench = Bench {
        core_one: cores.last().ok_or("no core to run on")?.to_string(),
        core_all: cores
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(","),
        tracer: Tracer::find(),
        scratch: scratch.clone(),
    };
    let mut facts = facts(&kit, &bench, options);
    println!("{}", heading(&facts));
    let results = run_all(
        &bench,
        &plan::cases(&kit, &options.scale, &options.only),
        options.scale.rounds,
    );
    facts["machine"]["load after"] = tools::load().into();
    let _ = std::fs::remove_dir_all(scratch);
    write(options, &facts, &results)
}

fn run_all(bench: &Bench, cases: &[Case], rounds: usize) -> Results {
    let mut results = Results::default();
    let mut number = 0;
    for (index, case) in cases.iter().enumerate() {
        if let Some(first) = case.first() {
            let (done, all) = (index + 1, cases.len());
            println!("[{done}/{all}] {}. {}", first.measure, first.case);
        }
        let mut records: Vec<Record> = case.iter().map(Record::new).collect();
        for _ in 0..rounds {
            for (trial, record) in case.iter().zip(&mut records) {
                number += 1;
                match bench.run(trial, number) {
                    Ok(figures) => record.rounds.push(figures),
                    Err(why) => record.failures.push(why),
                }
            }
        }
        for record in &mut records {
            record.summarize();
            let shown = markdown::headline(record);
            println!("    {:<18} {shown}", record.contender);
        }
        results.0.append(&mut records);
    }
    results
}

/// The cores that we may use ourselves; everybody under measurement shares them.
fn cores() -> Result<Vec<usize>, String> {
    use nix::sched::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).map_err(|why| why.to_string())?;
    let may = |core: &usize| set.is_set(*core).unwrap_or(false);
    Ok((0..CpuSet::count()).filter(may).collect())
}

fn facts(kit: &Kit, bench: &Bench, options: &Options) -> serde_json::Value {
    let broker = |found: &Result<PathBuf, String>, args: &[&str]| match found {
        Ok(path) => tools::first_line(path, args).unwrap_or_else(|| "unknown".into()),
        Err(why) => why.clone(),
    };
    let mut versions = tools::locked_versions(&options.lock);
    versions.insert(
        "nats-server".into(),
        broker(&kit.nats_server, &["--version"]),
    );
    versions.insert("mosquitto".into(), broker(&kit.mosquitto, &["-h"]));
    json!({
        "kind": if options.scale.is_quick { "smoke test, not a measurement" } else { "full run" },
        "rounds": options.scale.rounds,
        "warm_up_ms": options.scale.warm_up_ms,
        "duration_ms": options.scale.duration_ms,
        "cores": {"one": bench.core_one, "all": bench.core_all},
        "system calls counted by": bench.tracer.map_or("nothing: neither perf nor strace works here", Tracer::name),
        "machine": tools::machine(),
        "versions": versions,
    })
}

fn heading(facts: &serde_json::Value) -> String {
    let mut text = String::from("# NACP under measurement\n");
    let mut put = |key: &str, value: &serde_json::Value| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), String::from);
        text.push_str(&format!("- {key}: {value}\n"));
    };
    for (key, value) in facts.as_object().into_iter().flatten() {
        match value.as_object() {
            None => put(key, value),
            Some(inner) => inner.iter().for_each(|(inner_key, value)| {
                put(&format!("{key}: {inner_key}"), value);
            }),
        }
    }
    text
}

fn write(options: &Options, facts: &serde_json::Value, results: &Results) -> Result<(), String> {
    let verdicts = verdict::judge(results);
    let verdicts: Vec<_> = verdicts
        .into_iter()
        .filter(|v| options.only.is_empty() || options.only.contains(&v.measure))
        .collect();
    let json = json!({"facts": facts, "targets": verdicts, "results": results});
    let json = serde_json::to_string_pretty(&json).map_err(|why| why.to_string())?;
    let report = markdown::report(&heading(facts), results, &verdicts);
    let plot = plot::draw(
        "NACP under measurement: medians, and ranges over the rounds",
        results,
    );
    std::fs::create_dir_all(&options.out).map_err(|why| why.to_string())?;
    for (name, content) in [
        ("results.json", &json),
        ("results.md", &report),
        ("results.svg", &plot),
    ] {
        let path = options.out.join(name);
        std::fs::write(&path, content).map_err(|why| format!("{}: {why}", path.display()))?;
        println!("wrote {}", path.display());
    }
    let mut text = String::new();
    markdown::targets(&mut text, &verdicts);
    println!("{text}");
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|why| format!("{}: {why}", path.display()))
}
