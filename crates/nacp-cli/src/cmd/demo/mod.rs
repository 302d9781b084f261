//! `nacp demo`: the main job, under fire.
//!
//! A worker and a client, two programs of their own, meet through the fault proxy of this one: directly, or both at a
//! Gateway, which is a third program, behind the proxy. The client has the worker hash every file of a directory; meanwhile the connection is cut three times, slowed once and black-holed
//! once. What this module keeps true: the job is judged by hashes that were computed here; it ends before its deadline,
//! one way or the other, and no child of it lives on.

pub mod client;
mod conductor;
pub mod gateway;
mod job;
mod line;
mod links;
mod plan;
mod programs;
mod site;
mod timeline;
mod verdict;
pub mod worker;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::duration;
use crate::failure::Failure;
use crate::handlers::Totals;
use crate::output;
use crate::tree_hash::{Entry, SKIPPED_BY_DEFAULT};
use job::{Job, Outcome};
use site::Transport;
use timeline::Timeline;
use verdict::{Verdict, totals};

/// What to hash, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directory whose files are hashed
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// A name that is passed over wherever it stands; may be given more than once
    #[arg(long, value_name = "NAME", default_values_t = SKIPPED_BY_DEFAULT.map(String::from))]
    pub skip: Vec<String>,
    /// Without lossless streams, as the base protocol is: chunks may be lost, the response must not
    #[arg(long)]
    pub base: bool,
    /// How the programs reach each other; with TLS, a certificate is made for this one demonstration
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub transport: Transport,
    /// Through a Gateway in the middle. Lossless streams are for direct links, so chunks may be lost, as with --base;
    /// the response must not
    #[arg(long)]
    pub via_gateway: bool,
    /// Makes the same faults come at the same places [default: another one each time]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Every line as a JSON object
    #[arg(long)]
    pub json: bool,
    /// When to give up
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration::parse)]
    pub deadline: Duration,
}

const EXAMPLES: &str = "\
Examples:
  nacp demo                      hash the current directory
  nacp demo --dir src --base     see what is lost without lossless streams
  nacp demo --transport https    over Streamable HTTP inside TLS
  nacp demo --via-gateway        both programs connect to a Gateway, and it is their way to it that breaks
  nacp demo --seed 7 --json      the faults of seed 7, as JSON lines

Exit code 0: every chunk came once, in order, with the hash that was computed here, and the response is right.
With --base or --via-gateway: what came has the right hash, and the response is right; lost chunks are counted only.";

impl Args {
    /// Whether chunks may be lost: the base protocol's streams are, and lossless ones are for direct links.
    fn is_lossy(&self) -> bool {
        self.base || self.via_gateway
    }
}

/// Runs the demonstration.
///
/// # Errors
/// The directory cannot be read, the job did not end in time, or something was lost, doubled or wrong.
pub async fn run(args: Args) -> Result<(), Failure> {
    let seed = args
        .seed
        .unwrap_or_else(|| u64::from(crate::random::word() as u16));
    announce(&args)?;
    let (dir, skip) = (args.dir.clone(), args.skip.clone());
    let expected = blocking(move || verdict::expected(&dir, &skip))
        .await?
        .map_err(|error| Failure::failed(format_args!("{error}; choose another with --dir")))?;
    introduce(&args, seed, &expected)?;

    let timeline = Timeline::new(args.json, expected.len());
    let outcome = Job::new(&args, seed, expected.len(), &timeline).run().await;
    timeline.finish();
    let outcome = outcome?;
    let verdict = judge(&args, expected, &outcome).await?;
    report(&args, &outcome, &verdict, timeline.elapsed())
}

/// Hashing blocks, so it has a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(Failure::failed)
}

fn announce(args: &Args) -> Result<(), Failure> {
    if args.json {
        return Ok(());
    }
    let skipped = match &args.skip[..] {
        [] => String::new(),
        names => format!(", without {}", names.join(" and ")),
    };
    output::line(&format!(
        "hashing {}{skipped}, here first",
        args.dir.display()
    ))
}

fn introduce(args: &Args, seed: u64, expected: &[Entry]) -> Result<(), Failure> {
    let Totals { files, bytes, .. } = totals(expected);
    if args.json {
        return output::line(
            &json!({"line": "start", "dir": args.dir, "skip": args.skip, "files": files,
                "bytes": bytes, "lossless": !args.is_lossy(), "transport": args.transport.scheme(),
                "via_gateway": args.via_gateway, "seed": seed})
            .to_string(),
        );
    }
    let streams = if args.base {
        "as the base protocol does it: chunks may be lost"
    } else if args.via_gateway {
        "through a Gateway, where streams are plain: chunks may be lost, the response not"
    } else {
        "lossless streams"
    };
    output::line(&format!(
        "{files} files, {bytes} bytes; now by the worker, for the client, over {}, {streams}; seed {seed}",
        args.transport
    ))
}

async fn judge(args: &Args, expected: Vec<Entry>, outcome: &Outcome) -> Result<Verdict, Failure> {
    let (dir, skip) = (args.dir.clone(), args.skip.clone());
    let (chunks, sent, answer) = (outcome.chunks.clone(), outcome.sent, outcome.answer);
    blocking(move || {
        verdict::judge(&expected, &chunks, sent, answer, || {
            verdict::expected(&dir, &skip).unwrap_or_default()
        })
    })
    .await
}

fn report(
    args: &Args,
    outcome: &Outcome,
    verdict: &Verdict,
    time: Duration,
) -> Result<(), Failure> {
    let (client, worker) = (outcome.state.client, outcome.state.worker);
    let is_success = verdict.is_success(args.is_lossy());
    if args.json {
        output::line(
            &json!({"line": "verdict", "ok": is_success, "verdict": verdict,
                "cuts": 3, "black_holes": 1, "slow": 1,
                "offline": {"client": client.offline_count, "worker": worker.offline_count},
                "resumed": {"client": client.resumed_count, "worker": worker.resumed_count},
                "ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX)})
            .to_string(),
        )?;
    } else {
        let Verdict {
            files,
            bytes,
            sent,
            delivered,
            lost,
            doubled,
            wrong,
            out_of_order,
            ..
        } = verdict;
        output::line(&format!(
            "chunks:   {sent} sent, {delivered} delivered, {lost} lost, {doubled} doubled, \
             {out_of_order} out of order, {wrong} wrong"
        ))?;
        let response = if verdict.is_response_right {
            "right"
        } else {
            "WRONG"
        };
        output::line(&format!(
            "response: {response} ({files} files, {bytes} bytes)"
        ))?;
        output::line(&format!(
            "faults:   3 cuts, 1 black hole, 1 slow stretch; the client was offline {} times and came back {} times",
            client.offline_count, client.resumed_count
        ))?;
        output::line(&format!("time:     {:.1} s", time.as_secs_f64()))?;
    }
    if is_success {
        return Ok(());
    }
    Err(Failure::failed(
        "demo: what the client got is not what stands in the directory; see the figures above",
    ))
}
