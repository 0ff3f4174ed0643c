//! Jobs on their way in.

use std::borrow::Cow;
use std::collections::BTreeMap;

use backstop::{Growth, JobId, OnConflict, Priority, State, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::ErrorDetail;
use crate::body::{object, objects, raw};

/// A job to store. Payload and params are kept as the text that was sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SubmitJob<'a> {
    /// Which code runs it.
    #[serde(borrow)]
    #[schema(value_type = String, example = "send_email")]
    pub kind: Cow<'a, str>,
    /// Its input, any JSON; an empty object when it is left out.
    #[serde(borrow, default, deserialize_with = "raw", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<&'a RawValue>,
    /// Where it waits; `default` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// A level from 0 to 4, or its word: lowest, low, normal, high, critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = priority_or_word)]
    pub priority: Option<Priority>,
    /// Version of the payload's shape (H10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Run it no earlier than this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Timestamp>,
    /// Run it no earlier than this long from now; not together with `run_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Never start it later than this moment (L19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Charged runs after the first (F5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Crashes that are forgiven (C1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// How long to wait between charged runs; what is left out is as the server's configuration says (F8).
    #[serde(default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffPart>,
    /// How long one run may take (F10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Fail it when it has been due this long without starting (L19).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_ms: Option<u64>,
    /// Submitting the same key again, ever, answers with the first job (L10). The header `Idempotency-Key` counts when
    /// this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// No two live jobs share this key (L11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Jobs with the same key run one at a time, in the order of their submits (L21).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<String>,
    /// What limits by key count: jobs with different keys share their queue by turns (H5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub limit_key: Option<String>,
    /// Of all jobs with this name one runs at a time (H6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub single_instance: Option<String>,
    /// Permits that its run holds, by pool: a limit with permits, of that name (H5).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permits: BTreeMap<String, u32>,
    /// How long it may be kept from running, by limits, an open circuit or endings that charge nothing; then it fails
    /// as `deferral_exhausted` (H7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deferral_ms: Option<u64>,
    /// What it needs that may be away, in place of what its kind needs: the key of its circuit and its health (H1, H3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
    /// What to do when a live job holds the business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_conflict: Option<OnConflict>,
    /// Cancel this unstarted job and take its place, in one transaction (L22).
    #[serde(default, alias = "supersedes", skip_serializing_if = "Option::is_none")]
    pub replaces: Option<JobId>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Settings beside the payload: a JSON object.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<&'a RawValue>,
    /// Ties it to a request or a trace outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The trace it belongs to, as the `traceparent` of W3C Trace Context. The header `traceparent` counts when this is
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 55, example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    pub trace_parent: Option<String>,
    /// The job to store when this one has succeeded, in the same transaction (F14).
    #[serde(borrow, default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub on_success: Option<CallbackJob<'a>>,
    /// The job to store when this one has failed for good, in the same transaction (F14).
    #[serde(borrow, default, deserialize_with = "object", skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<CallbackJob<'a>>,
}

/// A priority as it may be said: a level, a word, or nothing.
pub(super) fn priority_or_word() -> RefOr<Schema> {
    let level = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(4));
    let words = Priority::ALL.map(Priority::as_str);
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words));
    let nothing = ObjectBuilder::new().schema_type(Type::Null);
    let says = "A level from 0 to 4, or its word: lowest, low, normal, high, critical.";
    OneOfBuilder::new().item(level).item(word).item(nothing).description(Some(says)).into()
}

/// How long to wait between charged runs: any part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackoffPart {
    /// How the wait grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Growth>,
    /// The wait after the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ms: Option<u64>,
    /// The longest wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_ms: Option<u64>,
    /// How waits are spread: none, full, equal or a percentage such as 20%.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^(none|full|equal|(100|[1-9]?[0-9])%)$", example = "20%")]
    pub jitter: Option<backstop::Jitter>,
}

/// A job to store when another one has ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackJob<'a> {
    /// Which code runs it.
    #[serde(borrow)]
    #[schema(value_type = String)]
    pub kind: Cow<'a, str>,
    /// Where it waits; `default` when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Its input; an empty object when it is left out.
    #[serde(borrow, default, deserialize_with = "raw", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<&'a RawValue>,
    /// Version of its payload's shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// Jobs to store together.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsBatch<'a> {
    /// Up to 1,000 jobs.
    #[serde(borrow, deserialize_with = "objects")]
    #[schema(max_items = 1000)]
    pub jobs: Vec<SubmitJob<'a>>,
    /// True stores what can be stored and answers for each; otherwise all are stored or none.
    #[serde(default)]
    pub partial: bool,
}

/// A job that is stored, for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Stored)]
pub struct SubmittedJob {
    /// The job.
    pub id: JobId,
    /// Where it is.
    pub status: State,
    /// True when it was already stored: by its idempotency key, or as the holder of its business key.
    pub deduplicated: bool,
}

/// What became of one job of a batch.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = StoredOrRefused)]
pub enum SubmitAnswer {
    /// It is stored.
    Stored(SubmittedJob),
    /// It is not.
    Refused {
        /// Why.
        error: ErrorDetail,
    },
}
