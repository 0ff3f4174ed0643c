//! What `claim` and `peek` take and answer.

use std::sync::Arc;

use backstop_core::job::{Aging, Record, StoredJob};
use backstop_core::run_limit::{CountBy, RunLimit};
use backstop_core::{Lease, Timestamp, WorkerId};

use crate::KnownKind;

/// A worker's request for work.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Who asks.
    pub worker: WorkerId,
    /// Where it has room.
    pub queues: Vec<ClaimQueue>,
    /// What it can run.
    pub kinds: Arc<[KnownKind]>,
    /// How waiting counts against priority.
    pub aging: Aging,
    /// How runs are limited (H5): what these leave no room for is not taken. See [`crate::run_limits`].
    pub limits: Arc<[RunLimit]>,
}

impl Claim {
    /// The limits that may be about what it asks for.
    pub fn limits_in_reach(&self) -> impl Iterator<Item = &RunLimit> {
        let asked = |limit: &&RunLimit| {
            let mut open = self.queues.iter().filter(|wanted| wanted.limit > 0);
            let known = |kind: &str| self.kinds.iter().any(|known| *known.kind == *kind);
            open.any(|wanted| {
                limit.may_cover_queue(&wanted.queue)
                    && limit.kind.as_deref().is_none_or(|kind| wanted.any_kind || known(kind))
            })
        };
        self.limits.iter().filter(|limit| limit.counts_all()).filter(asked)
    }

    /// The limits on what jobs share (H5, H6): those by key, and pools.
    pub fn sharing_limits(&self) -> impl Iterator<Item = &RunLimit> {
        self.limits.iter().filter(|limit| limit.by == CountBy::Key || limit.permits.is_some())
    }
}

/// Room in one queue.
#[derive(Debug, Clone)]
pub struct ClaimQueue {
    /// Which queue.
    pub queue: Arc<str>,
    /// Jobs to take at most.
    pub limit: usize,
    /// How many of them start at once; the rest is prefetched and started by `WorkStore::start` (C2, C5). So is every
    /// suspect, and it takes no place of those that start at once (C3): see `Record::starts_when_claimed`.
    pub start: usize,
    /// True to take kinds that the worker does not know too, for a queue that fails them (H10).
    pub any_kind: bool,
}

/// What a claim took.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The jobs, in the order of the queues asked for and of their rank.
    pub jobs: Vec<ClaimedJob>,
    /// The store's clock at the claim.
    pub now: Timestamp,
    /// Set when a limit has no room left (H5): the earliest moment at which one of them lets another job start, or
    /// `Timestamp::MAX` when a run has to end first.
    pub held_until: Option<Timestamp>,
}

impl Claimed {
    /// A claim that took nothing.
    #[must_use]
    pub const fn nothing(now: Timestamp) -> Self {
        Self { jobs: Vec::new(), now, held_until: None }
    }
}

/// One job that a worker now holds.
#[derive(Debug, Clone)]
pub struct ClaimedJob {
    /// What was submitted.
    pub job: Arc<StoredJob>,
    /// Its record, after the claim.
    pub record: Record,
    /// The right to write about it.
    pub lease: Lease,
}

impl ClaimedJob {
    /// Follows a start that `WorkStore::start` has counted; false when the lease is not this job's hold.
    pub fn note_started(&mut self) -> bool {
        let since = self.record.hold.map(|hold| hold.claimed_at);
        since.is_some_and(|moment| self.record.start(&self.lease, moment).is_ok())
    }

    /// True when its run has been counted and its handler may start (C5).
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.record.hold.is_some_and(|hold| hold.started_at.is_some())
    }
}

/// What a claim would find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peek {
    /// The store's clock.
    pub now: Timestamp,
    /// When the earliest job that this worker could take is or becomes due; none when there is none.
    pub next_due: Option<Timestamp>,
    /// The revision of the document of limits (H5), 0 when there is none: see [`crate::run_limits`].
    pub limits: i64,
}

impl Peek {
    /// True when a claim would find work now.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.next_due.is_some_and(|due| due <= self.now)
    }
}
