//! Rejects that have something in common, counted without reading them.

use serde::{Deserialize, Serialize};

use super::{Reject, RejectBatch};
use crate::failure::Fingerprint;
use crate::id::JobId;
use crate::tenant;
use crate::time::Timestamp;

/// All rejects with one fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RejectGroup {
    /// What they have in common.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fingerprint: Fingerprint,
    /// The kind of their jobs.
    pub kind: String,
    /// The queue of the first one.
    pub queue: String,
    /// The class of the error.
    pub error_type: String,
    /// The text of the first one.
    pub error: String,
    /// Items, ever.
    pub items: u64,
    /// Of these, items whose rejects are stored now.
    pub stored: u64,
    /// The first one.
    pub first_seen: Timestamp,
    /// The latest one.
    pub last_seen: Timestamp,
    /// The latest job.
    pub sample_job: JobId,
}

impl RejectGroup {
    /// The key of the document that keeps a group: a fingerprint is told apart by tenant.
    #[must_use]
    pub fn key(queue: &str, fingerprint: &Fingerprint) -> String {
        format!("{}/{fingerprint}", tenant::shown(queue))
    }

    /// A group of nothing yet, named after the first of its rejects.
    #[must_use]
    pub fn first(batch: &RejectBatch, reject: &Reject) -> Self {
        Self {
            fingerprint: reject.fingerprint.clone(),
            kind: batch.kind.to_string(),
            queue: batch.queue.to_string(),
            error_type: reject.error_type.clone(),
            error: reject.error.clone(),
            items: 0,
            stored: 0,
            first_seen: batch.at,
            last_seen: batch.at,
            sample_job: batch.job,
        }
    }

    /// Adds so many items of a batch.
    pub fn add(&mut self, batch: &RejectBatch, items: u64) {
        self.items = self.items.saturating_add(items);
        self.stored = self.stored.saturating_add(items);
        self.first_seen = self.first_seen.min(batch.at);
        if batch.at >= self.last_seen {
            (self.last_seen, self.sample_job) = (batch.at, batch.job);
        }
    }

    /// So many items of it are not stored any more; false when none is, and nobody needs the group.
    #[must_use]
    pub fn remove(&mut self, items: u64) -> bool {
        self.stored = self.stored.saturating_sub(items);
        self.stored > 0
    }
}
