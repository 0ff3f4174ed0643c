//! Follows the sinks, in every process; whoever leads the counts keeps their outboxes within limits (B2), and the event
//! log (V2).

use std::time::Duration;

use backstop_store::{Duty, Error as StoreError};
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::events::relay;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::sinks::cache::REFRESH;
use crate::sinks::measure;

/// How often it looks for what is kept for sinks that are gone.
const CLEAR: Duration = Duration::from_secs(60);

pub(super) async fn run(parts: &EngineParts, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    let mut cleared = None;
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let leads = state.leadership.term(Duty::Count).is_some();
        let answer = follow(parts, leads, &mut cleared, heartbeat).await;
        state.heed(answer, heartbeat);
        state.pause(Instant::now() + REFRESH, &mut changes).await;
    }
}

/// Reads the sinks; whoever leads measures them too, and looks after the event log.
pub(super) async fn follow(
    parts: &EngineParts,
    leads: bool,
    cleared: &mut Option<Instant>,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let found = parts.sinks.refresh(&*parts.store, &parts.events).await?;
    if !leads {
        return Ok(());
    }
    if measure::look(&*parts.store, &found, Some(heartbeat)).await? {
        parts.sinks.refresh(&*parts.store, &parts.events).await?;
    }
    relay::tend(parts, &found, heartbeat).await?;
    if cleared.is_none_or(|at| at.elapsed() >= CLEAR) {
        measure::clear_unknown(&*parts.store, &found).await?;
        relay::clear(&*parts.store).await?;
        *cleared = Some(Instant::now());
    }
    Ok(())
}
