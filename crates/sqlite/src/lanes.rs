//! Lanes: their ids interned in memory, and the moves of jobs between counts, summed up per transaction.
//!
//! A lane never changes and never goes, so a cached one is true as long as the transaction that made it was not
//! rolled back; then [`Lanes::forget`] drops them all. Counts are never cached.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::job::{Priority, Spec, State};
use backstop_store::show::KnownTotals;
use backstop_store::working_set::LaneKey;
use backstop_store::{Duty, LaneMark, Term, retire};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::duty::expect_term;
use crate::error::Failure;
use crate::unit::Unit;
use crate::{rows, sql};

/// The jobs of one queue, kind, version and priority.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: i64,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) version: u32,
    pub(crate) priority: Priority,
}

impl Lane {
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let level: i64 = row.get(4)?;
        let priority =
            Priority::from_level(level).ok_or(rusqlite::Error::IntegralValueOutOfRange(4, level))?;
        Ok(Self { id: row.get(0)?, queue: row.get(1)?, kind: row.get(2)?, version: row.get(3)?, priority })
    }

    /// What it is to those who do not know its number.
    pub(crate) fn key(self) -> LaneKey {
        LaneKey { queue: self.queue, kind: self.kind, version: self.version, priority: self.priority }
    }

    fn is_of(&self, spec: &Spec) -> bool {
        self.priority == spec.priority
            && self.version == spec.version
            && self.kind == spec.kind
            && self.queue == spec.queue
    }
}

type Key = (Arc<str>, Arc<str>, u32, Priority);

/// The lanes that a connection has met.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    by_key: HashMap<Key, Arc<Lane>>,
    by_id: HashMap<i64, Arc<Lane>>,
    /// Batches are mostly of one lane.
    latest: Option<Arc<Lane>>,
    pub(crate) totals: KnownTotals,
}

impl Lanes {
    /// The lane that a new job belongs to, made if need be; none when the job is there already and has no use for it. A
    /// lane that is made for nobody would be a queue that nobody has asked for.
    pub(crate) fn of(&mut self, conn: &Connection, spec: &Spec) -> Result<Option<Arc<Lane>>, Failure> {
        if let Some(lane) = self.latest.as_ref().filter(|lane| lane.is_of(spec)) {
            return Ok(Some(lane.clone()));
        }
        let key = (spec.queue.clone(), spec.kind.clone(), spec.version, spec.priority);
        if let Some(lane) = self.by_key.get(&key) {
            self.latest = Some(lane.clone());
            return Ok(Some(lane.clone()));
        }
        let values = params![spec.queue, spec.kind, spec.version, spec.priority.level()];
        let found = conn.prepare_cached(sql::LANE_FIND)?.query_row(values, |row| row.get(0)).optional()?;
        let id = match found {
            Some(id) => id,
            None if conn.prepare_cached(sql::STATE_IS_THERE)?.exists([spec.id.as_bytes()])? => {
                return Ok(None);
            }
            None => conn.prepare_cached(sql::LANE_INSERT)?.insert(values)?,
        };
        let (queue, kind, version, priority) = key;
        Ok(Some(self.remember(Lane { id, queue, kind, version, priority })))
    }

    /// The lane with this id.
    pub(crate) fn get(&mut self, conn: &Connection, id: i64) -> Result<Arc<Lane>, Failure> {
        if let Some(lane) = self.latest.as_ref().filter(|lane| lane.id == id) {
            return Ok(lane.clone());
        }
        if let Some(lane) = self.by_id.get(&id) {
            self.latest = Some(lane.clone());
            return Ok(lane.clone());
        }
        let lane = conn.prepare_cached(sql::LANE_BY_ID)?.query_row([id], Lane::from_row).optional()?;
        let lane =
            lane.ok_or_else(|| Failure::Unreadable(format!("a job of lane {id}, which does not exist")))?;
        Ok(self.remember(lane))
    }

    /// Keeps a lane that was read or made.
    pub(crate) fn remember(&mut self, lane: Lane) -> Arc<Lane> {
        let lane = Arc::new(lane);
        let key = (lane.queue.clone(), lane.kind.clone(), lane.version, lane.priority);
        self.by_key.insert(key, lane.clone());
        self.by_id.insert(lane.id, lane.clone());
        self.latest = Some(lane.clone());
        lane
    }

    /// Drops everything, after a rollback.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// How the counts of lanes change in one transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moves(HashMap<i64, [i64; 7]>);

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

impl Moves {
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

    /// Writes the sums, one statement per touched lane, and starts anew.
    pub(crate) fn write(&mut self, conn: &Connection) -> Result<(), Failure> {
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

/// Marks lanes that are empty, and retires those that have been for long.
pub(crate) fn retire(
    unit: &mut Unit<'_>,
    term: &Term,
    idle: Duration,
    limit: usize,
) -> Result<usize, Failure> {
    expect_term(unit, term, Duty::Prune)?;
    // The counts are about to be read.
    unit.flush()?;
    let cutoff = retire::cutoff(idle, unit.now).map_or(i64::MIN, Timestamp::as_micros);
    let found = rows::collect(
        &mut *unit.conn.prepare_cached(sql::LANES_TO_MARK)?,
        params![cutoff, rows::limit(limit)],
        |row| {
            let mark = LaneMark { empty_since: rows::maybe_moment(row, 2)?, retired: row.get(3)? };
            Ok((row.get::<_, i64>(0)?, rows::count(row, 1)?, mark))
        },
    )?;
    for (lane, jobs, before) in &found {
        let mark = before.seen(*jobs, idle, unit.now);
        let since = mark.empty_since.map(Timestamp::as_micros);
        unit.conn.prepare_cached(sql::LANE_MARK)?.execute(params![lane, since, mark.retired])?;
    }
    Ok(found.len())
}
