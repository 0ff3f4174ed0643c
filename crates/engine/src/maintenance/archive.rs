//! Moves what ended long ago out of the hot tables (L16), a few batches a round.

use backstop_core::job::Retention;
use backstop_store::{Error as StoreError, Store, Term};

use super::BATCH;
use crate::loops::Pulse;

/// Batches a round at most: a great backlog must not keep the other duties waiting.
const BATCHES: usize = 20;

pub(super) async fn archive(
    store: &dyn Store,
    retention: Retention,
    term: Term,
    pulse: &Pulse,
) -> Result<(), StoreError> {
    for _ in 0..BATCHES {
        pulse.beat();
        let archived = store.archive(term, retention, BATCH).await?;
        if archived > 0 {
            tracing::debug!(archived, "jobs that ended long ago were archived");
        }
        if archived < BATCH {
            return Ok(());
        }
    }
    Ok(())
}
