//! What `submit` takes and answers.

use backstop_core::JobId;
use backstop_core::job::{NewJob, State};

/// Jobs to store.
#[derive(Debug, Clone)]
pub struct Submit {
    /// The jobs, already admitted.
    pub jobs: Vec<NewJob>,
    /// True: all or nothing. False: each for itself.
    pub atomic: bool,
}

/// The answer for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// The job that stands for this submit: the new one, or the one that was there.
    pub id: JobId,
    /// Where that job is.
    pub state: State,
    /// True when the job was already stored (L10).
    pub deduplicated: bool,
}
