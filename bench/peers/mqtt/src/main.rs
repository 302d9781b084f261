//! MQTT under measurement: publish with QoS 1 to a broker that the driver starts; a publish is done when its PUBACK is
//! in. Nobody subscribes: what is measured is the acknowledged publish, the closest that MQTT has to a request.
//!
//! `bench-mqtt client --url mqtt://host:port`.
//!
//! The client library is driven by its event loop, not by calls that return an answer, so the closed loop is a window:
//! as many publishes as may be in flight, and one more for each PUBACK. A broker acknowledges in order, so the oldest
//! publish is the one that an ack belongs to.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rumqttc::{AsyncClient, Event, EventLoop, MqttOptions, NetworkOptions, Packet, QoS};
use tokio::task::JoinSet;
use yardstick::closed_loop::Tally;
use yardstick::{Args, Control, Failure, Load, control};

/// Room for the largest payload and its topic.
const PACKET_BYTES_MAX: usize = 1 << 20;

fn main() -> ExitCode {
    control::run_async(run)
}

async fn run(args: Args, mut control: Control) -> Result<(), Failure> {
    if args.role != "client" {
        return Err(format!("no such role: {}", args.role).into());
    }
    let load = Load::from_args(&args)?;
    let authority = args.required("url")?.trim_start_matches("mqtt://");
    let (host, port) = authority.rsplit_once(':').ok_or("no port in the url")?;
    let window = (load.in_flight / load.connections).max(1);
    let mut links = Vec::new();
    for index in 0..load.connections {
        links.push(Link::connect(index, host, port.parse()?, window, load.payload).await?);
    }
    let stop = control.stop_flag();
    let links = publish(links, load.warm_up, &stop, &Arc::default()).await?;
    control.warm().await;
    let tally = Arc::new(Tally::default());
    let begin = Instant::now();
    publish(links, load.duration, &stop, &tally).await?;
    control::done(&tally.figures(begin.elapsed()));
    Ok(())
}

async fn publish(
    links: Vec<Link>,
    duration: Duration,
    stop: &Arc<AtomicBool>,
    tally: &Arc<Tally>,
) -> Result<Vec<Link>, Failure> {
    let mut tasks = JoinSet::new();
    let until = Instant::now() + duration;
    for mut link in links {
        let (stop, tally) = (Arc::clone(stop), Arc::clone(tally));
        tasks.spawn(async move {
            link.publish(until, &stop, &tally).await?;
            Ok::<_, Failure>(link)
        });
    }
    let mut links = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        links.push(ended??);
    }
    Ok(links)
}

struct Link {
    client: AsyncClient,
    events: EventLoop,
    window: usize,
    body: Vec<u8>,
    sent: VecDeque<Instant>,
}

impl Link {
    async fn connect(
        index: usize,
        host: &str,
        port: u16,
        window: usize,
        payload: usize,
    ) -> Result<Self, Failure> {
        let mut options = MqttOptions::new(format!("bench-{index}"), host, port);
        options
            .set_inflight(u16::try_from(window)?)
            .set_max_packet_size(PACKET_BYTES_MAX, PACKET_BYTES_MAX);
        // Room for the whole window, so that queuing a publish never waits for the loop that would take it.
        let (client, mut events) = AsyncClient::new(options, window);
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        events.set_network_options(network);
        while !matches!(events.poll().await?, Event::Incoming(Packet::ConnAck(_))) {}
        Ok(Self {
            client,
            events,
            window,
            body: vec![7; payload],
            sent: VecDeque::with_capacity(window),
        })
    }

    async fn publish(
        &mut self,
        until: Instant,
        stop: &AtomicBool,
        tally: &Tally,
    ) -> Result<(), Failure> {
        loop {
            let is_over = Instant::now() >= until || stop.load(Ordering::Relaxed);
            while !is_over && self.sent.len() < self.window {
                let body = self.body.clone();
                let topic = "bench";
                self.client
                    .publish(topic, QoS::AtLeastOnce, false, body)
                    .await?;
                self.sent.push_back(Instant::now());
            }
            if self.sent.is_empty() {
                return Ok(());
            }
            if let Event::Incoming(Packet::PubAck(_)) = self.events.poll().await? {
                let begin = self.sent.pop_front().ok_or("an ack for nothing")?;
                tally.latency.record(begin.elapsed());
                tally.units.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
