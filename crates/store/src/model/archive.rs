//! Jobs that ended long ago leave the hot tables (L16).

use backstop_core::job::{Attempt, Retention};
use backstop_core::{JobId, Timestamp};

use super::tables::{JobRow, Tables};
use crate::{Archived, Duty, Error, Term};

impl Tables {
    pub(super) fn archive(
        &mut self,
        term: &Term,
        retention: &Retention,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.expect_term(term, Duty::Archive, now)?;
        let turn = |row: &JobRow| Retention::STATES.iter().position(|state| *state == row.record.state);
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
        self.past_queues.insert(detail.view.job.spec.queue.to_string());
        self.jobs.remove(&id);
        for run in &runs {
            self.ledger.remove(&(id, run.number));
        }
        self.archive.insert(id, archived);
    }

    pub(super) fn archived(&self, ids: &[JobId]) -> Vec<Option<Archived>> {
        ids.iter().map(|id| self.archive.get(id).cloned()).collect()
    }
}
