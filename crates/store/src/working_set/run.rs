//! Runs: taken, started, spoken of, ended.

use backstop_core::job::{NoteError, Remark, Stale, State};
use backstop_core::outbox::OutboxMessage;
use backstop_core::{Fence, JobId, Lease, event};

use super::claim_row::Slot;
use super::{IncidentCount, WorkingSet, stale};
use crate::{Finish, Note};

impl WorkingSet {
    /// Takes a pending job in the working set for `worker`, under a fence that is drawn when the claim is written.
    ///
    /// The record moves once the fence is known: the store replays the claim on it. Here only the news is noted.
    pub fn take(&mut self, id: JobId, started: bool) {
        let Some(loaded) = self.job(id) else { return };
        let (header, run, now) = (loaded.job.spec.header(), loaded.record.runs.saturating_add(1), self.now);
        if started {
            self.tell(|| event::started(header, run, now));
        }
    }

    /// Counts the start of a prefetched job (C5). Its claim must be in the working set.
    ///
    /// # Errors
    /// [`Stale`] when the lease is not the current hold.
    pub fn start(&mut self, lease: &Lease) -> Result<(), Stale> {
        let loaded = self.jobs.get_mut(&lease.job).ok_or(stale(lease))?;
        let before = loaded.record.runs;
        // The hold is written in the claim, never in a record.
        loaded.record.start(lease, self.now)?;
        let (run, header, now) = (loaded.record.runs, loaded.job.spec.header(), self.now);
        if run > before {
            self.set_slot(lease.fence, lease.job, Slot::Started(now));
            self.tell(|| event::started(header, run, now));
        }
        Ok(())
    }

    /// Keeps what a run says while it goes on.
    ///
    /// # Errors
    /// [`NoteError`] says why nothing was changed.
    pub fn annotate(&mut self, note: &Note) -> Result<(), NoteError> {
        let lease = &note.lease;
        let mut record = self.job(lease.job).ok_or(stale(lease))?.record.clone();
        let kept = record.note(lease, &note.remark)?;
        self.save(lease.job, record);
        if let (Some(_), Remark::Rejects(batch)) = (kept, &note.remark) {
            self.messages.extend(OutboxMessage::rejects(&self.wants.sinks, batch));
        }
        self.noted.extend(kept.into_iter().flat_map(|position| note.documents(position)));
        // Nothing in the slot changes, but whoever remembers this claim must read it again.
        self.changed_claims.insert(lease.fence);
        Ok(())
    }

    /// What was answered when a run ended, if it ended as this says (L5). The runs of leases that are not held must be
    /// in the working set; those that ended in this transaction are.
    ///
    /// # Errors
    /// [`Stale`] when it has not ended, or otherwise.
    pub fn answer_again(&self, Finish { lease, ending }: &Finish) -> Result<State, Stale> {
        let now = self.runs.iter().find(|(job, run)| *job == lease.job && run.fence == lease.fence);
        let run = now.map(|(_, run)| run).or_else(|| self.ended.get(&(lease.job, lease.fence)));
        run.ok_or(stale(lease))?.answer_again(lease, ending)
    }

    /// Ends a run. Its claim must be in the working set; whether its worker may still speak is for the store to check.
    ///
    /// # Errors
    /// [`Stale`] when the lease is not the current hold.
    pub fn finish(&mut self, finish: &Finish) -> Result<State, Stale> {
        let Finish { lease, ending } = finish;
        let loaded = self.job(lease.job).ok_or(stale(lease))?;
        let (job, mut record) = (loaded.job.clone(), loaded.record.clone());
        let run = record.finish(&job.spec, lease, ending, self.now)?;
        let state = record.state;
        if self.wants.events {
            self.events.extend(event::ended(ending, &record, run.is_some(), self.now));
        }
        if let Some(run) = run {
            self.runs.push((lease.job, run));
            IncidentCount::add(&mut self.incidents, lease.job, &job.spec.incident_kind(), ending);
            self.raise_alert(&job, &record, ending.failure.as_ref(), ending.code_version.as_deref());
            let sinks = &self.wants.sinks;
            self.messages.extend(OutboxMessage::result(sinks, ending, &record, self.now));
            self.messages.extend(OutboxMessage::hand_off(sinks, &job, ending, &record, self.now));
            self.send_dead_letter(&job, &record, Some(ending));
        }
        self.save(lease.job, record);
        self.set_slot(lease.fence, lease.job, Slot::Closed);
        for job in ending.follow_up.as_deref().into_iter().chain(&ending.children) {
            self.insert(job);
        }
        self.work_arrived |= state == State::Pending;
        Ok(state)
    }

    pub(super) fn set_slot(&mut self, fence: Fence, job: JobId, slot: Slot) {
        if let Some(claim) = self.claims.get_mut(&fence)
            && let Some(index) = claim.open_slot(job)
        {
            claim.slots[index] = slot;
            self.changed_claims.insert(fence);
        }
    }
}
