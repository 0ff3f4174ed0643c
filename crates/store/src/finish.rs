//! What `finish`, `rescue` and `annotate` take.

use std::sync::Arc;

use backstop_core::job::{Ending, Operation, Progress, Record, Remark, StepFact, StepWrite};
use backstop_core::outbox::{OutboxDocument, OutboxPlace};
use backstop_core::reject::RejectBatch;
use backstop_core::{JobId, Lease};

use crate::Drawer;

/// The document that keeps what a signal brought to a job whose record it has just changed (W10): where it is and what
/// it says.
#[must_use]
pub fn signal_document(job: JobId, operation: &Operation, record: &Record) -> Option<NoteDocument> {
    let Operation::Signal { step: StepWrite { name, fact: StepFact::Done(text), .. }, .. } = operation else {
        return None;
    };
    let position = record.step_history()?.position_of(name)?;
    Some((Drawer::Steps, Drawer::step(job, position), text.clone()))
}

/// The end of one run.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The right to write about it.
    pub lease: Lease,
    /// How it ended.
    pub ending: Ending,
}

/// What a run says while it goes on.
#[derive(Debug, Clone)]
pub struct Note {
    /// The right to write about the run.
    pub lease: Lease,
    /// What it says.
    pub remark: Remark,
}

impl Note {
    /// How far a run is.
    #[must_use]
    pub const fn progress(lease: Lease, progress: Progress) -> Self {
        Self { lease, remark: Remark::Progress(progress) }
    }

    /// Sanitized lines to keep with a run, as long as all of its lines have `limit` bytes at most (F15).
    #[must_use]
    pub const fn log(lease: Lease, lines: Vec<String>, limit: usize) -> Self {
        Self { lease, remark: Remark::Log { lines, limit } }
    }

    /// What became of a step (W7, W8).
    #[must_use]
    pub const fn step(lease: Lease, write: StepWrite) -> Self {
        Self { lease, remark: Remark::Step(write) }
    }

    /// Items that a run could not handle (W9).
    #[must_use]
    pub const fn rejects(lease: Lease, batch: RejectBatch) -> Self {
        Self { lease, remark: Remark::Rejects(batch) }
    }

    /// The documents that are kept beside the record, whose place there is known by `position`: where each is, and what
    /// it says.
    #[must_use]
    pub fn documents(&self, position: u32) -> Vec<NoteDocument> {
        match &self.remark {
            Remark::Step(StepWrite { fact: StepFact::Done(result), .. }) => {
                vec![(Drawer::Steps, Drawer::step(self.lease.job, position), result.clone())]
            }
            Remark::Rejects(batch) => {
                let key = batch.key(position);
                // Texts and numbers: there is no way to fail.
                let body = serde_json::to_string(batch).unwrap_or_default();
                vec![(Drawer::Rejects, key.clone(), body.into()), (Drawer::RejectNotes, key, Arc::from("1"))]
            }
            _ => Vec::new(),
        }
    }
}

/// What is kept for a sink.
#[must_use]
pub fn outbox_document(OutboxDocument { place, key, body }: OutboxDocument) -> NoteDocument {
    let drawer = match place {
        OutboxPlace::Waiting => Drawer::Outbox,
        OutboxPlace::Refused => Drawer::OutboxRefused,
    };
    (drawer, key, body)
}

/// What is kept beside a record: drawer, key and body.
pub type NoteDocument = (Drawer, String, Arc<str>);
