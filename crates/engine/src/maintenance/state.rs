//! What the loops of maintenance share: which node they are, what it leads, and how long it may be silent.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_core::WorkerId;
use backstop_store::Error as StoreError;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::leadership::Leadership;
use crate::loops::LoopHeartbeat;

/// The shortest lease: the loops would spin.
pub(super) const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest term: what a node that died led is taken over by then, also when workers hold leases for longer.
const LONGEST_TERM: Duration = Duration::from_secs(15);

/// What the loops share.
pub(super) struct MaintenanceState {
    pub(super) node: WorkerId,
    pub(super) leadership: Leadership,
    pub(super) stop: CancellationToken,
    /// One for each holder, so never empty while a loop runs: the shortest counts.
    leases: Mutex<Vec<Duration>>,
}

impl MaintenanceState {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            node: crate::ids::worker_id(),
            leadership: Leadership::default(),
            stop: CancellationToken::new(),
            leases: Mutex::new(vec![lease]),
        }
    }

    /// How long others may have to wait for this process when it dies.
    pub(super) fn lease(&self) -> Duration {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.iter().min().copied().unwrap_or(SHORTEST_LEASE)
    }

    /// How long a term runs.
    pub(super) fn term_span(&self) -> Duration {
        self.lease().min(LONGEST_TERM)
    }

    pub(super) fn join(&self, lease: Duration) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    pub(super) fn leave(&self, lease: Duration) {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one's stays: a loop that has not ended yet asks for a term of that length, not of another.
        if leases.len() > 1
            && let Some(place) = leases.iter().position(|one| *one == lease)
        {
            leases.swap_remove(place);
        }
    }

    /// Passes an answer of the store on to whom it concerns: one who no longer leads asks again.
    pub(super) fn heed(&self, answer: Result<(), StoreError>, heartbeat: &LoopHeartbeat) {
        match answer {
            Ok(()) => {}
            Err(StoreError::Deposed { duty }) => self.leadership.lose(duty),
            Err(error) => {
                heartbeat.warn(&error, || tracing::warn!(%error, "maintenance waits for the store"))
            }
        }
    }

    /// Waits for that moment, or until it leads something else than before, or the end.
    pub(super) async fn pause(&self, until: Instant, changes: &mut watch::Receiver<u64>) {
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            _ = changes.changed() => {}
            () = self.stop.cancelled() => {}
        }
    }
}
