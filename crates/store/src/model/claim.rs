//! Taking due jobs, and counting the start of those that were prefetched.

use backstop_core::event;
use backstop_core::job::Stale;
use backstop_core::run_limit::RunRooms;
use backstop_core::{Fence, JobId, Lease, Timestamp};

use super::tables::{ModelCommit, ModelJob, Tables};
use crate::{Claim, ClaimQueue, Claimed, ClaimedJob, Drawer, Error, Peek, run_limits};

impl Tables {
    pub(super) fn claim(&mut self, claim: &Claim, commit: &mut ModelCommit) -> Result<Claimed, Error> {
        self.expect_live(claim.worker, commit.now)?;
        let fence = Fence(self.latest_fence + 1);
        let mut claimed = Claimed::nothing(commit.now);
        let mut rooms = self.run_rooms(claim, commit.now);
        for wanted in &claim.queues {
            self.claim_queue(claim, wanted, fence, (&mut rooms, &mut claimed), commit);
        }
        if !claimed.jobs.is_empty() {
            self.latest_fence = fence.0;
        }
        self.keep_buckets(&rooms);
        claimed.held_until = rooms.held_until();
        Ok(claimed)
    }

    fn claim_queue(
        &mut self,
        claim: &Claim,
        wanted: &ClaimQueue,
        fence: Fence,
        (rooms, claimed): (&mut RunRooms, &mut Claimed),
        commit: &mut ModelCommit,
    ) {
        let (mut taken, mut at_once) = (0, 0);
        for id in self.candidates(claim, wanted, commit.now) {
            if taken == wanted.limit {
                return;
            }
            let Some(row) = self.jobs.get_mut(&id) else { continue };
            let spec = row.job.spec.clone();
            if rooms.left(&spec.queue, &spec.kind) == 0 {
                continue;
            }
            let started = at_once < wanted.start && row.record.starts_when_claimed();
            if row.record.claim(claim.worker, fence, commit.now, started).is_err() {
                continue;
            }
            if started {
                commit.events.push(event::started(row.job.spec.header(), row.record.runs, commit.now));
            }
            claimed.jobs.push(ClaimedJob {
                job: row.job.clone(),
                record: row.record.clone(),
                lease: Lease { job: id, worker: claim.worker, fence },
            });
            rooms.take(&spec.queue, &spec.kind);
            taken += 1;
            at_once += usize::from(started);
        }
    }

    /// What may be taken from one queue now, best first (L3).
    fn candidates(&self, claim: &Claim, wanted: &ClaimQueue, now: Timestamp) -> Vec<JobId> {
        let mut ranked: Vec<_> = self
            .reach(claim, wanted, now)
            .filter(|(_, row)| row.record.is_due(now))
            .map(|(id, row)| (claim.aging.rank(row.job.spec.priority, row.record.run_at), id))
            .collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, id)| id).collect()
    }

    /// The pending jobs, due or not, that a claim for this queue could take now or later.
    fn reach(
        &self,
        claim: &Claim,
        wanted: &ClaimQueue,
        now: Timestamp,
    ) -> impl Iterator<Item = (JobId, &ModelJob)> {
        let open = wanted.limit > 0 && !self.is_paused(&wanted.queue);
        self.jobs.iter().filter(move |_| open).map(|(id, row)| (*id, row)).filter(move |(_, row)| {
            let spec = &row.job.spec;
            let known = || claim.kinds.iter().any(|known| known.covers(&spec.kind, spec.version));
            row.record.state == backstop_core::job::State::Pending
                && !row.record.has_expired(now)
                && spec.queue == wanted.queue
                && (wanted.any_kind || known())
        })
    }

    pub(super) fn is_paused(&self, queue: &str) -> bool {
        self.paused_queues.get(queue).is_some_and(Option::is_some)
    }

    pub(super) fn peek(&self, claim: &Claim, now: Timestamp) -> Peek {
        let reached = claim.queues.iter().flat_map(|wanted| self.reach(claim, wanted, now));
        let limits = self.documents.get(&(Drawer::RunLimits, run_limits::KEY.to_owned()));
        let limits = limits.map_or(0, |(revision, _)| *revision);
        Peek { now, next_due: reached.map(|(_, row)| row.record.run_at).min(), limits }
    }

    pub(super) fn start(&mut self, leases: &[Lease], commit: &mut ModelCommit) -> Vec<Result<(), Stale>> {
        leases.iter().map(|lease| self.start_one(lease, commit)).collect()
    }

    fn start_one(&mut self, lease: &Lease, commit: &mut ModelCommit) -> Result<(), Stale> {
        let row = self.leased(lease, commit.now)?;
        let runs_before = row.record.runs;
        row.record.start(lease, commit.now)?;
        if row.record.runs > runs_before {
            commit.events.push(event::started(row.job.spec.header(), row.record.runs, commit.now));
        }
        Ok(())
    }
}
