//! The lanes that a connection has read or made, with their ids, kept in memory.
//!
//! A lane never changes and is never deleted, so a cached one is right as long as the transaction that made it was not
//! rolled back; then [`LaneCache::forget`] drops them all. Counts are never cached.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::job::Spec;
use backstop_store::show::KnownTotals;
use backstop_store::working_set::{LaneKey, lane_of};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::SqliteFailure;
use crate::rows::{self, LaneRow};
use crate::sql;

/// The lanes that a connection has met.
#[derive(Debug, Default)]
pub(crate) struct LaneCache {
    by_key: HashMap<LaneKey, Arc<LaneRow>>,
    by_id: HashMap<i64, Arc<LaneRow>>,
    /// Batches are mostly of one lane.
    latest: Option<Arc<LaneRow>>,
    pub(crate) totals: KnownTotals,
}

impl LaneCache {
    /// The lane that a new job belongs to, made if need be; none when the job is stored already and needs none. A lane
    /// that is made without a job would show as a queue that nobody asked for.
    pub(crate) fn of(
        &mut self,
        conn: &Connection,
        spec: &Spec,
    ) -> Result<Option<Arc<LaneRow>>, SqliteFailure> {
        if let Some(lane) = self.latest.as_ref().filter(|lane| lane.is_of(spec)) {
            return Ok(Some(lane.clone()));
        }
        let key = lane_of(spec);
        if let Some(lane) = self.by_key.get(&key) {
            self.latest = Some(lane.clone());
            return Ok(Some(lane.clone()));
        }
        let values = params![spec.queue, spec.kind, key.stored_version(), spec.priority.level()];
        let found = conn.prepare_cached(sql::LANE_FIND)?.query_row(values, |row| row.get(0)).optional()?;
        let id = match found {
            Some(id) => id,
            None if conn.prepare_cached(sql::STATE_IS_THERE)?.exists([spec.id.as_bytes()])? => {
                return Ok(None);
            }
            None => conn.prepare_cached(sql::LANE_INSERT)?.insert(values)?,
        };
        Ok(Some(self.remember(LaneRow::new(id, key))))
    }

    /// The lane with this id.
    pub(crate) fn get(&mut self, conn: &Connection, id: i64) -> Result<Arc<LaneRow>, SqliteFailure> {
        if let Some(lane) = self.latest.as_ref().filter(|lane| lane.id == id) {
            return Ok(lane.clone());
        }
        if let Some(lane) = self.by_id.get(&id) {
            self.latest = Some(lane.clone());
            return Ok(lane.clone());
        }
        let lane = conn.prepare_cached(sql::LANE_BY_ID)?.query_row([id], LaneRow::from_row).optional()?;
        let lane =
            lane.ok_or_else(|| SqliteFailure::Unreadable(format!("lane {id} does not exist, but has jobs")))?;
        Ok(self.remember(lane))
    }

    /// Keeps a lane that was read or made.
    pub(crate) fn remember(&mut self, lane: LaneRow) -> Arc<LaneRow> {
        let lane = Arc::new(lane);
        self.by_key.insert(lane.key(), lane.clone());
        self.by_id.insert(lane.id, lane.clone());
        self.latest = Some(lane.clone());
        lane
    }

    /// Drops everything, after a rollback.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

/// When the first pending job of a lane is or becomes due.
pub(crate) fn next_due(conn: &Connection, lane: i64) -> Result<Option<Timestamp>, SqliteFailure> {
    let due = rows::value(&mut *conn.prepare_cached(sql::LANE_NEXT_DUE)?, [lane])?;
    Ok(due.map(Timestamp::from_micros))
}
