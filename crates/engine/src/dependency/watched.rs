//! The dependencies that the kinds of one worker need, each with its state; and the checks that keep it up to date.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backstop_core::Timestamp;
use backstop_core::circuit::KindDependency;
use backstop_core::event::{Event, EventKind};
use backstop_core::health::{DependencyEvent, DependencyReport, DependencyState};
use backstop_core::job::Spec;
use backstop_store::KnownKind;
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::check::{DependencyCheck, PATIENCE};
use super::need::RunNeeds;
use super::own::OwnDependencies;
use super::settings::DependencySettings;
use crate::loops::DependencyHealth;
use crate::parts::EngineParts;

/// The store's clock as it goes on here: it is asked once, because a run that ends asks nobody for the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalClock {
    at: Instant,
    moment: Timestamp,
}

impl LocalClock {
    /// A clock that shows `moment` now.
    pub(crate) fn set(moment: Timestamp) -> Self {
        Self { at: Instant::now(), moment }
    }

    /// The clock of this machine.
    pub(crate) fn of_this_machine() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::set(Timestamp::from_micros(i64::try_from(now.as_micros()).unwrap_or_default()))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.moment.after(self.at.elapsed())
    }

    fn instant(&self, moment: Timestamp) -> Instant {
        self.at + self.moment.until(moment)
    }
}

/// One dependency.
#[derive(Debug)]
struct WatchedDependency {
    check: Option<DependencyCheck>,
    state: Mutex<DependencyState>,
}

impl WatchedDependency {
    fn state(&self) -> std::sync::MutexGuard<'_, DependencyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Dependencies {
    /// Whose they are, for people.
    owner: String,
    pub(crate) clock: LocalClock,
    /// Which one each kind needs.
    needs: BTreeMap<String, KindDependency>,
    watched: BTreeMap<Arc<str>, WatchedDependency>,
    /// Those that only single jobs need.
    own: OwnDependencies,
    parts: Arc<EngineParts>,
    changes: watch::Sender<u64>,
}

impl Dependencies {
    /// Those that kinds need, with the checks of the configuration, and of the code where that is silent.
    pub(crate) fn new(
        owner: String,
        needs: BTreeMap<String, KindDependency>,
        mut in_code: BTreeMap<String, DependencyCheck>,
        parts: Arc<EngineParts>,
        clock: LocalClock,
    ) -> Self {
        let mut watched = BTreeMap::new();
        let named = needs.values().map(|need| need.name.clone());
        let several = |key: &&String| needs.values().any(|need| need.may_be(key));
        let checked = parts.config.dependencies.keys().chain(in_code.keys()).filter(several);
        let checked: Vec<Arc<str>> = checked.map(|key| key.as_str().into()).collect();
        for key in &named.chain(checked).collect::<BTreeSet<_>>() {
            let settings = parts.config.dependencies.get(&**key);
            let by_address = settings.and_then(|known| known.check.clone()).map(DependencyCheck::Address);
            let check = by_address.or_else(|| in_code.remove(&**key));
            watched.entry(key.clone()).or_insert_with(|| {
                let period =
                    settings.map_or_else(|| DependencySettings::default().period(), |it| it.period());
                let state = DependencyState::new(check.is_some().then_some(period), clock.now());
                WatchedDependency { check, state: Mutex::new(state) }
            });
        }
        let (changes, _) = watch::channel(0);
        Self { owner, clock, needs, watched, own: OwnDependencies::default(), parts, changes }
    }

    /// Fires when what may be claimed has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Says that what may be claimed has changed.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// True when a kind needs nothing that is red, and no circuit is open for it (H3). One whose jobs need different
    /// things is always claimed: each of its jobs is looked at by itself.
    pub(crate) fn allows(&self, kind: &str) -> bool {
        let Some(need) = self.needs.get(kind) else { return true };
        let EngineParts { circuits, config, .. } = &*self.parts;
        if need.from.is_some() || circuits.own.has(kind) {
            return true;
        }
        self.watched.get(&need.name).is_none_or(|one| one.state().is_ok())
            && !circuits.is_shut(&need.name, config)
    }

    /// What a run of a job needs, and how that is from here.
    pub(crate) fn of_run(&self, spec: &Spec) -> RunNeeds {
        let EngineParts { circuits, config, .. } = &*self.parts;
        let need = self.needs.get(&*spec.kind);
        let Some(key) = config.needed_by(spec, need) else { return RunNeeds::default() };
        if spec.dependency.is_some() {
            circuits.own.learn(&spec.kind);
        }
        let by_itself = circuits.by_itself(spec, need);
        let unavailable_for = if by_itself { self.red_for(&key) } else { None };
        RunNeeds { key: Some(key), by_itself, unavailable_for }
    }

    /// How long a dependency is red, as far as is known; none when it may be used.
    pub(crate) fn red_for(&self, key: &str) -> Option<Duration> {
        let now = self.clock.now();
        let Some(one) = self.watched.get(key) else { return self.own.red_for(key, now) };
        let state = one.state();
        (!state.is_ok()).then(|| state.due().map_or(Duration::ZERO, |due| now.until(due)))
    }

    /// Those of these kinds that need nothing that is red; the same ones when none does.
    pub(crate) fn claimable(&self, known: &Arc<[KnownKind]>) -> Arc<[KnownKind]> {
        if self.needs.is_empty() || known.iter().all(|one| self.allows(&one.kind)) {
            return known.clone();
        }
        known.iter().filter(|one| self.allows(&one.kind)).cloned().collect()
    }

    /// Follows the end of a run that needed `key`: `unavailable` is the dependency that it found away. Code says the
    /// name that its kind has, and means the one that the job needs.
    pub(crate) fn ran(&self, kind: &str, key: Option<&str>, succeeded: bool, unavailable: Option<&str>) {
        if let Some(named) = unavailable {
            let means_own = self.needs.get(kind).is_some_and(|need| *need.name == *named);
            self.follow(key.filter(|_| means_own).unwrap_or(named), key, DependencyEvent::RunFailed);
        } else if let Some(key) = key.filter(|_| succeeded) {
            self.follow(key, Some(key), DependencyEvent::RunSucceeded);
        }
    }

    /// Follows what has happened to a dependency; what neither a kind needs nor the job of this run is nobody's trouble
    /// but the run's.
    fn follow(&self, key: &str, of_run: Option<&str>, event: DependencyEvent) {
        let Some(one) = self.watched.get(key) else {
            if of_run == Some(key) && self.own.follow(key, event, self.clock.now()) {
                self.tell_own(key);
            }
            return;
        };
        let problem = problem(&event);
        let (news, ok) = {
            let mut state = one.state();
            let is_first = state.last().is_none();
            let turned = state.follow(event, self.clock.now());
            // Before its first check it is red already, and nobody was told.
            (turned || (is_first && !state.is_ok()), state.is_ok())
        };
        if news {
            self.tell(key, ok, problem);
            self.changed();
        }
    }

    /// Tells everybody that a dependency of single jobs turned red. That it is tried again later is no news.
    fn tell_own(&self, key: &str) {
        let problem = "a run found it unavailable";
        tracing::warn!(
            worker = self.owner,
            dependency = key,
            problem,
            "a dependency is unavailable: jobs that name it are put off"
        );
        self.publish(key, false, problem.to_owned());
        self.changed();
    }

    /// Tells everybody that a dependency turned red or green.
    fn tell(&self, key: &str, ok: bool, problem: String) {
        let kinds = self.kinds_of(key).join(", ");
        if ok {
            tracing::info!(
                worker = self.owner,
                dependency = key,
                kinds,
                "a dependency may be used again: its kinds are claimed"
            );
        } else {
            tracing::warn!(
                worker = self.owner,
                dependency = key,
                kinds,
                problem,
                "a dependency is unavailable: its kinds are not claimed"
            );
        }
        self.publish(key, ok, problem);
    }

    fn publish(&self, key: &str, ok: bool, problem: String) {
        let what = EventKind::WorkerHealth {
            worker: self.owner.clone(),
            dependency: Some(key.to_owned()),
            ok,
            problem: (!ok).then_some(problem),
        };
        self.parts.events.publish(Event { at: self.clock.now(), node: None, job: None, what });
    }

    fn kinds_of(&self, key: &str) -> Vec<String> {
        self.needs.iter().filter(|(_, need)| *need.name == *key).map(|(kind, _)| kind.clone()).collect()
    }

    /// What to tell other processes of them.
    pub(crate) fn reports(&self) -> Vec<DependencyReport> {
        let report =
            |(key, one): (&Arc<str>, &WatchedDependency)| one.state().report(key, self.kinds_of(key));
        self.watched.iter().map(report).chain(self.own.reports(self.clock.now())).collect()
    }

    /// What readiness shows of them (H2).
    pub(crate) fn health(&self) -> Vec<DependencyHealth> {
        let now = self.clock.now();
        let health = |(key, one): (&Arc<str>, &WatchedDependency)| {
            let state = one.state();
            let red = || state.last().map_or("unchecked", |last| last.result.as_str());
            DependencyHealth {
                name: key.to_string(),
                ok: state.is_ok(),
                age_ms: millis(now.since(state.last().map_or(state.since(), |last| last.at))),
                since_ms: millis(now.since(state.since())),
                problem: (!state.is_ok()).then(red),
            }
        };
        self.watched.iter().map(health).collect()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn problem(event: &DependencyEvent) -> String {
    match event {
        DependencyEvent::RunFailed => "a run found it unavailable".to_owned(),
        DependencyEvent::CheckFailed(problem) => problem.clone(),
        DependencyEvent::CheckTimedOut => format!("its check gave no answer within {PATIENCE:?}"),
        DependencyEvent::RunSucceeded | DependencyEvent::CheckPassed | DependencyEvent::Tick => String::new(),
    }
}

/// A check that has not ended.
struct UnderWay {
    key: Arc<str>,
    until: Instant,
    abort: AbortHandle,
    /// True once it counts as failed: one that does not let go keeps the next from being made.
    timed_out: bool,
}

/// Makes the checks of dependencies when they are due, each in a task of its own and never twice at once.
#[derive(Default)]
pub(crate) struct DependencyChecks {
    tasks: JoinSet<Result<(), String>>,
    under_way: HashMap<Id, UnderWay>,
}

impl DependencyChecks {
    /// Starts what is due, and follows what time alone changes.
    pub(crate) fn start_due(&mut self, dependencies: &Dependencies) {
        let now = Instant::now();
        for one in self.under_way.values_mut().filter(|one| !one.timed_out && one.until <= now) {
            one.timed_out = true;
            one.abort.abort();
            dependencies.follow(&one.key, None, DependencyEvent::CheckTimedOut);
        }
        for (key, one) in &dependencies.watched {
            let due = one.state().due();
            if due.is_none_or(|due| dependencies.clock.now() < due) || self.is_under_way(key) {
                continue;
            }
            let Some(check) = one.check.clone() else {
                dependencies.follow(key, None, DependencyEvent::Tick);
                continue;
            };
            let abort = self.tasks.spawn(async move { check.make().await });
            let entry = UnderWay { key: key.clone(), until: now + PATIENCE, abort, timed_out: false };
            self.under_way.insert(entry.abort.id(), entry);
        }
    }

    fn is_under_way(&self, key: &str) -> bool {
        self.under_way.values().any(|one| *one.key == *key)
    }

    /// Waits until a check has ended, something is due, what may be claimed has changed, or `longest` has passed.
    pub(crate) async fn wait(
        &mut self,
        dependencies: &Dependencies,
        changes: &mut watch::Receiver<u64>,
        longest: Duration,
    ) {
        let idle = dependencies.watched.iter().filter(|(key, _)| !self.is_under_way(key));
        let due = idle.filter_map(|(_, one)| one.state().due()).map(|due| dependencies.clock.instant(due));
        let late = self.under_way.values().filter(|one| !one.timed_out).map(|one| one.until);
        let until = due.chain(late).min().unwrap_or_else(|| Instant::now() + longest);
        let until = until.min(Instant::now() + longest);
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                self.ended(dependencies, ended);
            }
            // Whoever says so is there for as long as this is.
            _ = changes.changed() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }

    fn ended(&mut self, dependencies: &Dependencies, ended: Result<(Id, Result<(), String>), JoinError>) {
        let (id, made) = match ended {
            Ok((id, made)) => (id, made),
            Err(problem) => (problem.id(), Err("its check panicked".to_owned())),
        };
        // One that timed out was followed then.
        let Some(one) = self.under_way.remove(&id).filter(|one| !one.timed_out) else { return };
        dependencies.follow(
            &one.key,
            None,
            match made {
                Ok(()) => DependencyEvent::CheckPassed,
                Err(problem) => DependencyEvent::CheckFailed(dependencies.parts.config.sanitized(&problem)),
            },
        );
    }
}
