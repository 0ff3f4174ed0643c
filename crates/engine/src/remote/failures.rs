//! Remote workers that fail far more often than others (H8).
//!
//! A node counts how the runs end that it hears of, tells the others what those of each worker came to, and judges a
//! worker when it asks for work, by the rule that all others judge themselves by. One that is paused gets nothing from
//! any node: the store keeps that with what else is known of it. The node that paused it watches its runs afterwards.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::Cause;
use backstop_core::health::{CountsByKind, FailurePause, FailurePauseReport, RunWindow};
use backstop_core::{Timestamp, WorkerId};
use backstop_store::Error as StoreError;
use tokio::time::Instant;

use super::Remote;
use super::dependencies::ReadDependencies;
use super::work::RemoteWorker;
use crate::dependency::watched::LocalClock;
use crate::ids::is_batch_of;
use crate::worker_reports;

/// How often the others are told what the runs of a worker came to, and how often it is judged by them.
const ROUND: Duration = Duration::from_secs(10);

/// How many workers make it worth looking for those that nobody has heard of for a while, and how long that is.
const MANY: usize = 1_024;
const REMEMBERED: Duration = Duration::from_secs(900);

/// What this node has heard of the runs of remote workers, by the key of their reports.
#[derive(Debug, Default)]
pub(super) struct RemoteFailures {
    clock: OnceLock<LocalClock>,
    workers: Mutex<HashMap<String, HeardRuns>>,
}

#[derive(Debug)]
struct HeardRuns {
    window: RunWindow,
    pause: FailurePause,
    /// When the others were last told, and what.
    told: Option<(Instant, CountsByKind)>,
    judged: Option<Instant>,
    heard: Instant,
}

/// The end of a run that says something of its worker.
pub(super) struct RemoteRunEnd {
    pub(super) batch: WorkerId,
    pub(super) kind: String,
    pub(super) cause: Cause,
}

impl RemoteFailures {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, HeardRuns>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, end: &RemoteRunEnd, now: Timestamp) {
        let succeeded = end.cause == Cause::Succeeded;
        if !succeeded && !end.cause.is_failure() {
            return;
        }
        let (mut workers, heard) = (self.lock(), Instant::now());
        if workers.len() > MANY {
            workers.retain(|_, runs| runs.heard.elapsed() < REMEMBERED);
        }
        let runs = workers.entry(worker_reports::remote_key(end.batch)).or_insert_with(|| HeardRuns {
            window: RunWindow::default(),
            pause: FailurePause::default(),
            told: None,
            judged: None,
            heard,
        });
        runs.heard = heard;
        runs.window.note(&end.kind, !succeeded, now);
    }

    /// Lets a worker try again whose pause is over; answers its figures when they are a reason to judge it.
    fn to_judge(&self, key: &str, now: Timestamp) -> Option<CountsByKind> {
        let mut workers = self.lock();
        let runs = workers.get_mut(key)?;
        if runs.pause.tick(now) {
            runs.window.clear();
            runs.told = None;
        }
        let own = runs.window.counts(now);
        let due = runs.judged.is_none_or(|at| at.elapsed() >= ROUND);
        if !due || !runs.pause.needs_judging(&own) {
            return None;
        }
        runs.judged = Some(Instant::now());
        Some(own)
    }

    /// Judges a worker; answers why it stops, if it does.
    fn judge(&self, key: &str, own: &CountsByKind, rest: &CountsByKind, now: Timestamp) -> Option<String> {
        let mut workers = self.lock();
        let runs = workers.get_mut(key)?;
        if !runs.pause.judge(own, rest, now) {
            return None;
        }
        runs.window.clear();
        runs.told = None;
        runs.pause.paused().map(|(_, _, why)| why.to_string())
    }

    /// What the others are to be told of a worker now; none when there is no news, or not yet.
    fn news(&self, key: &str, now: Timestamp) -> Option<(CountsByKind, Option<FailurePauseReport>)> {
        let mut workers = self.lock();
        let runs = workers.get_mut(key)?;
        let counts = runs.window.counts(now);
        if runs.told.as_ref().is_some_and(|(at, told)| at.elapsed() < ROUND || *told == counts) {
            return None;
        }
        runs.told = Some((Instant::now(), counts.clone()));
        let paused = runs.pause.paused();
        Some((counts, paused.map(|(since, until, why)| FailurePauseReport { since, until, why })))
    }

    /// Runs that a worker may have, with so many under way; none for any number.
    fn room(&self, key: &str, held: u64, now: Timestamp) -> Option<u64> {
        let mut workers = self.lock();
        let runs = workers.get_mut(key)?;
        let counts = runs.window.counts(now);
        runs.pause.room(&counts, held)
    }
}

impl Remote {
    /// Counts runs that have ended.
    pub(super) async fn note_ends(&self, ends: &[RemoteRunEnd]) {
        // What cannot be counted says nothing of its worker.
        let Ok(clock) = self.clock().await else { return };
        ends.iter().for_each(|end| self.memory.failures.note(end, clock.now()));
    }

    /// How many jobs a worker may have as far as its failures go; none for any number.
    pub(super) async fn failure_room(&self, worker: &RemoteWorker) -> Result<Option<usize>, StoreError> {
        let (key, failures) = (worker_reports::remote_key(worker.id()), &self.memory.failures);
        let now = self.clock().await?.now();
        if let Some(own) = failures.to_judge(&key, now) {
            let is_own = |id: WorkerId| worker_reports::remote_key(id) == key;
            let rest = worker_reports::rest_of_fleet(&*self.parts.store, is_own).await?;
            if let Some(why) = failures.judge(&key, &own, &rest, now) {
                self.tell_paused(worker, why, now);
            }
        }
        if let Some((runs, paused)) = failures.news(&key, now) {
            let (mut report, _) = worker_reports::of_remote(&*self.parts.store, &key).await?;
            (report.runs, report.paused) = (runs, paused);
            worker_reports::write(&*self.parts.store, key.clone(), Some(&report)).await?;
            self.memory.dependencies.note(&key, ReadDependencies::of(&report));
        }
        if self.dependencies_of(&key).await?.paused_until.is_some_and(|until| until > now) {
            return Ok(Some(0));
        }
        if failures.room(&key, 0, now).is_none() {
            return Ok(None);
        }
        let runs = self.parts.store.handed_out().await?;
        let held = runs.iter().filter(|run| is_batch_of(run.lease.worker, worker.id())).count();
        let room = failures.room(&key, u64::try_from(held).unwrap_or(u64::MAX), now);
        Ok(room.map(|room| usize::try_from(room).unwrap_or(usize::MAX)))
    }

    fn tell_paused(&self, worker: &RemoteWorker, why: String, at: Timestamp) {
        tracing::error!(
            worker = worker.name,
            why,
            "a remote worker fails far more often than others: it is handed nothing for a while"
        );
        let (worker, problem) = (worker.name.clone(), Some(why));
        let what = EventKind::WorkerHealth { worker, dependency: None, ok: false, problem };
        self.parts.events.publish(Event { at, node: None, job: None, what });
    }

    /// The store's clock, as it goes on here.
    async fn clock(&self) -> Result<LocalClock, StoreError> {
        let known = &self.memory.failures.clock;
        if let Some(clock) = known.get() {
            return Ok(*clock);
        }
        let now = self.parts.store.now().await?;
        Ok(*known.get_or_init(|| LocalClock::set(now)))
    }
}
