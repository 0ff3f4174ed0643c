//! What readiness rests on: the store, and the loops of the workers in this process (H2).
//!
//! Owns the checks and their last results. Everybody may ask, so asking often must cost no more than asking once.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop::Health;
use backstop::store::{Drawer, Shelf, Store};
use tokio::time::Instant;

use crate::shape::{Check, Readiness};

/// How long the store's last answer stands for it.
const FRESH: Duration = Duration::from_secs(1);

/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

type Look = Box<dyn Fn() -> Option<Health> + Send + Sync>;

/// Every check with its last result.
#[derive(Default)]
pub(crate) struct Checks {
    workers: Mutex<Vec<(String, Look)>>,
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

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks").finish_non_exhaustive()
    }
}

impl Checks {
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
    pub(crate) async fn readiness(&self, store: &dyn Store) -> Readiness {
        let mut checks = vec![self.store(store).await];
        for (worker, health) in self.workers() {
            checks.extend(health.loops.into_iter().map(|one| Check {
                name: format!("{worker}/{}", one.name),
                ok: one.ok,
                age_ms: one.age_ms,
                deadline_ms: Some(one.deadline_ms),
                took_ms: None,
                restarts: Some(one.restarts),
                problem: (!one.ok).then(|| "silent".to_owned()),
            }));
        }
        let ready = checks.iter().all(|check| check.ok);
        Readiness { status: if ready { "ready" } else { "not_ready" }.to_owned(), checks }
    }

    async fn store(&self, store: &dyn Store) -> Check {
        let mut last = self.store.lock().await;
        let answered = match *last {
            Some(answered) if answered.at.elapsed() < FRESH => answered,
            _ => *last.insert(ask(store).await),
        };
        Check {
            name: "store".to_owned(),
            ok: answered.problem.is_none(),
            age_ms: millis(answered.at.elapsed()),
            deadline_ms: None,
            took_ms: Some(millis(answered.took)),
            restarts: None,
            problem: answered.problem.map(str::to_owned),
        }
    }
}

async fn ask(store: &dyn Store) -> Answered {
    let began = Instant::now();
    // The clock alone may be this machine's: a document has to be read from where the jobs are.
    let read = store.documents(Shelf::first(Drawer::Rules, 1));
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
