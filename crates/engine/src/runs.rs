//! The runs of this process, so that a cancel made here reaches its handler at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use backstop_core::JobId;
use tokio_util::sync::CancellationToken;

/// Runs under way in this process.
#[derive(Debug, Default)]
pub(crate) struct LocalRuns(Mutex<HashMap<JobId, CancellationToken>>);

impl LocalRuns {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, job: JobId, canceled: CancellationToken) {
        self.lock().insert(job, canceled);
    }

    pub(crate) fn remove(&self, job: JobId) {
        self.lock().remove(&job);
    }

    pub(crate) fn cancel(&self, job: JobId) {
        if let Some(token) = self.lock().get(&job) {
            token.cancel();
        }
    }
}
