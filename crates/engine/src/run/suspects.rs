//! Jobs whose process has died: whether each may run beside others again (C3). The rule is
//! [`Suspicion`]'s; here is what it has to know, and what this process has seen.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use backstop_core::WorkerId;
use backstop_core::failure::{Cause, Suspicion};
use backstop_core::job::{Record, StoredJob};
use backstop_store::{Error as StoreError, PageRequest, Store};

/// How many deaths make it worth forgetting them. Who died in one that is forgotten runs alone: that is never wrong.
const MANY: usize = 1_024;

/// How many of those that died together have succeeded alone since, as far as this process has seen; by the worker
/// that they died with.
#[derive(Debug, Default)]
pub(crate) struct ClearedSuspects(Mutex<HashMap<WorkerId, u32>>);

impl ClearedSuspects {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WorkerId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that died with this worker has succeeded alone.
    pub(crate) fn note(&self, died_with: WorkerId) {
        let mut deaths = self.lock();
        if deaths.len() >= MANY && !deaths.contains_key(&died_with) {
            deaths.clear();
        }
        let successes = deaths.entry(died_with).or_default();
        *successes = successes.saturating_add(1);
    }

    fn successes(&self, died_with: WorkerId) -> u32 {
        self.lock().get(&died_with).copied().unwrap_or_default()
    }

    /// Asks the ledger about a suspect.
    ///
    /// # Errors
    /// When the store is away.
    pub(crate) async fn look_into(
        &self,
        store: &dyn Store,
        job: &StoredJob,
        record: &Record,
    ) -> Result<SuspectRun, StoreError> {
        let latest = store.attempts(job.spec.id, PageRequest::first(1)).await?.items.pop();
        let died_with = latest.as_ref().filter(|run| run.cause == Cause::Crash).map(|run| run.worker);
        let cleared_by = died_with.map_or(0, |worker| self.successes(worker));
        let suspicion = Suspicion::new(record, &job.spec.policy, latest.as_ref(), cleared_by);
        Ok(SuspectRun { alone: suspicion.runs_alone(), died_with })
    }
}

/// How a suspect runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SuspectRun {
    /// Nothing else may run in its process.
    pub(crate) alone: bool,
    /// Who it died with, if its latest run was a crash.
    pub(crate) died_with: Option<WorkerId>,
}
