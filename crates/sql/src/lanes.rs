//! Lanes: their ids interned in memory. A lane never changes and never goes; counts are never cached.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use backstop_core::job::{NewJob, Priority};
use backstop_store::working_set::{LaneKey, lane_of};

use crate::columns::Columns;
use crate::failure::SqlFailure;
use crate::row::Row;
use crate::session::Session;
use crate::statement::{Request, Statement};
use crate::value::Value;

/// The lanes that this process has met.
#[derive(Debug, Default)]
pub struct Lanes {
    known: RwLock<Known>,
    /// True when a lane that is missing is made in the transaction that needs it.
    in_place: bool,
}

#[derive(Debug, Default)]
struct Known {
    by_key: HashMap<LaneKey, i64>,
    by_id: HashMap<i64, Arc<LaneKey>>,
}

/// Lanes of one transaction: what is known, and what it has found or made itself.
pub(crate) type LaneIds = BTreeMap<LaneKey, i64>;

impl Lanes {
    /// For a transaction of the caller's: there is no other connection to make a lane with. What it makes is not to be
    /// remembered, because a rollback takes it back.
    pub(crate) fn of_caller() -> Self {
        Self { in_place: true, ..Self::default() }
    }

    /// True when the ids of these lanes are known.
    pub(crate) fn know_all(&self, lanes: &BTreeSet<LaneKey>) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().all(|lane| known.by_key.contains_key(lane))
    }

    /// True when the ids of the lanes of all these jobs are known.
    pub(crate) fn know_all_of(&self, jobs: &[NewJob]) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        // Jobs of one lane mostly follow each other.
        let mut latest: Option<LaneKey> = None;
        jobs.iter().all(|job| {
            let lane = lane_of(&job.spec);
            latest.as_ref() == Some(&lane) || known.by_key.contains_key(latest.insert(lane))
        })
    }

    /// The id of a lane, if it is known.
    #[must_use]
    pub fn id_of(&self, lane: &LaneKey) -> Option<i64> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_key.get(lane).copied()
    }

    /// The lane with this id, once [`Lanes::meet`] has seen it.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`] when nobody has.
    pub fn get(&self, id: i64) -> Result<Arc<LaneKey>, SqlFailure> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let lane = known.by_id.get(&id).cloned();
        lane.ok_or_else(|| SqlFailure::Unreadable(format!("lane {id} does not exist, but has jobs")))
    }

    /// True when the lanes with these ids are known.
    #[must_use]
    pub fn know(&self, ids: &[i64]) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        ids.iter().all(|id| known.by_id.contains_key(id))
    }

    /// Makes sure that the lanes with these ids are known.
    ///
    /// # Errors
    /// Those of the session.
    pub async fn meet(
        &self,
        session: &mut dyn Session,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<(), SqlFailure> {
        let missing: BTreeSet<i64> = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            ids.into_iter().filter(|id| !known.by_id.contains_key(id)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let rows = session.ask(Statement::LanesById.each(Value::ints(missing))).await?;
        let found = rows.into_iter().map(|mut row| read(&mut row)).collect::<Result<Vec<_>, _>>()?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.by_id.extend(found.into_iter().map(|(id, lane)| (id, Arc::new(lane))));
        Ok(())
    }

    /// The ids of lanes. [`Lanes::remember`] them once the transaction is committed.
    ///
    /// # Errors
    /// [`SqlFailure::NoLane`] names those that nobody has made, unless they are made in place.
    pub(crate) async fn ids(
        &self,
        session: &mut dyn Session,
        lanes: impl IntoIterator<Item = LaneKey>,
    ) -> Result<LaneIds, SqlFailure> {
        let (mut ids, mut missing) = (LaneIds::new(), BTreeSet::new());
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            for lane in lanes {
                match known.by_key.get(&lane) {
                    Some(id) => drop(ids.insert(lane, *id)),
                    None => drop(missing.insert(lane)),
                }
            }
        }
        find(session, &mut missing, &mut ids).await?;
        if !missing.is_empty() && self.in_place {
            // Two statements: the second sees a lane that another transaction made while the first one waited for it.
            session.ask(make(&missing)).await?;
            find(session, &mut missing, &mut ids).await?;
        }
        if missing.is_empty() { Ok(ids) } else { Err(SqlFailure::NoLane(missing)) }
    }

    /// Keeps lanes that are committed.
    pub(crate) fn remember(&self, ids: LaneIds) {
        let all_known = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            ids.keys().all(|lane| known.by_key.contains_key(lane))
        };
        if all_known {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for (lane, id) in ids {
            known.by_id.insert(id, Arc::new(lane.clone()));
            known.by_key.insert(lane, id);
        }
    }
}

/// Makes lanes; those that are there stay as they are.
pub(crate) fn make(lanes: &BTreeSet<LaneKey>) -> Request {
    Statement::MakeLanes.rows(names(lanes))
}

/// Looks for lanes that are missing.
async fn find(
    session: &mut dyn Session,
    missing: &mut BTreeSet<LaneKey>,
    ids: &mut LaneIds,
) -> Result<(), SqlFailure> {
    if missing.is_empty() {
        return Ok(());
    }
    for mut row in session.ask(Statement::FindLanes.rows(names(missing))).await? {
        let (id, lane) = read(&mut row)?;
        if missing.remove(&lane) {
            ids.insert(lane, id);
        }
    }
    Ok(())
}

fn names(lanes: &BTreeSet<LaneKey>) -> Columns {
    let mut columns = Columns::default();
    for lane in lanes {
        let version = lane.stored_version();
        columns.row().text(&lane.queue).text(&lane.kind).int(version).int(lane.priority.level());
    }
    columns
}

/// Reads id, queue, kind, version and priority.
///
/// # Errors
/// [`SqlFailure::Unreadable`].
pub fn read(row: &mut Row) -> Result<(i64, LaneKey), SqlFailure> {
    let id = row.int()?;
    let (queue, kind, version) = (row.text()?.into(), row.text()?.into(), row.number()?);
    let level = row.int()?;
    let priority = Priority::from_level(level)
        .ok_or_else(|| SqlFailure::Unreadable(format!("lane {id} has priority {level}")))?;
    let lane = LaneKey { queue, kind, version: 0, priority, shares: false };
    Ok((id, lane.with_stored_version(version)))
}
