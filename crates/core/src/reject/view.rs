//! A reject as every interface shows it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RejectBatch, RejectScope};
use crate::failure::Fingerprint;
use crate::id::JobId;
use crate::tenant;
use crate::time::Timestamp;

/// An item that a run could not handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Reject))]
pub struct RejectView {
    /// Its job, the batch that it was written with, and its place there.
    pub id: String,
    /// When it was written.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// Whose it is; none for jobs of no tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// The durable step in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// One item or several.
    pub scope: RejectScope,
    /// The run that rejected it first.
    pub run: u32,
    /// The attempt that this was.
    pub attempt: u32,
    /// How often the job had been driven again.
    pub generation: u32,
    /// How often the run tried the item again.
    pub retries: u32,
    /// How often it would have tried.
    pub retry_limit: u32,
    /// True when the run does not try the item again.
    pub r#final: bool,
    /// What it has in common with others: kind, class and text of the error.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fingerprint: Fingerprint,
    /// The class of the error.
    pub error_type: String,
    /// The sanitized text of the error.
    pub error: String,
    /// What tells the item from others.
    pub item_fingerprint: String,
    /// How many items it stands for.
    pub count: u64,
    /// The item, if it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<Value>,
}

impl RejectView {
    /// The reject at `index` of the batch with this number; `show` says how its item is shown.
    #[must_use]
    pub fn new(
        batch: &RejectBatch,
        number: &str,
        index: usize,
        show: impl FnOnce(&Arc<str>) -> Value,
    ) -> Self {
        let reject = batch.rejects[index].clone();
        Self {
            id: format!("{}/{number}/{index}", batch.job),
            at: batch.at,
            tenant: tenant::of_queue(&batch.queue).map(str::to_owned),
            job: batch.job,
            queue: batch.queue.to_string(),
            kind: batch.kind.to_string(),
            step: reject.step,
            scope: reject.scope,
            run: batch.run,
            attempt: batch.attempt,
            generation: batch.generation,
            retries: reject.retries,
            retry_limit: reject.retry_limit,
            r#final: reject.r#final,
            fingerprint: reject.fingerprint,
            error_type: reject.error_type,
            error: reject.error,
            item_fingerprint: reject.item_fingerprint,
            count: reject.count,
            item: reject.item.as_ref().map(show),
        }
    }
}
