//! Looks at signals and waits whose moment has come (W10). Whoever leads the counts does it.

use std::time::Duration;

use backstop_store::Duty;
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::job_signals::due;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;

/// How often it looks: so much later than its moment a timeout may come.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(parts: &EngineParts, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    while !state.stop.is_cancelled() {
        heartbeat.record();
        if state.leadership.term(Duty::Count).is_some() {
            let answer = due::look(parts, Some(heartbeat)).await;
            state.heed(answer, heartbeat);
        }
        state.pause(Instant::now() + PAUSE, &mut changes).await;
    }
}
