//! Moves lines on that a caller's transaction has changed, or a process that died right after its commit (L21).

use std::time::Duration;

use backstop_store::{Duty, Error as StoreError, WorkStore};
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;

/// Changes that are looked at in one transaction.
const BATCH: usize = 1_000;

/// How often to look. Whoever submits in a transaction of its own waits for it at most so long.
const PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(store: &dyn WorkStore, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    while !state.stop.is_cancelled() {
        heartbeat.record();
        // Any node may do it at any time; that one does keeps the others quiet.
        if state.leadership.term(Duty::Count).is_some() {
            let answer = advance(store, heartbeat).await;
            state.heed(answer, heartbeat);
        }
        state.pause(Instant::now() + PAUSE, &mut changes).await;
    }
}

/// Moves on all that there is.
pub(super) async fn advance(store: &dyn WorkStore, heartbeat: &LoopHeartbeat) -> Result<(), StoreError> {
    while store.advance_lines(BATCH).await? == BATCH {
        heartbeat.record();
    }
    Ok(())
}
