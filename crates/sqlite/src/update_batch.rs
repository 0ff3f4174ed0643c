//! Records that lie side by side and change in the same way are written by one statement.
//!
//! A claim takes neighbours and gives all of them one hold; most of them end well in one batch. Written one by one,
//! each opens and closes every index of the table; written as a range of rows they share that, which makes claim and
//! finish a sixth faster. Jobs of several queues are taken queue by queue and lie mixed, so rows are sorted before they
//! are written. Anything else is written at once.

use backstop_core::job::{Hold, Record, State};
use backstop_core::{Fence, Timestamp};
use rusqlite::{Connection, Statement, ToSql, params};

use crate::error::SqliteFailure;
use crate::rows::status_code;
use crate::sql;

/// Neighbours that are worth a statement of their own. Below it they are written with the others.
const LONG_RUN: usize = 8;

/// How a record differs from what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordChange {
    /// It was claimed or started.
    Held { state: State, runs: u32, fence: Fence, hold: Hold },
    /// It ended well.
    Done { state: State, last_failed_run: Option<u32>, finished_at: Option<Timestamp> },
    /// In some other way.
    Other,
}

impl RecordChange {
    pub(crate) fn between(before: &Record, after: &Record) -> Self {
        let Record { state, runs, fence, hold, last_failed_run, finished_at, .. } = *after;
        if let Some(hold) = hold {
            let held = Record { state, runs, fence, hold: Some(hold), ..before.clone() };
            return if held == *after { Self::Held { state, runs, fence, hold } } else { Self::Other };
        }
        let done = Record { state, last_failed_run, finished_at, hold, ..before.clone() };
        if done == *after { Self::Done { state, last_failed_run, finished_at } } else { Self::Other }
    }
}

/// Rows that all change in the same way and are not yet written.
#[derive(Debug)]
pub(crate) struct UpdateBatch {
    change: RecordChange,
    rows: Vec<i64>,
}

impl UpdateBatch {
    pub(crate) fn of(change: RecordChange, seq: i64) -> Self {
        Self { change, rows: vec![seq] }
    }

    /// Adds the row if it changes in the same way; answers whether it did.
    pub(crate) fn try_add(&mut self, change: RecordChange, seq: i64) -> bool {
        let fits = change == self.change;
        if fits {
            self.rows.push(seq);
        }
        fits
    }

    /// Writes the rows: long runs of neighbours each with a statement of its own, all others with one.
    pub(crate) fn write(mut self, conn: &Connection) -> Result<(), SqliteFailure> {
        let (range, listed) = match self.change {
            RecordChange::Held { .. } => (sql::STATE_UPDATE_HELD, sql::STATE_UPDATE_HELD_LISTED),
            RecordChange::Done { .. } | RecordChange::Other => {
                (sql::STATE_UPDATE_DONE, sql::STATE_UPDATE_DONE_LISTED)
            }
        };
        self.rows.sort_unstable();
        self.rows.dedup();
        let mut update = conn.prepare_cached(range)?;
        let mut scattered: Vec<i64> = Vec::new();
        for run in self.rows.chunk_by(|one, next| one + 1 == *next) {
            match (run, run) {
                ([first, ..], [.., last]) if run.len() >= LONG_RUN || run.len() == self.rows.len() => {
                    self.run(&mut update, first, last, run)?;
                }
                _ => scattered.extend(run),
            }
        }
        if scattered.is_empty() {
            return Ok(());
        }
        let numbers = serde_json::to_string(&scattered)?;
        let count = i64::try_from(scattered.len()).unwrap_or(i64::MAX);
        self.run(&mut *conn.prepare_cached(listed)?, &numbers, &count, &scattered)
    }

    /// Runs an update of `rows`, which its first two parameters name.
    fn run(
        &self,
        update: &mut Statement<'_>,
        one: &dyn ToSql,
        two: &dyn ToSql,
        rows: &[i64],
    ) -> Result<(), SqliteFailure> {
        let written = match self.change {
            RecordChange::Held { state, runs, fence, hold } => update.execute(params![
                one,
                two,
                status_code(state),
                runs,
                fence.0,
                hold.worker.as_bytes(),
                hold.claimed_at.as_micros(),
                hold.started_at.map(Timestamp::as_micros),
            ])?,
            RecordChange::Done { state, last_failed_run, finished_at } => update.execute(params![
                one,
                two,
                status_code(state),
                last_failed_run,
                finished_at.map(Timestamp::as_micros),
            ])?,
            RecordChange::Other => 0,
        };
        if written == rows.len() {
            return Ok(());
        }
        let (count, first) = (rows.len(), rows.first().copied().unwrap_or_default());
        Err(SqliteFailure::Unreadable(format!(
            "expected {count} rows of `backstop_state` from row {first} on, found {written}"
        )))
    }
}
