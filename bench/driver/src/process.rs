//! One running program and the dialogue with it. It is killed when it goes out of scope, however that comes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::trial::{Part, Program};

/// No step of any dialogue takes longer; beyond it a run counts as failed.
pub const PATIENCE: Duration = Duration::from_secs(90);
const LINES_WAITING_MAX: usize = 64;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A program that was started.
#[derive(Debug)]
pub struct Process {
    /// How its figures are named.
    pub label: &'static str,
    /// What it is in the trial.
    pub part: Part,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: std::path::PathBuf,
}

impl Process {
    /// Starts `program` on `cores` (a list as taskset takes it), with its standard error in a file of `dir`.
    pub fn start(
        program: &Program,
        cores: &str,
        dir: &Path,
        is_counted: bool,
    ) -> Result<Self, String> {
        let fail = |why: std::io::Error| format!("{}: {why}", program.path.display());
        let errors = dir.join(format!("{}.err", program.label));
        let mut command = Command::new("taskset");
        command
            .args(["-c", cores])
            .arg(&program.path)
            .args(&program.args)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).map_err(fail)?);
        if is_counted {
            command.env("BENCH_COUNT_ALLOCS", "1");
        }
        let mut child = command.spawn().map_err(fail)?;
        let (heard, lines) = sync_channel(LINES_WAITING_MAX);
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if heard.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self {
            label: program.label,
            part: program.part,
            input: child.stdin.take(),
            child,
            lines,
            errors,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it accepts on `port`.
    pub fn await_port(&mut self, port: u16) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.blame(&format!("ended with {status}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(self.blame("did not open its port"))
    }

    /// Says one word to it.
    pub fn tell(&mut self, word: &str) -> Result<(), String> {
        let told = match &mut self.input {
            Some(input) => writeln!(input, "{word}").and_then(|()| input.flush()),
            None => Ok(()),
        };
        told.map_err(|why| self.blame(&format!("did not take {word}: {why}")))
    }

    /// Waits for the event of this name.
    pub fn hear(&mut self, event: &str) -> Result<Value, String> {
        let line = match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.blame(&format!("did not say {event} within {PATIENCE:?}")));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.blame("ended")),
        };
        let said: Value = serde_json::from_str(&line)
            .map_err(|_| self.blame(&format!("said something else: {line}")))?;
        if said["event"] == event {
            return Ok(said);
        }
        let reason = said["reason"].as_str().unwrap_or(&line);
        Err(self.blame(reason))
    }

    /// Allocations of the program so far, if it counts them.
    pub fn allocations(&mut self) -> Result<Option<u64>, String> {
        if self.part == Part::Broker {
            return Ok(None);
        }
        self.tell("sample")?;
        Ok(self.hear("sample")?["allocations"].as_u64())
    }

    fn blame(&self, what: &str) -> String {
        let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let last = errors.lines().last().unwrap_or_default();
        format!("{}: {what} {last}", self.label)
            .trim_end()
            .to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
