//! A job as the store has it when the faults are over.

use backstop::Timestamp;
use backstop_core::failure::Verdict;
use backstop_core::job::{Attempt, JobView};

/// A job with its ledger, oldest run first.
pub(super) struct Kept {
    pub(super) view: JobView,
    pub(super) rows: Vec<Attempt>,
}

impl Kept {
    /// The runs since it was driven again: budgets begin anew with that. All runs of one that never was.
    pub(super) fn since_driven(&self) -> &[Attempt] {
        let dead = self.rows.iter().enumerate().filter(|(_, row)| is_dead(row)).map(|(at, _)| at + 1);
        let begin = dead.take(self.view.record.redrives as usize).last().unwrap_or(0);
        &self.rows[begin..]
    }

    /// When it was a dead letter for the first time; when it ended, if it never was driven again.
    pub(super) fn first_end(&self) -> Option<Timestamp> {
        let dead = self.rows.iter().find(|row| self.view.record.redrives > 0 && is_dead(row));
        dead.map(|row| row.finished_at).or(self.view.record.finished_at)
    }
}

/// True when a run made its job a dead letter.
fn is_dead(row: &Attempt) -> bool {
    matches!(row.decision.as_ref().map(|decision| &decision.verdict), Some(Verdict::Dead { .. }))
}
