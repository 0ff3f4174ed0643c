//! Limits on runs (H5).

use backstop::limits::{RunLimit, RunLimitView, RunRate};
use backstop_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a limit counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitBy {
    /// All jobs that it is about, together.
    #[default]
    All,
}

/// A limit on runs, over all workers of the store. At least one of `concurrency` and `rate` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitBody {
    /// For jobs of this queue; of all queues unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub queue: Option<String>,
    /// For jobs of this kind; of all kinds unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 128)]
    pub kind: Option<String>,
    /// What it counts.
    #[serde(default)]
    pub by: LimitBy,
    /// Runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u64>,
    /// Runs that start in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RunRate>,
}

impl LimitBody {
    /// The limit of this name.
    pub fn named(self, name: &str) -> RunLimit {
        let Self { queue, kind, by: LimitBy::All, concurrency, rate } = self;
        RunLimit {
            name: name.into(),
            queue: queue.map(Into::into),
            kind: kind.map(Into::into),
            concurrency,
            rate,
        }
    }
}

/// A limit, and what is used of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Limit)]
pub struct LimitJson {
    /// What people call it.
    pub name: String,
    /// For jobs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// For jobs of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it counts.
    pub by: LimitBy,
    /// Runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Runs that start in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RunRate>,
    /// Jobs that it is about and that workers hold.
    pub in_use: u64,
    /// Jobs that it keeps back: pending ones, due or not, while it lets nothing start.
    pub parked: u64,
    /// When it lets another job start; absent where a run has to end first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_start: Option<Timestamp>,
}

impl From<RunLimitView> for LimitJson {
    fn from(view: RunLimitView) -> Self {
        let (next_start, full) = (view.next_start(), view.is_full());
        let RunLimitView { limit: RunLimit { name, queue, kind, concurrency, rate }, used, pending, .. } =
            view;
        Self {
            name: name.to_string(),
            queue: queue.map(|queue| queue.to_string()),
            kind: kind.map(|kind| kind.to_string()),
            by: LimitBy::All,
            concurrency,
            rate,
            in_use: used.running,
            parked: if full { pending } else { 0 },
            next_start,
        }
    }
}
