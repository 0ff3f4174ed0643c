//! Jobs that share something (H5, H6): the index by turn keys, what runs hold, and what a claim finds there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use backstop_core::job::{JobExtras, Record, SharingNeeds, State};
use backstop_core::run_limit::{KeyBucket, RunBucket, RunLimit, SharedRooms, SharedUse, SharingJob};
use backstop_core::{JobId, Timestamp};
use backstop_store::sharing::{FIRST_HEADS, KeyedJobs, MOST_KEYS, key_ranges};
use backstop_store::{Drawer, run_limits};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::lanes::LaneCache;
use crate::rows::{self, LaneRow, StateRow};
use crate::sql;
use crate::transaction::WriteTransaction;

/// Puts a new job into the index.
pub(crate) fn join(
    conn: &Connection,
    seq: i64,
    lane: i64,
    id: JobId,
    needs: Option<&SharingNeeds>,
    record: &Record,
) -> Result<(), SqliteFailure> {
    let Some(needs) = needs.filter(|_| record.state == State::Pending) else { return Ok(()) };
    let values = params![lane, needs.turn_key(), record.run_at.as_micros(), id.as_bytes(), seq];
    conn.prepare_cached(sql::TURN_INSERT)?.execute(values)?;
    Ok(())
}

/// Follows a record that has changed.
pub(crate) fn follow(
    tx: &mut WriteTransaction<'_>,
    stored: &StateRow,
    before: &Record,
) -> Result<(), SqliteFailure> {
    let after = &stored.record;
    let waits = |record: &Record| (record.state == State::Pending).then_some(record.run_at);
    let runs = |record: &Record| record.state == State::Running;
    let (waited, ran) = (waits(before) != waits(after), runs(before) != runs(after));
    if !(waited || ran) || !tx.lanes.get(tx.conn, stored.lane)?.shares {
        return Ok(());
    }
    let extras: Option<String> = rows::value(&mut *tx.conn.prepare_cached(sql::JOB_EXTRAS)?, [stored.seq])?;
    let needs = JobExtras::needs_in(&extras.unwrap_or_default());
    let (conn, lane, id) = (tx.conn, stored.lane, stored.id);
    if let Some(run_at) = waits(before).filter(|_| waited) {
        let values = params![lane, needs.turn_key(), run_at.as_micros(), id.as_bytes()];
        conn.prepare_cached(sql::TURN_DELETE)?.execute(values)?;
    }
    if waited {
        join(conn, stored.seq, lane, id, Some(&needs), after)?;
    }
    if ran {
        for (shared, amount) in needs.shared() {
            if runs(after) {
                let values = params![shared.text(), id.as_bytes(), lane, amount];
                conn.prepare_cached(sql::PERMIT_INSERT)?.execute(values)?;
            } else {
                conn.prepare_cached(sql::PERMIT_DELETE)?.execute(params![shared.text(), id.as_bytes()])?;
            }
        }
    }
    Ok(())
}

/// The due jobs of lanes by turn key, each with its first one.
pub(crate) fn look(
    conn: &Connection,
    now: Timestamp,
    lanes: &[Arc<LaneRow>],
    last: &str,
) -> Result<Vec<KeyedJobs>, SqliteFailure> {
    let mut stacks = Vec::new();
    for lane in lanes {
        let mut left = MOST_KEYS;
        for (mut from, to) in key_ranges(last) {
            while left > 0
                && let Some(key) = next_key(conn, lane.id, &from, &to)?
            {
                left -= 1;
                stacks.extend(first_of(conn, now, lane, &key)?);
                from = key;
            }
        }
    }
    Ok(stacks)
}

fn next_key(conn: &Connection, lane: i64, from: &str, to: &str) -> Result<Option<String>, SqliteFailure> {
    rows::value(&mut *conn.prepare_cached(sql::TURN_NEXT_KEY)?, params![lane, from, to])
}

fn first_of(
    conn: &Connection,
    now: Timestamp,
    lane: &LaneRow,
    key: &str,
) -> Result<Option<KeyedJobs>, SqliteFailure> {
    let heads = heads(conn, now, lane.id, key, FIRST_HEADS)?;
    let Some((_, id)) = heads.first() else { return Ok(None) };
    let extras: Option<String> = rows::value(&mut *conn.prepare_cached(sql::EXTRAS_BY_ID)?, [id.as_bytes()])?;
    Ok(Some(KeyedJobs {
        lane: lane.id,
        queue: lane.queue.clone(),
        kind: lane.kind.clone(),
        priority: lane.priority,
        key: key.into(),
        needs: JobExtras::needs_in(&extras.unwrap_or_default()),
        more: heads.len() == FIRST_HEADS,
        heads,
    }))
}

/// The first due jobs of a lane with a turn key.
pub(crate) fn heads(
    conn: &Connection,
    now: Timestamp,
    lane: i64,
    key: &str,
    limit: usize,
) -> Result<Vec<(Timestamp, JobId)>, SqliteFailure> {
    let values = params![lane, key, now.as_micros(), rows::limit(limit)];
    rows::collect(&mut *conn.prepare_cached(sql::TURN_HEADS)?, values, |row| {
        Ok((rows::moment(row, 0)?, rows::job_id(row, 1)?))
    })
}

/// What is left of what these jobs share, under these limits.
pub(crate) fn rooms(
    conn: &Connection,
    lanes: &mut LaneCache,
    limits: &[RunLimit],
    jobs: &[SharingJob],
    now: Timestamp,
) -> Result<SharedRooms, SqliteFailure> {
    let (mut shared, mut buckets) = (BTreeSet::new(), BTreeSet::new());
    for SharingJob { queue, kind, needs } in jobs {
        shared.extend(needs.shared().map(|(shared, _)| shared));
        let of = SharedRooms::buckets_of(limits, queue, kind, needs);
        let of = of.filter(|(limit, _)| limit.rate.is_some());
        buckets.extend(of.map(|(limit, key)| (limit.name.clone(), key)));
    }
    let mut used = HashMap::new();
    for one in shared {
        used.insert(one.clone(), held(conn, lanes, &one.text())?);
    }
    let buckets = buckets.into_iter().map(|of| Ok((of.clone(), bucket(conn, &of)?)));
    let buckets = buckets.collect::<Result<HashMap<KeyBucket, RunBucket>, SqliteFailure>>()?;
    Ok(SharedRooms::new(limits.iter().cloned(), used, buckets, now))
}

/// What runs hold of something shared.
fn held(conn: &Connection, lanes: &mut LaneCache, shared: &str) -> Result<Vec<SharedUse>, SqliteFailure> {
    let found = rows::collect(&mut *conn.prepare_cached(sql::PERMITS_HELD)?, [shared], |row| {
        Ok((row.get::<_, i64>(0)?, rows::count(row, 1)?, rows::job_id(row, 2)?))
    })?;
    let mut held = Vec::with_capacity(found.len());
    for (lane, amount, job) in found {
        let lane = lanes.get(conn, lane)?;
        held.push(SharedUse { queue: lane.queue.clone(), kind: lane.kind.clone(), amount, job });
    }
    Ok(held)
}

pub(crate) fn bucket(conn: &Connection, of: &KeyBucket) -> Result<RunBucket, SqliteFailure> {
    let place = [Drawer::KeyBuckets.as_str(), &run_limits::key_bucket(of)];
    let body: Option<String> = rows::value(&mut *conn.prepare_cached(sql::DOCUMENT_BODY)?, place)?;
    Ok(body.map(|body| run_limits::bucket(&body)).unwrap_or_default())
}

/// Writes what the rates of keys have left.
pub(crate) fn keep(conn: &Connection, rooms: &SharedRooms) -> Result<(), SqliteFailure> {
    for (of, bucket) in rooms.spent() {
        let values =
            params![Drawer::KeyBuckets.as_str(), run_limits::key_bucket(of), run_limits::body(*bucket)];
        conn.prepare_cached(sql::DOCUMENT_SAVE)?.execute(values)?;
    }
    Ok(())
}
