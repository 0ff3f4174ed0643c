//! What one process remembers of remote workers; all of it can be lost without harm.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use backstop_core::WorkerId;
use tokio::time::Instant;

use super::batches::Batches;
use super::clocks::Clocks;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RemoteMemory {
    pub(super) batches: Batches,
    pub(super) presences: Presences,
    pub(super) clocks: Clocks,
}

/// How many names make it worth looking for those that are gone.
const CROWD: usize = 1_024;

/// When this process last told the store of each remote worker, and what.
#[derive(Debug, Default)]
pub(super) struct Presences(Mutex<HashMap<WorkerId, Told>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) what: u64,
    pub(super) at: Instant,
    pub(super) until: Instant,
}

impl Presences {
    pub(super) fn find(&self, worker: WorkerId) -> Option<Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&worker).copied()
    }

    pub(super) fn note(&self, worker: WorkerId, told: Told) {
        let mut presences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        presences.insert(worker, told);
        if presences.len() > CROWD {
            presences.retain(|_, old| old.until > told.at);
        }
    }
}
