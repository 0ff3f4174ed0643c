//! Rejects of items, as they are asked for and as remote workers tell them (W9).

use backstop::JobId;
use backstop_core::failure::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::body::PageLimit;

/// Which rejects are listed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct RejectQuery {
    /// Only those of this job.
    #[param(value_type = Option<String>)]
    pub job: Option<JobId>,
    /// Only those with this fingerprint: 16 hexadecimal digits.
    #[param(value_type = Option<String>)]
    pub fingerprint: Option<Fingerprint>,
    /// Kept items in the clear; needs the scope `logs`.
    pub reveal: bool,
    /// At most this many.
    #[param(value_type = Option<PageLimit>)]
    pub limit: PageLimit,
    /// Go on after this one: `next_cursor` of the page before.
    #[param(max_length = 300)]
    pub cursor: Option<String>,
}

/// Which rejects are exported.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct RejectExportQuery {
    /// Only those of this job.
    #[param(value_type = Option<String>)]
    pub job: Option<JobId>,
    /// Only those with this fingerprint: 16 hexadecimal digits.
    #[param(value_type = Option<String>)]
    pub fingerprint: Option<Fingerprint>,
}

/// Which groups of rejects are listed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct RejectGroupQuery {
    /// Only the one with this fingerprint: 16 hexadecimal digits.
    #[param(value_type = Option<String>)]
    pub fingerprint: Option<Fingerprint>,
    /// At most this many.
    #[param(value_type = Option<PageLimit>)]
    pub limit: PageLimit,
    /// Go on after this one: `next_cursor` of the page before.
    #[param(max_length = 300)]
    pub cursor: Option<String>,
}

/// Items that a run of a remote worker could not handle.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RejectItems)]
pub struct RejectRequest {
    /// The token of its lease.
    pub lease: String,
    /// The items.
    #[schema(max_items = 1000)]
    pub items: Vec<RejectItem>,
    /// How many items the run has looked at so far, in all: what a limit in percent is a share of.
    #[serde(default)]
    pub seen: Option<u64>,
}

/// One item, or several that went wrong together.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectItem {
    /// Why.
    pub error: String,
    /// The class of the error; `Error` unless it is said.
    #[serde(default)]
    pub error_type: Option<String>,
    /// The item. It is not kept, unless `keep` says so: only a digest that tells it from others.
    #[serde(default)]
    pub item: Option<Value>,
    /// What tells the item from others, when the item itself does not: a line number, an id.
    #[serde(default)]
    #[schema(max_length = 512)]
    pub fingerprint: Option<String>,
    /// The step in which it happened.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub step: Option<String>,
    /// True keeps the item too.
    #[serde(default)]
    pub keep: bool,
    /// How many items it stands for.
    #[serde(default)]
    pub count: Option<u64>,
    /// How often the item was tried again.
    #[serde(default)]
    pub retries: u32,
    /// How often it would have been tried again.
    #[serde(default)]
    pub retry_limit: Option<u32>,
    /// False when the run may still try it again.
    #[serde(default)]
    pub r#final: Option<bool>,
}

/// That rejects were kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = RejectsKept)]
pub struct RejectAnswer {
    /// Always true: refusals have a shape of their own.
    pub ok: bool,
    /// Why the run has rejected too much, if it has: then it fails when it ends, whatever is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_limit: Option<String>,
}
