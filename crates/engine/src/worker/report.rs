//! Endings on their way into the store: in batches, kept and tried again until they are durable (F17).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::Lease;
use backstop_store::Finish;
use tokio::sync::Notify;

use super::slots::RunSlot;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::run::write::{log_end, write_apart};

/// Endings written in one call at most.
const BATCH: usize = 1_000;
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One ending with the slot that it keeps until it is durable: a lost ending never frees a slot (F17).
pub(crate) struct PendingEnding {
    pub(crate) finish: Finish,
    /// True when this was the job's first run: retries are a share of those (F19).
    pub(crate) first: bool,
    /// True once its retry has a place in the budget of its kind.
    pub(crate) booked: bool,
    /// Given back when the report is dropped.
    pub(crate) _slot: Option<Arc<RunSlot>>,
}

impl PendingEnding {
    pub(crate) const fn new(finish: Finish, first: bool, slot: Option<Arc<RunSlot>>) -> Self {
        Self { finish, first, booked: false, _slot: slot }
    }
}

/// Endings to write in one call.
struct Batch {
    endings: Vec<Finish>,
    /// True when every retry among them has its place.
    booked: bool,
}

/// Endings that are not durable yet. They outlive a panic of the loop that writes them.
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<PendingEnding>>,
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

    pub(crate) fn push(&self, report: PendingEnding) {
        self.lock().push_back(report);
        self.arrived.notify_one();
    }

    /// The leases of what is not durable yet.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        self.lock().iter().map(|report| report.finish.lease).collect()
    }

    /// How many are not durable yet.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<PendingEnding>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endings to write next, in the order of their jobs: what was stored side by side is written side by side,
    /// whichever handler was done first.
    fn batch(&self) -> Batch {
        let mut waiting = self.lock();
        let count = waiting.len().min(BATCH);
        let first = &mut waiting.make_contiguous()[..count];
        first.sort_unstable_by_key(|report| report.finish.lease.job);
        Batch {
            booked: first.iter().all(|report| report.booked),
            endings: first.iter().map(|report| report.finish.clone()).collect(),
        }
    }

    /// Gives the endings of a batch their places (F19, E13), once: a batch that could not be written keeps them.
    async fn book(&self, parts: &EngineParts, batch: &mut Batch) {
        if batch.booked {
            return;
        }
        parts.place(&mut batch.endings).await;
        for (report, finish) in self.lock().iter_mut().zip(&batch.endings) {
            report.finish.ending.decision.clone_from(&finish.ending.decision);
            report.finish.ending.failure.clone_from(&finish.ending.failure);
            report.booked = true;
        }
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
    pub(crate) async fn write_all(&self, parts: &EngineParts, heartbeat: &LoopHeartbeat, poll: Duration) {
        let mut pause = PAUSE_MIN;
        loop {
            heartbeat.record();
            self.gather().await;
            parts.budgets.tell(&*parts.store, &parts.config).await;
            // Each call to the store has a deadline of its own.
            heartbeat.record();
            let mut batch = self.batch();
            if batch.endings.is_empty() {
                self.emptied.notify_waiters();
                // Waking up now and then keeps the heartbeat.
                let _ = tokio::time::timeout(poll, self.arrived.notified()).await;
                continue;
            }
            self.book(parts, &mut batch).await;
            heartbeat.record();
            let count = batch.endings.len();
            // One that the store always refuses holds up none of the others (F17).
            match write_apart(batch.endings, |endings| parts.store.finish(endings)).await {
                Ok(answers) => {
                    pause = PAUSE_MIN;
                    parts.runs_ended();
                    let written: Vec<PendingEnding> = self.lock().drain(..count).collect();
                    for (report, (finish, answer)) in written.iter().zip(&answers) {
                        log_end(finish, answer.is_err());
                        if report.first {
                            parts.budgets.note_first_run(&finish.ending.job.kind);
                        }
                    }
                }
                Err(error) => {
                    heartbeat.warn(&error, || {
                        tracing::warn!(%error, endings = count,
                            "cannot store how runs ended; they are kept and retried");
                    });
                    heartbeat.rest(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}
