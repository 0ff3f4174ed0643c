//! What is used of limits on runs (H5). The model counts on every question.

use backstop_core::Timestamp;
use backstop_core::job::State;
use backstop_core::run_limit::{RunLimit, RunLimitView, RunRooms, RunUse};

use super::tables::Tables;
use crate::{Claim, Drawer, run_limits};

impl Tables {
    fn used(&self, limit: &RunLimit) -> RunUse {
        let bucket = self.documents.get(&(Drawer::RunBuckets, limit.name.to_string()));
        let bucket = bucket.map(|(_, body)| run_limits::bucket(body)).unwrap_or_default();
        RunUse { running: self.covered(limit, State::Running), bucket }
    }

    fn covered(&self, limit: &RunLimit, state: State) -> u64 {
        let is_covered = |spec: &backstop_core::job::Spec| limit.covers(&spec.queue, &spec.kind);
        let jobs = self.jobs.values().filter(|row| row.record.state == state && is_covered(&row.job.spec));
        u64::try_from(jobs.count()).unwrap_or(u64::MAX)
    }

    pub(super) fn run_rooms(&self, claim: &Claim, now: Timestamp) -> RunRooms {
        RunRooms::new(claim.limits_in_reach().map(|limit| (limit.clone(), self.used(limit))), now)
    }

    pub(super) fn keep_buckets(&mut self, rooms: &RunRooms) {
        for (name, bucket) in rooms.spent() {
            let place = (Drawer::RunBuckets, name.to_string());
            let revision = self.documents.get(&place).map_or(0, |(revision, _)| *revision) + 1;
            self.documents.insert(place, (revision, run_limits::body(bucket)));
        }
    }

    pub(super) fn run_limits(&self, limits: Vec<RunLimit>, now: Timestamp) -> Vec<RunLimitView> {
        let view = |limit: RunLimit| {
            let (used, pending) = (self.used(&limit), self.covered(&limit, State::Pending));
            RunLimitView { limit, used, pending, now }
        };
        limits.into_iter().map(view).collect()
    }
}
