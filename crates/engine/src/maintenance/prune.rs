//! Removes archived jobs whose time is over, for good (D5), a few batches a round. A job that never ran stays (L16).

use std::time::Duration;

use backstop_store::{Error as StoreError, Term, WorkStore};

use super::BATCH;
use crate::loops::LoopHeartbeat;

/// Batches a round at most: a great backlog must not keep the other duties waiting.
const BATCHES: usize = 20;

pub(super) async fn prune(
    store: &dyn WorkStore,
    keep: Option<Duration>,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(keep) = keep else { return Ok(()) };
    for _ in 0..BATCHES {
        heartbeat.record();
        let pruned = store.prune(term, keep, BATCH).await?;
        if pruned > 0 {
            tracing::debug!(pruned, "removed archived jobs past their retention");
        }
        if pruned < BATCH {
            return Ok(());
        }
    }
    Ok(())
}
