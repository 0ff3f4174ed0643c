//! Limits on runs (H5): locked while a claim takes jobs under them.
//!
//! The lock is the document of the bucket. What runs is counted after it is held, so that what the claim before it took
//! is seen; whoever ends a run needs no lock, and is at worst counted as running for a moment longer.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::job::SharedResource;
use backstop_core::run_limit::{CountBy, RunBucket, RunLimit, RunLimitView, RunRooms, RunUse, SharedUse};
use backstop_store::{Claim, Drawer, run_limits};

use crate::columns::Columns;
use crate::failure::SqlFailure;
use crate::row::{Row, moment_of};
use crate::session::Session as _;
use crate::sharing;
use crate::statement::{Request, Statement};
use crate::transaction::Transaction;

/// What the limits of a claim leave room for, and the documents that say what their rates have left.
pub struct LockedLimits {
    /// What may be taken.
    pub rooms: RunRooms,
    revisions: HashMap<Arc<str>, i64>,
}

/// Locks the limits that a claim may meet.
///
/// # Errors
/// Those of the connection.
pub async fn lock(tx: &mut Transaction, claim: &Claim) -> Result<LockedLimits, SqlFailure> {
    let limits: Vec<RunLimit> = claim.limits_in_reach().cloned().collect();
    if limits.is_empty() {
        let rooms = RunRooms::new([], backstop_core::Timestamp::EPOCH);
        return Ok(LockedLimits { rooms, revisions: HashMap::new() });
    }
    // What runs is counted by a statement of its own, which begins when the locks are held.
    let requests = vec![tx.clock(), Statement::LockDocumentBodies.rows(places(&limits)), ask_counts(&limits)];
    let mut answers = tx.ask_all(requests).await?.into_iter();
    let now = moment_of(answers.next().unwrap_or_default())?;
    let (mut revisions, mut buckets) = (HashMap::new(), HashMap::new());
    for mut row in answers.next().unwrap_or_default() {
        let (name, revision): (Arc<str>, _) = (row.text()?.into(), row.int()?);
        let body = row.text_if_any()?.unwrap_or_default();
        revisions.insert(name.clone(), revision);
        buckets.insert(name, run_limits::bucket(&body));
    }
    let mut counts = answers.next().unwrap_or_default();
    let missing: Vec<&RunLimit> =
        limits.iter().filter(|limit| !revisions.contains_key(&limit.name)).collect();
    if !missing.is_empty() {
        // Whoever else makes one of them at the same moment is waited for; then this transaction begins again.
        let mut new = Columns::default();
        for limit in missing {
            new.row().text(Drawer::RunBuckets.as_str()).text(&limit.name).int(1).text("0");
            revisions.insert(limit.name.clone(), 1);
        }
        tx.ask(Statement::InsertDocuments.rows(new)).await?;
        counts = tx.ask(ask_counts(&limits)).await?;
    }
    let used = counted(counts, &limits, &buckets)?;
    let rooms = RunRooms::new(limits.into_iter().zip(used.into_iter().map(|(used, _)| used)), now);
    Ok(LockedLimits { rooms, revisions })
}

impl LockedLimits {
    /// Writes what rates have left.
    #[must_use]
    pub fn keep(&self) -> Request {
        let mut changed = Columns::default();
        for (name, bucket) in self.rooms.spent() {
            let revision = self.revisions.get(&name).copied().unwrap_or_default() + 1;
            let mut row = changed.row();
            row.text(Drawer::RunBuckets.as_str()).text(&name).int(revision).text(&run_limits::body(bucket));
        }
        Statement::SaveDocuments.rows(changed)
    }
}

/// Where the buckets are, in the order in which they are locked: two claims never wait for each other.
fn places(limits: &[RunLimit]) -> Columns {
    let mut names: Vec<&str> = limits.iter().map(|limit| &*limit.name).collect();
    names.sort_unstable();
    let mut places = Columns::default();
    for name in names {
        places.row().text(Drawer::RunBuckets.as_str()).text(name);
    }
    places
}

/// The queue and the kind that a limit is about, each empty for all.
fn scope(limit: &RunLimit) -> (String, String) {
    let name = |name: &Option<Arc<str>>| name.as_deref().unwrap_or_default().to_owned();
    (name(&limit.queue), name(&limit.kind))
}

/// Asks what runs and what is pending under limits.
fn ask_counts(limits: &[RunLimit]) -> Request {
    let mut scopes: Vec<(String, String)> = limits.iter().map(scope).collect();
    scopes.sort_unstable();
    scopes.dedup();
    let mut wanted = Columns::default();
    for (queue, kind) in &scopes {
        wanted.row().text(queue).text(kind);
    }
    Statement::RunCounts.rows(wanted)
}

/// What is used of limits, and how many pending jobs they are about, in their order.
fn counted(
    rows: Vec<Row>,
    limits: &[RunLimit],
    buckets: &HashMap<Arc<str>, RunBucket>,
) -> Result<Vec<(RunUse, u64)>, SqlFailure> {
    let mut counts: HashMap<(String, String), (u64, u64)> = HashMap::new();
    for mut row in rows {
        let of = (row.text()?, row.text()?);
        let mut count = || row.int().map(|number| u64::try_from(number).unwrap_or_default());
        counts.insert(of, (count()?, count()?));
    }
    let used = |limit: &RunLimit| {
        let (running, pending) = counts.get(&scope(limit)).copied().unwrap_or_default();
        let bucket = buckets.get(&limit.name).copied().unwrap_or_default();
        (RunUse { running, bucket, permits: 0 }, pending)
    };
    Ok(limits.iter().map(used).collect())
}

/// What is used of limits.
pub(crate) async fn views(
    tx: &mut Transaction,
    limits: &[RunLimit],
) -> Result<Vec<RunLimitView>, SqlFailure> {
    if limits.is_empty() {
        return Ok(Vec::new());
    }
    let now = tx.now().await?;
    let mut buckets = HashMap::new();
    for mut row in tx.ask(Statement::DocumentBodies.rows(places(limits))).await? {
        buckets.insert(row.text()?.into(), run_limits::bucket(&row.text_if_any()?.unwrap_or_default()));
    }
    let counts = tx.ask(ask_counts(limits)).await?;
    let used = counted(counts, limits, &buckets)?;
    let by_key = limits.iter().any(|limit| limit.by == CountBy::Key);
    let keys = sharing::held(tx, by_key.then(sharing::all_keys)).await?;
    let pools = limits.iter().filter(|limit| limit.permits.is_some()).map(|limit| sharing::pool(&limit.name));
    let pools = sharing::held(tx, pools.collect::<Vec<_>>()).await?;
    let view = |(limit, (mut used, mut pending)): (&RunLimit, (RunUse, u64))| {
        if !limit.counts_all() {
            let counts = |one: &SharedUse| limit.by == CountBy::Key && limit.covers(&one.queue, &one.kind);
            used.running = keys.iter().filter(|(_, one)| counts(one)).map(|(_, one)| one.amount).sum();
            pending = 0;
        }
        let of_pool = pools.iter().filter(|(pool, _)| *pool == SharedResource::Pool(limit.name.clone()));
        used.permits = of_pool.map(|(_, one)| one.amount).sum();
        RunLimitView { limit: limit.clone(), used, pending, now }
    };
    Ok(limits.iter().zip(used).map(view).collect())
}
