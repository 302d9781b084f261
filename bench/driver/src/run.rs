//! Runs one trial once: starts its programs, reads the meters around the measured part, stops everything.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::meter::{self, Tracer};
use crate::process::Process;
use crate::results::Figures;
use crate::trial::{Cores, Part, Program, Trial};

/// What does not change from trial to trial.
#[derive(Debug)]
pub struct Bench {
    /// The one core of pinned trials.
    pub core_one: String,
    /// All cores, as taskset takes them.
    pub core_all: String,
    /// What counts system calls.
    pub tracer: Option<Tracer>,
    /// Below it each run gets a directory of its own.
    pub scratch: PathBuf,
}

/// The readings of one process at one moment.
struct Reading {
    cpu: Duration,
    memory: u64,
    allocations: Option<u64>,
}

impl Bench {
    /// Runs `trial` once.
    pub fn run(&self, trial: &Trial, number: usize) -> Result<Figures, String> {
        let programs = trial.programs.clone()?;
        let dir = self.scratch.join(number.to_string());
        std::fs::create_dir_all(&dir).map_err(|why| format!("{}: {why}", dir.display()))?;
        let ran = self.run_in(trial, &programs, &dir);
        // What is left behind is small and below the scratch directory, which goes at the end in any case.
        let _ = std::fs::remove_dir_all(&dir);
        ran
    }

    fn run_in(&self, trial: &Trial, programs: &[Program], dir: &Path) -> Result<Figures, String> {
        let port = free_port()?;
        let cores = match trial.cores {
            Cores::One => &self.core_one,
            Cores::All => &self.core_all,
        };
        let mut processes = Vec::new();
        for program in programs {
            let program = filled_in(program, port, dir);
            if let Some((name, content)) = &program.file {
                std::fs::write(dir.join(name), content).map_err(|why| why.to_string())?;
            }
            let mut process = Process::start(&program, cores, dir, trial.is_counted)?;
            match process.part {
                Part::Broker => process.await_port(port)?,
                Part::Server => drop(process.hear("ready")?),
                Part::Client | Part::Bystander => drop(process.hear("warm")?),
            }
            processes.push(process);
        }
        let pids: Vec<u32> = processes.iter().map(Process::pid).collect();
        let tracing = match self.tracer.filter(|_| trial.is_counted) {
            Some(tracer) => Some(tracer.attach(&pids, dir)?),
            None => None,
        };
        let before = read(&mut processes)?;
        let mut figures = measured(&mut processes)?;
        let after = read(&mut processes)?;
        let units = figures.get("units").copied().unwrap_or(1.0).max(1.0);
        if let Some(tracing) = tracing {
            figures.insert("syscalls_per_unit".into(), tracing.finish()? as f64 / units);
        }
        compare(&processes, &before, &after, units, &mut figures);
        if let Some(seconds) = figures.get("seconds").copied() {
            let gib = units * trial.payload as f64 / f64::from(1 << 30);
            figures.insert("gib_per_s".into(), gib / seconds);
        }
        Ok(figures)
    }
}

/// The measured part of the dialogue. A bystander starts before the client and ends after it.
fn measured(processes: &mut [Process]) -> Result<Figures, String> {
    let with = |part: Part, word: &str, processes: &mut [Process]| -> Result<(), String> {
        let mut concerned = processes.iter_mut().filter(|p| p.part == part);
        concerned.try_for_each(|process| process.tell(word))
    };
    with(Part::Bystander, "go", processes)?;
    with(Part::Client, "go", processes)?;
    let mut figures = Figures::new();
    for process in processes.iter_mut().filter(|p| p.part == Part::Client) {
        figures.extend(figures_of(process, "")?);
    }
    with(Part::Bystander, "stop", processes)?;
    for process in processes.iter_mut().filter(|p| p.part == Part::Bystander) {
        let prefix = format!("{}_", process.label);
        figures.extend(figures_of(process, &prefix)?);
    }
    Ok(figures)
}

fn figures_of(process: &mut Process, prefix: &str) -> Result<Figures, String> {
    let said = process.hear("done")?;
    let figures = said["figures"].as_object().into_iter().flatten();
    let numbers = figures.filter_map(|(name, value)| {
        let value = value.as_f64()?;
        Some((format!("{prefix}{name}"), value))
    });
    Ok(numbers.collect())
}

fn read(processes: &mut [Process]) -> Result<Vec<Reading>, String> {
    let reading = |process: &mut Process| {
        // Asking a program costs it a little CPU, so the clock is read on the far side of that, both times.
        let allocations = process.allocations()?;
        Ok(Reading {
            cpu: meter::cpu_time(process.pid())?,
            memory: meter::memory_now(process.pid()).unwrap_or(0),
            allocations,
        })
    };
    processes.iter_mut().map(reading).collect()
}

fn compare(
    processes: &[Process],
    before: &[Reading],
    after: &[Reading],
    units: f64,
    figures: &mut Figures,
) {
    let mut cpu_total = 0.0;
    let mut allocations_total = Some(0.0);
    for ((process, before), after) in processes.iter().zip(before).zip(after) {
        let label = process.label;
        let mut put = |name: &str, value: f64| {
            figures.insert(format!("{name}_{label}"), value);
        };
        let cpu = (after.cpu - before.cpu).as_secs_f64() * 1e6 / units;
        put("cpu_us_per_unit", cpu);
        put(
            "memory_growth_bytes_per_unit",
            (after.memory as f64 - before.memory as f64) / units,
        );
        if let Some(peak) = meter::memory_peak(process.pid()) {
            put("memory_peak_bytes", peak as f64);
        }
        let allocated = before.allocations.zip(after.allocations);
        let allocated = allocated.map(|(before, after)| (after - before) as f64 / units);
        if let Some(allocated) = allocated {
            put("allocations_per_unit", allocated);
        }
        cpu_total += cpu;
        allocations_total = allocations_total.zip(allocated).map(|(sum, one)| sum + one);
    }
    figures.insert("cpu_us_per_unit".into(), cpu_total);
    if let Some(allocations) = allocations_total {
        figures.insert("allocations_per_unit".into(), allocations);
    }
}

fn filled_in(program: &Program, port: u16, dir: &Path) -> Program {
    let mut program = program.clone();
    let (port, dir) = (port.to_string(), dir.display().to_string());
    let fill = |text: &mut String| *text = text.replace("{port}", &port).replace("{dir}", &dir);
    program.args.iter_mut().for_each(fill);
    if let Some((_, content)) = &mut program.file {
        fill(content);
    }
    program
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|why| why.to_string())?;
    let address = listener.local_addr().map_err(|why| why.to_string())?;
    Ok(address.port())
}
