//! What people ask of jobs.

use backstop_core::job::{Operated, Operation, State};
use backstop_core::{JobId, Refusal, event};

use super::WorkingSet;
use super::claim_row::Slot;
use super::submit::conflict;
use crate::signal_document;

impl WorkingSet {
    /// Does what a person asks of a job. The job, its claim when it is held, and the holder of its business key must be
    /// in the working set.
    ///
    /// # Errors
    /// The refusals of `InspectStore::operate`.
    pub fn operate(&mut self, id: JobId, operation: &Operation) -> Result<Operated, Refusal> {
        let Some(loaded) = self.job(id) else { return Err(Refusal::NoSuchJob { job: id }) };
        let (job, before) = (loaded.job.clone(), loaded.record.clone());
        let mut record = before.clone();
        let operated = record.operate(&job, operation, self.now)?;
        if before.state.is_terminal()
            && record.state.is_live()
            && let Some(key) = &job.spec.business_key
            && let Some(holder) = self.holder(key).filter(|holder| *holder != id)
        {
            let state = self.job(holder).map_or(State::Pending, |loaded| loaded.record.state);
            return Err(conflict(key, holder, state));
        }
        if !operated.changed {
            return Ok(operated);
        }
        let after = record.state;
        self.noted.extend(signal_document(id, operation, &record));
        self.save(id, record);
        if before.hold.is_some() && after == State::Running {
            // Nothing in the slot changes, but whoever remembers this claim must read it again.
            self.changed_claims.insert(before.fence);
        }
        if before.hold.is_some() && after != State::Running {
            self.set_slot(before.fence, id, Slot::Closed);
        }
        if let Some(run) = &operated.ended_run {
            self.runs.push((id, (**run).clone()));
        }
        if after != before.state {
            let now = self.now;
            self.tell(|| event::operated(job.spec.header(), operation, now));
            self.work_arrived |= after == State::Pending;
        }
        Ok(operated)
    }
}
