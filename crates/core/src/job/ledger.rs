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
#[derive(Serialize)]
struct Reads {
    number: u32,
    fence: Fence,
    worker: WorkerId,
    code_version: Option<Arc<str>>,
    cause: Cause,
    charged: bool,
    due_at: Timestamp,
    started_at: Timestamp,
    finished_at: Timestamp,
    wait_ms: u64,
    duration_ms: u64,
    error_type: Option<String>,
    error: Option<String>,
    fingerprint: Option<String>,
    decision: Option<Decision>,
    result: Option<serde_json::Value>,
    warning: Option<String>,
    output: Option<String>,
}

impl Serialize for Attempt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Reads {
            number: self.number,
            fence: self.fence,
            worker: self.worker,
            code_version: self.code_version.clone(),
            cause: self.cause,
            charged: self.cause.charges_attempt(),
            due_at: self.due_at,
            started_at: self.started_at,
            finished_at: self.finished_at,
            wait_ms: millis(self.started_at.since(self.due_at)),
            duration_ms: millis(self.finished_at.since(self.started_at)),
            error_type: self.failure.as_ref().map(|f| f.error_type.clone()),
            error: self.failure.as_ref().map(|f| f.message.clone()),
            fingerprint: self.failure.as_ref().map(|f| f.fingerprint.to_string()),
            decision: self.decision.clone(),
            result: self.result.as_deref().map(super::view::json_or_text),
            warning: self.warning.clone(),
            output: self.output.clone(),
        }
        .serialize(serializer)
    }
}
