//! What the kinds of remote workers need that may be away (H1).
//!
//! A remote worker tells how its runs end and nothing else, so what one of them found away is red for that worker, for
//! a pause that grows, and then it is tried again. The store keeps it: the next request may come to another node. What
//! the configuration has a check for is checked from here, and while that fails nobody is handed a kind that needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::circuit::KindDependency;
use backstop_core::event::{Event, EventKind};
use backstop_core::failure::Cause;
use backstop_core::health::{DependencyEvent, DependencyReport, DependencyState, WorkerReport};
use backstop_core::job::Spec;
use backstop_core::{Timestamp, WorkerId};
use backstop_store::{Error as StoreError, KnownKind};

use super::Remote;
use super::dependencies::ReadDependencies;
use super::finish::Finished;
use super::work::{Ended, WorkRequest};
use crate::dependency::need::RunNeeds;
use crate::dependency::watched::{Dependencies, DependencyChecks, LocalClock};
use crate::loops::{DependencyHealth, LoopHeartbeat};
use crate::parts::EngineParts;
use crate::worker_reports;

/// How long to wait for a store that is unavailable.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a node waits before it looks at the checks again when nothing is due.
const ROUND: Duration = Duration::from_secs(10);

/// Dependencies that are told of one worker; what runs say of more is not kept.
const MOST_TOLD: usize = 200;

/// How long a job is put off at least whose own dependency is red for a worker.
const PUT_OFF: Duration = Duration::from_secs(1);

/// What the end of a run says of a dependency.
#[derive(Debug)]
pub(super) struct DependencyNews {
    /// Of whom: the worker's batch.
    batch: WorkerId,
    dependency: String,
    event: DependencyEvent,
}

impl Remote {
    /// Those of a worker's kinds that need nothing which is red.
    pub(super) async fn claimable(&self, request: &WorkRequest) -> Result<Arc<[KnownKind]>, StoreError> {
        let needs = &self.parts.config.kind_dependencies;
        if needs.is_empty() {
            return Ok(request.kinds.clone());
        }
        let red = self.dependencies_of(&worker_reports::remote_key(request.worker.id())).await?.red;
        let (checked, circuits) = (self.memory.checked.get(), &self.parts.circuits);
        circuits.keep_up(&(&*self.parts).into()).await?;
        let config = &self.parts.config;
        let may = |known: &&KnownKind| {
            // Jobs that need different things are looked at one by one.
            let apart = config.dependency_fields.contains_key(&*known.kind) || circuits.own.has(&known.kind);
            apart
                || needs
                    .get(&*known.kind)
                    .is_none_or(|key| !red.contains(key) && !circuits.is_shut(key, config))
                    && checked.is_none_or(|checked| checked.allows(&known.kind))
        };
        Ok(request.kinds.iter().filter(may).cloned().collect())
    }

    /// What a run of a job needs, and how that is for a worker as far as this node knows.
    pub(super) async fn needs_of(&self, request: &WorkRequest, spec: &Spec) -> RunNeeds {
        let EngineParts { config, circuits, .. } = &*self.parts;
        let need = config.need_of(&spec.kind);
        let Some(key) = config.needed_by(spec, need.as_ref()) else { return RunNeeds::default() };
        if spec.dependency.is_some() {
            circuits.own.learn(&spec.kind);
        }
        let by_itself = circuits.by_itself(spec, need.as_ref());
        let mut unavailable_for = None;
        if by_itself {
            // A store that cannot be asked lets it run: its end could not be written either.
            let read = self.dependencies_of(&worker_reports::remote_key(request.worker.id())).await;
            let is_red = read.is_ok_and(|read| read.red.iter().any(|red| **red == *key));
            let checked = self.memory.checked.get().and_then(|checked| checked.red_for(&key));
            unavailable_for = is_red.then_some(PUT_OFF).or(checked);
        }
        RunNeeds { key: Some(key), by_itself, unavailable_for }
    }

    pub(super) async fn dependencies_of(&self, key: &str) -> Result<ReadDependencies, StoreError> {
        if let Some(read) = self.memory.dependencies.find(key) {
            return Ok(read);
        }
        let (report, _) = worker_reports::of_remote(&*self.parts.store, key).await?;
        let read = ReadDependencies::of(&report);
        self.memory.dependencies.note(key, read.clone());
        Ok(read)
    }

    /// What the end of a run says of the dependency that it names, or that its kind needs.
    /// A job that names its own means that one, whatever its code calls it.
    pub(super) fn news(&self, result: &Finished, spec: &Spec) -> Option<DependencyNews> {
        let config = &self.parts.config;
        let needs = &config.kind_dependencies;
        let own = config.needed_by(spec, config.need_of(&spec.kind).as_ref());
        let (named, event) = match &result.ended {
            Ended::Succeeded { .. } => (None, DependencyEvent::RunSucceeded),
            Ended::Failed(failure) if failure.cause == Cause::Rejected => {
                (failure.dependency.as_ref(), DependencyEvent::RunFailed)
            }
            _ => return None,
        };
        // What no kind needs is nobody's trouble but the run's.
        let of_kind = needs.get(&*spec.kind);
        let dependency = match named {
            Some(named) if of_kind == Some(named) || own.as_deref() == Some(named.as_str()) => {
                own?.to_string()
            }
            Some(named) => needs.values().find(|key| *key == named)?.clone(),
            None => own?.to_string(),
        };
        Some(DependencyNews { batch: result.grant.lease.worker, dependency, event })
    }

    /// Keeps what runs said of dependencies. What cannot be kept is said again by the next run.
    pub(super) async fn keep_news(&self, news: Vec<DependencyNews>) {
        for one in news {
            if let Err(error) = self.keep_one(&one).await {
                tracing::warn!(%error, dependency = one.dependency, "cannot store what a run said of a dependency");
            }
        }
    }

    async fn keep_one(&self, news: &DependencyNews) -> Result<(), StoreError> {
        let key = worker_reports::remote_key(news.batch);
        if news.event == DependencyEvent::RunSucceeded
            && !self.dependencies_of(&key).await?.failed.contains(&news.dependency)
        {
            return Ok(());
        }
        let needs = &self.parts.config.kind_dependencies;
        let kinds = needs.iter().filter(|(_, key)| **key == news.dependency).map(|(kind, _)| kind.clone());
        let kinds: Vec<String> = kinds.collect();
        let store = &*self.parts.store;
        let change = |report: &mut WorkerReport, now| (follow(report, news, &kinds, now), now);
        let (report, (turned, now)) = worker_reports::change_remote(store, &key, change).await?;
        self.memory.dependencies.note(&key, ReadDependencies::of(&report));
        if turned {
            self.tell_red(news, now).await?;
        }
        Ok(())
    }

    /// Tells everybody here that a dependency turned red for a worker. That it is tried again later is no news.
    async fn tell_red(&self, news: &DependencyNews, at: Timestamp) -> Result<(), StoreError> {
        let workers = self.parts.store.workers().await?;
        let found = workers.into_iter().find(|worker| worker.id == news.batch);
        let worker = found.map_or_else(|| news.batch.to_string(), |worker| worker.name);
        let problem = "a run found it unavailable";
        tracing::warn!(
            worker,
            dependency = news.dependency,
            problem,
            "a dependency is unavailable: its kinds are not handed to this worker for a while"
        );
        let dependency = Some(news.dependency.clone());
        let what =
            EventKind::WorkerHealth { worker, dependency, ok: false, problem: Some(problem.to_owned()) };
        self.parts.events.publish(Event { at, node: None, job: None, what });
        Ok(())
    }

    /// True when the configuration has a check for what a kind needs: then [`Remote::watch_dependencies`] has to run.
    #[must_use]
    pub fn has_checks(&self) -> bool {
        !self.checked_needs().is_empty()
    }

    /// How the dependencies are that are checked from here for remote workers; empty before the checks are made.
    #[must_use]
    pub fn dependency_health(&self) -> Vec<DependencyHealth> {
        self.memory.checked.get().map(|checked| checked.health()).unwrap_or_default()
    }

    fn checked_needs(&self) -> BTreeMap<String, KindDependency> {
        let config = &self.parts.config;
        let checked = config.dependencies.iter().filter(|(_, settings)| settings.check.is_some());
        let checked: Vec<&String> = checked.map(|(key, _)| key).collect();
        let needs =
            config.kind_dependencies.keys().filter_map(|kind| Some((kind.clone(), config.need_of(kind)?)));
        needs.filter(|(_, need)| checked.iter().any(|key| need.may_be(key))).collect()
    }

    /// Makes the checks of the configuration for the kinds of remote workers, for as long as it is polled (H1): a loop
    /// of whoever lets them in.
    pub async fn watch_dependencies(&self, heartbeat: &LoopHeartbeat) {
        let dependencies = loop {
            heartbeat.record();
            match self.parts.store.now().await {
                Ok(now) => break self.memory.checked.get_or_init(|| self.checked_dependencies(now)).clone(),
                Err(error) => {
                    heartbeat.warn(&error, || tracing::warn!(%error, "dependencies wait for the store"));
                    heartbeat.rest(PAUSE).await;
                }
            }
        };
        let (mut checks, mut changes) = (DependencyChecks::default(), dependencies.changes());
        loop {
            heartbeat.record();
            checks.start_due(&dependencies);
            checks.wait(&dependencies, &mut changes, ROUND).await;
        }
    }

    fn checked_dependencies(&self, now: Timestamp) -> Arc<Dependencies> {
        let (owner, clock) = ("remote workers".to_owned(), LocalClock::set(now));
        let needs = self.checked_needs();
        Arc::new(Dependencies::new(owner, needs, BTreeMap::new(), self.parts.clone(), clock))
    }
}

/// Writes into what is told of a worker what a run said of a dependency; answers whether that turned it red or green.
fn follow(report: &mut WorkerReport, news: &DependencyNews, kinds: &[String], now: Timestamp) -> bool {
    let place = report.dependencies.iter().position(|one| one.dependency == news.dependency);
    let mut state = place.map_or_else(
        || DependencyState::new(None, now),
        |place| DependencyState::told(&report.dependencies[place]),
    );
    let turned = state.follow(news.event.clone(), now);
    let told = state.report(&news.dependency, kinds.to_vec());
    // Those that only single jobs need go when they are over: there may be any number of them.
    let stays = |one: &DependencyReport| !one.kinds.is_empty() || !one.ok;
    match place {
        Some(place) => report.dependencies[place] = told,
        None if report.dependencies.iter().filter(|one| stays(one)).count() < MOST_TOLD => {
            report.dependencies.push(told);
        }
        None => return false,
    }
    report.dependencies.retain(stays);
    turned
}
