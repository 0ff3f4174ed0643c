//! Remote workers that fail far more often than others (H8).
//!
//! A worker may ask any of several servers for work, and tell any of them how its runs ended. So each one counts the
//! ends that it hears of and tells the others its share; whichever the worker asks judges it by all shares together,
//! and by the rule that all others judge themselves by. The store keeps how it stands: paused by one, it gets nothing
//! from any, and all of them together give it the few runs of its trial.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::Cause;
use backstop_core::health::{CountsByKind, FailurePause, RunWindow, WorkerReport, add_counts};
use backstop_core::{Timestamp, WorkerId};
use backstop_store::Error as StoreError;
use tokio::time::Instant;

use super::Remote;
use super::dependencies::{FRESH, ReadDependencies};
use super::work::RemoteWorker;
use crate::dependency::watched::LocalClock;
use crate::ids::{is_batch_of, worker_id};
use crate::worker_reports;

/// How often the others are told what the runs of a worker came to, and how often it is judged by them.
const ROUND: Duration = Duration::from_secs(10);

/// How many workers make it worth looking for those that nobody has heard of for a while, and how long that is.
const MANY: usize = 1_024;
const REMEMBERED: Duration = Duration::from_secs(900);

/// What this server has heard of the runs of remote workers, by the key of their reports.
#[derive(Debug, Default)]
pub(super) struct RemoteFailures {
    clock: OnceLock<LocalClock>,
    /// What its shares go by.
    server: OnceLock<String>,
    workers: Mutex<HashMap<String, HeardRuns>>,
}

#[derive(Debug)]
struct HeardRuns {
    window: RunWindow,
    /// Since when they count: see [`FailurePause::counts_since`].
    since: Option<Timestamp>,
    /// When the others were last told, and what.
    told: Option<(Instant, CountsByKind)>,
    judged: Option<Instant>,
    heard: Instant,
}

impl HeardRuns {
    fn new(heard: Instant) -> Self {
        Self { window: RunWindow::default(), since: None, told: None, judged: None, heard }
    }

    /// What counts of them for a worker that stands like this.
    fn counts(&mut self, pause: &FailurePause, now: Timestamp) -> CountsByKind {
        let since = pause.counts_since();
        if since.is_some() && self.since != since {
            self.window.clear();
            self.told = None;
        }
        self.since = since;
        self.window.counts(now)
    }
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
        let key = worker_reports::remote_key(end.batch);
        let runs = workers.entry(key).or_insert_with(|| HeardRuns::new(heard));
        runs.heard = heard;
        runs.window.note(&end.kind, !succeeded, now);
    }

    fn server(&self) -> &str {
        self.server.get_or_init(|| worker_id().to_string())
    }

    /// What counts of what was heard here of a worker that stands like this.
    fn counts(&self, key: &str, pause: &FailurePause, now: Timestamp) -> CountsByKind {
        self.lock().get_mut(key).map(|runs| runs.counts(pause, now)).unwrap_or_default()
    }

    /// True when the others are to be told of a worker now.
    fn has_news(&self, key: &str, now: Timestamp) -> bool {
        let mut workers = self.lock();
        let Some(runs) = workers.get_mut(key) else { return false };
        // A trial is a few runs, and whoever hears of one has to tell those who would hand out another.
        let wait = if runs.since.is_some() { FRESH } else { ROUND };
        match &runs.told {
            Some((at, _)) if at.elapsed() < wait => false,
            Some((_, told)) => *told != runs.window.counts(now),
            None => true,
        }
    }

    fn note_told(&self, key: &str, counts: CountsByKind) {
        if let Some(runs) = self.lock().get_mut(key) {
            runs.told = Some((Instant::now(), counts));
        }
    }

    /// True when it is time to judge a worker that gives a reason.
    fn is_due(&self, key: &str) -> bool {
        let (mut workers, now) = (self.lock(), Instant::now());
        let runs = workers.entry(key.to_owned()).or_insert_with(|| HeardRuns::new(now));
        let due = runs.judged.is_none_or(|at| at.elapsed() >= ROUND);
        if due {
            runs.judged = Some(now);
        }
        due
    }
}

impl Remote {
    /// Counts runs that have ended.
    pub(super) async fn note_ends(&self, ends: &[RemoteRunEnd]) {
        // What cannot be counted says nothing of its worker.
        let Ok(clock) = self.clock().await else { return };
        ends.iter().for_each(|end| self.memory.failures.note(end, clock.now()));
        let keys: HashSet<String> = ends.iter().map(|end| worker_reports::remote_key(end.batch)).collect();
        for key in keys {
            // What cannot be told now is told with the next end, or when the worker asks for work.
            let _ = self.tell_heard(&key, clock.now()).await;
        }
    }

    /// Tells the others what was heard here of a worker, if there is news.
    async fn tell_heard(&self, key: &str, now: Timestamp) -> Result<(), StoreError> {
        let failures = &self.memory.failures;
        if !failures.has_news(key, now) {
            return Ok(());
        }
        let tell = |report: &mut WorkerReport, at| {
            let counts = failures.counts(key, &report.pause, now);
            report.hear(failures.server(), counts.clone(), at);
            counts
        };
        let (report, counts) = worker_reports::change_remote(&*self.parts.store, key, tell).await?;
        failures.note_told(key, counts);
        self.memory.dependencies.note(key, ReadDependencies::of(&report));
        Ok(())
    }

    /// How many jobs a worker may have as far as its failures go; none for any number.
    pub(super) async fn failure_room(&self, worker: &RemoteWorker) -> Result<Option<usize>, StoreError> {
        let (key, failures) = (worker_reports::remote_key(worker.id()), &self.memory.failures);
        let now = self.clock().await?.now();
        self.tell_heard(&key, now).await?;
        let mut report = self.dependencies_of(&key).await?.report;
        Arc::make_mut(&mut report).tick(now);
        let mut runs = failures.counts(&key, &report.pause, now);
        add_counts(&mut runs, &report.heard_but_by(failures.server(), now));
        if report.pause.needs_judging(&runs) && failures.is_due(&key) {
            report = Arc::new(self.judge(worker, &key, &report.pause, &runs).await?);
        }
        if report.pause.paused().is_some() {
            return Ok(Some(0));
        }
        if report.pause.room(&runs, 0).is_none() {
            return Ok(None);
        }
        let held = self.parts.store.handed_out().await?;
        let held = held.iter().filter(|run| is_batch_of(run.lease.worker, worker.id())).count();
        let room = report.pause.room(&runs, u64::try_from(held).unwrap_or(u64::MAX));
        Ok(room.map(|room| usize::try_from(room).unwrap_or(usize::MAX)))
    }

    /// Judges a worker that stands like this by these runs; answers what is told of it then.
    async fn judge(
        &self,
        worker: &RemoteWorker,
        key: &str,
        pause: &FailurePause,
        runs: &CountsByKind,
    ) -> Result<WorkerReport, StoreError> {
        let store = &*self.parts.store;
        let is_own = |id: WorkerId| worker_reports::remote_key(id) == key;
        let rest = worker_reports::rest_of_fleet(store, is_own).await?;
        // Another server may have judged it meanwhile, by the same runs.
        let judge = |report: &mut WorkerReport, now| {
            (report.pause == *pause && report.judge(runs, &rest, now)).then_some(now)
        };
        let (report, stopped) = worker_reports::change_remote(store, key, judge).await?;
        self.memory.dependencies.note(key, ReadDependencies::of(&report));
        if let (Some(at), Some(paused)) = (stopped, report.paused) {
            self.tell_paused(worker, paused.why.to_string(), at);
        }
        Ok(report)
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
