//! Moves what ended long ago out of the hot tables (L16), a few batches a round.

use backstop_core::job::Retention;
use backstop_store::{Error as StoreError, Term, WorkStore};

use super::BATCH;
use crate::loops::LoopHeartbeat;

/// Batches a round at most: a great backlog must not keep the other duties waiting.
const BATCHES: usize = 20;

pub(super) async fn archive(
    store: &dyn WorkStore,
    retention: Retention,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    for _ in 0..BATCHES {
        heartbeat.record();
        let archived = store.archive(term, retention, BATCH).await?;
        if archived > 0 {
            tracing::debug!(archived, "archived jobs past their retention");
        }
        if archived < BATCH {
            return Ok(());
        }
    }
    Ok(())
}
