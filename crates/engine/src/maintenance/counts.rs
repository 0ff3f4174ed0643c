//! Keeps counts cheap to read: adds what commits have left beside them, as fast as it comes.

use std::time::Duration;

use backstop_store::{Duty, Error as StoreError, WorkStore};
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;
use crate::rejects;

/// Changes that are added in one transaction.
const BATCH: usize = 20_000;

/// How soon to look again when there was something to add: where it came from there is more.
const BUSY: Duration = Duration::from_secs(1);

/// How soon to look again when there was nothing.
const IDLE: Duration = Duration::from_secs(10);

pub(super) async fn run(store: &dyn WorkStore, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let mut pause = IDLE;
        if state.leadership.term(Duty::Count).is_some() {
            let answer = fold(store, heartbeat).await;
            if matches!(answer, Ok(folded) if folded > 0) {
                pause = BUSY;
            }
            state.heed(answer.map(drop), heartbeat);
            state.heed(rejects::stored::count_all(store, Some(heartbeat)).await, heartbeat);
        }
        state.pause(Instant::now() + pause, &mut changes).await;
    }
}

/// Adds all that there is, in one batch after the other; answers how many changes there were. A batch that was full has
/// more behind it, which does not wait: else more would be left in each pause than is added after it.
pub(super) async fn fold(store: &dyn WorkStore, heartbeat: &LoopHeartbeat) -> Result<usize, StoreError> {
    let mut all = 0;
    loop {
        heartbeat.record();
        let folded = store.fold(BATCH).await?;
        all += folded;
        if folded < BATCH {
            return Ok(all);
        }
    }
}
