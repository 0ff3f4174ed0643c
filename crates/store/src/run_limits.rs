//! Limits on runs (H5), as stores keep and follow them.
//!
//! All limits are in one document, so that its revision says whether any of them has changed: a look for work answers
//! it, and whoever claims reads the document again only then. What the rate of a limit has left is in a document of its
//! own. It is locked while a claim takes jobs under that limit, whether or not it has a rate: so of all claims that a
//! limit is about, one decides at a time, and sees what the one before it took.

use std::sync::Arc;

use backstop_core::run_limit::{KeyBucket, RunBucket, RunLimit, RunRooms};

use crate::{Claim, ClaimQueue};

/// The key of the document that has all limits.
pub const KEY: &str = "all";

/// The name in the drawer of buckets whose lock is held while jobs with a `single_instance` are taken. No limit can
/// have it.
pub const INSTANCES: &str = "\u{1}instances";

/// The key of the document that says what the rate of a limit has left for a key.
#[must_use]
pub fn key_bucket((limit, key): &KeyBucket) -> String {
    format!("{limit}\u{1}{key}")
}

/// Reads a bucket as it is kept. What cannot be read is a full one: a limit that stops everything would be worse than
/// one that lets too much go once.
#[must_use]
pub fn bucket(body: &str) -> RunBucket {
    body.parse().map(RunBucket::from_nanos).unwrap_or_default()
}

/// A bucket as it is kept.
#[must_use]
pub fn body(bucket: RunBucket) -> Arc<str> {
    bucket.as_nanos().to_string().into()
}

/// A piece of a claim that may be taken in one go, best first, without a look at each job: none of the limits can be
/// exceeded by it.
#[derive(Debug, Clone)]
pub struct ClaimPart {
    /// The claim, for the kinds that have room.
    pub claim: Claim,
    /// True when limits have made it smaller: when it was filled, there may be more to take.
    pub limited: bool,
}

impl ClaimPart {
    /// What may be taken next of a queue, `most` jobs at most; none when that is nothing.
    #[must_use]
    pub fn of(claim: &Claim, queue: &ClaimQueue, rooms: &RunRooms, most: usize) -> Option<Self> {
        let left = |kind: &str| usize::try_from(rooms.left(&queue.queue, kind)).unwrap_or(usize::MAX);
        let open: Vec<_> = claim.kinds.iter().filter(|known| left(&known.kind) > 0).cloned().collect();
        let closed = open.len() < claim.kinds.len();
        // A kind that nobody knows is covered by limits on the queue alone.
        let any_kind = queue.any_kind && !closed && left("") > 0;
        if open.is_empty() && !any_kind {
            return None;
        }
        let room = open.iter().map(|known| left(&known.kind)).chain(any_kind.then(|| left(""))).min();
        let limit = queue.limit.min(most).min(room.unwrap_or_default());
        let wanted =
            ClaimQueue { queue: queue.queue.clone(), limit, start: queue.start.min(limit), any_kind };
        let limited = closed || limit < queue.limit.min(most);
        let claim = Claim { queues: vec![wanted], kinds: open.into(), ..claim.clone() };
        (limit > 0).then_some(Self { claim, limited })
    }
}

/// The queues of a claim that no limit is about, and those that some may be about.
#[must_use]
pub fn part_queues<'a>(
    limits: &[&RunLimit],
    queues: &[&'a ClaimQueue],
) -> (Vec<&'a ClaimQueue>, Vec<&'a ClaimQueue>) {
    let is_free = |wanted: &&ClaimQueue| !limits.iter().any(|limit| limit.may_cover_queue(&wanted.queue));
    queues.iter().copied().partition(is_free)
}
