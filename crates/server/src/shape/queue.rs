//! A queue as it is shown.

use backstop::Timestamp;
use backstop::store::QueueView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A queue with its kept counts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// True when claims pass it by.
    pub paused: bool,
    /// Who or what paused it, in words, if that was said.
    pub pause_note: Option<String>,
    /// Jobs that may be claimed now or later.
    pub pending: u64,
    /// Jobs held for a dependency, a signal or code.
    pub waiting: u64,
    /// Jobs that workers hold.
    pub running: u64,
    /// Jobs that people hold back.
    pub paused_jobs: u64,
    /// Jobs that ended well.
    pub succeeded: u64,
    /// Dead letters.
    pub failed: u64,
    /// Jobs that were called off.
    pub canceled: u64,
    /// When the longest-waiting due job became due.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub oldest_due: Option<Timestamp>,
    /// Live workers that serve it.
    pub workers: u64,
}

impl Queue {
    /// A queue under the name that the caller knows it by.
    #[must_use]
    pub fn of(view: QueueView, name: String) -> Self {
        Self {
            name,
            paused: view.paused,
            pause_note: view.pause_note,
            pending: view.pending,
            waiting: view.waiting,
            running: view.running,
            paused_jobs: view.paused_jobs,
            succeeded: view.succeeded,
            failed: view.failed,
            canceled: view.canceled,
            oldest_due: view.oldest_due,
            workers: view.workers,
        }
    }
}
