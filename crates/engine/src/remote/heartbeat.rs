//! Heartbeats: they keep what they name, and tell what is lost and why.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_core::job::{JobDetail, State};
use backstop_core::{Lease, Timestamp, WorkerId};
use backstop_store::Error as StoreError;

use super::Remote;
use super::work::{Grant, RemoteWorker};

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenewedLeases {
    /// The leases that are still held.
    pub held: Vec<Lease>,
    /// Those that are not.
    pub lost: Vec<LostLease>,
    /// Until when all that is held is safe; none when nothing is.
    pub expires_at: Option<Timestamp>,
}

/// A lease that is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostLease {
    /// Which one.
    pub lease: Lease,
    /// Why.
    pub reason: LostReason,
}

/// Why a lease is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostReason {
    /// Somebody called the job off: the run should stop.
    Canceled,
    /// The run has ended, or the lease ran out and the job is somebody else's.
    Stale,
}

impl Remote {
    /// Keeps leases, each for as long as its claim asked for.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn heartbeat(
        &self,
        worker: &RemoteWorker,
        grants: Vec<Grant>,
    ) -> Result<RenewedLeases, StoreError> {
        let mut batches: BTreeMap<WorkerId, (Duration, Vec<Lease>)> = BTreeMap::new();
        for grant in &grants {
            let batch = batches.entry(grant.lease.worker).or_insert((grant.term, Vec::new()));
            batch.1.push(grant.lease);
        }
        let mut answer = RenewedLeases::default();
        let (mut lost, mut longest) = (Vec::new(), Duration::ZERO);
        for (batch, (term, leases)) in batches {
            match self.parts.store.renew(batch, term, leases.clone()).await {
                Ok(renewed) => {
                    let held = leases.into_iter().filter(|lease| !renewed.lost.contains(lease));
                    let before = answer.held.len();
                    answer.held.extend(held);
                    if answer.held.len() > before {
                        let until =
                            answer.expires_at.map_or(renewed.expires_at, |at| at.min(renewed.expires_at));
                        answer.expires_at = Some(until);
                        longest = longest.max(term);
                    }
                    lost.extend(renewed.lost);
                }
                Err(StoreError::NotEnlisted { .. }) => lost.extend(leases),
                Err(error) => return Err(error),
            }
        }
        if !answer.held.is_empty() {
            self.busy(worker, longest).await;
            self.heed_patience(worker).await?;
        }
        let gone: Vec<&Grant> = grants.iter().filter(|grant| lost.contains(&grant.lease)).collect();
        self.let_go(gone.iter().copied()).await;
        answer.lost = self.reasons(&gone).await?;
        Ok(answer)
    }

    async fn reasons(&self, lost: &[&Grant]) -> Result<Vec<LostLease>, StoreError> {
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let details = self.parts.store.jobs(lost.iter().map(|grant| grant.lease.job).collect()).await?;
        let mut reasons = Vec::with_capacity(lost.len());
        for (grant, detail) in lost.iter().zip(details) {
            let reason = match detail {
                Some(detail) if self.settle_canceled(grant, &detail).await => LostReason::Canceled,
                _ => LostReason::Stale,
            };
            reasons.push(LostLease { lease: grant.lease, reason });
        }
        Ok(reasons)
    }

    /// Gives the try back of a run that was canceled, and answers whether it was. Of one that was taken back, whoever
    /// took it back has done that.
    pub(super) async fn settle_canceled(&self, grant: &Grant, detail: &JobDetail) -> bool {
        let record = &detail.view.record;
        let canceled = record.state == State::Canceled && record.fence == grant.lease.fence;
        if canceled {
            self.parts.give_try_back(grant.circuit, &detail.view.job.spec).await;
        }
        canceled
    }
}
