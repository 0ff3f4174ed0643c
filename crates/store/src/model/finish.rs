//! Ending runs, by those who hold them and by those who take them back, and what handlers say meanwhile.

use backstop_core::event;
use backstop_core::job::{NoteError, Remark, Stale, State};
use backstop_core::outbox::OutboxMessage;
use backstop_core::workflow::EndNote;

use super::tables::{ModelCommit, Tables};
use crate::{Duty, Error, Finish, Note, Term};

impl Tables {
    pub(super) fn finish(
        &mut self,
        endings: &[Finish],
        commit: &mut ModelCommit,
    ) -> Vec<Result<State, Stale>> {
        let answers = endings.iter().map(|finish| self.finish_one(finish, true, commit)).collect();
        self.settle_incidents(commit);
        answers
    }

    pub(super) fn rescue(
        &mut self,
        term: &Term,
        endings: &[Finish],
        commit: &mut ModelCommit,
    ) -> Result<Vec<Result<State, Stale>>, Error> {
        self.expect_term(term, Duty::Rescue, commit.now)?;
        let answers = endings.iter().map(|finish| self.finish_one(finish, false, commit)).collect();
        self.settle_incidents(commit);
        Ok(answers)
    }

    /// A worker ends what it holds while it is live; a rescuer ends it only once that worker is not.
    fn finish_one(
        &mut self,
        finish: &Finish,
        by_live_worker: bool,
        commit: &mut ModelCommit,
    ) -> Result<State, Stale> {
        let Finish { lease, ending } = finish;
        let may_write = self.is_live(lease.worker, commit.now) == by_live_worker;
        let row = self.jobs.get_mut(&lease.job).ok_or_else(|| Self::stale(lease))?;
        if !may_write || row.record.held_by(lease).is_err() {
            return if by_live_worker { self.answer_again(finish) } else { Err(Self::stale(lease)) };
        }
        let before = row.record.clone();
        let attempt = row.record.finish(&row.job.spec, lease, ending, commit.now)?;
        commit.ended.extend(EndNote::of(lease.job, Some(&before), &row.record));
        let row = row.clone();
        let state = row.record.state;
        commit.events.extend(event::ended(ending, &row.record, attempt.is_some(), commit.now));
        commit.work_arrived |= state == State::Pending;
        if let Some(attempt) = attempt {
            self.ledger.insert((lease.job, attempt.number), attempt);
            self.count_incident(lease.job, &row.job.spec.incident_kind(), ending, commit);
            self.raise_alert(&row, ending.failure.as_ref(), ending.code_version.as_deref(), commit);
            commit.send_end(&row, Some(ending));
        }
        self.follow_up(ending.follow_up.as_deref(), commit);
        ending.children.iter().for_each(|child| self.insert(child, commit));
        Ok(state)
    }

    /// What was answered when this run ended, if it ended like this (L5).
    fn answer_again(&self, Finish { lease, ending }: &Finish) -> Result<State, Stale> {
        let mut runs = self.ledger.range((lease.job, 0)..=(lease.job, u32::MAX));
        let run = runs.find(|(_, run)| run.fence == lease.fence).ok_or_else(|| Self::stale(lease))?.1;
        run.answer_again(lease, ending)
    }

    pub(super) fn annotate(
        &mut self,
        notes: Vec<Note>,
        commit: &mut ModelCommit,
    ) -> Vec<Result<(), NoteError>> {
        notes.into_iter().map(|note| self.annotate_one(&note, commit)).collect()
    }

    fn annotate_one(&mut self, note: &Note, commit: &mut ModelCommit) -> Result<(), NoteError> {
        let kept = self.leased(&note.lease, commit.now)?.record.note(&note.lease, &note.remark)?;
        if let (Some(_), Remark::Rejects(batch)) = (kept, &note.remark) {
            commit.messages.extend(OutboxMessage::rejects(&commit.wants.sinks, batch));
        }
        for (drawer, key, body) in kept.into_iter().flat_map(|position| note.documents(position)) {
            self.documents.insert((drawer, key), (1, body));
        }
        Ok(())
    }
}
