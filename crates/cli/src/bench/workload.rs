//! The job that does nothing, and the worker that runs it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::{Enqueue, WorkerHandle};
use backstop_sqlite::floor;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::problem::Problem;

pub(super) const BATCH: usize = 1_000;
pub(super) const CONCURRENCY: usize = 3_000;
/// How often the end of a measure in this process is looked for.
pub(super) const LOOK: Duration = Duration::from_millis(1);
/// How long a measure waits for something to move.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The queue of everything that is measured in a file of its own.
pub(super) const QUEUE: &str = "default";

/// A job with a payload of about 200 bytes that does nothing.
#[derive(Serialize, Deserialize)]
pub(super) struct NoopJob {
    to: String,
}

impl Job for NoopJob {
    const KIND: &'static str = "work";
    type Context = RunCounter;
    type Output = JobResult;
    async fn run(self, cx: JobContext<RunCounter>) -> JobResult {
        cx.app().count();
        Ok(())
    }
}

/// Counts runs, and tells when enough have started.
#[derive(Clone)]
pub(super) struct RunCounter(Arc<(AtomicUsize, usize, Notify)>);

impl RunCounter {
    pub(super) fn until(target: usize) -> Self {
        Self(Arc::new((AtomicUsize::new(0), target, Notify::new())))
    }

    fn count(&self) {
        if self.0.0.fetch_add(1, Ordering::Relaxed) + 1 == self.0.1 {
            self.0.2.notify_one();
        }
    }

    /// Resolves when the target was reached, or with an error when nothing has moved for long.
    pub(super) async fn reached(&self) -> Result<(), Problem> {
        let mut before = 0;
        while timeout(PATIENCE, self.0.2.notified()).await.is_err() {
            let now = self.0.0.load(Ordering::Relaxed);
            if now == before {
                return Err(stalled());
            }
            before = now;
        }
        Ok(())
    }
}

/// An engine on a fresh file, with the defaults of every user.
pub(super) async fn open(path: &Path) -> Result<Backstop, Problem> {
    Ok(Backstop::open(&format!("sqlite:{}", path.display())).await?)
}

/// One job, not submitted.
pub(super) fn job(engine: &Backstop) -> Enqueue {
    engine.enqueue_raw(NoopJob::KIND, floor::payload())
}

/// Stores `jobs` jobs in batches.
pub(super) async fn fill(engine: &Backstop, queue: &str, jobs: usize) -> Result<(), Problem> {
    let payload: Arc<str> = floor::payload().into();
    let mut left = jobs;
    while left > 0 {
        let count = left.min(BATCH);
        let job = |_| engine.enqueue_raw(NoopJob::KIND, payload.clone()).queue(queue);
        let batch = (0..count).map(job).collect();
        for answer in engine.submit_all(batch, true).await? {
            answer?;
        }
        left -= count;
    }
    Ok(())
}

/// Starts a worker that runs them.
pub(super) async fn worker(engine: &Backstop, tally: RunCounter) -> Result<WorkerHandle, Problem> {
    slots(engine, QUEUE, CONCURRENCY, tally).await
}

/// Starts a worker that runs so many jobs of a queue at a time.
pub(super) async fn slots(
    engine: &Backstop,
    queue: &str,
    slots: usize,
    tally: RunCounter,
) -> Result<WorkerHandle, Problem> {
    Ok(engine.worker(tally).register::<NoopJob>().queue(queue, slots).start().await?)
}

/// The error of a measure that waits for something that does not come.
pub(super) fn stalled() -> Problem {
    let seconds = PATIENCE.as_secs();
    Problem::failed("bench_stalled", format!("no job has run for {seconds} s"))
        .hint("run it with -v to see why")
}

/// Waits until `jobs` jobs of a queue have durably succeeded, looking every `pause`.
pub(super) async fn all_succeeded(
    engine: &Backstop,
    queue: &str,
    jobs: usize,
    pause: Duration,
) -> Result<(), Problem> {
    let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
    let (mut before, mut moved) = (0, Instant::now());
    loop {
        let queues = engine.queues().list().await?;
        let succeeded = queues.iter().find(|listed| listed.name == queue).map_or(0, |queue| queue.succeeded);
        if succeeded >= jobs {
            return Ok(());
        }
        if succeeded > before {
            (before, moved) = (succeeded, Instant::now());
        } else if moved.elapsed() > PATIENCE {
            return Err(stalled());
        }
        tokio::time::sleep(pause).await;
    }
}
