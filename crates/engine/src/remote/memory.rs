//! What one process remembers of remote workers; all of it can be lost without harm.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backstop_core::WorkerId;
use backstop_core::health::WaitWindow;
use tokio::time::Instant;

use super::batches::Batches;
use super::clocks::Clocks;
use super::dependencies::RemoteDependencies;
use super::failures::RemoteFailures;
use crate::dependency::watched::Dependencies;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RemoteMemory {
    pub(super) batches: Batches,
    pub(super) renewals: RemoteRenewals,
    pub(super) clocks: Clocks,
    /// What was read of the dependencies of single workers.
    pub(super) dependencies: RemoteDependencies,
    /// How their runs ended (H8).
    pub(super) failures: RemoteFailures,
    /// How long what was handed out from here had been due.
    pub(super) waits: Mutex<WaitWindow>,
    /// The dependencies that are checked from here, once they are.
    pub(super) checked: OnceLock<Arc<Dependencies>>,
}

/// How many names make it worth looking for those that are gone.
const MANY: usize = 1_024;

/// When this process last told the store of each remote worker, and what.
#[derive(Debug, Default)]
pub(super) struct RemoteRenewals(Mutex<HashMap<WorkerId, WorkerRenewal>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerRenewal {
    /// A hash of what the worker serves.
    pub(super) what: u64,
    pub(super) at: Instant,
    pub(super) until: Instant,
}

impl RemoteRenewals {
    pub(super) fn find(&self, worker: WorkerId) -> Option<WorkerRenewal> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&worker).copied()
    }

    pub(super) fn note(&self, worker: WorkerId, renewal: WorkerRenewal) {
        let mut renewals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        renewals.insert(worker, renewal);
        if renewals.len() > MANY {
            renewals.retain(|_, old| old.until > renewal.at);
        }
    }
}
