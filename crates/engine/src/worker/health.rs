//! How a worker is, as far as that decides what it claims: its dependencies (H1) and its failures (H8).
//!
//! The loop here makes the checks, judges the worker, and tells the others through the store. What it decides is asked
//! before every claim and never waits for anything.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::circuit::KindDependency;
use backstop_core::event::{Event, EventKind};
use backstop_core::failure::Cause;
use backstop_core::health::{
    CountsByKind, FailurePause, FailurePauseReport, RunWindow, WaitWindow, WorkerReport,
};
use backstop_store::{Error as StoreError, KnownKind, Store};
use tokio::sync::watch;
use tokio::time::Instant;

use super::runtime::{RunningWorker, lock};
use crate::config::Config;
use crate::dependency::check::DependencyCheck;
use crate::dependency::watched::{Dependencies, DependencyChecks, LocalClock};
use crate::error::Error;
use crate::loops::{Health, HealthConditions, LoopHeartbeat, PausedHealth};
use crate::parts::EngineParts;
use crate::worker_reports;

/// How often a worker tells what its runs came to, and is judged by them.
const ROUND: Duration = Duration::from_secs(10);

/// How soon it tells that it stopped or goes on; more often than once in this time is told together.
const SOON: Duration = Duration::from_millis(500);

/// What may be away that the kinds of a worker need, and how to find out.
#[derive(Debug, Default)]
pub(crate) struct WorkerNeeds {
    /// Which dependency each kind needs.
    pub(crate) kinds: BTreeMap<String, KindDependency>,
    /// Checks in code, by dependency.
    pub(crate) checks: BTreeMap<String, DependencyCheck>,
}

impl WorkerNeeds {
    /// The clock of a worker's health. A store is asked for its time when there is something to check; otherwise that
    /// of this machine will do for how long a worker fails.
    pub(crate) async fn clock(&self, store: &dyn Store) -> Result<LocalClock, StoreError> {
        let asks = !self.kinds.is_empty();
        Ok(if asks { LocalClock::set(store.now().await?) } else { LocalClock::of_this_machine() })
    }

    /// Refuses checks and circuits of what nobody needs: mostly names with a mistake in them.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Error> {
        let needed = |name: &String| {
            self.kinds.values().any(|need| need.may_be(name))
                || config
                    .kind_dependencies
                    .keys()
                    .filter_map(|kind| config.need_of(kind))
                    .any(|need| need.may_be(name))
        };
        let mut checked = self.checks.keys().chain(config.dependencies.keys()).chain(config.circuits.keys());
        match checked.find(|name| !needed(name)) {
            None => Ok(()),
            Some(unused) => Err(Error::UnusedDependency { dependency: unused.clone() }),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct WorkerHealth {
    name: String,
    pub(super) dependencies: Dependencies,
    runs: Mutex<RunWindow>,
    waits: Mutex<WaitWindow>,
    /// Runs at once at most, by queue.
    slots: BTreeMap<String, u64>,
    pause: Mutex<FailurePause>,
    /// True once the store has a report of it.
    has_told: AtomicBool,
    parts: Arc<EngineParts>,
}

impl WorkerHealth {
    pub(crate) fn new(
        name: String,
        slots: BTreeMap<String, u64>,
        needs: WorkerNeeds,
        parts: Arc<EngineParts>,
        clock: LocalClock,
    ) -> Arc<Self> {
        let WorkerNeeds { kinds, checks } = needs;
        let dependencies = Dependencies::new(name.clone(), kinds, checks, parts.clone(), clock);
        let (runs, waits, pause, has_told) = Default::default();
        Arc::new(Self { name, dependencies, runs, waits, slots, pause, has_told, parts })
    }

    /// Fires when what may be claimed has changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.dependencies.changes()
    }

    /// Those of these kinds that may be claimed now.
    pub(super) fn claimable(&self, known: &Arc<[KnownKind]>) -> Arc<[KnownKind]> {
        if self.is_paused() { Arc::new([]) } else { self.dependencies.claimable(known) }
    }

    /// True when jobs of this kind may be claimed, and those that were may start.
    pub(super) fn allows(&self, kind: &str) -> bool {
        !self.is_paused() && self.dependencies.allows(kind)
    }

    fn is_paused(&self) -> bool {
        lock(&self.pause).paused().is_some()
    }

    /// How many runs it may take with `held` under way; none for any number.
    pub(super) fn room(&self, held: impl FnOnce() -> usize) -> Option<usize> {
        let pause = lock(&self.pause);
        if *pause == FailurePause::default() {
            return None;
        }
        let held = u64::try_from(held()).unwrap_or(u64::MAX);
        let room = pause.room(&lock(&self.runs).counts(self.dependencies.clock.now()), held)?;
        Some(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Follows the end of a run that needed `needed`: `unavailable` is the dependency that it found away.
    pub(super) fn ran(&self, kind: &str, needed: Option<&str>, cause: Cause, unavailable: Option<&str>) {
        let succeeded = cause == Cause::Succeeded;
        self.dependencies.ran(kind, needed, succeeded, unavailable);
        if succeeded || cause.is_failure() {
            lock(&self.runs).note(kind, !succeeded, self.dependencies.clock.now());
        }
    }

    /// Counts a job that is about to run, and had been due for so long when it was taken.
    pub(super) fn waited(&self, queue: &str, wait: Duration) {
        lock(&self.waits).note(queue, wait, self.dependencies.clock.now());
    }

    /// What to tell the others.
    fn report(&self) -> WorkerReport {
        let paused = lock(&self.pause).paused();
        WorkerReport {
            dependencies: self.dependencies.reports(),
            runs: lock(&self.runs).counts(self.dependencies.clock.now()),
            paused: paused.map(|(since, until, why)| FailurePauseReport { since, until, why }),
            slots: self.slots.clone(),
            waits: lock(&self.waits).counts(self.dependencies.clock.now()),
            ..WorkerReport::default()
        }
    }

    /// Lets it try again when its pause is over.
    fn tick(&self) {
        let mut pause = lock(&self.pause);
        if pause.tick(self.dependencies.clock.now()) {
            lock(&self.runs).clear();
            drop(pause);
            tracing::info!(worker = self.name, "the worker claims a few jobs again, to be judged by them");
            self.turned(None);
        }
    }

    /// Stops it when its failures are far above those of `rest`.
    fn judge(&self, own: &CountsByKind, rest: &CountsByKind) {
        let mut pause = lock(&self.pause);
        let stopped = pause.judge(own, rest, self.dependencies.clock.now());
        let why = pause.paused().filter(|_| stopped).map(|(_, _, why)| why.to_string());
        drop(pause);
        if let Some(why) = why {
            lock(&self.runs).clear();
            tracing::error!(
                worker = self.name,
                why,
                "the worker fails far more often than others: it stops claiming"
            );
            self.turned(Some(why));
        }
    }

    /// Tells everybody here that it stopped, or goes on.
    fn turned(&self, problem: Option<String>) {
        let (worker, ok) = (self.name.clone(), problem.is_none());
        let what = EventKind::WorkerHealth { worker, dependency: None, ok, problem };
        let at = self.dependencies.clock.now();
        self.parts.events.publish(Event { at, node: None, job: None, what });
        self.dependencies.changed();
    }
}

impl HealthConditions for WorkerHealth {
    fn add_to(&self, health: &mut Health) {
        let dependencies = self.dependencies.health();
        let paused = lock(&self.pause).paused();
        health.ready &= paused.is_none() && dependencies.iter().all(|one| one.ok);
        health.dependencies.extend(dependencies);
        let now = self.dependencies.clock.now();
        health.paused = paused.map(|(since, _, why)| PausedHealth {
            since_ms: u64::try_from(now.since(since).as_millis()).unwrap_or(u64::MAX),
            why: why.to_string(),
        });
    }
}

/// What was last told, and when.
struct LastTold {
    report: WorkerReport,
    key: String,
    at: Instant,
}

impl RunningWorker {
    /// The loop: runs until the worker is gone.
    pub(crate) async fn watch_health(self: Arc<Self>, heartbeat: &LoopHeartbeat) {
        let health = &self.health;
        let (mut checks, mut changes) = (DependencyChecks::default(), health.changes());
        let mut told = LastTold { report: WorkerReport::default(), key: String::new(), at: Instant::now() };
        let mut judged = Instant::now();
        loop {
            heartbeat.record();
            checks.start_due(&health.dependencies);
            health.tick();
            if judged.elapsed() >= ROUND {
                judged = Instant::now();
                self.judge().await.unwrap_or_else(|error| {
                    heartbeat.warn(&error, || tracing::warn!(%error, "cannot read how other workers are"));
                });
            }
            let again = match self.tell_health(&mut told).await {
                Ok(again) => again,
                Err(error) => {
                    heartbeat.warn(&error, || tracing::warn!(%error, "cannot store how this worker is"));
                    ROUND
                }
            };
            heartbeat.record();
            checks.wait(&health.dependencies, &mut changes, again.max(Duration::from_millis(10))).await;
        }
    }

    /// Compares this worker with the others, when its own figures are a reason to.
    async fn judge(&self) -> Result<(), StoreError> {
        let own = lock(&self.health.runs).counts(self.health.dependencies.clock.now());
        if !lock(&self.health.pause).needs_judging(&own) {
            return Ok(());
        }
        let rest = worker_reports::rest_of_fleet(&**self.store(), |id| id == self.id()).await?;
        self.health.judge(&own, &rest);
        Ok(())
    }

    /// Tells the others how this worker is, if there is news; answers when to look again.
    async fn tell_health(&self, told: &mut LastTold) -> Result<Duration, StoreError> {
        let (report, key) = (self.health.report(), worker_reports::key_of(self.id()));
        if told.key != key {
            // A new incarnation has told nothing yet.
            (told.key, told.report) = (key, WorkerReport::default());
        }
        // Whoever stops takes back what it told.
        if told.report == report || self.interrupt.is_cancelled() {
            return Ok(ROUND);
        }
        let due = if is_urgent(&told.report, &report) { SOON } else { ROUND };
        let since = told.at.elapsed();
        if since < due {
            return Ok(due - since);
        }
        self.health.has_told.store(true, Ordering::Release);
        worker_reports::write(&**self.store(), told.key.clone(), Some(&report)).await?;
        (told.report, told.at) = (report, Instant::now());
        Ok(ROUND)
    }

    /// Takes back what it told of itself: there is nobody any more whom that is about.
    pub(super) async fn untell_health(&self) {
        if self.health.has_told.load(Ordering::Acquire) {
            // What stays is removed by maintenance.
            let _ = worker_reports::write(&**self.store(), worker_reports::key_of(self.id()), None).await;
        }
    }
}

/// True when what the worker claims has changed.
fn is_urgent(before: &WorkerReport, now: &WorkerReport) -> bool {
    let claims = |report: &WorkerReport| {
        let all: Vec<_> = report.dependencies.iter().map(|one| (one.dependency.clone(), one.since)).collect();
        (all, report.paused)
    };
    claims(before) != claims(now)
}
