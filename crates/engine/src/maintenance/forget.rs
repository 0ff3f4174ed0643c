//! Forgets workers that stopped renewing long ago, once nothing is left of what they held.
//!
//! A worker that is not live cannot renew, so whoever is forgotten here has lost everything already.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_store::{Error as StoreError, Store, WorkerView};

use super::BATCH;

/// How long people still see a worker that was lost.
const SHOWN: Duration = Duration::from_secs(3_600);

pub(super) async fn forget(store: &dyn Store) -> Result<(), StoreError> {
    let workers = store.workers().await?;
    if workers.iter().all(|worker| worker.live) {
        return Ok(());
    }
    let now = store.now().await?;
    for worker in workers.iter().filter(|worker| is_forgotten(worker, now)).take(BATCH) {
        store.retire(worker.id).await?;
    }
    Ok(())
}

/// A row without queues stood for one batch of a remote worker, which people know by its other row (E7).
fn is_forgotten(worker: &WorkerView, now: Timestamp) -> bool {
    let shown = if worker.queues.is_empty() { Duration::ZERO } else { SHOWN };
    !worker.live && worker.running == 0 && worker.expires_at.after(shown) <= now
}
