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
/// does what follows. When that was stands in the key of its document and nowhere else.
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
}

/// A note as it is written.
#[derive(Serialize)]
struct WrittenNote<'n> {
    #[serde(flatten)]
    note: &'n EndNote,
    /// Programs of earlier versions read no note without a moment, and make nothing of it: any will do.
    at: Timestamp,
}

/// Notes of one workflow that are committed together, as one document. The moment of that stands in the middle of its
/// key, so that a store may learn it as it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndDocument {
    /// The key before the moment.
    pub before: String,
    /// The key behind it.
    pub behind: String,
    /// What it says.
    pub body: String,
}

impl EndDocument {
    /// The key of what is committed at `now`. One job ends once in a moment, so no other document has it. The moment is
    /// written with 19 digits: documents of one workflow stand together, in the order of time.
    #[must_use]
    pub fn key(&self, now: Timestamp) -> String {
        format!("{}{:019}{}", self.before, now.as_micros().max(0), self.behind)
    }
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
        Some(Self { job, mark, end, again: after.redrives > 0 || put_aside })
    }

    /// Notes that are committed together as documents: those of one workflow are one, so that a batch whose jobs end by
    /// the hundred costs little more than jobs of their own.
    #[must_use]
    pub fn documents(notes: &[Self]) -> Vec<EndDocument> {
        let mut by_workflow: BTreeMap<WorkflowId, Vec<&Self>> = BTreeMap::new();
        for note in notes {
            by_workflow.entry(note.mark.id).or_default().push(note);
        }
        let chunks = by_workflow.values().flat_map(|notes| notes.chunks(MOST_TOGETHER));
        chunks.map(Self::document).collect()
    }

    fn document(notes: &[&Self]) -> EndDocument {
        let written: Vec<WrittenNote<'_>> =
            notes.iter().copied().map(|note| WrittenNote { note, at: Timestamp::EPOCH }).collect();
        EndDocument {
            before: format!("{}/", notes[0].mark.id),
            behind: format!("/{}", notes[0].job),
            // A list of ids and words has no way to fail.
            body: serde_json::to_string(&written).unwrap_or_default(),
        }
    }

    /// The notes of a document; none when it cannot be read.
    #[must_use]
    pub fn read(body: &str) -> Option<Vec<Self>> {
        serde_json::from_str(body).ok()
    }
}
