//! That a job of a workflow or a batch has ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::NodeEnd;
use crate::id::{JobId, WorkflowId};
use crate::job::{PausedFrom, Record, State, WorkflowMark};
use crate::time::Timestamp;

/// Notes of one document: some 30 KiB of text.
const MOST_TOGETHER: usize = 200;

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
        let put_aside = before.and_then(|before| before.paused_from) == Some(PausedFrom::Failed);
        if put_aside && end == NodeEnd::Failed {
            // A dead letter that is taken back as it was has not died again.
            return None;
        }
        Some(Self { job, mark, end, again: after.redrives > 0 || put_aside, at: after.finished_at? })
    }

    /// Notes that are committed together as documents, key and body: those of one workflow are one, so that a batch
    /// whose jobs end by the hundred costs little more than jobs of their own. Documents of one workflow stand
    /// together, in the order of time.
    #[must_use]
    pub fn documents(notes: &[Self]) -> Vec<(String, String)> {
        let mut by_workflow: BTreeMap<WorkflowId, Vec<&Self>> = BTreeMap::new();
        for note in notes {
            by_workflow.entry(note.mark.id).or_default().push(note);
        }
        let chunks = by_workflow.values().flat_map(|notes| notes.chunks(MOST_TOGETHER));
        // A list of ids and words has no way to fail.
        chunks.map(|notes| (notes[0].key(), serde_json::to_string(notes).unwrap_or_default())).collect()
    }

    /// The notes of a document; none when it cannot be read.
    #[must_use]
    pub fn read(body: &str) -> Option<Vec<Self>> {
        serde_json::from_str(body).ok()
    }

    /// One job ends once in a moment, so no other document has this key.
    fn key(&self) -> String {
        format!("{}/{:019}/{}", self.mark.id, self.at.as_micros().max(0), self.job)
    }
}
