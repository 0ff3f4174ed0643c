//! Ordering keys.

use backstop::{JobId, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::cursor;
use crate::body::PageLimit;

/// Which ordering keys, and which page of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OrderingKeysQuery {
    /// True for those alone that wait for a person: their first job failed or is paused.
    pub blocked: bool,
    /// Rows of the page at most.
    #[param(inline)]
    pub limit: Option<PageLimit>,
    /// Go on after this row: `next_cursor` of the page before.
    #[param(max_length = 300)]
    #[serde(deserialize_with = "cursor")]
    pub cursor: Option<String>,
}

/// The jobs of one ordering key (L21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OrderingKey)]
pub struct OrderingKeyJson {
    /// The key.
    pub key: String,
    /// The job whose turn it is.
    #[schema(value_type = String)]
    pub head: JobId,
    /// Where that job is.
    pub status: State,
    /// True when nothing goes on until a person does something about it.
    pub blocked: bool,
    /// How many jobs wait behind it, counted up to 10,000.
    pub waiting: u64,
    /// The queue of that job.
    pub queue: String,
    /// Its kind.
    pub kind: String,
}

/// The job that was given up so that its line could go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedJob {
    /// Which one; it is canceled now.
    #[schema(value_type = String)]
    pub job: JobId,
    /// Where it was.
    pub was: State,
    /// False when it had ended meanwhile, and nothing was changed.
    pub changed: bool,
}
