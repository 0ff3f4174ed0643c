//! Ending runs, by those who hold them and by those who take them back, and what handlers say meanwhile.

use backstop_core::event;
use backstop_core::failure::Verdict;
use backstop_core::job::{Ending, Stale, State};
use backstop_core::{JobId, Timestamp};

use super::tables::{Commit, Tables};
use crate::{Duty, Error, Finish, Incident, Note, Term};

impl Tables {
    pub(super) fn finish(&mut self, endings: &[Finish], commit: &mut Commit) -> Vec<Result<State, Stale>> {
        endings.iter().map(|finish| self.finish_one(finish, true, commit)).collect()
    }

    pub(super) fn rescue(
        &mut self,
        term: &Term,
        endings: &[Finish],
        commit: &mut Commit,
    ) -> Result<Vec<Result<State, Stale>>, Error> {
        self.expect_term(term, Duty::Rescue, commit.now)?;
        Ok(endings.iter().map(|finish| self.finish_one(finish, false, commit)).collect())
    }

    /// A worker ends what it holds while it is live; a rescuer ends it only once that worker is not.
    fn finish_one(
        &mut self,
        finish: &Finish,
        by_live_worker: bool,
        commit: &mut Commit,
    ) -> Result<State, Stale> {
        let Finish { lease, ending } = finish;
        if self.is_live(lease.worker, commit.now) != by_live_worker {
            return Err(Self::stale(lease));
        }
        let row = self.jobs.get_mut(&lease.job).ok_or_else(|| Self::stale(lease))?;
        let attempt = row.record.finish(&row.job.spec, lease, ending, commit.now)?;
        let state = row.record.state;
        let kind = row.job.spec.kind.clone();
        commit.events.extend(event::ended(ending, &row.record, attempt.is_some(), commit.now));
        commit.work_arrived |= state == State::Pending;
        if let Some(attempt) = attempt {
            self.ledger.insert((lease.job, attempt.number), attempt);
            self.count_incident(lease.job, &kind, ending, commit.now);
        }
        self.follow_up(ending.follow_up.as_deref(), commit);
        Ok(state)
    }

    fn count_incident(&mut self, job: JobId, kind: &str, ending: &Ending, now: Timestamp) {
        let Some(failure) = ending.incident() else { return };
        let incident = self.incidents.entry(failure.fingerprint.clone()).or_insert_with(|| Incident {
            fingerprint: failure.fingerprint.clone(),
            kind: kind.to_owned(),
            error_type: failure.error_type.clone(),
            message: failure.message.clone(),
            failures: 0,
            dead: 0,
            first_seen: now,
            last_seen: now,
            sample_job: job,
        });
        incident.failures += 1;
        incident.dead += u64::from(matches!(ending.decision.verdict, Verdict::Dead { .. }));
        incident.last_seen = now;
        incident.sample_job = job;
    }

    pub(super) fn annotate(&mut self, notes: Vec<Note>, now: Timestamp) -> Vec<Result<(), Stale>> {
        notes.into_iter().map(|note| self.annotate_one(note, now)).collect()
    }

    fn annotate_one(&mut self, note: Note, now: Timestamp) -> Result<(), Stale> {
        self.leased(&note.lease, now)?.record.note_progress(&note.lease, note.progress)
    }
}
