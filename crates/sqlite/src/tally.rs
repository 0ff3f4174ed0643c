//! What a transaction changes of counts, summed up in memory until it is written: of lanes, and of incidents.

use std::collections::{BTreeMap, HashMap};

use backstop_core::event::Event;
use backstop_core::failure::Fingerprint;
use backstop_core::job::{Ending, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::working_set::{Aftermath, IncidentCount, Seen};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::rows;
use crate::sql;

/// How the counts of lanes change in one transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaneTally(HashMap<i64, [i64; 7]>);

/// The column of `LANE_COUNT` that counts a state.
const fn column(state: State) -> usize {
    match state {
        State::Pending => 0,
        State::Running => 1,
        State::Succeeded => 2,
        State::Failed => 3,
        State::Paused => 4,
        State::Canceled => 5,
        State::Waiting => 6,
    }
}

impl LaneTally {
    /// A job appeared in `state`.
    pub(crate) fn arrived(&mut self, lane: i64, state: State) {
        self.of(lane)[column(state)] += 1;
    }

    /// A job that was in `state` is gone.
    pub(crate) fn left(&mut self, lane: i64, state: State) {
        self.of(lane)[column(state)] -= 1;
    }

    /// A job moved.
    pub(crate) fn moved(&mut self, lane: i64, from: State, to: State) {
        if from != to {
            let counts = self.of(lane);
            counts[column(from)] -= 1;
            counts[column(to)] += 1;
        }
    }

    fn of(&mut self, lane: i64) -> &mut [i64; 7] {
        self.0.entry(lane).or_default()
    }

    /// Writes the sums, one statement per touched lane, and resets them.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<(), SqliteFailure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut update = conn.prepare_cached(sql::LANE_COUNT)?;
        for (lane, n) in self.0.drain().filter(|(_, counts)| counts.iter().any(|count| *count != 0)) {
            update.execute(params![lane, n[0], n[1], n[2], n[3], n[4], n[5], n[6]])?;
        }
        Ok(())
    }
}

/// What a transaction adds to incidents and has not yet written.
#[derive(Debug, Clone, Default)]
pub(crate) struct IncidentTally {
    /// Failures of the verb that runs now, by fingerprint.
    counts: BTreeMap<String, IncidentCount>,
    /// How the numbers of open dead letters change, by fingerprint.
    open: BTreeMap<String, i64>,
}

impl IncidentTally {
    /// Notes that a job moved from one incident to another; none when it is no dead letter.
    pub(crate) fn moved(&mut self, from: Option<&Fingerprint>, to: Option<&Fingerprint>) {
        if from == to {
            return;
        }
        for (fingerprint, change) in [(from, -1), (to, 1)] {
            if let Some(fingerprint) = fingerprint {
                *self.open.entry(fingerprint.to_string()).or_default() += change;
            }
        }
    }

    /// Notes the failure of a run.
    pub(crate) fn count(&mut self, job: JobId, kind: &str, ending: &Ending) {
        IncidentCount::add(&mut self.counts, job, kind, ending);
    }

    /// Writes the failures that a verb has counted, and answers what is to be told of them.
    pub(crate) fn settle(&mut self, conn: &Connection, now: Timestamp) -> Result<Vec<Event>, SqliteFailure> {
        if self.counts.is_empty() {
            return Ok(Vec::new());
        }
        let counts: Vec<IncidentCount> = std::mem::take(&mut self.counts).into_values().collect();
        let mut seen = Vec::with_capacity(counts.len());
        for count in &counts {
            let open = self.open.remove(count.fingerprint.as_str()).unwrap_or_default();
            seen.extend(write_count(conn, count, open, now)?);
        }
        let aftermath = Aftermath::of(&counts, seen, now);
        for (fingerprint, standing) in &aftermath.standings {
            conn.prepare_cached(sql::INCIDENT_STAND)?.execute([fingerprint, standing])?;
        }
        Ok(aftermath.events)
    }

    /// Writes how the numbers of open dead letters changed otherwise.
    pub(crate) fn write_open(&mut self, conn: &Connection) -> Result<(), SqliteFailure> {
        while let Some((fingerprint, change)) = self.open.pop_first() {
            if change != 0 {
                conn.prepare_cached(sql::INCIDENT_OPEN)?.execute(params![fingerprint, change])?;
            }
        }
        Ok(())
    }
}

/// Adds to an incident, and reads its sums.
fn write_count(
    conn: &Connection,
    count: &IncidentCount,
    open: i64,
    now: Timestamp,
) -> Result<Option<Seen>, SqliteFailure> {
    let values = params![
        count.fingerprint.as_str(),
        count.kind,
        count.error_type,
        count.message,
        count.failures,
        count.dead,
        open,
        now.as_micros(),
        count.first_version,
        count.last_version,
        count.sample_job.as_bytes(),
    ];
    rows::first(&mut *conn.prepare_cached(sql::INCIDENT_COUNT)?, values, |row| {
        let standing = rows::text_of(row, 1)?.map(str::to_owned);
        Ok(Seen { fingerprint: count.fingerprint.to_string(), failures: row.get(0)?, standing })
    })
}
