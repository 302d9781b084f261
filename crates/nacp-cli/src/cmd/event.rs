//! `nacp event`: one event, its chunks as they come, its response.
//!
//! What this module keeps true: what came is printed before the next is waited for; the first Ctrl-C stops the handler
//! and waits for its answer, the second ends the command; while the link is broken it says so, and waits.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use nacp::Payload;
use napp::{App, CallError, EventCall, LinkStatus};
use serde_json::json;

use crate::failure::{Failure, say};
use crate::interrupt::Interrupts;
use crate::settings::{Caller, Flags};
use crate::target::Target;
use crate::{json_argument, output, session, words};

/// What to call.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// The event's name
    #[arg(value_name = "EVENT")]
    event: String,
    /// What it is asked with: JSON in the notation of the README; - reads it from stdin
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<String>,
    /// One JSON object a line: {"request": …}, {"chunk": …}, {"link": …}, {"response": …}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Flags<Caller>,
}

const EXAMPLES: &str = "\
Prints a chunk a line, and the response behind '='. Ctrl-C aborts the event and waits for its answer; a second one
ends the command. While the connection is broken, the event waits for up to --grace and then goes on.

Examples:
  nacp event world countdown 5 --connect tcp://127.0.0.1:18900
  nacp event world countdown '{\"from\":5,\"interval_ms\":100}' --json --connect tcp://127.0.0.1:18900
  nacp event world tree-hash '{\"dir\":\"/usr/include\"}' --connect tcp://127.0.0.1:18900 > hashes.jsonl";

/// Runs the command.
///
/// # Errors
/// No response, or one that is not ok.
pub async fn run(args: Args) -> Result<(), Failure> {
    let request = json_argument::payload(args.payload.as_deref())?;
    let app = session::join(&args.settings, &args.target).await?;
    let view = View::new(args.json);
    let result = event(&app, &args, &request, &view).await;
    view.bar.finish_and_clear();
    session::leave(app).await;
    let response = result?;
    view.response(&response)
}

async fn event(app: &App, args: &Args, request: &Payload, view: &View) -> Result<Payload, Failure> {
    let failure = |error: &CallError| session::call_failure(error, &args.target, &args.event);
    let to = args.target.app.as_str();
    let mut link = app.link(to).map_err(Failure::failed)?;
    let call = app.event(to, &args.event, request).await;
    let mut call = call.map_err(|error| failure(&error))?;
    view.request(&call)?;
    let (mut interrupts, mut is_aborted) = (Interrupts::new()?, false);
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                if is_aborted {
                    return Err(Failure::Interrupted);
                }
                is_aborted = true;
                view.note("aborting; again to quit at once");
                // Polled along with the rest below: the answer may come before the receipt.
                abort(&call).await;
            }
            chunk = call.next() => match chunk {
                Some(chunk) => view.chunk(&chunk)?,
                None => break,
            },
            Some(status) = link.next() => view.link(args, &status)?,
        }
    }
    match call.response::<Payload>().await {
        Ok(response) => Ok(response),
        Err(error) => Err(failure(&error)),
    }
}

/// Sends the abort. It is on its way after the first poll; that the remote has it need not be waited for here.
async fn abort(call: &EventCall) {
    let _ = tokio::time::timeout(Duration::ZERO, call.abort()).await; // the call may have ended by itself
}

/// How it looks.
struct View {
    is_json: bool,
    bar: ProgressBar,
}

impl View {
    fn new(is_json: bool) -> Self {
        // Drawn on stderr, and only if that is a terminal. The chunks on stdout have their own lines.
        let style =
            ProgressStyle::with_template("{spinner} {pos} chunks, {per_sec}, {elapsed}  {msg}")
                .expect("a template that is tested");
        let bar = ProgressBar::no_length().with_style(style);
        if std::io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self { is_json, bar }
    }

    fn line(&self, text: &str) -> Result<(), Failure> {
        self.bar.suspend(|| output::line(text))
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    fn request(&self, call: &EventCall) -> Result<(), Failure> {
        if self.is_json {
            return self.line(&json!({"request": call.id().as_str()}).to_string());
        }
        self.note(&format!("request {}", call.id()));
        Ok(())
    }

    fn chunk(&self, chunk: &Payload) -> Result<(), Failure> {
        self.bar.inc(1);
        let json = json_argument::show(chunk)?;
        if self.is_json {
            self.line(&format!("{{\"chunk\":{json}}}"))
        } else {
            self.line(&json)
        }
    }

    fn response(&self, response: &Payload) -> Result<(), Failure> {
        let json = json_argument::show(response)?;
        if self.is_json {
            self.line(&format!("{{\"response\":{json}}}"))
        } else {
            self.line(&format!("= {json}"))
        }
    }

    fn link(&self, args: &Args, status: &LinkStatus) -> Result<(), Failure> {
        let app = &args.target.app;
        let (state, text) = match status {
            LinkStatus::Online { resumed: false, .. } => return Ok(()),
            LinkStatus::Online { .. } => ("online", format!("{app} is online again")),
            LinkStatus::Offline { cause, .. } => {
                let cause = words::offline(*cause);
                let text = format!("{app} is offline: {cause}; waiting for it");
                ("offline", text)
            }
            LinkStatus::Dropped { cause } => (
                "dropped",
                format!("{app} is gone: {}", words::dropped(*cause)),
            ),
        };
        self.bar
            .set_message(if state == "online" { "" } else { state });
        if self.is_json {
            return self.line(&json!({"link": state}).to_string());
        }
        self.note(&text);
        Ok(())
    }
}
