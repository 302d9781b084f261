//! The job from start to response: two programs, the proxy between them, and who listens to all of it.
//!
//! What this module keeps true: the job ends with an answer, or with an error that says who failed or what did not come
//! in time; in either case both programs have ended.

use std::cell::Cell;
use std::ffi::OsString;
use std::pin::pin;
use std::time::Duration;

use nact_rig::Proxy;
use tokio::sync::{mpsc, watch};

use super::Args;
use super::conductor::{Conductor, Link, State};
use super::line::Line;
use super::plan::plan;
use super::programs::{self, Program};
use super::site::Site;
use super::timeline::{Timeline, Tone, Who};
use crate::failure::Failure;
use crate::handlers::Totals;
use crate::tree_hash::Entry;

/// The worker's App ID.
pub const WORKER: &str = "demo-worker";
/// The client's.
pub const CLIENT: &str = "demo-client";
/// The line on stdin that lets the last chunk go.
pub const RELEASE: &str = "release";
/// The Gateway's, if there is one.
pub const GATEWAY: &str = "demo-gateway";
/// How long the job takes at least, if its chunks are few: long enough for five faults to hit it.
const JOB_TIME_US: usize = 6_000_000;
/// The longest pause between two chunks.
const PACE_MAX_US: usize = 250_000;

/// Between two lines about the depth of the Backlog, at least.
const WAIT_MARK_INTERVAL: Duration = Duration::from_millis(150);

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// What the client got, in order.
    pub chunks: Vec<Entry>,
    /// What the worker sent.
    pub sent: usize,
    /// The response.
    pub answer: Totals,
    /// The links, at the end.
    pub state: State,
}

/// The job, before it runs.
#[derive(Debug)]
pub struct Job<'a> {
    args: &'a Args,
    seed: u64,
    expected: usize,
    timeline: &'a Timeline,
    chunks: Vec<Entry>,
    sent: usize,
    waiting: usize,
    next_wait_mark: Duration,
    state: watch::Sender<State>,
}

type Heard = (Who, Option<Line>);

impl<'a> Job<'a> {
    /// A job of `expected` chunks.
    pub fn new(args: &'a Args, seed: u64, expected: usize, timeline: &'a Timeline) -> Self {
        Self {
            args,
            seed,
            expected,
            timeline,
            chunks: Vec::new(),
            sent: 0,
            waiting: 0,
            next_wait_mark: Duration::ZERO,
            state: watch::Sender::default(),
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// What failed, or what did not come in time.
    pub async fn run(mut self) -> Result<Outcome, Failure> {
        let awaits = Cell::new("the worker to listen");
        let deadline = self.args.deadline;
        match tokio::time::timeout(deadline, self.play(&awaits)).await {
            Ok(answer) => Ok(Outcome {
                answer: answer?,
                chunks: self.chunks,
                sent: self.sent,
                state: *self.state.borrow(),
            }),
            // The children go with the future that was dropped.
            Err(_) => Err(Failure::failed(format_args!(
                "demo: not done within {deadline:?}, while waiting for {}, after {} of {} chunks; \
                 a larger directory needs a longer --deadline",
                awaits.get(),
                self.chunks.len(),
                self.expected,
            ))),
        }
    }

    async fn play(&mut self, awaits: &Cell<&'static str>) -> Result<Totals, Failure> {
        let (say, mut heard) = mpsc::channel(256);
        let site = Site::new(self.args.transport)?;
        let (proxy, mut cast) = self.gather(&site, say, &mut heard, awaits).await?;
        awaits.set("the client to connect");

        let steps = plan(self.expected, self.seed);
        let (marks, mut marked) = mpsc::channel(16);
        let conductor = Conductor {
            proxy: &proxy,
            state: self.state.subscribe(),
            marks,
            gap: self.expected / 12,
            last: self.expected.saturating_sub(1),
            awaits,
        };
        let mut conductor = pin!(conductor.conduct(&steps));
        let mut is_conducted = false;
        let answer = loop {
            tokio::select! {
                biased;
                Some((tone, text)) = marked.recv() => self.timeline.mark(Who::Fault, tone, &text)?,
                Some(heard) = heard.recv() => if let Some(answer) = self.hear(heard)? {
                    break answer;
                },
                () = &mut conductor, if !is_conducted => {
                    is_conducted = true;
                    cast.worker.tell(RELEASE).await;
                }
            }
        };
        if !is_conducted {
            return Err(Failure::failed("demo: the job ended before the last fault"));
        }
        awaits.set("all programs to end");
        self.leave(heard, cast).await?;
        Ok(answer)
    }

    /// Starts all programs, and the proxy between them.
    async fn gather(
        &mut self,
        site: &Site,
        say: mpsc::Sender<Heard>,
        heard: &mut mpsc::Receiver<Heard>,
        awaits: &Cell<&'static str>,
    ) -> Result<(Proxy, Cast), Failure> {
        let listen = format!("--listen={}", site.listen_url());
        if !self.args.via_gateway {
            let worker_args = self.worker_args(site, listen);
            let worker = programs::start(Who::Worker, &worker_args, say.clone())?;
            let url = self.listening(heard).await?;
            let (proxy, connect) = site.proxy(&url).await?;
            let client = programs::start(Who::Client, &self.client_args(site, &connect), say)?;
            let gateway = None;
            return Ok((
                proxy,
                Cast {
                    worker,
                    client,
                    gateway,
                },
            ));
        }
        awaits.set("the Gateway to listen");
        let mut gateway_args = vec!["demo-gateway".into(), listen.into()];
        gateway_args.extend(self.common_args(site));
        let gateway = programs::start(Who::Gateway, &gateway_args, say.clone())?;
        let url = self.listening(heard).await?;
        let (proxy, connect) = site.proxy(&url).await?;
        let worker_args = self.worker_args(site, format!("--connect={connect}"));
        let worker = programs::start(Who::Worker, &worker_args, say.clone())?;
        // A call to an App that the Gateway does not know yet would go nowhere.
        awaits.set("the worker to connect");
        while !self.state.borrow().worker.is_online {
            let Some(line) = heard.recv().await else {
                return Err(Failure::failed("demo: the worker ended before the job"));
            };
            self.hear(line)?;
        }
        let client = programs::start(Who::Client, &self.client_args(site, &connect), say)?;
        let gateway = Some(gateway);
        Ok((
            proxy,
            Cast {
                worker,
                client,
                gateway,
            },
        ))
    }

    /// Lets all programs go, the client first, and hears what they still say.
    async fn leave(&mut self, mut heard: mpsc::Receiver<Heard>, cast: Cast) -> Result<(), Failure> {
        let Cast {
            mut client,
            mut worker,
            gateway,
        } = cast;
        // One after the other: if both left at once, each would wait for the other's answer.
        client.dismiss();
        client.ended().await;
        worker.dismiss();
        worker.ended().await;
        if let Some(mut gateway) = gateway {
            gateway.dismiss();
            gateway.ended().await;
        }
        while let Some((who, line)) = heard.recv().await {
            if let (Who::Worker, Some(Line::Sent { chunks })) = (who, line) {
                self.sent = chunks;
            }
        }
        self.timeline
            .mark(Who::Demo, Tone::Plain, "all programs have ended")
    }

    async fn listening(&mut self, heard: &mut mpsc::Receiver<Heard>) -> Result<String, Failure> {
        match heard.recv().await {
            Some((_, Some(Line::Listening { url }))) => Ok(url),
            Some(heard) => match self.hear(heard) {
                Err(failure) => Err(failure),
                Ok(_) => Err(Failure::failed(
                    "demo: the first program does not say where it listens",
                )),
            },
            None => Err(Failure::failed(
                "demo: the first program ended before it listened",
            )),
        }
    }

    /// One line of a program; the answer, if it is that.
    fn hear(&mut self, (who, line): Heard) -> Result<Option<Totals>, Failure> {
        let name = who.name();
        let Some(line) = line else {
            return Err(Failure::failed(format_args!(
                "demo: the {name} ended before the job"
            )));
        };
        match line {
            Line::Chunk(entry) => {
                self.chunks.push(entry);
                self.progress();
            }
            Line::Online { resumed } => self.online(who, resumed)?,
            Line::Offline { cause } => {
                self.link(who, |link| {
                    link.is_online = false;
                    link.offline_count += 1;
                });
                self.timeline
                    .mark(who, Tone::Bad, &format!("offline: {cause}"))?;
            }
            Line::Dropped { cause } => {
                self.link(who, |link| link.is_online = false);
                self.timeline
                    .mark(who, Tone::Bad, &format!("dropped: {cause}"))?;
            }
            Line::Waiting { messages: count } => {
                self.wait(count)?;
            }
            Line::Sent { chunks } => {
                self.sent = chunks;
                self.progress();
            }
            Line::Answer(answer) => {
                let text = format!("response: {} files, {} bytes", answer.files, answer.bytes);
                self.timeline.mark(who, Tone::Good, &text)?;
                return Ok(Some(answer));
            }
            Line::Failed { why } => {
                return Err(Failure::failed(format_args!(
                    "demo: the {name} failed: {why}"
                )));
            }
            Line::Listening { .. } => {}
        }
        Ok(None)
    }

    /// The depth of the worker's Backlog, now and then as a line.
    fn wait(&mut self, count: usize) -> Result<(), Failure> {
        self.waiting = count;
        self.progress();
        let now = self.timeline.elapsed();
        if self.state.borrow().worker.is_online || count == 0 || now < self.next_wait_mark {
            return Ok(());
        }
        self.next_wait_mark = now + WAIT_MARK_INTERVAL;
        let wait = if count == 1 { "waits" } else { "wait" };
        self.timeline.mark(
            Who::Worker,
            Tone::Plain,
            &format!("{} {wait}", messages(count)),
        )
    }

    /// How far the job is: by what arrived, or, where chunks may be lost, by what was sent.
    fn progress(&self) {
        let delivered = self.chunks.len();
        let chunks = if self.args.is_lossy() {
            self.sent
        } else {
            delivered
        };
        self.state.send_modify(|state| state.chunks = chunks);
        self.timeline.progress(delivered, self.waiting);
    }

    fn online(&mut self, who: Who, resumed: bool) -> Result<(), Failure> {
        self.link(who, |link| {
            link.is_online = true;
            link.resumed_count += u32::from(resumed);
        });
        let text = match (resumed, who) {
            (false, _) => "online".to_owned(),
            (true, Who::Worker) => {
                let waiting = std::mem::take(&mut self.waiting);
                format!("online again, replays {}", messages(waiting))
            }
            (true, _) => "online again".to_owned(),
        };
        self.timeline.mark(who, Tone::Good, &text)
    }

    fn link(&self, who: Who, change: impl FnOnce(&mut Link)) {
        self.state.send_modify(|state| {
            change(if who == Who::Worker {
                &mut state.worker
            } else {
                &mut state.client
            });
        });
    }

    /// `place` = where to listen, or to connect to.
    fn worker_args(&self, site: &Site, place: String) -> Vec<OsString> {
        let pace_us = (JOB_TIME_US / self.expected.max(1)).min(PACE_MAX_US);
        let pace = format!("--pace-us={pace_us}").into();
        let mut args = vec!["demo-worker".into(), pace, place.into()];
        args.extend(self.common_args(site));
        args
    }

    fn client_args(&self, site: &Site, connect: &str) -> Vec<OsString> {
        let mut dir = OsString::from("--dir=");
        dir.push(&self.args.dir);
        let connect = format!("--connect={connect}").into();
        let mut args = vec!["demo-client".into(), connect, dir];
        let skip = self.args.skip.iter().map(|name| format!("--skip={name}"));
        args.extend(skip.map(OsString::from));
        args.extend(self.args.via_gateway.then(|| "--via-gateway".into()));
        args.extend(self.common_args(site));
        args
    }

    fn common_args(&self, site: &Site) -> Vec<OsString> {
        let mut args = Vec::from_iter(self.args.base.then(|| "--base".into()));
        if let Some(path) = site.tls_dir() {
            let mut tls_dir = OsString::from("--tls-dir=");
            tls_dir.push(path);
            args.push(tls_dir);
        }
        args
    }
}

/// The programs.
struct Cast {
    worker: Program,
    client: Program,
    gateway: Option<Program>,
}

fn messages(count: usize) -> String {
    format!("{count} message{}", if count == 1 { "" } else { "s" })
}
