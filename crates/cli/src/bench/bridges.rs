//! Messages of a broker in and out, beside a bare loop of the broker's own client (B1, B2).
//!
//! In: messages that wait become jobs that are durable, and are acknowledged. Out: results that wait in the outbox are
//! published with confirms, and removed. Each run has a queue of its own, and loop and bridge take turns.

use std::path::Path;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::sinks::{Sink, SinkLimits, SinkTopic};
use backstop_bridges::floor::{BrokerFloor, FLOOR_BATCH};
use backstop_bridges::{
    BridgeSettings, BridgeSettingsError, BridgeSink, SinkSettings, Source, SourceSettings,
};
use tokio::time::timeout;

use super::folder::{BenchFolder, remove};
use super::report::{BenchFigure, Quantity};
use super::sizes::{BenchSizes, median, rate};
use super::workload::{self, NoopJob, RunCounter};
use crate::problem::Problem;

/// The name of the bridge.
const BRIDGE: &str = "bench";
/// SQS is asked by HTTP for ten messages at a time: a twentieth of the messages takes as long as all of them elsewhere.
const SQS_SHARE: usize = 20;
/// How long one direction of one run may take.
const LONGEST: Duration = Duration::from_secs(600);

/// What was measured of one broker, run by run.
#[derive(Default)]
struct BrokerRuns {
    floors_in: Vec<f64>,
    floors_out: Vec<f64>,
    bridge_in: Vec<f64>,
    bridge_out: Vec<f64>,
}

pub(crate) async fn measure(
    sizes: &BenchSizes,
    brokers: &[String],
    place: &BenchFolder,
    step: &dyn Fn(&str),
) -> Result<Vec<BenchFigure>, Problem> {
    // An address that cannot be used is told before the first of them has taken minutes.
    let names: Result<Vec<&str>, Problem> =
        brokers.iter().map(|broker| floor(broker, BRIDGE).map(|floor| floor.name())).collect();
    let mut measured = Vec::new();
    for (broker, name) in brokers.iter().zip(names?) {
        let messages = if name == "sqs" { sizes.messages / SQS_SHARE } else { sizes.messages };
        let mut runs = BrokerRuns::default();
        for round in 1..=sizes.rounds {
            step(&format!("messages of {name}, round {round} of {}", sizes.rounds));
            runs.add(broker, messages, place).await?;
        }
        let row = |way: &str, floors: &[f64], ours: Vec<f64>| {
            let (key, what) = (format!("{name}_{way}"), format!("{name}: messages {way}"));
            let figure = BenchFigure::new(&key, &what, Quantity::MessagesPerSecond, median(&ours));
            figure.floor(median(floors)).runs(ours)
        };
        measured.push(row("in", &runs.floors_in, runs.bridge_in));
        measured.push(row("out", &runs.floors_out, runs.bridge_out));
    }
    Ok(measured)
}

impl BrokerRuns {
    /// One run of each.
    async fn add(&mut self, broker: &str, messages: usize, place: &BenchFolder) -> Result<(), Problem> {
        let bodies: Vec<Vec<u8>> = (0..messages).map(body).collect();
        let queue = StagedQueue::make(broker).await?;
        let bare = async {
            let sent = queue.floor.publish(&bodies).await.map_err(failed)?;
            let taken = queue.floor.receive(messages).await.map_err(failed)?;
            Ok::<_, Problem>((sent, taken))
        };
        let (sent, taken) = queue.removed_after(bare.await).await?;
        self.floors_out.push(rate(messages, sent));
        self.floors_in.push(rate(messages, taken));

        let (queue, path) = (StagedQueue::make(broker).await?, place.fresh());
        let taken = taken_by_bridge(broker, &queue, &bodies, &path).await;
        remove(&path);
        self.bridge_in.push(rate(messages, queue.removed_after(taken).await?));

        let (queue, path) = (StagedQueue::make(broker).await?, place.fresh());
        let sent = sent_by_bridge(broker, &queue, messages, &path).await;
        remove(&path);
        self.bridge_out.push(rate(messages, queue.removed_after(sent).await?));
        Ok(())
    }
}

/// A queue of one run.
struct StagedQueue {
    name: String,
    floor: BrokerFloor,
}

impl StagedQueue {
    async fn make(broker: &str) -> Result<Self, Problem> {
        let name = format!("backstop-bench-{}", backstop::job_id());
        let floor = floor(broker, &name)?;
        floor.make().await.map_err(failed)?;
        Ok(Self { name, floor })
    }

    /// Removes it, however the run ended.
    async fn removed_after<T>(&self, done: Result<T, Problem>) -> Result<T, Problem> {
        let removed = self.floor.remove().await.map_err(failed);
        done.and_then(|done| removed.map(|()| done))
    }
}

/// How long a source takes for all of these, from its start until the last is a job and acknowledged.
async fn taken_by_bridge(
    broker: &str,
    queue: &StagedQueue,
    bodies: &[Vec<u8>],
    path: &Path,
) -> Result<Duration, Problem> {
    queue.floor.publish(bodies).await.map_err(failed)?;
    let engine = workload::open(path).await?;
    let source = SourceSettings::new(&queue.name, NoopJob::KIND).prefetch(FLOOR_BATCH);
    let mut settings = BridgeSettings::new(broker, source);
    settings.plaintext = true;
    let began = Instant::now();
    let source = Source::new(&engine, BRIDGE, &settings).map_err(|problem| unusable(&problem))?.start();
    let wanted = u64::try_from(bodies.len()).unwrap_or(u64::MAX);
    let end = timeout(LONGEST, source.until(|status| status.acked >= wanted)).await;
    let spent = began.elapsed();
    let status = source.status();
    source.stop().await;
    if end.is_err() || status.admitted != wanted {
        let problem = status.last_error.unwrap_or_else(|| "some came twice or not at all".to_owned());
        return Err(failed(format!("{} of {wanted} messages became jobs: {problem}", status.admitted)));
    }
    Ok(spent)
}

/// How long a sink takes for the results of so many jobs, from its start until the last is confirmed and removed.
async fn sent_by_bridge(
    broker: &str,
    queue: &StagedQueue,
    messages: usize,
    path: &Path,
) -> Result<Duration, Problem> {
    let engine = workload::open(path).await?;
    let results = Sink::new(BRIDGE, [SinkTopic::Results]);
    engine.sinks().set(&results, SinkLimits::default()).await.map_err(failed)?;
    workload::fill(&engine, workload::QUEUE, messages).await?;
    let tally = RunCounter::until(messages);
    let worker = workload::worker(&engine, tally.clone()).await?;
    tally.reached().await?;
    workload::all_succeeded(&engine, workload::QUEUE, messages, workload::LOOK).await?;
    worker.stop().await;
    let mut settings = BridgeSettings::of_sink(broker, SinkSettings::new(&queue.name, [SinkTopic::Results]));
    settings.plaintext = true;
    let began = Instant::now();
    let sink = BridgeSink::new(&engine, BRIDGE, &settings).map_err(|problem| unusable(&problem))?.start();
    let wanted = u64::try_from(messages).unwrap_or(u64::MAX);
    let end = timeout(LONGEST, sink.until(|status| status.published >= wanted)).await;
    let spent = began.elapsed();
    let status = sink.status();
    sink.stop().await;
    if end.is_err() {
        let problem = status.last_error.unwrap_or_else(|| "it is too slow".to_owned());
        return Err(failed(format!("{} of {wanted} results were published: {problem}", status.published)));
    }
    Ok(spent)
}

fn floor(broker: &str, queue: &str) -> Result<BrokerFloor, Problem> {
    BrokerFloor::new(broker, queue).map_err(|problem| unusable(&problem))
}

/// A body of about 200 bytes that no other message has: RabbitMQ gives messages no ids of their own.
fn body(number: usize) -> Vec<u8> {
    let to = format!("customer-{number}@example.com {}", "x".repeat(150));
    serde_json::json!({ "to": to }).to_string().into_bytes()
}

fn unusable(problem: &BridgeSettingsError) -> Problem {
    let problem = match problem {
        // Nobody has given the bridge a name.
        BridgeSettingsError::Address { problem, .. } => problem.to_string(),
        problem => problem.to_string(),
    };
    Problem::usage("bench_broker", problem)
}

fn failed(problem: impl ToString) -> Problem {
    Problem::failed("bench_broker", problem.to_string())
}
