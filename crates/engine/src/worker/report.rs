//! Endings on their way into the store: in batches, kept and tried again until they are durable (F17).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::failure::Verdict;
use backstop_store::{Finish, Store};
use tokio::sync::Notify;

use super::slots::Slot;
use crate::loops::Pulse;

/// Endings written in one call at most.
const BATCH: usize = 1_000;
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One ending with the slot that it keeps until it is durable: a lost ending never frees a slot (F17).
pub(crate) struct Report {
    pub(crate) finish: Finish,
    /// Given back when the report is dropped.
    pub(crate) _slot: Option<Arc<Slot>>,
}

/// Endings that are not durable yet. They outlive a panic of the loop that writes them.
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<Report>>,
    arrived: Notify,
    emptied: Notify,
}

impl Outbox {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(VecDeque::new()),
            arrived: Notify::new(),
            emptied: Notify::new(),
        })
    }

    pub(crate) fn push(&self, report: Report) {
        self.lock().push_back(report);
        self.arrived.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Report>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endings to write next, in the order of their jobs: what was stored side by side is written side by side,
    /// whichever handler was done first.
    fn batch(&self) -> Vec<Finish> {
        let mut waiting = self.lock();
        let count = waiting.len().min(BATCH);
        let first = &mut waiting.make_contiguous()[..count];
        first.sort_unstable_by_key(|report| report.finish.lease.job);
        first.iter().map(|report| report.finish.clone()).collect()
    }

    /// Lets handlers that are about to end do so: one commit for many costs hardly more than one for the first.
    async fn gather(&self) {
        let mut gathered = 0;
        loop {
            let waiting = self.lock().len();
            if waiting == gathered || waiting >= BATCH {
                return;
            }
            gathered = waiting;
            tokio::task::yield_now().await;
        }
    }

    /// Resolves when everything is durable.
    pub(crate) async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    /// The loop: copies a batch, writes it, and only then lets it go.
    pub(crate) async fn write_all(&self, store: &dyn Store, pulse: &Pulse, beat: Duration) {
        let mut pause = PAUSE_MIN;
        loop {
            pulse.beat();
            self.gather().await;
            let batch = self.batch();
            if batch.is_empty() {
                self.emptied.notify_waiters();
                // Waking up now and then keeps the pulse.
                let _ = tokio::time::timeout(beat, self.arrived.notified()).await;
                continue;
            }
            let count = batch.len();
            match store.finish(batch).await {
                Ok(answers) => {
                    pause = PAUSE_MIN;
                    let written: Vec<Report> = self.lock().drain(..count).collect();
                    for (report, answer) in written.iter().zip(&answers) {
                        note(report, answer.is_err());
                    }
                }
                Err(error) => {
                    pulse.warn(&error, || {
                        tracing::warn!(%error, endings = count, "endings are kept and tried again");
                    });
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}

/// One line for what a person should see: a dead letter is critical, a stale write is a warning.
fn note(report: &Report, stale: bool) {
    let job = &report.finish.ending.job;
    let lease = report.finish.lease;
    if stale {
        tracing::warn!(job = %job.id, kind = %job.kind, fence = %lease.fence,
            "the lease had passed on: this run's end was refused and changed nothing");
    } else if let Verdict::Dead { reason } = &report.finish.ending.decision.verdict {
        let error = report.finish.ending.failure.as_ref().map_or("", |failure| failure.message.as_str());
        tracing::error!(job = %job.id, kind = %job.kind, queue = %job.queue, %reason, error,
            "a job became a dead letter");
    }
}
