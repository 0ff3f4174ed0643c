//! Does what follows when jobs of workflows and batches have ended (W1-W6).
//!
//! Any node may do it at any time, and each does it at once for what ran there. One of them looks after the rest: what
//! people have called off, what was rescued, and what processes left that died right after a commit.

use std::time::Duration;

use backstop_store::{Amend, Duty, Error as StoreError, Term, WorkStore, retire};
use tokio::time::Instant;

use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::workflows::advance::{NoteScope, advance_all};
use crate::workflows::stored;

/// Workflows that are read at once when old ones are removed, and how often in one round.
const PAGE: usize = 200;
const PAGES: usize = 20;

/// How often the rest is looked after.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn run(parts: &EngineParts, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    let mut changes = state.leadership.changes();
    let mut rest_at = Instant::now();
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let ended = parts.workflows.ended.notified();
        let now = Instant::now();
        let leads = state.leadership.term(Duty::Count).is_some();
        let scope = if leads && now >= rest_at { NoteScope::All } else { NoteScope::OwnEnds };
        if scope == NoteScope::All {
            rest_at = now + PAUSE;
        }
        let answer = advance_all(parts, scope, Some(heartbeat)).await;
        state.heed(answer, heartbeat);
        let now = Instant::now();
        let again = parts.workflows.look_again(now).map_or(now + PAUSE, |again| again.min(now + PAUSE));
        tokio::select! {
            () = state.pause(again, &mut changes) => {}
            () = ended => {}
        }
    }
}

/// Does all that there is to do.
pub(super) async fn advance(parts: &EngineParts, heartbeat: &LoopHeartbeat) -> Result<(), StoreError> {
    advance_all(parts, NoteScope::All, Some(heartbeat)).await
}

/// Removes workflows and batches that ended long ago. Their jobs stay as long as any.
pub(super) async fn retire(
    store: &dyn WorkStore,
    keep: Option<Duration>,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(cutoff) = keep.zip(Some(store.now().await?)).and_then(|(keep, now)| retire::cutoff(keep, now))
    else {
        return Ok(());
    };
    let mut after = None;
    for _ in 0..PAGES {
        heartbeat.record();
        let (old, next) = stored::outworn(store, cutoff, after, PAGE).await?;
        for (revision, workflow) in old {
            let edits = stored::removal(&workflow, revision);
            // One that somebody writes meanwhile goes on: it is looked at the next time.
            store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await?;
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}
