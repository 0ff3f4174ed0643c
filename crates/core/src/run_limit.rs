//! How many runs there may be at once, and how many may start in a time, over the whole cluster (H5).
//!
//! A limit is asked when jobs are claimed, under a lock of its own: it counts what runs, and takes starts out of a
//! bucket. A job that finds no room stays where it is, due and uncharged, and holds nothing; so a job that nobody takes
//! never keeps others from running. [`RunRooms`] is what limits leave room for while one claim takes jobs.

mod bucket;
mod rooms;
mod shared;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use bucket::RunBucket;
pub use rooms::{RunRooms, RunUse};
pub use shared::{KeyBucket, SharedHold, SharedRooms, SharedUse, SharingJob};

use crate::admit;
use crate::job::{MOST_PERMITS, WaitDetail, WaitReason};
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::time::{Timestamp, millis};

/// Limits that a store holds at most: each claim compares its queues and kinds with all of them.
pub const MOST_RUN_LIMITS: usize = 500;

/// Runs that a limit can allow: more is a typing error.
const MOST_RUNS: u64 = 1_000_000;

/// The longest time that a rate counts starts in.
const LONGEST_RATE: Duration = Duration::from_secs(366 * 86_400);

/// Weights that one limit can give.
const MOST_WEIGHTS: usize = 10_000;

/// The largest share of turns that one key can have.
const MOST_WEIGHT: u32 = 100;

/// What a limit counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CountBy {
    /// All runs that it is about.
    #[default]
    All,
    /// Those of each `limit_key` apart; jobs without one are not its business.
    Key,
}

/// How runs of some jobs are limited, on all workers together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunLimit {
    /// What people call it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: Arc<str>,
    /// For jobs of this queue only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub queue: Option<Arc<str>>,
    /// For jobs of this kind only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub kind: Option<Arc<str>>,
    /// What it counts together.
    #[serde(default, skip_serializing_if = "CountBy::is_all")]
    pub by: CountBy,
    /// So many run at once, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub concurrency: Option<u64>,
    /// So many start in a time, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RunRate>,
    /// So many permits there are: the limit is a pool of this name, whose permits jobs ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub permits: Option<u32>,
    /// How many jobs a key may start when its turn comes, for keys that may start more than one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, u32>))]
    pub weights: BTreeMap<Arc<str>, u32>,
}

/// So many starts in a time: a bucket that holds `count` starts and is filled evenly, from empty to full in `per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunRate {
    /// How many.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub count: u64,
    /// In which time.
    #[serde(rename = "per_ms", with = "millis")]
    #[cfg_attr(feature = "openapi", schema(value_type = u64, minimum = 1, maximum = 31_622_400_000_u64))]
    pub per: Duration,
}

impl RunLimit {
    /// A limit of this name that holds nothing back yet.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            queue: None,
            kind: None,
            by: CountBy::All,
            concurrency: None,
            rate: None,
            permits: None,
            weights: BTreeMap::new(),
        }
    }

    /// The limit of a queue, as its settings make it.
    #[must_use]
    pub fn of_queue(queue: &str) -> Self {
        Self { queue: Some(queue.into()), ..Self::new(format!("queue:{queue}")) }
    }

    /// True when it is about jobs of this queue and kind.
    #[must_use]
    pub fn covers(&self, queue: &str, kind: &str) -> bool {
        self.may_cover_queue(queue) && self.kind.as_deref().is_none_or(|own| own == kind)
    }

    /// True when it counts all runs of its queue and kind, whatever else they share.
    #[must_use]
    pub const fn counts_all(&self) -> bool {
        matches!(self.by, CountBy::All) && (self.concurrency.is_some() || self.rate.is_some())
    }

    /// True when it may be about jobs of this queue.
    #[must_use]
    pub fn may_cover_queue(&self, queue: &str) -> bool {
        self.queue.as_deref().is_none_or(|own| own == queue)
    }

    /// Checks what a person asked for.
    ///
    /// # Errors
    /// A [`Refusal`] that names what is wrong.
    pub fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        admit::name("limit", &self.name, limits)?;
        if let Some(queue) = &self.queue {
            admit::queue_name(queue, limits)?;
        }
        if let Some(kind) = &self.kind {
            admit::name("kind", kind, limits)?;
        }
        let weighs = self.by == CountBy::Key && !self.weights.is_empty();
        if self.concurrency.is_none() && self.rate.is_none() && self.permits.is_none() && !weighs {
            let problem = "it limits nothing; give it a concurrency, a rate or permits";
            return Err(Refusal::invalid("limit", problem));
        }
        self.check_sharing(limits)?;
        if self.concurrency == Some(0) {
            let problem = "0 would let nothing run; pause the queue, or give 1 or more";
            return Err(Refusal::invalid("concurrency", problem));
        }
        if self.concurrency.is_some_and(|most| most > MOST_RUNS) {
            return Err(Refusal::invalid("concurrency", format!("it is at most {MOST_RUNS}")));
        }
        self.rate.map_or(Ok(()), RunRate::check)
    }

    fn check_sharing(&self, limits: &Limits) -> Result<(), Refusal> {
        if let Some(permits) = self.permits {
            if permits == 0 || permits > MOST_PERMITS {
                let problem = format!("give between 1 and {MOST_PERMITS}, or delete the pool");
                return Err(Refusal::invalid("permits", problem));
            }
            if self.queue.is_some() || self.kind.is_some() || self.by == CountBy::Key {
                let problem = "a pool is for all jobs that ask for its permits; leave queue, kind and by out";
                return Err(Refusal::invalid("permits", problem));
            }
        }
        if self.by == CountBy::All && !self.weights.is_empty() {
            return Err(Refusal::invalid("weights", "they are those of keys; count by key"));
        }
        if self.weights.len() > MOST_WEIGHTS {
            let (actual, limit) = (self.weights.len(), MOST_WEIGHTS);
            return Err(Refusal::TooLarge { field: "weights", actual, limit, unit: "keys" });
        }
        for (key, weight) in &self.weights {
            admit::name("weights", key, limits)?;
            if *weight == 0 || *weight > MOST_WEIGHT {
                let problem = format!("{weight} for {key:?}: give between 1 and {MOST_WEIGHT}");
                return Err(Refusal::invalid("weights", problem));
            }
        }
        Ok(())
    }
}

impl CountBy {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl RunRate {
    fn check(self) -> Result<(), Refusal> {
        if self.count == 0 {
            let problem = "a count of 0 would let nothing start; pause the queue, or give 1 or more";
            return Err(Refusal::invalid("rate", problem));
        }
        if self.count > MOST_RUNS {
            return Err(Refusal::invalid(
                "rate",
                format!("its count is at most {MOST_RUNS}; shorten its time"),
            ));
        }
        if self.per < Duration::from_millis(1) || self.per > LONGEST_RATE {
            return Err(Refusal::invalid("rate", "its time is between 1 ms and 366 days"));
        }
        Ok(())
    }
}

impl fmt::Display for RunRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.count, self.per)
    }
}

/// A limit as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLimitView {
    /// What it says.
    pub limit: RunLimit,
    /// What is used of it.
    pub used: RunUse,
    /// Pending jobs that it is about, whenever they are due.
    pub pending: u64,
    /// The moment of this view.
    pub now: Timestamp,
}

impl RunLimitView {
    /// How many more of its jobs it lets run now; none when it does not count all of them together.
    #[must_use]
    pub fn room(&self) -> Option<u64> {
        if self.limit.by == CountBy::Key {
            return None;
        }
        let at_once = self.limit.concurrency.map(|most| most.saturating_sub(self.used.running));
        let starts = self.limit.rate.map(|rate| self.used.bucket.left(rate, self.now));
        at_once.into_iter().chain(starts).min()
    }

    /// When it lets another job start: now, at a moment that its rate knows, or none where a run has to end first.
    #[must_use]
    pub fn next_start(&self) -> Option<Timestamp> {
        // Each key has room of its own.
        if self.limit.by == CountBy::Key {
            return Some(self.now);
        }
        let full = |most: u64| self.used.running >= most;
        let permits = self.limit.permits.map(|permits| self.used.permits >= u64::from(permits));
        if self.limit.concurrency.is_some_and(full) || permits == Some(true) {
            return None;
        }
        Some(self.limit.rate.map_or(self.now, |rate| self.used.bucket.next_start(rate, self.now)))
    }

    /// What a job waits for that it keeps from starting; none while it lets jobs start.
    #[must_use]
    pub fn holds(&self) -> Option<WaitDetail> {
        let next = self.next_start();
        let reason = if next.is_none() { WaitReason::Concurrency } else { WaitReason::Rate };
        let key = self.limit.name.to_string();
        self.is_full().then_some(WaitDetail { reason, key, holder: None, until: next, position: None })
    }

    /// How much of it is used, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let running = self.used.running;
        let at_once = self.limit.concurrency.map(|most| format!("{running} of {most} run"));
        let starts = self.limit.rate.map(|rate| {
            format!("{} of {} starts are left", self.used.bucket.left(rate, self.now), rate.count)
        });
        let permits =
            self.limit.permits.map(|permits| format!("{} of {permits} permits are held", self.used.permits));
        at_once.into_iter().chain(starts).chain(permits).collect::<Vec<_>>().join(", ")
    }

    /// True when it lets nothing start now.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.next_start().is_none_or(|next| next > self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_what_may_run_and_may_start() {
        // H5, H9
        let now = Timestamp::EPOCH.after(Duration::from_secs(1_000));
        let rate = RunRate { count: 10, per: Duration::from_secs(10) };
        let used = RunUse { running: 5, bucket: RunBucket::default().spend(rate, now, 8), permits: 0 };
        let rate = Some(rate);
        for (concurrency, rate, by, room) in [
            (Some(9), None, CountBy::All, Some(4)),
            (None, rate, CountBy::All, Some(2)),
            (Some(9), rate, CountBy::All, Some(2)),
            (Some(6), rate, CountBy::All, Some(1)),
            (Some(3), rate, CountBy::All, Some(0)),
            (None, None, CountBy::All, None),
            (Some(9), rate, CountBy::Key, None),
        ] {
            let limit = RunLimit { concurrency, rate, by, ..RunLimit::new("x") };
            let view = RunLimitView { limit, used, pending: 20, now };
            assert_eq!(view.room(), room, "{view:?}");
        }
    }
}
