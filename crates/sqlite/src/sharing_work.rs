//! What could start of jobs that share something: for those who ask how many workers there should be, and take nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::run_limit::{RunLimit, SharingJob};
use backstop_store::NameRange;
use backstop_store::sharing::{KeyedJobs, SharingWork, plan_all};

use crate::error::SqliteFailure;
use crate::query::Snapshot;
use crate::rows::LaneRow;
use crate::sharing::{heads, look, rooms};
use crate::worker;

/// How many pending jobs of queues share something, and how many of them could start now (H9).
pub(crate) fn work(
    snapshot: &mut Snapshot<'_>,
    queues: &[String],
    limits: &[RunLimit],
    most: usize,
) -> Result<Vec<SharingWork>, SqliteFailure> {
    let (conn, now) = (snapshot.conn, snapshot.now);
    let roster = worker::roster(conn, now)?;
    let mut work = Vec::new();
    for queue in queues {
        let (mut pending, mut lanes) = (BTreeMap::<Arc<str>, u64>::new(), Vec::new());
        for counts in snapshot.lane_counts(&NameRange::one(queue))? {
            if counts.lane.shares && counts.is_open(&roster) {
                *pending.entry(counts.lane.kind.clone()).or_default() += counts.jobs.pending;
                lanes.push(Arc::new(LaneRow::new(counts.id, counts.lane)));
            }
        }
        let mut stacks = look(conn, now, &lanes, "")?;
        let jobs: Vec<SharingJob> = stacks.iter().map(KeyedJobs::job).collect();
        let left = rooms(conn, snapshot.lanes, limits, &jobs, now)?;
        let plan = loop {
            let plan = plan_all(&stacks, &left, most);
            if plan.needs_more.is_empty() {
                break plan;
            }
            for (place, wanted) in &plan.needs_more {
                let stack = &mut stacks[*place];
                stack.heads = heads(conn, now, stack.lane, &stack.key, *wanted)?;
                stack.more = stack.heads.len() == *wanted;
            }
        };
        work.extend(SharingWork::of(&Arc::from(queue.as_str()), pending, &stacks, &plan, most));
    }
    Ok(work)
}
