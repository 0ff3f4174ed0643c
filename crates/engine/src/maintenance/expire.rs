//! Fails what could not start in time, also on queues that nobody serves (L19).
//!
//! One job that the store refuses to fail holds up no other (C7): its batch is tried in halves until it is alone. Then
//! it is passed by for a while; claims pass it by anyway.

use std::collections::HashSet;
use std::time::Duration;

use backstop_store::{Error as StoreError, Overdue, Term, WorkStore};
use tokio::time::Instant;

use super::BATCH;
use crate::loops::LoopHeartbeat;
use crate::run::write::refused_for_good;

/// How long a job that cannot be failed is passed by before it is tried again.
const REST: Duration = Duration::from_secs(600);

/// How many of one round may be found that cannot be failed: each costs some tries, and the next round goes on.
const MOST_REFUSED: usize = 32;

/// The jobs that the store refuses to fail.
#[derive(Debug, Default)]
pub(super) struct PassedBy {
    jobs: HashSet<Overdue>,
    /// When the first of them was found.
    since: Option<Instant>,
}

impl PassedBy {
    /// Forgets all of them after a while: somebody may have mended them.
    fn refresh(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now.duration_since(since) >= REST) {
            *self = Self::default();
        }
    }

    fn add(&mut self, overdue: Overdue, now: Instant) {
        self.jobs.insert(overdue);
        self.since.get_or_insert(now);
    }
}

/// Fails everything that is overdue, but for what is `passed_by`.
pub(super) async fn expire(
    store: &dyn WorkStore,
    term: Term,
    passed_by: &mut PassedBy,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    passed_by.refresh(Instant::now());
    let known = passed_by.jobs.len();
    let mut last = None;
    loop {
        heartbeat.record();
        let page = store.overdue(last, BATCH).await?;
        let (found, newest) = (page.len(), page.last().copied());
        let wanted = page.into_iter().filter(|overdue| !passed_by.jobs.contains(overdue)).collect();
        let expired = fail(store, term, wanted, passed_by, heartbeat).await?;
        if expired > 0 {
            // Each of them has its own line (F12).
            tracing::info!(expired, "jobs could not start in time");
        }
        if found < BATCH || passed_by.jobs.len() >= known + MOST_REFUSED {
            return Ok(());
        }
        last = newest;
    }
}

/// Fails these, in halves around those that the store refuses; says how many.
async fn fail(
    store: &dyn WorkStore,
    term: Term,
    overdue: Vec<Overdue>,
    passed_by: &mut PassedBy,
    heartbeat: &LoopHeartbeat,
) -> Result<usize, StoreError> {
    let (mut batches, mut expired) = (vec![overdue], 0);
    let most = passed_by.jobs.len() + MOST_REFUSED;
    while let Some(mut batch) = batches.pop() {
        if batch.is_empty() || passed_by.jobs.len() >= most {
            continue;
        }
        heartbeat.record();
        match store.expire(term, batch.clone()).await {
            Ok(count) => expired += count,
            Err(error) if !refused_for_good(&error) => return Err(error),
            Err(error) if batch.len() == 1 => {
                for refused in batch {
                    tracing::error!(job = %refused.job, %error, cause = "engine_fault",
                        "the store refuses to fail a job that could not start in time: it is passed by, and tried \
                         again in ten minutes");
                    passed_by.add(refused, Instant::now());
                }
            }
            Err(_) => {
                let rest = batch.split_off(batch.len() / 2);
                batches.extend([rest, batch]);
            }
        }
    }
    Ok(expired)
}
