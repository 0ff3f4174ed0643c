//! Retry budgets (F19).

use backstop::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many retries a kind may have, over all workers, and how many are planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = RetryBudget)]
pub struct RetryBudgetJson {
    /// The kind.
    pub kind: String,
    /// First runs of the last five minutes; workers tell of theirs every ten seconds.
    pub first_runs: u64,
    /// Retries allowed for each first run, on average; absent where nothing bounds the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Retries a second that are always allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<u32>,
    /// Retries that one second may hold now: the floor, and the share of the first runs of a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Retries that are planned, from now on.
    pub planned: u64,
    /// The last second that holds one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub planned_until: Option<Timestamp>,
    /// How much later a retry would run that is due now, because the seconds before are full; 0 while there is room.
    pub moved_ms: u64,
}
