//! The loops of maintenance that run for one engine, and where it finds them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::task::JoinHandle;

use super::state::MaintenanceState;
use crate::loops::Loops;

/// Where an engine keeps what runs: at most one, whoever started it.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceSlot(Mutex<Weak<RunningMaintenance>>);

impl MaintenanceSlot {
    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Weak<RunningMaintenance>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loops of one engine.
pub(super) struct RunningMaintenance {
    pub(super) state: Arc<MaintenanceState>,
    pub(super) loops: Arc<Loops>,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for RunningMaintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningMaintenance").field("node", &self.state.node).finish_non_exhaustive()
    }
}

impl Drop for RunningMaintenance {
    fn drop(&mut self) {
        self.loops.leave();
        self.state.stop.cancel();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
