//! Traces to a collector: OTLP over HTTP, in JSON, off unless an endpoint is named.
//!
//! Spans wait in a bounded queue and go out in batches. A collector that is slow or away costs spans, which are
//! counted, and never a job. There is no second try: a trace is a help, not a promise.

mod post;
mod span;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use backstop::{Cause, HealthWatch, Hook, HookFuture, JobId, LoopHeartbeat, Loops, RunEnd, RunInfo};
use backstop_server::AnsweredRequest;
use hyper::Uri;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;
use span::TraceSpan;

/// Spans that wait at most.
const QUEUE: usize = 4_096;

/// Spans in one request at most.
const BATCH: usize = 512;

/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(2);

/// How long a batch may take before readiness says so; a collector has less than that (H11).
const SILENT: Duration = Duration::from_secs(30);

/// Runs that are timed at once; more than this are not traced.
const RUNS: usize = 65_536;

/// How long the last spans of a program that stops may take.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Sends spans to a collector.
pub(crate) struct Exporter {
    spans: mpsc::Sender<TraceSpan>,
    lost: Arc<AtomicU64>,
    task: JoinHandle<()>,
    stop: CancellationToken,
    watch: HealthWatch,
}

/// The loop that sends: it has nothing to do while there are no spans.
async fn export(
    waiting: &mut mpsc::Receiver<TraceSpan>,
    address: &Uri,
    lost: &AtomicU64,
    heartbeat: &LoopHeartbeat,
) {
    let mut batch = Vec::with_capacity(BATCH);
    heartbeat.idle();
    while gather(waiting, &mut batch).await {
        heartbeat.record();
        if let Err(problem) = post::post(address, span::body(&batch)).await {
            lose(lost, batch.len());
            let lost = lost.load(Ordering::Relaxed);
            tracing::warn!(%problem, lost, "the collector of traces did not take a batch");
        }
        batch.clear();
        heartbeat.idle();
    }
}

impl Exporter {
    /// Starts to send to the collector at `endpoint`.
    pub(crate) fn start(endpoint: &str, loops: &Arc<Loops>) -> Result<Self, Problem> {
        let address = post::address(endpoint).map_err(|problem| {
            let message = format!("telemetry.otlp_endpoint cannot be used: {problem}");
            Problem::usage("config_invalid", message)
        })?;
        let (spans, waiting) = mpsc::channel(QUEUE);
        let (lost, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (waiting, counter) = (Arc::new(tokio::sync::Mutex::new(waiting)), lost.clone());
        let task = loops.supervise("export", SILENT, stop.clone(), move |heartbeat| {
            let (waiting, address, counter) = (waiting.clone(), address.clone(), counter.clone());
            async move { export(&mut *waiting.lock().await, &address, &counter, &heartbeat).await }
        });
        Ok(Self { spans, lost, task, stop, watch: loops.watch() })
    }

    /// Looks at how the task is that sends (H11).
    pub(crate) fn watch(&self) -> HealthWatch {
        self.watch.clone()
    }

    /// What a worker is told to call around every run.
    pub(crate) fn runs(&self) -> impl Hook {
        Runs { spans: self.spans.clone(), lost: self.lost.clone(), begun: Mutex::default() }
    }

    /// What a server is told to call after every request.
    pub(crate) fn requests(&self) -> RequestTracer {
        RequestTracer { spans: self.spans.clone(), lost: self.lost.clone() }
    }

    /// Sends what waits, and stops; answers how many spans were lost in all. Workers must have stopped before.
    pub(crate) async fn stop(self) -> u64 {
        let Self { spans, lost, mut task, stop, .. } = self;
        // It ends when nobody is left who could tell it of a span, and is not started again then.
        stop.cancel();
        drop(spans);
        if tokio::time::timeout(LAST_SPANS, &mut task).await.is_err() {
            task.abort();
        }
        lost.load(Ordering::Relaxed)
    }
}

fn lose(counter: &AtomicU64, count: usize) {
    counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Fills a batch: what comes soon after the first span goes with it. False when no more will come.
async fn gather(waiting: &mut mpsc::Receiver<TraceSpan>, batch: &mut Vec<TraceSpan>) -> bool {
    if waiting.recv_many(batch, BATCH).await == 0 {
        return false;
    }
    let until = tokio::time::Instant::now() + GATHER;
    while batch.len() < BATCH {
        match tokio::time::timeout_at(until, waiting.recv_many(batch, BATCH - batch.len())).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    true
}

/// Tells of requests.
pub(crate) struct RequestTracer {
    spans: mpsc::Sender<TraceSpan>,
    lost: Arc<AtomicU64>,
}

impl RequestTracer {
    /// One request that was answered.
    pub(crate) fn answered(&self, answered: &AnsweredRequest) {
        let span = TraceSpan::request(answered, SystemTime::now());
        if span.is_some_and(|span| self.spans.try_send(span).is_err()) {
            lose(&self.lost, 1);
        }
    }
}

/// Times runs.
struct Runs {
    spans: mpsc::Sender<TraceSpan>,
    lost: Arc<AtomicU64>,
    /// By job and number of the run.
    begun: Mutex<HashMap<(JobId, u32), (SystemTime, Instant)>>,
}

impl Runs {
    fn begin(&self, run: &RunInfo) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that was lost never ends here: what such runs leave behind is bounded too.
        if begun.len() < RUNS {
            begun.insert((run.job.spec.id, run.record.runs), (SystemTime::now(), Instant::now()));
        } else {
            lose(&self.lost, 1);
        }
    }

    fn end(&self, run: &RunInfo, cause: Cause) {
        let key = (run.job.spec.id, run.record.runs);
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        let Some((start, clock)) = begun else { return };
        let span = TraceSpan::run(&run.job, run.record.runs, cause, start, clock.elapsed());
        if span.is_some_and(|span| self.spans.try_send(span).is_err()) {
            lose(&self.lost, 1);
        }
    }
}

impl Hook for Runs {
    fn before_run<'a>(&'a self, run: &'a RunInfo) -> HookFuture<'a> {
        self.begin(run);
        Box::pin(std::future::ready(Ok(())))
    }

    fn after_run<'a>(&'a self, run: &'a RunInfo, end: &'a RunEnd) -> HookFuture<'a> {
        self.end(run, end.cause);
        Box::pin(std::future::ready(Ok(())))
    }
}
