//! The row that says that somebody out there serves these queues and knows these kinds (H10).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use backstop_store::{Error as StoreError, NewWorker};
use tokio::time::Instant;

use super::Remote;
use super::memory::WorkerRenewal;
use super::work::{RemoteWorker, WorkRequest};

/// How long a worker counts as there after it last asked for work.
const PRESENT_FOR: Duration = Duration::from_secs(30);

/// How often that is written while it keeps asking.
const TOLD_EVERY: Duration = Duration::from_secs(10);

impl Remote {
    /// Says that the worker is there, unless that was said a moment ago.
    pub(super) async fn present(&self, request: &WorkRequest) -> Result<(), StoreError> {
        let (id, what, now) = (request.worker.id(), fingerprint(request), Instant::now());
        let known = self.memory.renewals.find(id).filter(|told| told.what == what);
        if known.is_some_and(|told| now.duration_since(told.at) < TOLD_EVERY) {
            return Ok(());
        }
        // A renewal wakes nobody; making a worker known wakes everybody.
        let renewed = match known {
            Some(_) => self.parts.store.renew(id, PRESENT_FOR, Vec::new()).await,
            None => Err(StoreError::NotEnlisted { worker: id }),
        };
        match renewed {
            Ok(_) => {}
            Err(StoreError::NotEnlisted { .. }) => self.parts.store.enlist(introduction(request)).await?,
            Err(error) => return Err(error),
        }
        self.memory.renewals.note(id, WorkerRenewal { what, at: now, until: now + PRESENT_FOR });
        Ok(())
    }

    /// Says that the worker is there for as long as what it holds, which may be longer than it counts by itself.
    ///
    /// A node that has never heard what the worker serves has nothing to renew, and that is fine.
    pub(super) async fn busy(&self, worker: &RemoteWorker, term: Duration) {
        let (id, now) = (worker.id(), Instant::now());
        let term = term.max(PRESENT_FOR);
        let renewals = &self.memory.renewals;
        let known = renewals.find(id);
        if known.is_some_and(|told| now.duration_since(told.at) < TOLD_EVERY && told.until >= now + term / 2)
        {
            return;
        }
        if self.parts.store.renew(id, term, Vec::new()).await.is_ok()
            && let Some(told) = known
        {
            renewals.note(id, WorkerRenewal { at: now, until: now + term, ..told });
        }
    }
}

fn fingerprint(request: &WorkRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.queues, &request.kinds, &request.code_version).hash(&mut hasher);
    hasher.finish()
}

fn introduction(request: &WorkRequest) -> NewWorker {
    NewWorker {
        id: request.worker.id(),
        name: request.worker.name.clone(),
        code_version: request.code_version.as_deref().map(str::to_owned),
        queues: request.queues.clone(),
        kinds: request.kinds.clone(),
        lease: PRESENT_FOR,
    }
}
