//! The loop that renews the worker's one lease and learns which runs it has lost.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::Error as StoreError;
use tokio::time::Instant;

use super::runtime::{RunningWorker, lock};
use crate::loops::LoopHeartbeat;

/// How often a worker with runs under way asks whether they were canceled elsewhere.
const CANCEL_CHECK: Duration = Duration::from_secs(1);

impl RunningWorker {
    /// Runs until the worker is gone.
    pub(crate) async fn heartbeat(self: Arc<Self>, heartbeat: &LoopHeartbeat) {
        let lease = self.executor.times.lease;
        let mut renewed = Instant::now();
        // When the lease was last renewed is not known to a loop that was started again.
        let mut overdue = heartbeat.restarts() > 0;
        loop {
            heartbeat.record();
            tokio::time::sleep((lease / 3).min(CANCEL_CHECK)).await;
            // An idle worker says nothing that it need not say.
            if !overdue && lock(&self.running).is_empty() && renewed.elapsed() < lease / 3 {
                continue;
            }
            // The answer may be slow; what counts is that the lease was surely alive when we asked.
            let asked = Instant::now();
            match self.store().renew(self.id(), lease, self.held()).await {
                Ok(answer) => {
                    (renewed, overdue) = (asked, false);
                    self.lose(&answer.lost);
                }
                Err(StoreError::NotEnlisted { .. }) => self.enlist_again().await,
                Err(error) => {
                    heartbeat.warn(&error, || {
                        tracing::warn!(%error, "cannot renew the lease; trying again");
                    });
                    if renewed.elapsed() >= lease {
                        // Others may run these jobs by now. Their ends would be refused: stop wasting work.
                        self.lose_everything();
                    }
                }
            }
        }
    }

    fn lose(&self, lost: &[backstop_core::Lease]) {
        for lease in lost {
            if let Some(run) = lock(&self.running).get(&lease.job).filter(|run| run.lease == *lease) {
                run.canceled.cancel();
            }
            for queue in &self.queues {
                lock(&queue.buffer).retain(|claimed| claimed.lease != *lease);
            }
            self.quarantine.lose(*lease);
        }
    }
}
