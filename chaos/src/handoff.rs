//! Processes of two engines, of which one hands its finished jobs on to the other (B7).

use std::time::Duration;

use backstop::prelude::*;
use backstop::signals::stop_asked;
use backstop::{Config, QueueConfig};
use backstop_bridges::handoff::{HandOffLoop, HandOffSettings, HandOffTimes};
use backstop_server::{Api, ServerSettings, bind, serve};

/// The publication.
pub const PUBLICATION: &str = "chain";

/// The queue of the receiver, which is often full.
const QUEUE: &str = "handed";

/// Jobs that may wait there: fewer than come in a burst, so that admission is refused again and again.
const DEPTH: u64 = 20;

/// Says to a process of the sender where the receiver is, and to the receiver on which port it listens.
pub const PORT: &str = "CHAOS_PORT";

/// A job of the sender.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct HandedJob {
    /// Its result.
    pub number: u64,
}

impl Job for HandedJob {
    const KIND: &'static str = "handed";
    type Context = ();
    type Output = JobResult<u64>;

    async fn run(self, _: JobContext<()>) -> JobResult<u64> {
        Ok(self.number)
    }
}

/// What the receiver makes of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HandedOnJob(u64);

impl Job for HandedOnJob {
    const KIND: &'static str = "handed_on";
    type Context = ();
    type Output = JobResult<u64>;

    async fn run(self, _: JobContext<()>) -> JobResult<u64> {
        // Slower than the sender, so that its queue fills.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(self.0)
    }
}

/// The settings of the sender.
#[must_use]
pub fn settings(port: &str) -> HandOffSettings {
    let mut settings = HandOffSettings::to(format!("http://127.0.0.1:{port}"));
    settings.kinds = [HandedJob::KIND.to_owned()].into_iter().collect();
    settings.kind = Some(HandedOnJob::KIND.to_owned());
    settings.queue = Some(QUEUE.to_owned());
    settings
}

fn times(lease: Duration) -> HandOffTimes {
    let mut times = HandOffTimes::default();
    times.look = Duration::from_millis(30);
    times.lease = lease;
    times.patience = Duration::from_secs(2);
    times.backoff = Backoff::exponential(Duration::from_millis(20), Duration::from_millis(300));
    times
}

/// Works and hands off until it is told to stop.
///
/// # Errors
/// When the store cannot be opened.
pub async fn send(url: &str, lease: Duration) -> JobResult {
    let engine = Backstop::open(url).await?;
    let settings = settings(&std::env::var(PORT)?);
    let handoff = HandOffLoop::new(&engine, PUBLICATION, &settings)?.times(times(lease)).start();
    let worker = engine.worker(()).register::<HandedJob>().queue("default", 8);
    worker.lease(lease).poll(Duration::from_millis(50)).run().await?;
    handoff.stop().await;
    Ok(())
}

/// Serves the API and works until it is told to stop.
///
/// # Errors
/// When the store cannot be opened, or the port is taken.
pub async fn receive(url: &str, lease: Duration) -> JobResult {
    let config = Config::default().queue(QUEUE, QueueConfig::default().max_depth(DEPTH));
    let engine = Backstop::open_with(url, config).await?;
    let mut server = ServerSettings::default();
    server.lease = Some(lease);
    let api = Api::new(engine.clone(), server);
    let listener = bind(([127, 0, 0, 1], std::env::var(PORT)?.parse()?).into(), &api).await?;
    let worker = engine.worker(()).register::<HandedOnJob>().queue(QUEUE, 4);
    let worker = worker.lease(lease).poll(Duration::from_millis(50)).start().await?;
    serve(listener, api, stop_asked()).await?;
    worker.stop().await;
    Ok(())
}
