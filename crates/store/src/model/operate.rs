//! What people ask of jobs and queues.

use backstop_core::event;
use backstop_core::job::{Operated, Operation, State};
use backstop_core::workflow::EndNote;
use backstop_core::{JobId, Refusal};

use super::tables::{ModelCommit, Tables};
use crate::show::PauseNote;
use crate::signal_document;

impl Tables {
    pub(super) fn operate(
        &mut self,
        jobs: &[JobId],
        operation: &Operation,
        commit: &mut ModelCommit,
    ) -> Vec<Result<Operated, Refusal>> {
        jobs.iter().map(|id| self.operate_one(*id, operation, commit)).collect()
    }

    pub(super) fn operate_one(
        &mut self,
        id: JobId,
        operation: &Operation,
        commit: &mut ModelCommit,
    ) -> Result<Operated, Refusal> {
        let row = self.jobs.get(&id).ok_or(Refusal::NoSuchJob { job: id })?;
        let (job, before) = (row.job.clone(), row.record.state);
        let mut record = row.record.clone();
        let operated = record.operate(&job, operation, commit.now)?;
        if before.is_terminal() && record.state.is_live() {
            let key = job.spec.business_key.as_deref();
            if let Some((holder, other)) = self.key_holder(key, Some(id)) {
                let (key, state) = (key.unwrap_or_default().to_owned(), other.record.state);
                return Err(Refusal::BusinessKeyConflict { key, holder, state });
            }
        }
        if operated.changed && record.state != before {
            commit.events.push(event::operated(job.spec.header(), operation, commit.now));
            commit.work_arrived |= record.state == State::Pending;
        }
        if operated.changed
            && let Some((drawer, key, text)) = signal_document(id, operation, &record)
        {
            self.documents.insert((drawer, key), (1, text));
        }
        if let Some(run) = &operated.ended_run {
            self.ledger.insert((id, run.number), (**run).clone());
        }
        if let Some(row) = self.jobs.get_mut(&id) {
            commit.ended.extend(EndNote::of(id, Some(&row.record), &record));
            row.record = record;
        }
        Ok(operated)
    }

    pub(super) fn pause_queue(
        &mut self,
        queue: String,
        pause: Option<PauseNote>,
        commit: &mut ModelCommit,
    ) -> bool {
        if self.is_paused(&queue) == pause.is_some() {
            return false;
        }
        commit.work_arrived |= pause.is_none();
        self.paused_queues.insert(queue, pause);
        true
    }
}
