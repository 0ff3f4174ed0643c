//! Which jobs of each batch are done with, so that the row of a batch goes when its last job does.
//!
//! Every node counts what it hears of. When the jobs of a batch end on several nodes, none of them counts to the end:
//! then the row runs out by its lease and maintenance forgets it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_core::{JobId, WorkerId};
use tokio::time::Instant;

use super::work::Grant;

/// How long a batch is remembered after the last word about it.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// How many batches make it worth looking for those that nobody will speak of again.
const MANY: usize = 1_024;

/// Batches of which some jobs are done with and some are not.
#[derive(Debug, Default)]
pub(super) struct Batches(Mutex<HashMap<WorkerId, Batch>>);

#[derive(Debug)]
struct Batch {
    gone: HashSet<JobId>,
    heard: Instant,
}

impl Batches {
    /// Notes jobs that their batches hold no longer, and answers the batches that hold none any more.
    pub(super) fn gone<'a>(&self, grants: impl IntoIterator<Item = &'a Grant>) -> Vec<WorkerId> {
        let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut empty = Vec::new();
        for grant in grants {
            let id = grant.lease.worker;
            let batch = batches.entry(id).or_insert_with(|| Batch { gone: HashSet::new(), heard: now });
            batch.heard = now;
            batch.gone.insert(grant.lease.job);
            if u32::try_from(batch.gone.len()).is_ok_and(|gone| gone >= grant.batch) {
                batches.remove(&id);
                empty.push(id);
            }
        }
        if batches.len() > MANY {
            batches.retain(|_, batch| now.duration_since(batch.heard) < REMEMBERED);
        }
        empty
    }
}

#[cfg(test)]
mod tests {
    use backstop_core::{Fence, Lease, Timestamp};

    use super::*;

    fn grant(job: u128, worker: u128, batch: u32) -> Grant {
        Grant {
            lease: Lease { job: JobId::from_u128(job), worker: WorkerId::from_u128(worker), fence: Fence(1) },
            queue: "default".into(),
            claimed_at: Timestamp::from_micros(0),
            term: Duration::from_secs(30),
            batch,
            code_version: None,
            circuit: None,
        }
    }

    #[test]
    fn a_batch_is_empty_when_each_of_its_jobs_is_gone() {
        let batches = Batches::default();
        assert_eq!(batches.gone(&[grant(1, 7, 1)]), [WorkerId::from_u128(7)]);
        assert!(batches.gone(&[grant(1, 8, 2), grant(1, 8, 2)]).is_empty(), "one job told twice is one");
        assert!(batches.gone(&[grant(5, 9, 2)]).is_empty(), "another batch");
        assert_eq!(batches.gone(&[grant(2, 8, 2)]), [WorkerId::from_u128(8)]);
        assert_eq!(batches.0.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_speaks_of_is_not_remembered_for_ever() {
        let batches = Batches::default();
        for worker in 0..=MANY as u128 {
            batches.gone(&[grant(1, worker, 2)]);
        }
        tokio::time::advance(REMEMBERED).await;
        batches.gone(&[grant(1, u128::MAX, 2)]);
        assert_eq!(batches.0.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    }
}
