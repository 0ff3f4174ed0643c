//! Jobs that ended long ago leave the hot tables (L16), and leave altogether (D5).

use std::time::Duration;

use backstop_core::job::{Attempt, Retention, State};
use backstop_core::{JobId, Refusal, Timestamp};

use super::tables::{ModelJob, Tables};
use crate::working_set::lane_of;
use crate::{Archived, Drawer, Duty, Error, LaneMark, Page, PageRequest, Term};

impl Tables {
    pub(super) fn archive(
        &mut self,
        term: &Term,
        retention: &Retention,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.expect_term(term, Duty::Archive, now)?;
        let turn = |row: &ModelJob| Retention::STATES.iter().position(|state| *state == row.record.state);
        let mut passed: Vec<_> = self
            .jobs
            .iter()
            .filter(|(_, row)| retention.has_passed(&row.record, now))
            .map(|(id, row)| (turn(row), row.record.finished_at, *id))
            .collect();
        passed.sort_unstable();
        passed.truncate(limit);
        for (_, _, id) in &passed {
            self.archive_one(*id, now);
        }
        Ok(passed.len())
    }

    fn archive_one(&mut self, id: JobId, now: Timestamp) {
        let Some(detail) = self.detail(id, now) else { return };
        let runs: Vec<Attempt> = self.runs(id).cloned().collect();
        let archived = Archived::new(&detail, &runs, now).expect("a view and its runs are plain data");
        self.take_out(id);
        self.archive.insert(id, archived);
    }

    /// Takes a job out of the hot tables.
    fn take_out(&mut self, id: JobId) {
        let Some(row) = self.jobs.remove(&id) else { return };
        self.lanes.insert(lane_of(&row.job.spec), LaneMark::default());
        self.ledger.retain(|(job, _), _| *job != id);
        for position in row.record.step_results() {
            self.documents.remove(&(Drawer::Steps, Drawer::step(id, position)));
        }
    }

    pub(super) fn purge(&mut self, ids: &[JobId], only: Option<State>) -> Vec<Result<State, Refusal>> {
        ids.iter().map(|id| self.purge_one(*id, only)).collect()
    }

    fn purge_one(&mut self, id: JobId, only: Option<State>) -> Result<State, Refusal> {
        let state = match (self.jobs.get(&id), self.archive.get(&id)) {
            (Some(row), _) => row.record.state,
            (None, Some(archived)) => archived.state,
            (None, None) => return Err(Refusal::NoSuchJob { job: id }),
        };
        state.may_be_purged(id, only)?;
        self.take_out(id);
        self.forget(id, state);
        Ok(state)
    }

    /// Removes an archived job, of which nothing is left but how it ended, for whoever comes with its key.
    fn forget(&mut self, id: JobId, state: State) {
        self.archive.remove(&id);
        if self.idempotency_keys.values().any(|owner| *owner == id) {
            self.purged.insert(id, state);
        }
    }

    pub(super) fn prune(
        &mut self,
        term: &Term,
        keep: Duration,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.expect_term(term, Duty::Prune, now)?;
        let mut passed = self.outworn(keep, now);
        passed.truncate(limit);
        for (_, id, state) in &passed {
            self.forget(*id, *state);
        }
        Ok(passed.len())
    }

    /// Archived jobs that ran and were archived `keep` ago or earlier, the earliest first.
    pub(super) fn outworn(&self, keep: Duration, now: Timestamp) -> Vec<(Timestamp, JobId, State)> {
        let mut passed: Vec<_> = self
            .archive
            .iter()
            .filter(|(_, gone)| gone.ran && now.since(gone.archived_at) >= keep)
            .map(|(id, gone)| (gone.archived_at, *id, gone.state))
            .collect();
        passed.sort_unstable_by_key(|(at, id, _)| (*at, *id));
        passed
    }

    pub(super) fn archive_page(
        &self,
        page: PageRequest<JobId>,
    ) -> Result<Page<(JobId, Archived), JobId>, Error> {
        let rows = self.archive.iter().rev().filter(|(id, _)| page.after.is_none_or(|after| **id < after));
        super::query::cut(rows.map(|(id, gone)| (*id, gone.clone())), page.limit, |(id, _)| *id)
    }

    pub(super) fn archived(&self, ids: &[JobId]) -> Vec<Option<Archived>> {
        ids.iter().map(|id| self.archive.get(id).cloned()).collect()
    }
}
