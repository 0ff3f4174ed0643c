//! Asks for what somebody has to lead all the time, renews it, and takes over as soon as a term of another runs out.

use std::time::Duration;

use backstop_store::{Duty, Error as StoreError, Store, WorkStore};
use tokio::time::Instant;

use super::leadership::ALWAYS;
use super::state::MaintenanceState;
use crate::loops::LoopHeartbeat;

/// The shortest pause between two looks at the terms of others.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Leads what nobody else does, until it is told to stop.
pub(super) async fn run(store: &dyn Store, state: &MaintenanceState, heartbeat: &LoopHeartbeat) {
    while !state.stop.is_cancelled() {
        heartbeat.record();
        let pause = ask(store, state).await.unwrap_or_else(|error| {
            heartbeat.warn(&error, || tracing::warn!(%error, "maintenance waits for the store"));
            state.term_span() / 3
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Not at once: whoever leads now does so for a while.
            () = state.leadership.lost() => tokio::time::sleep(SHORTEST_PAUSE).await,
            () = state.stop.cancelled() => {}
        }
    }
}

/// Renews what this node leads and asks for what nobody does; answers when to do so again.
async fn ask(store: &dyn Store, state: &MaintenanceState) -> Result<Duration, StoreError> {
    let span = state.term_span();
    let mut wanted = state.leadership.led();
    let mut pause = span / 3;
    if wanted.len() < ALWAYS.len() {
        let terms = store.terms().await?;
        for duty in ALWAYS.into_iter().filter(|duty| state.leadership.term(*duty).is_none()) {
            match terms.of(duty).filter(|term| term.expires_at > terms.now) {
                // Its own from before a restart of this loop is renewed.
                Some(term) if term.node != state.node => {
                    pause = pause.min(terms.now.until(term.expires_at).max(SHORTEST_PAUSE));
                }
                _ => wanted.push(duty),
            }
        }
    }
    if !wanted.is_empty() {
        let until = Instant::now() + span;
        let answers = store.lead(state.node, wanted.clone(), span).await?;
        state.leadership.note(&wanted, answers, until);
    }
    Ok(pause)
}

/// Lets others lead what this node led, at once.
pub(super) async fn resign(store: &dyn WorkStore, state: &MaintenanceState) {
    // What cannot be written is left to the terms.
    let _ = store.lead(state.node, Duty::ALL.to_vec(), Duration::ZERO).await;
}
