//! The demonstration's two programs, as children of this one.
//!
//! What this module keeps true: no child outlives the demonstration: each ends when its stdin ends, and is killed if it
//! does not; its last words are heard before its end is.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use super::line::Line;
use super::timeline::Who;
use crate::failure::{Failure, one_line};

/// How long a child has to end by itself.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// A running child.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
}

/// Starts this very program with other arguments. What it says goes to `heard`; after its last word, `None`.
///
/// # Errors
/// The system refuses.
pub fn start(
    who: Who,
    args: &[OsString],
    heard: mpsc::Sender<(Who, Option<Line>)>,
) -> Result<Program, Failure> {
    let failure = |error| {
        Failure::failed(format_args!(
            "cannot start a child of this program: {error}"
        ))
    };
    let itself = std::env::current_exe().map_err(failure)?;
    let mut child = Command::new(itself)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failure)?;
    let stdin = child.stdin.take();
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(listen(who, stdout, heard));
    }
    Ok(Program { child, stdin })
}

async fn listen(who: Who, stdout: ChildStdout, heard: mpsc::Sender<(Who, Option<Line>)>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        let line = serde_json::from_str(&text).unwrap_or_else(|_| Line::Failed {
            why: format!("said {:?}", one_line(&text)),
        });
        if heard.send((who, Some(line))).await.is_err() {
            return; // the demonstration is over
        }
    }
    let _ = heard.send((who, None)).await; // as above
}

impl Program {
    /// Writes a line to its stdin. One that has ended does not hear it, and is noticed by its silence.
    pub async fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(format!("{line}\n").as_bytes()).await;
        }
    }

    /// Tells it to end.
    pub fn dismiss(&mut self) {
        self.stdin = None;
    }

    /// Waits until it has ended, and sees to it that it has.
    pub async fn ended(mut self) {
        if tokio::time::timeout(LEAVE_TIME, self.child.wait())
            .await
            .is_err()
        {
            let _ = self.child.kill().await; // it may have ended just now
        }
    }
}
