//! What one process has read of the dependencies of remote workers; all of it can be lost without harm.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_core::health::{DependencyReport, WorkerReport};
use tokio::time::Instant;

/// How long what was read of a worker stands for it; so soon other nodes heed what one was told.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// How many workers make it worth looking for those that are gone.
const MANY: usize = 1_024;

/// What this process has read of the dependencies of remote workers, by the key of their reports.
#[derive(Debug, Default)]
pub(super) struct RemoteDependencies(Mutex<HashMap<String, ReadDependencies>>);

#[derive(Debug, Clone)]
pub(super) struct ReadDependencies {
    at: Instant,
    pub(super) red: Vec<String>,
    /// Those that were found away since a run last went well.
    pub(super) failed: Vec<String>,
    /// All that was told of it.
    pub(super) report: Arc<WorkerReport>,
}

impl RemoteDependencies {
    pub(super) fn find(&self, key: &str) -> Option<ReadDependencies> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|read| read.at.elapsed() < FRESH).cloned()
    }

    pub(super) fn note(&self, key: &str, read: ReadDependencies) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() > MANY {
            all.retain(|_, read| read.at.elapsed() < FRESH);
        }
        all.insert(key.to_owned(), read);
    }
}

impl ReadDependencies {
    /// Those of these reports that matter, read just now.
    pub(super) fn of(report: &WorkerReport) -> Self {
        let names = |which: fn(&DependencyReport) -> bool| {
            report.dependencies.iter().filter(|one| which(one)).map(|one| one.dependency.clone()).collect()
        };
        let (red, failed) = (names(|one| !one.ok), names(|one| one.failed_tries > 0));
        Self { at: Instant::now(), red, failed, report: Arc::new(report.clone()) }
    }
}
