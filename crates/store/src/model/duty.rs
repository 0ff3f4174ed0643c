//! Leadership of maintenance duties, and the duty that needs no engine.

use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{Timestamp, WorkerId};

use super::tables::{ModelCommit, Tables};
use crate::{Duty, Error, Overdue, Term, Terms};

impl Tables {
    pub(super) fn lead(
        &mut self,
        node: WorkerId,
        duties: &[Duty],
        ttl: Duration,
        now: Timestamp,
    ) -> Vec<Option<Term>> {
        duties.iter().map(|duty| self.lead_one(node, *duty, ttl, now)).collect()
    }

    fn lead_one(&mut self, node: WorkerId, duty: Duty, ttl: Duration, now: Timestamp) -> Option<Term> {
        let number = match self.terms.get(&duty) {
            Some(term) if term.expires_at > now && term.node == node => term.number,
            Some(term) if term.expires_at > now => return None,
            Some(term) => term.number + 1,
            None => 1,
        };
        let term = Term { duty, number, node, expires_at: now.after(ttl) };
        self.terms.insert(duty, term);
        Some(term)
    }

    pub(super) fn terms(&self, now: Timestamp) -> Terms {
        Terms { now, terms: Duty::ALL.iter().filter_map(|duty| self.terms.get(duty).copied()).collect() }
    }

    /// Refuses a leader whose term has passed on, has run out, or was for another duty (L17).
    pub(super) fn expect_term(&self, term: &Term, duty: Duty, now: Timestamp) -> Result<(), Error> {
        let current = self.terms.get(&duty).filter(|current| {
            term.duty == duty
                && current.number == term.number
                && current.node == term.node
                && current.expires_at > now
        });
        current.map(drop).ok_or(Error::Deposed { duty: term.duty })
    }

    pub(super) fn overdue(&self, after: Option<Overdue>, limit: usize, now: Timestamp) -> Vec<Overdue> {
        let pending = self.jobs.iter().filter(|(_, row)| row.record.state == State::Pending);
        let overdue = pending.filter(|(_, row)| row.record.has_expired(now));
        let mut overdue: Vec<Overdue> = overdue
            .filter_map(|(id, row)| Some(Overdue { expires_at: row.record.expires_at?, job: *id }))
            .filter(|found| after.is_none_or(|after| *found > after))
            .collect();
        overdue.sort_unstable();
        overdue.truncate(limit);
        overdue
    }

    pub(super) fn expire(
        &mut self,
        term: &Term,
        jobs: &[Overdue],
        commit: &mut ModelCommit,
    ) -> Result<usize, Error> {
        self.expect_term(term, Duty::Expire, commit.now)?;
        let all = self.overdue(None, usize::MAX, commit.now);
        let mut jobs: Vec<&Overdue> = jobs.iter().filter(|one| all.contains(one)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        for overdue in &jobs {
            let callback = self.expire_job(overdue.job, commit);
            self.follow_up(callback.as_ref(), commit);
        }
        Ok(jobs.len())
    }
}
