//! What is used of limits on runs (H5). The model counts on every question.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::job::{SharedResource, Spec, State};
use backstop_core::run_limit::{
    CountBy, KeyBucket, RunBucket, RunLimit, RunLimitView, RunRooms, RunUse, SharedHold, SharedRooms,
    SharedUse, SharingJob,
};

use super::claim::stacks_of;
use super::tables::{ModelJob, Tables};
use crate::sharing::{SharingWork, plan_all};
use crate::working_set::PermitRow;
use crate::{Claim, Drawer, run_limits};

impl Tables {
    fn used(&self, limit: &RunLimit) -> RunUse {
        let bucket = self.documents.get(&(Drawer::RunBuckets, limit.name.to_string()));
        let bucket = bucket.map(|(_, body)| run_limits::bucket(body)).unwrap_or_default();
        let held = self.shared_use().remove(&SharedResource::Pool(limit.name.clone())).unwrap_or_default();
        let permits = held.iter().map(|one| one.amount).sum();
        RunUse { running: self.covered(limit, State::Running), bucket, permits }
    }

    fn covered(&self, limit: &RunLimit, state: State) -> u64 {
        let has_key = |spec: &Spec| spec.needs.as_ref().is_some_and(|needs| needs.limit_key.is_some());
        let is_covered = |spec: &Spec| {
            let counts = if limit.by == CountBy::Key { has_key(spec) } else { limit.counts_all() };
            counts && limit.covers(&spec.queue, &spec.kind)
        };
        let jobs = self.jobs.values().filter(|row| row.record.state == state && is_covered(&row.job.spec));
        u64::try_from(jobs.count()).unwrap_or(u64::MAX)
    }

    pub(super) fn run_rooms(&self, claim: &Claim, now: Timestamp) -> RunRooms {
        RunRooms::new(claim.limits_in_reach().map(|limit| (limit.clone(), self.used(limit))), now)
    }

    pub(super) fn shared_rooms(&self, claim: &Claim, now: Timestamp) -> SharedRooms {
        SharedRooms::new(claim.sharing_limits().cloned(), self.shared_use(), self.key_buckets(), now)
    }

    /// What runs hold of what is shared.
    fn shared_use(&self) -> HashMap<SharedResource, Vec<SharedUse>> {
        let mut used: HashMap<SharedResource, Vec<SharedUse>> = HashMap::new();
        for row in self.jobs.values().filter(|row| row.record.state == State::Running) {
            for PermitRow { shared, lane, amount, id } in PermitRow::of(&row.job.spec) {
                let (queue, kind, amount) = (lane.queue, lane.kind, amount.into());
                let held = SharedUse { queue, kind, amount, job: id };
                used.entry(shared).or_default().push(held);
            }
        }
        used
    }

    fn key_buckets(&self) -> HashMap<KeyBucket, RunBucket> {
        let all = self.documents.iter().filter(|((drawer, _), _)| *drawer == Drawer::KeyBuckets);
        let read = |((_, key), (_, body)): (&(Drawer, String), &(i64, Arc<str>))| {
            let (limit, key) = key.split_once('\u{1}')?;
            Some(((limit.into(), key.into()), run_limits::bucket(body)))
        };
        all.filter_map(read).collect()
    }

    pub(super) fn keep_buckets(&mut self, limits: &RunRooms, shared: &SharedRooms) {
        let limits = limits.spent().into_iter();
        let limits = limits.map(|(name, bucket)| ((Drawer::RunBuckets, name.to_string()), bucket));
        let keys = shared.spent().iter();
        let keys = keys.map(|(of, bucket)| ((Drawer::KeyBuckets, run_limits::key_bucket(of)), *bucket));
        for (place, bucket) in limits.chain(keys).collect::<Vec<_>>() {
            let revision = self.documents.get(&place).map_or(0, |(revision, _)| *revision) + 1;
            self.documents.insert(place, (revision, run_limits::body(bucket)));
        }
    }

    pub(super) fn shared_holds(
        &self,
        jobs: &[SharingJob],
        limits: &[RunLimit],
        now: Timestamp,
    ) -> Vec<Option<SharedHold>> {
        let rooms = SharedRooms::new(limits.iter().cloned(), self.shared_use(), self.key_buckets(), now);
        jobs.iter().map(|job| rooms.hold(&job.queue, &job.kind, &job.needs)).collect()
    }

    pub(super) fn sharing_work(
        &self,
        queues: &[String],
        limits: &[RunLimit],
        most: usize,
        now: Timestamp,
    ) -> Vec<SharingWork> {
        let rooms = SharedRooms::new(limits.iter().cloned(), self.shared_use(), self.key_buckets(), now);
        let work = |queue: &String| {
            let is_open = |row: &ModelJob| *row.job.spec.queue == **queue && self.may_share(row, now);
            let open = || self.jobs.iter().map(|(id, row)| (*id, row)).filter(|(_, row)| is_open(row));
            let mut pending: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            for (_, row) in open() {
                *pending.entry(row.job.spec.kind.clone()).or_default() += 1;
            }
            let may_start = |row: &ModelJob| row.record.is_due(now) && !row.record.has_expired(now);
            let stacks = stacks_of(open().filter(|(_, row)| may_start(row)));
            let plan = plan_all(&stacks, &rooms, most);
            SharingWork::of(&Arc::from(queue.as_str()), pending, &stacks, &plan, most)
        };
        queues.iter().flat_map(work).collect()
    }

    pub(super) fn run_limits(&self, limits: Vec<RunLimit>, now: Timestamp) -> Vec<RunLimitView> {
        let view = |limit: RunLimit| {
            let pending = if limit.counts_all() { self.covered(&limit, State::Pending) } else { 0 };
            let used = self.used(&limit);
            RunLimitView { limit, used, pending, now }
        };
        limits.into_iter().map(view).collect()
    }
}
