//! Builds the core with one deliberate fault after the other, and shows who notices: the simulator, else the core's own
//! tests. `cargo run -p nacp-sim --example mutants [-- PART-OF-A-NAME]`; fails if one escapes. The workspace is copied
//! to the target directory; nothing is changed where it stands. What catches a mutant in the simulator is made small and
//! kept as `NAME.txt` in the target directory's `mutants/traces`. A trace that is worth it goes to
//! `tests/traces/mutant_NAME.txt`: there it must pass on the core as it is, and here it is the first to catch its mutant.
//!
//! The mutants are built with little optimisation and incrementally: most of them fall within seconds of running, so
//! that building them is what takes the time.

#![allow(
    clippy::disallowed_methods,
    reason = "how long it takes, for whoever waits"
)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use nacp_sim::Mutant;

/// What a simulator run of one mutant does.
const OPS: &str = "2m";

/// How long it may take to build or judge one mutant.
const MINUTES_MAX: &str = "10m";

/// Of one mutant the core and the simulator are built anew: quickly built matters more than quickly run.
const PROFILE: [(&str, &str); 4] = [
    ("CARGO_INCREMENTAL", "1"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<ExitCode> {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..").canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let copy = target.join("mutants/workspace");
    copy_workspace(&root, &copy)?;
    let bench = Bench {
        target: target.join("mutants/target"),
        traces: target.join("mutants/traces"),
        copy,
    };
    fs::create_dir_all(&bench.traces)?;
    let mut paths: Vec<_> = fs::read_dir(here.join("mutants"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    let (mut caught, mut escaped) = (0, Vec::new());
    for path in paths {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        let mutant: Mutant = fs::read_to_string(&path)?.parse()?;
        let start = Instant::now();
        let by = bench.judge(&name, &mutant)?;
        let seconds = start.elapsed().as_secs();
        if let Some(by) = by {
            caught += 1;
            println!("caught   {name} ({seconds} s): {by}");
        } else {
            println!("ESCAPED  {name} ({seconds} s): {}", mutant.title);
            escaped.push(name);
        }
    }
    println!("\n{caught} caught, {} escaped {escaped:?}", escaped.len());
    Ok(if escaped.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

struct Bench {
    copy: PathBuf,
    target: PathBuf,
    traces: PathBuf,
}

impl Bench {
    /// Who notices `mutant`, and how; the copy is as before afterwards.
    fn judge(&self, name: &str, mutant: &Mutant) -> Outcome<Option<String>> {
        let read = |file: &str| fs::read_to_string(self.copy.join(file)).ok();
        let files = mutant.apply(&read)?;
        let before: Vec<_> = files.iter().map(|(file, _)| (file, read(file))).collect();
        for (file, text) in &files {
            fs::write(self.copy.join(file), text)?;
        }
        let by = self.noticed_by(name);
        for (file, text) in before {
            fs::write(self.copy.join(file), text.unwrap_or_default())?;
        }
        by
    }

    fn noticed_by(&self, name: &str) -> Outcome<Option<String>> {
        let examples = [
            "-p",
            "nacp-sim",
            "--example",
            "swarm",
            "--example",
            "replay",
        ];
        let built = self.cargo(&[&["build", "--release"][..], &examples].concat())?;
        if !built.0 {
            return Err(format!("does not build: {}", built.1).into());
        }
        let kept = format!("crates/nacp-sim/tests/traces/mutant_{name}.txt");
        if self.copy.join(&kept).exists() {
            let (passes, said) = self.example("replay", &[&kept])?;
            if !passes {
                let broken = said.lines().find(|line| line.starts_with("BROKEN"));
                let broken = broken.unwrap_or("it hangs or dies");
                return Ok(Some(format!("its kept trace, {broken}")));
            }
            println!("{name}: its kept trace shows nothing any more");
        }
        let trace = self.traces.join(format!("{name}.txt"));
        let trace = trace.to_str().ok_or("a path that is no text")?;
        let (passes, said) = self.example("swarm", &[OPS, "1", trace])?;
        if !passes {
            let first = said.lines().next().unwrap_or("it hangs or dies");
            return Ok(Some(format!("simulator, {first}")));
        }
        let tests = ["test", "-p", "nacp", "--tests", "--no-fail-fast"];
        let (passes, said) = self.cargo(&tests)?;
        if passes {
            return Ok(None);
        }
        let failed = said.lines().find(|line| line.ends_with("... FAILED"));
        let failed = failed.map_or("it hangs or dies", |line| {
            line.trim_end_matches(" ... FAILED")
        });
        Ok(Some(format!("core, {failed}")))
    }

    fn example(&self, name: &str, arguments: &[&str]) -> Outcome<(bool, String)> {
        let run = [
            "run",
            "--release",
            "-p",
            "nacp-sim",
            "--example",
            name,
            "--",
        ];
        self.cargo(&[&run[..], arguments].concat())
    }

    fn cargo(&self, arguments: &[&str]) -> Outcome<(bool, String)> {
        // A mutant may go round for ever.
        let output = Command::new("timeout")
            .args([MINUTES_MAX, env!("CARGO")])
            .args(arguments)
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            .envs(PROFILE)
            .stderr(Stdio::piped())
            .output()?;
        let said = if output.stdout.is_empty() {
            output.stderr
        } else {
            output.stdout
        };
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        ))
    }
}

/// The parts of the workspace that the two crates need; the others are left out of it.
fn copy_workspace(from: &Path, to: &Path) -> Outcome<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    for part in ["crates/nacp", "crates/nacp-sim"] {
        copy_tree(&from.join(part), &to.join(part))?;
    }
    let manifest = fs::read_to_string(from.join("Cargo.toml"))?;
    let lines = manifest
        .lines()
        .filter(|line| !line.starts_with("default-members"));
    fs::write(to.join("Cargo.toml"), lines.collect::<Vec<_>>().join("\n"))?;
    fs::copy(from.join("Cargo.lock"), to.join("Cargo.lock"))?;
    Ok(())
}

fn copy_tree(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, sink) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_tree(&source, &sink)?;
        } else {
            fs::copy(source, sink)?;
        }
    }
    Ok(())
}
