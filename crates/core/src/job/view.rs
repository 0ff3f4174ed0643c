//! A job with all that belongs to it; [`JobJson`](super::JobReads) is how interfaces show it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{FailureRecord, LinePlace, Record, State, StoredJob, WaitDetail};
use crate::failure::Cause;
use crate::id::WorkerId;
use crate::time::Timestamp;

/// A job with its record and what its latest run left.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// What was submitted.
    pub job: StoredJob,
    /// Where it is.
    pub record: Record,
    /// True when its lane is held because no live worker of its queue knows its kind and version (H10).
    pub waits_for_code: bool,
    /// The limit that keeps it from starting (H5), where that was looked for: stores do not.
    pub held_by: Option<WaitDetail>,
    /// The evidence of [`Record::last_failed_run`].
    pub last_failure: Option<FailureRecord>,
    /// What the latest run returned, as JSON text, once the job has ended.
    pub result: Option<std::sync::Arc<str>>,
    /// A warning that the latest run left (L6), once the job has ended.
    pub warning: Option<String>,
    /// When the latest run started.
    pub started_at: Option<Timestamp>,
}

impl JobView {
    /// The state that is shown: a pending job in a held lane is waiting (H10), and so is one that a limit keeps from
    /// starting (H5).
    #[must_use]
    pub fn state(&self) -> State {
        match self.record.state {
            State::Pending if self.waits_for_code || self.held_by.is_some() => State::Waiting,
            state => state,
        }
    }

    /// Who holds it now.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        self.record.hold.map(|hold| hold.worker)
    }
}

/// A job with the counts of its ended runs by cause.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDetail {
    /// The job.
    pub view: JobView,
    /// How many runs ended by each cause, over its whole life.
    pub counters: BTreeMap<Cause, u64>,
    /// Where it stands in its line, while it waits for its turn (L21).
    pub line: Option<LinePlace>,
}

impl Serialize for JobView {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reads().serialize(serializer)
    }
}

impl Serialize for JobDetail {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reads().serialize(serializer)
    }
}
