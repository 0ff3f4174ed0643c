//! The circuits as this process knows them: asked before each run that calls a dependency, told after it.
//!
//! Nothing is read for a run whose circuit was read within the last second, and nothing is written for a run that went
//! well. What runs say is added up here, and goes to the store together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_core::circuit::{
    CallCounts, CallResult, Circuit, CircuitAdmission, CircuitChange, CircuitNotice, CircuitSettings,
    CircuitState, KindDependency,
};
use backstop_core::event::{Event, EventKind};
use backstop_core::failure::{Cause, Failure};
use backstop_core::job::Spec;
use backstop_core::{JobId, Timestamp};
use backstop_store::{Error as StoreError, Store};
use tokio::time::Instant;

use super::own::OwnDependencyKinds;
use super::stored::{self, DeadTries, StoredCircuit};
use crate::config::Config;
use crate::events::EventChannel;
use crate::parts::EngineParts;
use crate::remote::CircuitPass;

/// How old a circuit may be that a run goes by.
pub(super) const FRESH: Duration = Duration::from_secs(1);
/// How often calls are told that may open a circuit, and those that only say that all is well.
const TELL_FAILURES: Duration = Duration::from_millis(200);
const TELL_SUCCESSES: Duration = Duration::from_secs(5);
/// How long a job is put off at most that was claimed while its circuit is open.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long a job is put off at most that has to be put off by itself: somebody may close its circuit early.
const LONGEST_WAIT_BY_ITSELF: Duration = Duration::from_secs(300);
/// How many circuits make it worth forgetting those that nobody asks for.
const MANY: usize = 1_024;

/// A run that may call its dependency: whose result is told under this generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CircuitCall {
    pub(crate) key: Arc<str>,
    pub(crate) generation: u64,
    /// Whose run it is, if nobody else finds out whether the dependency is back.
    probe: Option<JobId>,
}

impl CircuitCall {
    /// A run that another process may have let through.
    pub(crate) fn passed(key: &str, CircuitPass { generation, probe }: CircuitPass, job: JobId) -> Self {
        Self { key: key.into(), generation, probe: probe.then_some(job) }
    }

    pub(crate) const fn pass(&self) -> CircuitPass {
        CircuitPass { generation: self.generation, probe: self.probe.is_some() }
    }
}

/// Whether a run may call its dependency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunAdmission {
    Go(CircuitCall),
    Wait { delay: Duration, until: Timestamp },
}

impl RunAdmission {
    fn go(key: &Arc<str>, generation: u64, probe: Option<JobId>) -> Self {
        Self::Go(CircuitCall { key: key.clone(), generation, probe })
    }
}

/// What a circuit is changed with.
pub(crate) struct CircuitPlace<'a> {
    store: &'a dyn Store,
    config: &'a Config,
    events: &'a EventChannel,
}

impl<'a> From<&'a EngineParts> for CircuitPlace<'a> {
    fn from(parts: &'a EngineParts) -> Self {
        Self { store: &*parts.store, config: &parts.config, events: &parts.events }
    }
}

#[derive(Debug, Clone)]
struct KnownCircuit {
    at: Instant,
    /// The store's clock then.
    now: Timestamp,
    found: StoredCircuit,
    /// True when a kind is left out of claims by it: then nobody else would notice that it has changed.
    of_kind: bool,
}

impl KnownCircuit {
    fn now(&self) -> Timestamp {
        self.now.after(self.at.elapsed())
    }
}

/// Calls of one generation that were not told yet.
#[derive(Debug, Clone, Default)]
struct Untold {
    counts: CallCounts,
    probe: bool,
    /// Whose runs were to try the dependency and have said nothing of it.
    given_back: Vec<JobId>,
}

impl Untold {
    /// True when it is to be told now, if its circuit was told something at that moment: at once when others wait for
    /// it, or when it is enough to open the circuit.
    fn is_due(&self, told: Option<&Instant>, settings: &CircuitSettings) -> bool {
        let patience = if self.counts.failures > 0 { TELL_FAILURES } else { TELL_SUCCESSES };
        self.probe || settings.opens(self.counts) || told.is_none_or(|at| at.elapsed() >= patience)
    }
}

/// The circuits as this process knows them.
#[derive(Debug, Default)]
pub(crate) struct CircuitMemory {
    known: Mutex<HashMap<Arc<str>, KnownCircuit>>,
    untold: Mutex<HashMap<(Arc<str>, u64), Untold>>,
    /// When each circuit was last told something.
    told: Mutex<HashMap<Arc<str>, Instant>>,
    /// Kinds of which some jobs name their own dependency.
    pub(crate) own: OwnDependencyKinds,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CircuitMemory {
    /// The circuit of a dependency, read again when it is a second old.
    async fn fresh(&self, store: &dyn Store, key: &Arc<str>) -> Result<KnownCircuit, StoreError> {
        let known = lock(&self.known).get(key).filter(|known| known.at.elapsed() < FRESH).cloned();
        match known {
            Some(known) => Ok(known),
            None => self.read(store, key).await,
        }
    }

    async fn read(&self, store: &dyn Store, key: &Arc<str>) -> Result<KnownCircuit, StoreError> {
        let at = Instant::now();
        let (now, found) = stored::one(store, key).await?;
        let known = KnownCircuit { at, now, found, of_kind: false };
        self.remember(key, known.clone());
        Ok(known)
    }

    fn remember(&self, key: &Arc<str>, circuit: KnownCircuit) {
        let mut known = lock(&self.known);
        // Keys come with jobs, and jobs are many.
        if known.len() >= MANY && !known.contains_key(key) {
            known.retain(|_, known| known.of_kind || known.at.elapsed() < FRESH);
            lock(&self.told).retain(|_, at| at.elapsed() < TELL_SUCCESSES);
        }
        let of_kind = known.get(key).is_some_and(|known| known.of_kind);
        known.insert(key.clone(), KnownCircuit { of_kind, ..circuit });
    }

    /// Asks whether a run may call its dependency now; one that tries it is known to the store before it does. A job
    /// that is put off by itself comes back when the circuit may let it through, and not at one moment with others.
    pub(crate) async fn admit(
        &self,
        place: &CircuitPlace<'_>,
        key: &Arc<str>,
        job: JobId,
        by_itself: bool,
    ) -> Result<RunAdmission, StoreError> {
        let settings = place.config.circuit(key);
        let known = self.fresh(place.store, key).await?;
        let admitted = match known.found.circuit.admit(job, &settings, known.now()) {
            CircuitAdmission::Go { generation } => RunAdmission::go(key, generation, None),
            CircuitAdmission::Wait { until } => RunAdmission::Wait { delay: known.now().until(until), until },
            CircuitAdmission::Probe => self.probe(place, key, job).await?,
        };
        let RunAdmission::Wait { delay, until } = admitted else { return Ok(admitted) };
        let state = lock(&self.known).get(key).map(|known| known.found.circuit.state);
        let delay = match state {
            // Each job has its own place in the slow start.
            None | Some(CircuitState::Closed) => delay,
            Some(_) if by_itself => delay.min(LONGEST_WAIT_BY_ITSELF) + settings.spread(job),
            // Its kind is not claimed any more while the circuit is open; what was claimed before comes back as soon as
            // it may, also when a person closes the circuit before its time.
            Some(_) => delay.min(LONGEST_WAIT),
        };
        Ok(RunAdmission::Wait { delay, until })
    }

    /// True when a job that cannot run now is put off by itself: others of its kind may need something else.
    pub(crate) fn by_itself(&self, spec: &Spec, need: Option<&KindDependency>) -> bool {
        spec.dependency.is_some() || need.is_some_and(|need| need.from.is_some()) || self.own.has(&spec.kind)
    }

    async fn probe(
        &self,
        place: &CircuitPlace<'_>,
        key: &Arc<str>,
        job: JobId,
    ) -> Result<RunAdmission, StoreError> {
        let settings = place.config.circuit(key);
        for _ in 0..stored::TRIES {
            let KnownCircuit { now, found, .. } = self.read(place.store, key).await?;
            let mut next = found.circuit.clone();
            let Some(generation) = next.take_probe(job, &settings, now) else {
                // Others have all tries, or know already how they ended.
                return Ok(match next.admit(job, &settings, now) {
                    CircuitAdmission::Go { generation } => RunAdmission::go(key, generation, None),
                    CircuitAdmission::Wait { until } => RunAdmission::Wait { delay: now.until(until), until },
                    CircuitAdmission::Probe => continue,
                });
            };
            let turned = next.generation != found.circuit.generation;
            let next = StoredCircuit { circuit: next, ..found };
            if let Some(revision) = stored::write(place.store, &next, None).await? {
                if turned {
                    let counts = CallCounts::default();
                    let change =
                        CircuitChange { state: CircuitState::HalfOpen, generation, counts, until: None };
                    tell(place.events, key, &change, None, now);
                }
                self.keep(key, StoredCircuit { revision, ..next }, now);
                return Ok(RunAdmission::go(key, generation, Some(job)));
            }
        }
        // Whoever else is so busy with it tries it too.
        let now = self.read(place.store, key).await?.now;
        Ok(RunAdmission::Wait { delay: FRESH, until: now.after(FRESH) })
    }

    /// Until when a circuit lets nothing through; none when it does.
    pub(crate) async fn open_until(
        &self,
        place: &CircuitPlace<'_>,
        key: &str,
    ) -> Result<Option<Timestamp>, StoreError> {
        let known = self.fresh(place.store, &key.into()).await?;
        let now = known.now();
        let Circuit { state, until, .. } = known.found.circuit;
        Ok(until.filter(|until| state == CircuitState::Open && *until > now))
    }

    /// True when the circuit of what a kind needs is known to let nothing through for now.
    pub(crate) fn is_shut(&self, key: &str, config: &Config) -> bool {
        let mut known = lock(&self.known);
        let Some(known) = known.get_mut(key) else { return false };
        known.of_kind = true;
        known.found.circuit.is_shut(&config.circuit(key), known.now())
    }

    /// Tells what is still to be told, and reads the circuits again that are known not to be closed: somebody may have
    /// closed one by hand, or found its dependency back. Those that only single jobs need are asked for by these jobs.
    pub(crate) async fn keep_up(&self, place: &CircuitPlace<'_>) -> Result<(), StoreError> {
        self.tell(place).await;
        let (mut old, mut any) = (Vec::new(), false);
        for (key, known) in lock(&self.known).iter() {
            let holds_up = known.of_kind && known.found.circuit.state != CircuitState::Closed;
            any |= holds_up;
            old.extend((holds_up && known.at.elapsed() >= FRESH).then(|| key.clone()));
        }
        for key in old {
            self.read(place.store, &key).await?;
        }
        if any { self.own.keep_up(place.store).await } else { Ok(()) }
    }

    fn keep(&self, key: &Arc<str>, found: StoredCircuit, now: Timestamp) {
        self.remember(key, KnownCircuit { at: Instant::now(), now, found, of_kind: false });
    }

    /// Adds what a run said of its dependency.
    pub(crate) fn note(&self, call: &CircuitCall, result: CallResult) {
        if result == CallResult::Ignored && call.probe.is_none() {
            return;
        }
        let mut untold = lock(&self.untold);
        let untold = untold.entry((call.key.clone(), call.generation)).or_default();
        untold.counts.add(result);
        untold.probe |= call.probe.is_some();
        untold.given_back.extend(call.probe.filter(|_| result == CallResult::Ignored));
    }

    /// Counts tries as failed whose runs were ended because they took too long.
    pub(crate) fn note_overdue(&self, tries: &DeadTries, ended: &[JobId]) {
        for (key, generation, job) in tries.of_ended(ended) {
            let pass = CircuitPass { generation, probe: true };
            self.note(&CircuitCall::passed(key, pass, job), CallResult::Failure);
        }
    }

    /// Tells the store what runs have said, as far as it is time.
    pub(crate) async fn tell(&self, place: &CircuitPlace<'_>) {
        let due: Vec<((Arc<str>, u64), Untold)> = {
            let (mut untold, mut told) = (lock(&self.untold), lock(&self.told));
            let due = untold
                .iter()
                .filter(|((key, _), untold)| untold.is_due(told.get(key), &place.config.circuit(key)));
            let due: Vec<_> = due.map(|(of, _)| of.clone()).collect();
            told.extend(due.iter().map(|(key, _)| (key.clone(), Instant::now())));
            due.into_iter().filter_map(|of| untold.remove_entry(&of)).collect()
        };
        for ((key, generation), untold) in due {
            let settings = place.config.circuit(&key);
            let added = self.change(place, &key, |circuit, now| {
                let before = circuit.clone();
                circuit.give_back(generation, &untold.given_back);
                let change = circuit.record(generation, untold.counts, &settings, now);
                // Late answers change nothing, and are not written.
                (*circuit != before).then(|| {
                    change.unwrap_or(CircuitChange {
                        state: circuit.state,
                        generation: before.generation,
                        counts: untold.counts,
                        until: None,
                    })
                })
            });
            if let Err(error) = added.await {
                tracing::debug!(%key, %error, "calls of a dependency are not counted: the store is unavailable");
            }
        }
    }

    /// Changes a circuit as it stands; answers what was written, or none when nothing was to be.
    pub(super) async fn change(
        &self,
        place: &CircuitPlace<'_>,
        key: &str,
        what: impl Fn(&mut Circuit, Timestamp) -> Option<CircuitChange>,
    ) -> Result<Option<(StoredCircuit, Timestamp)>, StoreError> {
        let key: Arc<str> = key.into();
        for _ in 0..stored::TRIES {
            let KnownCircuit { now, found, .. } = self.read(place.store, &key).await?;
            let mut next = found.circuit.clone();
            let Some(change) = what(&mut next, now) else { return Ok(None) };
            let (turned, before) = (next.generation != found.circuit.generation, found.circuit.state);
            let next = StoredCircuit { circuit: next, ..found };
            let by = next.circuit.by.as_deref().filter(|_| turned);
            let notice = CircuitNotice::of(&key, before, &change, by, now);
            let notice = notice.filter(|_| turned && place.config.has_alerts());
            if let Some(revision) = stored::write(place.store, &next, notice.as_ref()).await? {
                if turned {
                    tell(place.events, &key, &change, next.circuit.by.as_deref(), now);
                }
                let written = StoredCircuit { revision, ..next };
                self.keep(&key, written.clone(), now);
                return Ok(Some((written, now)));
            }
        }
        Ok(None)
    }
}

/// How a run ends that must not call its dependency now: uncharged, and again when it may.
pub(crate) fn circuit_open(key: &str, delay: Duration, until: Timestamp) -> Failure {
    let message = format!("the circuit of `{key}` lets nothing through: it is tried again at {until}");
    let mut failure = Failure::new(Cause::CircuitOpen, "CircuitOpen", message).retry_in(delay);
    failure.dependency = Some(key.to_owned());
    failure
}

/// Tells everybody that a circuit has another state. Who wrote the change tells it, and nobody else.
fn tell(events: &EventChannel, key: &str, change: &CircuitChange, by: Option<&str>, at: Timestamp) {
    let CallCounts { calls, failures, .. } = change.counts;
    let state = change.state.as_str();
    match (change.state, by) {
        (CircuitState::Open, None) => {
            tracing::warn!(
                circuit = key,
                failures,
                calls,
                generation = change.generation,
                "a circuit has opened: its dependency fails, its jobs wait"
            );
        }
        _ => {
            tracing::info!(circuit = key, state, by, generation = change.generation, "a circuit has changed")
        }
    }
    let what = EventKind::Circuit {
        key: key.to_owned(),
        state: change.state,
        generation: change.generation,
        calls,
        failures,
        until: change.until,
        by: by.map(str::to_owned),
    };
    events.publish(Event { at, node: None, job: None, what });
}
