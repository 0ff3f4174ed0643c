//! Limits on runs (H5).

use std::collections::BTreeMap;

use backstop::limits::{CountBy, RunLimit, RunLimitView, RunRate};
use backstop_core::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A limit on runs, over all workers of the store. At least one of `concurrency`, `rate` and `permits` is given,
/// or the weights of keys.
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
    /// What it counts together: all runs, or those of each `limit_key` apart.
    #[serde(default)]
    pub by: CountBy,
    /// Runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub concurrency: Option<u64>,
    /// Runs that start in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RunRate>,
    /// Permits that there are: the limit is a pool of its name, for all jobs that ask for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub permits: Option<u32>,
    /// How many jobs a key may start when its turn comes, for keys that may start more than one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

impl LimitBody {
    /// The limit of this name.
    pub fn named(self, name: &str) -> RunLimit {
        let Self { queue, kind, by, concurrency, rate, permits, weights } = self;
        RunLimit {
            name: name.into(),
            queue: queue.map(Into::into),
            kind: kind.map(Into::into),
            by,
            concurrency,
            rate,
            permits,
            weights: weights.into_iter().map(|(key, weight)| (key.into(), weight)).collect(),
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
    /// What it counts together.
    pub by: CountBy,
    /// Runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Runs that start in a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RunRate>,
    /// Permits that there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permits: Option<u32>,
    /// How many jobs keys may start when their turn comes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// Jobs that it is about and that workers hold; of a pool, the permits that their runs hold.
    pub in_use: u64,
    /// Jobs that it keeps back: pending ones, due or not, while it lets nothing start. Absent for keys and pools, whose
    /// jobs wait among others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<u64>,
    /// When it lets another job start; absent where a run has to end first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_start: Option<Timestamp>,
}

impl From<RunLimitView> for LimitJson {
    fn from(view: RunLimitView) -> Self {
        let (next_start, full) = (view.next_start(), view.is_full());
        let RunLimitView { limit, used, pending, .. } = view;
        let parked = limit.counts_all().then_some(if full { pending } else { 0 });
        let RunLimit { name, queue, kind, by, concurrency, rate, permits, weights } = limit;
        Self {
            name: name.to_string(),
            queue: queue.map(|queue| queue.to_string()),
            kind: kind.map(|kind| kind.to_string()),
            by,
            concurrency,
            rate,
            permits,
            weights: weights.into_iter().map(|(key, weight)| (key.to_string(), weight)).collect(),
            in_use: if permits.is_some() { used.permits } else { used.running },
            parked,
            next_start,
        }
    }
}
