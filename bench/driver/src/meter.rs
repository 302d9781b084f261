//! What is read from outside a process: CPU time, memory, system calls.
//!
//! CPU time comes from the process's own CPU clock, which is exact to the nanosecond and counts all its threads, those
//! that have ended included. System calls are counted by the kernel's tracepoint (`perf stat`), or, where that is not
//! to be had, by `strace -c`, which counts the same but slows the run down; counted runs are not timed in either case.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// Time for a tracer to attach; the traced programs are idle meanwhile.
const ATTACH_TIME: Duration = Duration::from_millis(400);

/// CPU time that a process has used, user and system, all threads.
pub fn cpu_time(pid: u32) -> Result<Duration, String> {
    let read = || clock_getcpuclockid(Pid::from_raw(pid as i32))?.now();
    let time = read().map_err(|why| format!("no CPU clock of process {pid}: {why}"))?;
    Ok(time.into())
}

/// A line of `/proc/PID/status`, in bytes.
fn status_bytes(pid: u32, key: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024)
}

/// The most memory that a process ever had resident.
pub fn memory_peak(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM")
}

/// The memory that a process has resident now.
pub fn memory_now(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS")
}

/// What counts system calls here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// The kernel's tracepoint.
    Perf,
    /// ptrace.
    Strace,
}

impl Tracer {
    /// The cheapest that works.
    pub fn find() -> Option<Self> {
        let works = |program: &str, args: &[&str]| {
            let status = Command::new(program)
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            status.is_ok_and(|status| status.success())
        };
        if works("perf", &["stat", "-e", "raw_syscalls:sys_enter", "true"]) {
            return Some(Self::Perf);
        }
        works("strace", &["-c", "-f", "-o", "/dev/null", "true"]).then_some(Self::Strace)
    }

    /// How the results file calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf stat -e raw_syscalls:sys_enter",
            Self::Strace => "strace -c -f",
        }
    }

    /// Starts to count the system calls of `pids` together.
    pub fn attach(self, pids: &[u32], dir: &Path) -> Result<Tracing, String> {
        let output = dir.join("system-calls");
        let text = pids.iter().map(u32::to_string).collect::<Vec<_>>();
        let mut command = match self {
            Self::Perf => {
                let mut command = Command::new("perf");
                let event = "raw_syscalls:sys_enter";
                command.args(["stat", "-x", ",", "-e", event, "-p", &text.join(",")]);
                command
            }
            Self::Strace => {
                let mut command = Command::new("strace");
                command.args(["-c", "-f", "-qq"]);
                command.args(text.iter().flat_map(|pid| ["-p", pid]));
                command
            }
        };
        let child = command
            .arg("-o")
            .arg(&output)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|why| format!("{}: {why}", self.name()))?;
        std::thread::sleep(ATTACH_TIME);
        Ok(Tracing {
            tracer: self,
            child,
            output,
        })
    }
}

/// A running count.
#[derive(Debug)]
pub struct Tracing {
    tracer: Tracer,
    child: Child,
    output: PathBuf,
}

impl Tracing {
    /// Stops counting; how many there were.
    pub fn finish(mut self) -> Result<u64, String> {
        // Either tool writes what it counted when it is interrupted.
        let interrupted = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        interrupted.map_err(|why| format!("{}: {why}", self.tracer.name()))?;
        self.child.wait().map_err(|why| why.to_string())?;
        let text = fs::read_to_string(&self.output).map_err(|why| why.to_string())?;
        let count = match self.tracer {
            Tracer::Perf => perf_count(&text),
            Tracer::Strace => strace_count(&text),
        };
        count.ok_or_else(|| format!("{} printed no count: {text}", self.tracer.name()))
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // Already ended after `finish`; on the way out of a failed run it is not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn perf_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("sys_enter"))?;
    line.split(',').next()?.parse().ok()
}

fn strace_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_what_the_tools_print() {
        let perf = "# started on Mon\n\n1234,,raw_syscalls:sys_enter,99,100.00,,\n";
        assert_eq!(perf_count(perf), Some(1234));
        let strace = "100.00    0.000123           1        57         3 total\n";
        assert_eq!(strace_count(strace), Some(57));
    }

    #[test]
    fn our_own_process_can_be_read() {
        let pid = std::process::id();
        assert!(cpu_time(pid).is_ok());
        assert!(memory_peak(pid) >= memory_now(pid).map(|now| now / 2));
    }
}
