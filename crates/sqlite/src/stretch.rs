//! Records that lie side by side and change alike are written by one statement.
//!
//! A claim takes neighbours and gives all of them one hold; most of them end well in one batch. Written one by one,
//! each opens and closes every index of the table; written as a stretch of rows they share that, which makes claim and
//! finish a sixth faster. Anything else is written at once.

use backstop_core::job::{Hold, Record, State};
use backstop_core::{Fence, Timestamp};
use rusqlite::{Statement, params};

use crate::error::Failure;
use crate::rows::status_code;

/// How a record differs from what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was claimed or started.
    Held { state: State, runs: u32, fence: Fence, hold: Hold },
    /// It ended well.
    Done { state: State, last_failed_run: Option<u32>, finished_at: Option<Timestamp> },
    /// In some other way.
    Other,
}

impl Change {
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

/// Rows from `first` to `last`, all of them changed alike and not yet written.
#[derive(Debug)]
pub(crate) struct Stretch {
    change: Change,
    first: i64,
    last: i64,
}

impl Stretch {
    pub(crate) const fn of(change: Change, seq: i64) -> Self {
        Self { change, first: seq, last: seq }
    }

    /// Adds the row if it is the next one and changes alike; answers whether it did.
    pub(crate) fn takes(&mut self, change: Change, seq: i64) -> bool {
        let fits = seq == self.last + 1 && change == self.change;
        self.last += i64::from(fits);
        fits
    }

    pub(crate) const fn change(&self) -> Change {
        self.change
    }

    /// Writes the rows with the statement for their change.
    pub(crate) fn write(&self, update: &mut Statement<'_>) -> Result<(), Failure> {
        let (first, last) = (self.first, self.last);
        let written = match self.change {
            Change::Held { state, runs, fence, hold } => update.execute(params![
                first,
                last,
                status_code(state),
                runs,
                fence.0,
                hold.worker.as_bytes(),
                hold.claimed_at.as_micros(),
                hold.started_at.map(Timestamp::as_micros),
            ])?,
            Change::Done { state, last_failed_run, finished_at } => update.execute(params![
                first,
                last,
                status_code(state),
                last_failed_run,
                finished_at.map(Timestamp::as_micros),
            ])?,
            Change::Other => 0,
        };
        if i64::try_from(written) == Ok(last - first + 1) {
            return Ok(());
        }
        Err(Failure::Unreadable(format!("rows {first} to {last} of `backstop_state` are not all there")))
    }
}
