//! The ledger: one row for each run that has ended (F2).

use std::sync::Arc;

use serde::Serialize;

use super::FailureRecord;
use crate::failure::{Cause, Decision};
use crate::id::{Fence, WorkerId};
use crate::time::Timestamp;

/// One ended run. Written once, never changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Which run of the job this was, from 1; numbers never restart, not even by a re-drive (L9).
    pub number: u32,
    /// The hold it ran under.
    pub fence: Fence,
    /// Who ran it.
    pub worker: WorkerId,
    /// The version of the code that ran it.
    pub code_version: Option<Arc<str>>,
    /// The one cause it ended by.
    pub cause: Cause,
    /// When the job had become due before this run.
    pub due_at: Timestamp,
    /// When the handler started.
    pub started_at: Timestamp,
    /// When the ending was stored.
    pub finished_at: Timestamp,
    /// Sanitized evidence, for a run that failed.
    pub failure: Option<FailureRecord>,
    /// The checks and the verdict; none for a plain success.
    pub decision: Option<Decision>,
    /// What the handler returned, as JSON text.
    pub result: Option<Arc<str>>,
    /// A warning on a run that succeeded.
    pub warning: Option<String>,
    /// What the run logged or printed.
    pub output: Option<String>,
}

/// An attempt as every interface shows it.
impl Serialize for Attempt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reads().serialize(serializer)
    }
}
