//! That a job of a workflow or a batch has ended.

use serde::{Deserialize, Serialize};

use super::NodeEnd;
use crate::id::JobId;
use crate::job::{PausedFrom, Record, State, WorkflowMark};
use crate::time::Timestamp;

/// That a job of a workflow or a batch has ended: written in the transaction that ends it, and removed in the one that
/// does what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndNote {
    /// The job.
    pub job: JobId,
    /// Which workflow or batch, and which node.
    pub mark: WorkflowMark,
    /// How it ended.
    pub end: NodeEnd,
    /// True when it had failed before, and that was noted then: it was driven again, or given up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// When.
    pub at: Timestamp,
}

impl EndNote {
    /// The note about a job whose record has moved from one to the other; none unless that is the end of a part.
    #[must_use]
    pub fn of(job: JobId, before: Option<&Record>, after: &Record) -> Option<Self> {
        let ended = |record: &Record| record.state.is_terminal();
        if !ended(after) || before.is_some_and(ended) {
            return None;
        }
        let mark = after.marks.as_ref()?.workflow?;
        let end = match after.state {
            State::Succeeded => NodeEnd::Succeeded,
            State::Canceled => NodeEnd::Canceled,
            _ => NodeEnd::Failed,
        };
        let given_up = before.and_then(|before| before.paused_from) == Some(PausedFrom::Failed);
        Some(Self { job, mark, end, again: after.redrives > 0 || given_up, at: after.finished_at? })
    }

    /// The name of its document: notes of one workflow stand together, in the order of time.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{:019}/{}", self.mark.id, self.at.as_micros().max(0), self.job)
    }

    /// The note as text.
    #[must_use]
    pub fn body(&self) -> String {
        // A struct of ids and words has no way to fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}
