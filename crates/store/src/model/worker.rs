//! Workers: who is there, until when, and what the dead ones left behind.

use std::time::Duration;

use backstop_core::{JobId, Lease, Timestamp, WorkerId};

use super::tables::{ModelCommit, ModelWorker, Tables};
use crate::{Error, HandedRun, NewWorker, Orphan, Renewed, WorkerView};

impl Tables {
    pub(super) fn enlist(&mut self, worker: NewWorker, commit: &mut ModelCommit) {
        let expires_at = commit.now.after(worker.lease);
        let row = ModelWorker { started_at: commit.now, expires_at, said: worker };
        self.workers.insert(row.said.id, row);
        commit.work_arrived = true;
    }

    pub(super) fn renew(
        &mut self,
        worker: WorkerId,
        lease: Duration,
        held: Vec<Lease>,
        now: Timestamp,
    ) -> Result<Renewed, Error> {
        self.expect_live(worker, now)?;
        let expires_at = now.after(lease);
        if let Some(row) = self.workers.get_mut(&worker) {
            row.expires_at = expires_at;
        }
        let is_lost =
            |lease: &Lease| self.jobs.get(&lease.job).is_none_or(|row| row.record.held_by(lease).is_err());
        Ok(Renewed { expires_at, lost: held.into_iter().filter(is_lost).collect() })
    }

    pub(super) fn orphans(&self, limit: usize, now: Timestamp) -> Vec<Orphan> {
        let mut found: Vec<_> = self
            .jobs
            .iter()
            .filter_map(|(id, row)| row.record.hold.map(|hold| (hold.claimed_at, *id, hold.worker, row)))
            .filter(|(_, _, worker, _)| !self.is_live(*worker, now))
            .collect();
        found.sort_unstable_by_key(|(claimed_at, id, ..)| (*claimed_at, *id));
        let orphan = |(_, id, worker, row): (_, _, WorkerId, &super::tables::ModelJob)| Orphan {
            job: row.job.clone(),
            record: row.record.clone(),
            lease: Lease { job: id, worker, fence: row.record.fence },
            code_version: self
                .workers
                .get(&worker)
                .and_then(|w| w.said.code_version.as_deref())
                .map(Into::into),
        };
        found.into_iter().take(limit).map(orphan).collect()
    }

    pub(super) fn handed_out(&self, now: Timestamp) -> Vec<HandedRun> {
        let is_batch = |id: WorkerId| {
            self.workers.get(&id).is_some_and(|row| row.is_live(now) && row.said.queues.is_empty())
        };
        let handed = |(id, row): (&JobId, &super::tables::ModelJob)| {
            let hold = row.record.hold.filter(|hold| is_batch(hold.worker))?;
            let lease = Lease { job: *id, worker: hold.worker, fence: row.record.fence };
            Some(HandedRun { lease, started_at: hold.started_at? })
        };
        let mut runs: Vec<_> = self.jobs.iter().filter_map(handed).collect();
        runs.sort_unstable_by_key(|run| (run.started_at, run.lease.job));
        runs
    }

    pub(super) fn workers(&self, now: Timestamp) -> Vec<WorkerView> {
        let mut views: Vec<_> = self.workers.values().map(|row| self.worker_view(row, now)).collect();
        views.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        views
    }

    fn worker_view(&self, row: &ModelWorker, now: Timestamp) -> WorkerView {
        let said = &row.said;
        let held =
            self.jobs.values().filter(|job| job.record.hold.is_some_and(|hold| hold.worker == said.id));
        WorkerView {
            id: said.id,
            name: said.name.clone(),
            code_version: said.code_version.clone(),
            queues: said.queues.iter().map(ToString::to_string).collect(),
            kinds: said.kinds.to_vec(),
            started_at: row.started_at,
            expires_at: row.expires_at,
            live: row.is_live(now),
            running: super::lanes::count(held),
        }
    }
}
