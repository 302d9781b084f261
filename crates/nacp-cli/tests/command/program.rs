//! A running `nacp`, its lines, and its end.
//!
//! What this module keeps true: every wait has a limit far beyond what it needs, so that a hang is a failure with the
//! output so far; no process outlives its test.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// No test comes near it unless something hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// A `nacp` that was started.
pub struct Program {
    pub child: Child,
    stdout: Lines,
    stderr: Lines,
}

/// What a program came to.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: Vec<String>,
    pub stderr: Vec<String>,
}

struct Lines {
    seen: Vec<String>,
    coming: Receiver<String>,
    /// Makes the reader close its end after the next line.
    is_over: Arc<AtomicBool>,
}

impl Lines {
    fn of(source: impl Read + Send + 'static) -> Self {
        let (say, coming) = sync_channel(4096);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                if say.send(line).is_err() || over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        Self {
            seen: Vec::new(),
            coming,
            is_over,
        }
    }

    fn until(&mut self, wanted: impl Fn(&str) -> bool) -> Result<String, RecvTimeoutError> {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.coming.recv_timeout(left)?;
            self.seen.push(line.clone());
            if wanted(&line) {
                return Ok(line);
            }
        }
    }
}

/// Starts `nacp` with these arguments.
pub fn start(args: &[&str]) -> Program {
    start_with(args, &[])
}

/// The same, with these variables.
pub fn start_with(args: &[&str], variables: &[(&str, &str)]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nacp"));
    command.args(args).envs(variables.iter().copied());
    begin(command)
}

fn begin(mut command: Command) -> Program {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = Lines::of(child.stdout.take().unwrap());
    let stderr = Lines::of(child.stderr.take().unwrap());
    Program {
        child,
        stdout,
        stderr,
    }
}

/// Runs `nacp` to its end.
pub fn run(args: &[&str]) -> Ended {
    start(args).ended()
}

/// Runs `nacp` to its end, with this on stdin.
pub fn run_with_input(args: &[&str], input: &[u8]) -> Ended {
    let mut program = start(args);
    let mut stdin = program.child.stdin.take().unwrap();
    let _ = stdin.write_all(input); // it may end without reading all of it
    drop(stdin);
    program.ended()
}

/// `nacp serve`, listening, and where.
pub fn serve(args: &[&str]) -> (Program, String) {
    let mut all = vec!["serve", "--listen", "tcp://127.0.0.1:0"];
    all.extend(args);
    listening(&all)
}

/// A `nacp` that listens, and where.
pub fn listening(args: &[&str]) -> (Program, String) {
    listens(start(args))
}

/// The same, where a program may have only 256 files open unless it asks for more.
#[cfg(unix)]
pub fn listening_with_few_files(args: &[&str]) -> (Program, String) {
    let mut command = Command::new("sh");
    let script = "ulimit -Sn 256 && exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_nacp")]);
    command.args(args);
    listens(begin(command))
}

fn listens(mut program: Program) -> (Program, String) {
    let line = program.line(|line| line.contains(" listens at "));
    let url = line.split(" listens at ").nth(1).unwrap().to_owned();
    (program, url)
}

impl Program {
    /// Waits until it listens, or has ended without.
    pub fn listens_or_ended(mut self) -> Result<Self, Ended> {
        match self.stdout.until(|line| line.contains(" listens at ")) {
            Ok(_) => Ok(self),
            Err(_) => Err(self.ended()),
        }
    }

    /// The next line on stdout that is wanted.
    pub fn line(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        match self.stdout.until(wanted) {
            Ok(line) => line,
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// The next line on stderr that is wanted.
    pub fn complaint(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        match self.stderr.until(wanted) {
            Ok(line) => line,
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// Waits for its end: that of its output first, also of what it started, then its own.
    pub fn ended(mut self) -> Ended {
        for never in [self.stdout.until(|_| false), self.stderr.until(|_| false)] {
            if never == Err(RecvTimeoutError::Timeout) {
                self.give_up("it does not end");
            }
        }
        let status = self.child.wait().unwrap();
        Ended {
            code: status.code(),
            stdout: std::mem::take(&mut self.stdout.seen),
            stderr: std::mem::take(&mut self.stderr.seen),
        }
    }

    fn give_up(&mut self, what: &str) -> ! {
        let _ = self.child.kill();
        panic!(
            "{what}\nstdout: {:#?}\nstderr: {:#?}",
            self.stdout.seen, self.stderr.seen
        );
    }

    /// Stops reading its stdout after the next line, as `head` does.
    pub fn close_stdout_after_next_line(&mut self) {
        self.stdout.is_over.store(true, Ordering::SeqCst);
    }

    /// As `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// As Ctrl-C.
    #[cfg(unix)]
    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// As a terminal that goes away, or whoever renews certificates.
    #[cfg(unix)]
    pub fn hang_up(&self) {
        self.signal(rustix::process::Signal::HUP);
    }

    /// Freezes it, its connections left open, as a suspended machine does.
    #[cfg(unix)]
    pub fn stop(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets it go on where it was stopped.
    #[cfg(unix)]
    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait()); // most have ended already
    }
}

impl Ended {
    /// Asserts that it failed with this exit code and one line that contains all of these.
    #[track_caller]
    pub fn failed(&self, code: i32, contains: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        let text = self.stderr.join("\n");
        for part in contains {
            assert!(text.contains(part), "no {part:?} in {self:#?}");
        }
        assert!(
            !text.contains("panicked") && !text.contains("RUST_BACKTRACE"),
            "{self:#?}"
        );
        if code == 2 && !self.stderr.join("").contains("Usage:") {
            assert_eq!(self.stderr.len(), 1, "{self:#?}");
        }
        if code == 1 {
            let lines = self.stderr.iter().filter(|line| line.starts_with("nacp: "));
            assert!(lines.count() >= 1, "{self:#?}");
        }
    }

    /// Asserts that it succeeded.
    #[track_caller]
    pub fn succeeded(&self) -> &[String] {
        assert_eq!(self.code, Some(0), "{self:#?}");
        &self.stdout
    }
}
