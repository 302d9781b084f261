//! The dialogue with the driver, in lines: JSON objects on our standard output, single words on our standard input.
//!
//! | we say | when |
//! |---|---|
//! | `{"event":"ready"}` | a server serves |
//! | `{"event":"warm"}` | a client has warmed up and waits for `go` |
//! | `{"event":"done","figures":{…}}` | a client has measured |
//! | `{"event":"failed","reason":"…"}` | it could not |
//! | `{"event":"sample","allocations":n}` | in answer to `sample` |
//!
//! | the driver says | what we do |
//! |---|---|
//! | `go` | measure |
//! | `stop` | end the closed loop now |
//! | `sample` | tell what only we know |
//! | end of input | exit, whatever we are doing: no process outlives the driver |

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{Args, Failure, own, runtime};

/// What was measured, by name; names end in their unit.
pub type Figures = BTreeMap<String, f64>;

/// Our end of the dialogue.
#[derive(Debug)]
pub struct Control {
    go: mpsc::Receiver<()>,
    stop: Arc<AtomicBool>,
}

impl Control {
    /// Starts to listen to the driver.
    pub fn start() -> Self {
        let (went, go) = mpsc::channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        // A thread of its own, asleep in a read: the runtime under measurement has nothing to do with it.
        std::thread::spawn(move || listen(&went, &stopped));
        Self { go, stop }
    }

    /// Set once the driver said `stop`.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Tells the driver that we have warmed up, and waits until it wants us to measure.
    pub async fn warm(&mut self) {
        say(&json!({"event": "warm"}));
        self.go.recv().await;
    }

    /// The same for a program without a runtime.
    pub fn warm_blocking(&mut self) {
        say(&json!({"event": "warm"}));
        self.go.blocking_recv();
    }
}

fn listen(went: &mpsc::Sender<()>, stopped: &AtomicBool) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.trim() {
            "go" => drop(went.blocking_send(())),
            "stop" => stopped.store(true, Ordering::Relaxed),
            "sample" => say(&json!({"event": "sample", "allocations": own::allocations()})),
            other => say(&json!({"event": "failed", "reason": format!("told {other}")})),
        }
    }
    std::process::exit(0);
}

/// Says `ready`: a server serves.
pub fn ready() {
    say(&json!({"event": "ready"}));
}

/// Says `done`, with what was measured.
pub fn done(figures: &Figures) {
    say(&json!({"event": "done", "figures": figures}));
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // The driver is gone when nobody reads; the end of our input then ends us.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The whole of an asynchronous peer's `main`: reads the command line, runs `role` on the runtime it names, and
/// reports how that failed. A role that ends well has said `done`, and waits for the driver to end it.
pub fn run_async<F>(role: impl FnOnce(Args, Control) -> F) -> std::process::ExitCode
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    run_with(|args, control| {
        let main = role(args.clone(), control);
        runtime::run(&args, async {
            main.await?;
            std::future::pending().await
        })
    })
}

/// The same for a program that brings its own loop.
pub fn run_with(role: impl FnOnce(Args, Control) -> Result<(), Failure>) -> std::process::ExitCode {
    own::begin();
    let control = Control::start();
    let ended = Args::from_env().and_then(|args| role(args, control));
    match ended {
        Ok(()) => loop {
            std::thread::park();
        },
        Err(why) => {
            say(&json!({"event": "failed", "reason": why.to_string()}));
            std::process::ExitCode::FAILURE
        }
    }
}
