//! Lanes: their ids interned in memory. A lane never changes and never goes; counts are never cached.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use backstop_core::job::{NewJob, Priority};
use backstop_store::desk::{LaneKey, lane_of};

use crate::error::Failure;
use crate::session::{Query, Session};
use crate::sql;
use crate::values::{Row, Value};

/// The lanes that this process has met.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
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

    /// The lane with this id, once [`Lanes::meet`] has seen it.
    pub(crate) fn get(&self, id: i64) -> Result<Arc<LaneKey>, Failure> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let lane = known.by_id.get(&id).cloned();
        lane.ok_or_else(|| Failure::Unreadable(format!("a job of lane {id}, which does not exist")))
    }

    /// Makes sure that the lanes with these ids are known.
    pub(crate) async fn meet(
        &self,
        session: &mut impl Session,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<(), Failure> {
        let missing: BTreeSet<i64> = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            ids.into_iter().filter(|id| !known.by_id.contains_key(id)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let query = Query::listed(sql::LANES_BY_ID, vec![Value::ints(missing)]);
        let rows = session.one(query).await?;
        let found = rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.by_id.extend(found.into_iter().map(|(id, lane)| (id, Arc::new(lane))));
        Ok(())
    }

    /// The ids of lanes. [`Lanes::remember`] them once the transaction is committed.
    ///
    /// # Errors
    /// [`Failure::NoLane`] names those that nobody has made, unless they are made in place.
    pub(crate) async fn ids(
        &self,
        session: &mut impl Session,
        lanes: impl IntoIterator<Item = LaneKey>,
    ) -> Result<LaneIds, Failure> {
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
        if missing.is_empty() {
            return Ok(ids);
        }
        // Most of them were made by others long ago: writing begins only when they were not.
        self.find(session, &mut missing, &mut ids).await?;
        if missing.is_empty() {
            return Ok(ids);
        }
        if !self.in_place {
            return Err(Failure::NoLane(missing));
        }
        session.run(make(&missing)).await?;
        // The lanes that another transaction made while we waited for it are seen here.
        self.find(session, &mut missing, &mut ids).await?;
        match missing.first() {
            None => Ok(ids),
            Some(lane) => {
                Err(Failure::Again(format!("the lane of {} in {} is not seen yet", lane.kind, lane.queue)))
            }
        }
    }

    /// Moves those of `missing` that exist to `ids`.
    async fn find(
        &self,
        session: &mut impl Session,
        missing: &mut BTreeSet<LaneKey>,
        ids: &mut LaneIds,
    ) -> Result<(), Failure> {
        let queues: BTreeSet<Arc<str>> = missing.iter().map(|lane| lane.queue.clone()).collect();
        let query = Query::listed(sql::LANES_OF, vec![Value::texts(queues)]);
        for row in session.one(query).await? {
            let (id, lane) = read(row)?;
            if missing.remove(&lane) {
                ids.insert(lane, id);
            }
        }
        Ok(())
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

/// The statements that make lanes; those that are there stay as they are.
pub(crate) fn make(lanes: &BTreeSet<LaneKey>) -> Vec<Query> {
    let names = lanes.iter().map(|lane| {
        let (version, priority) = (Value::int(lane.version), Value::int(lane.priority.level()));
        vec![Value::text(&lane.queue), Value::text(&lane.kind), version, priority]
    });
    let mut batch = Vec::new();
    sql::LANES_MAKE.add(&mut batch, names.collect());
    batch
}

/// Reads id, queue, kind, version and priority.
pub(crate) fn read(mut row: Row) -> Result<(i64, LaneKey), Failure> {
    read_from(&mut row)
}

pub(crate) fn read_from(row: &mut Row) -> Result<(i64, LaneKey), Failure> {
    let id = row.int()?;
    let (queue, kind, version) = (row.text()?.into(), row.text()?.into(), row.number()?);
    let level = row.int()?;
    let priority = Priority::from_level(level)
        .ok_or_else(|| Failure::Unreadable(format!("lane {id} has priority {level}")))?;
    Ok((id, LaneKey { queue, kind, version, priority }))
}

/// The id of a lane that [`Lanes::ids`] has been asked for.
pub(crate) fn id_of(ids: &LaneIds, lane: &LaneKey) -> Value {
    Value::Int(ids.get(lane).copied())
}
