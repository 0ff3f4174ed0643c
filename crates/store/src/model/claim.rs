//! Taking due jobs, and counting the start of those that were prefetched.

use std::collections::BTreeMap;

use backstop_core::event;
use backstop_core::job::Stale;
use backstop_core::run_limit::{RunRooms, SharedRooms};
use backstop_core::{Fence, JobId, Lease, Timestamp};

use super::tables::{ModelCommit, ModelJob, Tables};
use crate::sharing::{self, KeyedJobs, TurnInput};
use crate::working_set::{LaneKey, lane_of};
use crate::{Claim, ClaimQueue, Claimed, ClaimedJob, Drawer, Error, Peek, run_limits};

/// A claim of one queue under way.
struct Taking<'a> {
    claim: &'a Claim,
    fence: Fence,
    taken: usize,
    to_start: usize,
}

impl Taking<'_> {
    fn take(&mut self, row: &mut ModelJob, claimed: &mut Claimed, commit: &mut ModelCommit) {
        let (worker, fence) = (self.claim.worker, self.fence);
        let started = self.to_start > 0 && row.record.starts_when_claimed();
        if row.record.claim(worker, fence, commit.now, started).is_err() {
            return;
        }
        if started {
            commit.events.push(event::started(row.job.spec.header(), row.record.runs, commit.now));
        }
        claimed.jobs.push(ClaimedJob {
            job: row.job.clone(),
            record: row.record.clone(),
            lease: Lease { job: row.job.spec.id, worker, fence },
        });
        self.taken += 1;
        self.to_start -= usize::from(started);
    }
}

impl Tables {
    pub(super) fn claim(&mut self, claim: &Claim, commit: &mut ModelCommit) -> Result<Claimed, Error> {
        self.expect_live(claim.worker, commit.now)?;
        let fence = Fence(self.latest_fence + 1);
        let mut claimed = Claimed::nothing(commit.now);
        let mut rooms = self.run_rooms(claim, commit.now);
        let mut shared = self.shared_rooms(claim, commit.now);
        for wanted in &claim.queues {
            self.claim_queue(claim, wanted, fence, (&mut rooms, &mut shared, &mut claimed), commit);
        }
        if !claimed.jobs.is_empty() {
            self.latest_fence = fence.0;
        }
        self.keep_buckets(&rooms, &shared);
        claimed.held_until = rooms.held_until().into_iter().chain(shared.held_until()).min();
        Ok(claimed)
    }

    fn claim_queue(
        &mut self,
        claim: &Claim,
        wanted: &ClaimQueue,
        fence: Fence,
        (limits, rooms, claimed): (&mut RunRooms, &mut SharedRooms, &mut Claimed),
        commit: &mut ModelCommit,
    ) {
        let stacks = self.stacks(claim, wanted, commit.now);
        let last = self.turns.of(&wanted.queue);
        let turns = |limit, most_sharing, with_plain, limits: &RunRooms, rooms: &SharedRooms| {
            let (stacks, last, aging) = (&*stacks, &*last, claim.aging);
            sharing::plan(&TurnInput { stacks, last, limit, most_sharing, with_plain, aging, limits, rooms })
        };
        let first = turns(wanted.limit, wanted.start, true, limits, rooms);
        let to_start = wanted.start - first.jobs.len();
        let mut run = Taking { claim, fence, taken: 0, to_start };
        for id in self.candidates(claim, wanted, commit.now) {
            if run.taken == first.plain {
                break;
            }
            let Some(row) = self.jobs.get_mut(&id) else { continue };
            let spec = &row.job.spec;
            if limits.left(&spec.queue, &spec.kind) == 0 {
                continue;
            }
            limits.take(&spec.queue, &spec.kind);
            run.take(row, claimed, commit);
        }
        let by_plan = run.taken == first.plain;
        run.to_start += first.jobs.len();
        let rest = turns(wanted.limit - run.taken, run.to_start, false, limits, rooms);
        for (stack, head) in &rest.jobs {
            if let Some(row) = self.jobs.get_mut(&stacks[*stack].heads[*head].1) {
                run.take(row, claimed, commit);
            }
        }
        if let Some(last) = if by_plan { &first.last } else { &rest.last } {
            self.turns.note(&wanted.queue, last);
        }
        (*limits, *rooms) = (rest.limits, rest.rooms);
    }

    /// The due jobs of one queue that share something, by lane and turn key.
    fn stacks(&self, claim: &Claim, wanted: &ClaimQueue, now: Timestamp) -> Vec<KeyedJobs> {
        stacks_of(self.reach(claim, wanted, now).filter(|(_, row)| row.record.is_due(now)))
    }

    /// What may be taken from one queue now, best first (L3).
    fn candidates(&self, claim: &Claim, wanted: &ClaimQueue, now: Timestamp) -> Vec<JobId> {
        let mut ranked: Vec<_> = self
            .reach(claim, wanted, now)
            .filter(|(_, row)| row.record.is_due(now) && row.job.spec.needs.is_none())
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

/// Those of these jobs that share something, by lane and turn key.
pub(super) fn stacks_of<'a>(jobs: impl Iterator<Item = (JobId, &'a ModelJob)>) -> Vec<KeyedJobs> {
    let mut stacks: BTreeMap<(LaneKey, String), KeyedJobs> = BTreeMap::new();
    for (id, row) in jobs {
        let (spec, run_at) = (&row.job.spec, row.record.run_at);
        let Some(needs) = &spec.needs else { continue };
        let stack = stacks.entry((lane_of(spec), needs.turn_key())).or_insert_with(|| KeyedJobs {
            lane: 0,
            queue: spec.queue.clone(),
            kind: spec.kind.clone(),
            priority: spec.priority,
            key: needs.turn_key().into(),
            needs: (**needs).clone(),
            heads: Vec::new(),
            more: false,
        });
        stack.heads.push((run_at, id));
    }
    stacks.values_mut().for_each(|stack| stack.heads.sort_unstable());
    stacks.into_values().collect()
}
