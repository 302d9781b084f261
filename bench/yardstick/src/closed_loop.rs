//! The closed loop: a fixed number of callers, each of which calls again as soon as it is answered.
//!
//! A closed loop slows down with what it measures, so its latencies are those of a system that is never asked for more
//! than it answers (they leave out what would wait elsewhere: "coordinated omission"). Throughput at a given number of
//! calls in flight is exactly what it is for.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{Args, Control, Failure, Figures, Histogram};

/// One thing that is done over and over. A clone is a handle to the same connection.
pub trait Call: Clone + Send + Sync + 'static {
    /// Does it once, checks the outcome, and returns how many units that were: 1 for a call, chunks for a stream.
    fn call(&self) -> impl Future<Output = Result<u64, Failure>> + Send;
}

/// How much is done.
#[derive(Debug, Clone)]
pub struct Load {
    /// Calls in flight, over all connections together.
    pub in_flight: usize,
    /// Connections that they are spread over, evenly.
    pub connections: usize,
    /// Bytes of payload of a call or a chunk.
    pub payload: usize,
    /// How long to call before it counts.
    pub warm_up: Duration,
    /// How long to measure at most.
    pub duration: Duration,
    /// Calls at most, of each caller.
    pub calls_max: u64,
    /// Chunks of one stream.
    pub chunks: u64,
}

impl Load {
    /// Reads `--in-flight`, `--connections`, `--payload`, `--warm-up-ms`, `--duration-ms`, `--calls-max`, `--chunks`.
    pub fn from_args(args: &Args) -> Result<Self, Failure> {
        Ok(Self {
            in_flight: args.number("in-flight", 1)?,
            connections: args.number("connections", 1)?,
            payload: args.number("payload", 16)?,
            warm_up: args.millis("warm-up-ms", 200)?,
            duration: args.millis("duration-ms", 1_000)?,
            calls_max: args.number("calls-max", u64::MAX)?,
            chunks: args.number("chunks", 20_000)?,
        })
    }
}

/// Warms up, waits for the driver, measures, and returns the figures.
pub async fn measure<C: Call>(
    load: &Load,
    control: &mut Control,
    callers: &[C],
) -> Result<Figures, Failure> {
    if !load.warm_up.is_zero() {
        let ignored = Arc::new(Tally::default());
        run(load, load.warm_up, control.stop_flag(), callers, &ignored).await?;
    }
    let tally = Arc::new(Tally::default());
    control.warm().await;
    let begin = Instant::now();
    run(load, load.duration, control.stop_flag(), callers, &tally).await?;
    Ok(tally.figures(begin.elapsed()))
}

/// What the callers counted together.
#[derive(Debug, Default)]
pub struct Tally {
    /// Latency of each call.
    pub latency: Histogram,
    /// Units done.
    pub units: AtomicU64,
}

impl Tally {
    /// The figures of a run that took `elapsed`.
    pub fn figures(&self, elapsed: Duration) -> Figures {
        let units = self.units.load(Ordering::Relaxed) as f64;
        let seconds = elapsed.as_secs_f64();
        Figures::from([
            ("units".into(), units),
            ("seconds".into(), seconds),
            ("per_s".into(), units / seconds),
            ("p50_us".into(), self.latency.percentile_us(0.50)),
            ("p99_us".into(), self.latency.percentile_us(0.99)),
            ("max_us".into(), self.latency.percentile_us(1.0)),
        ])
    }
}

async fn run<C: Call>(
    load: &Load,
    duration: Duration,
    stop: Arc<AtomicBool>,
    callers: &[C],
    tally: &Arc<Tally>,
) -> Result<(), Failure> {
    let until = Instant::now() + duration;
    let mut tasks = JoinSet::new();
    for index in 0..load.in_flight {
        let caller = callers[index % callers.len()].clone();
        let (stop, tally, calls_max) = (Arc::clone(&stop), Arc::clone(tally), load.calls_max);
        tasks.spawn(async move {
            let mut begin = Instant::now();
            let mut calls = 0;
            while begin < until && calls < calls_max && !stop.load(Ordering::Relaxed) {
                let units = caller.call().await?;
                let end = Instant::now();
                tally.latency.record(end - begin);
                tally.units.fetch_add(units, Ordering::Relaxed);
                begin = end;
                calls += 1;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
