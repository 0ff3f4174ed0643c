//! Asks for what somebody has to lead all the time, renews it, and takes over as soon as a term of another runs out.

use std::time::Duration;

use backstop_store::{Duty, Error as StoreError, Store};
use tokio::time::Instant;

use super::leadership::ALWAYS;
use super::state::MaintenanceState;
use crate::loops::Pulse;

/// The shortest pause between two looks at the terms of others.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// Leads what nobody else does, until it is told to stop.
pub(super) async fn run(store: &dyn Store, shared: &MaintenanceState, pulse: &Pulse) {
    while !shared.stop.is_cancelled() {
        pulse.beat();
        let pause = ask(store, shared).await.unwrap_or_else(|error| {
            pulse.warn(&error, || tracing::warn!(%error, "maintenance waits for the store"));
            shared.term_span() / 3
        });
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Not at once: whoever leads now does so for a while.
            () = shared.leadership.lost() => tokio::time::sleep(SHORTEST_PAUSE).await,
            () = shared.stop.cancelled() => {}
        }
    }
}

/// Renews what this node leads and asks for what nobody does; answers when to do so again.
async fn ask(store: &dyn Store, shared: &MaintenanceState) -> Result<Duration, StoreError> {
    let span = shared.term_span();
    let mut wanted = shared.leadership.led();
    let mut pause = span / 3;
    if wanted.len() < ALWAYS.len() {
        let terms = store.terms().await?;
        for duty in ALWAYS.into_iter().filter(|duty| shared.leadership.term(*duty).is_none()) {
            match terms.of(duty).filter(|term| term.expires_at > terms.now) {
                // Its own from before a restart of this loop is renewed.
                Some(term) if term.node != shared.node => {
                    pause = pause.min(terms.now.until(term.expires_at).max(SHORTEST_PAUSE));
                }
                _ => wanted.push(duty),
            }
        }
    }
    if !wanted.is_empty() {
        let until = Instant::now() + span;
        let answers = store.lead(shared.node, wanted.clone(), span).await?;
        shared.leadership.note(&wanted, answers, until);
    }
    Ok(pause)
}

/// Lets others lead what this node led, at once.
pub(super) async fn resign(store: &dyn Store, shared: &MaintenanceState) {
    // What cannot be written is left to the terms.
    let _ = store.lead(shared.node, Duty::ALL.to_vec(), Duration::ZERO).await;
}
