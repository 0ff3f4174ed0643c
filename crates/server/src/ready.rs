//! What readiness rests on: the store, the loops of this process, what its workers depend on, and that somebody leads
//! every duty (H2, L17).
//!
//! Owns the checks and their last results. Everybody may ask, so asking often must cost no more than asking once.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop::bridges::BridgeView;
use backstop::handoffs::{HandOffState, HandOffView};
use backstop::{Backstop, DependencyHealth, DutyHealth, Health};
use backstop_store::{DocumentRange, Drawer, Store};
use tokio::time::Instant;

use crate::shape::{Readiness, ReadyCheck};

/// How long the store's last answer stands for it.
const FRESH: Duration = Duration::from_secs(1);

/// How long what was seen of the duties stands for it: it changes slowly.
const DUTIES_FRESH: Duration = Duration::from_secs(5);

/// How long what was seen of the bridges stands for it: they are told of every few seconds.
const BRIDGES_FRESH: Duration = Duration::from_secs(5);

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

type Look = Box<dyn Fn() -> Option<Health> + Send + Sync>;

/// Every check with its last result.
pub(crate) struct ReadyChecks {
    since: Instant,
    workers: Mutex<Vec<(String, Look)>>,
    /// One request at a time asks who leads what.
    duties: tokio::sync::Mutex<Option<(Instant, Vec<DutyHealth>)>>,
    /// One request at a time asks how bridges are.
    bridges: tokio::sync::Mutex<Option<(Instant, Vec<BridgeView>)>>,
    /// One request at a time asks how hand-offs stand.
    handoffs: tokio::sync::Mutex<Option<(Instant, Vec<ReadyCheck>)>>,
    /// One request at a time asks the store; the others wait for its answer.
    store: tokio::sync::Mutex<Option<Answered>>,
}

/// How the store answered last.
#[derive(Debug, Clone, Copy)]
struct Answered {
    at: Instant,
    took: Duration,
    problem: Option<&'static str>,
}

impl fmt::Debug for ReadyChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

impl Default for ReadyChecks {
    fn default() -> Self {
        let (workers, duties, bridges, handoffs, store) = Default::default();
        Self { since: Instant::now(), workers, duties, bridges, handoffs, store }
    }
}

impl ReadyChecks {
    pub(crate) fn watch(&self, name: String, look: Look) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push((name, look));
    }

    /// How every worker that runs is.
    pub(crate) fn workers(&self) -> Vec<(String, Health)> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Vec::with_capacity(workers.len());
        workers.retain(|(name, look)| {
            let health = look();
            let runs = health.is_some();
            seen.extend(health.map(|health| (name.clone(), health)));
            runs
        });
        seen
    }

    /// Checks everything.
    pub(crate) async fn readiness(&self, engine: &Backstop) -> Readiness {
        let store = self.store(&**engine.store()).await;
        let mut of_store = Vec::new();
        if store.ok {
            of_store = self.duties(engine).await;
            of_store.extend(self.bridges(engine).await);
            of_store.extend(self.handoffs(engine).await);
        }
        let mut checks = vec![store];
        checks.extend(of_store);
        for (worker, health) in self.workers() {
            checks.extend(of_worker(&worker, health));
        }
        // Remote workers must reach this process whatever their dependencies do, so these do not count.
        let remote = engine.remote().dependency_health();
        checks.extend(remote.into_iter().map(|one| of_dependency("remote", one, false)));
        let ready = checks.iter().all(|check| check.ok || !check.required);
        Readiness { status: if ready { "ready" } else { "not_ready" }.to_owned(), checks }
    }

    /// Whether each duty is led, by this process or another. What cannot be seen is the store's trouble.
    async fn duties(&self, engine: &Backstop) -> Vec<ReadyCheck> {
        let mut last = self.duties.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= DUTIES_FRESH)
            && let Ok(Ok(duties)) = tokio::time::timeout(PATIENCE, engine.duties()).await
        {
            *last = Some((Instant::now(), duties));
        }
        let Some((_, duties)) = &*last else { return Vec::new() };
        let age = self.since.elapsed();
        let check = |one: &DutyHealth| ReadyCheck {
            name: format!("duty/{}", one.duty),
            ok: one.is_ok(age),
            age_ms: millis(one.unled.unwrap_or(age)),
            deadline_ms: Some(millis(one.limit)),
            took_ms: None,
            restarts: None,
            since_ms: None,
            required: true,
            problem: (!one.is_ok(age)).then(|| "nobody_leads".to_owned()),
        };
        duties.iter().map(check).collect()
    }

    /// How each bridge is, whichever process runs it. A broker is no part of the engine: none of these counts (B5).
    async fn bridges(&self, engine: &Backstop) -> Vec<ReadyCheck> {
        let mut last = self.bridges.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= BRIDGES_FRESH)
            && let Ok(Ok(bridges)) = tokio::time::timeout(PATIENCE, engine.bridges().survey()).await
        {
            *last = Some((Instant::now(), bridges));
        }
        let Some((at, bridges)) = &*last else { return Vec::new() };
        let check = |one: &BridgeView| ReadyCheck {
            name: format!("bridge/{}", one.name),
            ok: one.state.is_well(),
            age_ms: millis(one.now.since(one.seen_at) + at.elapsed()),
            deadline_ms: Some(millis(backstop::bridges::SILENT_AFTER)),
            took_ms: None,
            restarts: None,
            since_ms: None,
            required: false,
            // Only the word: what a broker says is for the operator alone.
            problem: (!one.state.is_well()).then(|| one.state.as_str().to_owned()),
        };
        bridges.iter().map(check).collect()
    }

    /// How each hand-off stands, for whoever looks. None of them makes this process unready: its own jobs run (B7).
    async fn handoffs(&self, engine: &Backstop) -> Vec<ReadyCheck> {
        let mut last = self.handoffs.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= DUTIES_FRESH)
            && let Ok(Ok(views)) = tokio::time::timeout(PATIENCE, engine.handoffs().list()).await
        {
            *last = Some((Instant::now(), views.iter().map(of_handoff).collect()));
        }
        last.as_ref().map(|(_, checks)| checks.clone()).unwrap_or_default()
    }

    async fn store(&self, store: &dyn Store) -> ReadyCheck {
        let mut last = self.store.lock().await;
        let answered = match *last {
            Some(answered) if answered.at.elapsed() < FRESH => answered,
            _ => *last.insert(ask(store).await),
        };
        ReadyCheck {
            name: "store".to_owned(),
            ok: answered.problem.is_none(),
            age_ms: millis(answered.at.elapsed()),
            deadline_ms: None,
            took_ms: Some(millis(answered.took)),
            restarts: None,
            since_ms: None,
            required: true,
            problem: answered.problem.map(str::to_owned),
        }
    }
}

/// A hand-off: well while it publishes, or while nothing waits for it.
fn of_handoff(view: &HandOffView) -> ReadyCheck {
    let idle = view.backlog.messages == 0 && view.state != HandOffState::Stopped;
    let ok = idle || view.state == HandOffState::Publishing;
    ReadyCheck {
        name: format!("handoff/{}", view.hand_off.name),
        ok,
        age_ms: millis(view.lag()),
        deadline_ms: None,
        took_ms: None,
        restarts: None,
        since_ms: None,
        required: false,
        problem: (!ok).then(|| view.state.as_str().to_owned()),
    }
}

/// The loops of a worker, its dependencies, and whether its failures keep it from claiming.
fn of_worker(worker: &str, health: Health) -> Vec<ReadyCheck> {
    let Health { loops, dependencies, paused, .. } = health;
    let loops = loops.into_iter().map(|one| ReadyCheck {
        name: format!("{worker}/{}", one.name),
        ok: one.ok,
        age_ms: one.age_ms,
        deadline_ms: Some(one.deadline_ms),
        took_ms: None,
        restarts: Some(one.restarts),
        since_ms: None,
        required: true,
        problem: (!one.ok).then(|| "silent".to_owned()),
    });
    let dependencies = dependencies.into_iter().map(|one| of_dependency(worker, one, true));
    let paused = paused.map(|paused| ReadyCheck {
        name: format!("{worker}/failures"),
        ok: false,
        age_ms: paused.since_ms,
        deadline_ms: None,
        took_ms: None,
        restarts: None,
        since_ms: Some(paused.since_ms),
        required: true,
        problem: Some("far_above_others".to_owned()),
    });
    loops.chain(dependencies).chain(paused).collect()
}

fn of_dependency(worker: &str, one: DependencyHealth, required: bool) -> ReadyCheck {
    ReadyCheck {
        name: format!("{worker}/dependency/{}", one.name),
        ok: one.ok,
        age_ms: one.age_ms,
        deadline_ms: None,
        took_ms: None,
        restarts: None,
        since_ms: Some(one.since_ms),
        required,
        // Only the word: what a check says is for the operator alone.
        problem: one.problem.map(str::to_owned),
    }
}

async fn ask(store: &dyn Store) -> Answered {
    let began = Instant::now();
    // The clock alone may be this machine's: a document has to be read from where the jobs are.
    let read = store.documents(DocumentRange::first(Drawer::Rules, 1));
    let problem = match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(_)) => None,
        // Only the word: where the store is and what its driver says is for the operator alone.
        Ok(Err(error)) => Some(error.code()),
        Err(_) => Some("slow"),
    };
    Answered { at: Instant::now(), took: began.elapsed(), problem }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
