//! Limits on runs (H5): what they leave room for, and what is used of them. One writer at a time needs no lock.

use backstop_core::Timestamp;
use backstop_core::job::SharedResource;
use backstop_core::run_limit::{CountBy, RunBucket, RunLimit, RunLimitView, RunRooms, RunUse};
use backstop_store::{Claim, Drawer, run_limits};
use rusqlite::{Connection, params};

use crate::error::SqliteFailure;
use crate::query::Snapshot;
use crate::rows;
use crate::sql;

/// What the limits of a claim leave room for. The counts of lanes must be written.
pub(crate) fn rooms(conn: &Connection, claim: &Claim, now: Timestamp) -> Result<RunRooms, SqliteFailure> {
    let used = |limit: &RunLimit| Ok((limit.clone(), counted(conn, limit)?.0));
    let limits: Vec<_> = claim.limits_in_reach().map(used).collect::<Result<_, SqliteFailure>>()?;
    Ok(RunRooms::new(limits, now))
}

/// What is used of a limit, and how many pending jobs it is about.
fn counted(conn: &Connection, limit: &RunLimit) -> Result<(RunUse, u64), SqliteFailure> {
    if !limit.counts_all() {
        let scope = params![limit.queue, limit.kind];
        let running: Option<i64> = rows::value(&mut *conn.prepare_cached(sql::KEYED_RUNS)?, scope)?;
        let running = u64::try_from(running.unwrap_or_default()).unwrap_or_default();
        let running = if limit.by == CountBy::Key { running } else { 0 };
        return Ok((RunUse { running, permits: permits(conn, limit)?, ..RunUse::default() }, 0));
    }
    let mut select = conn.prepare_cached(sql::RUN_COUNTS)?;
    let counts = select.query_row(params![limit.queue, limit.kind], |row| Ok((row.get(0)?, row.get(1)?)));
    let (running, pending): (i64, i64) = counts?;
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    let bucket = if limit.rate.is_some() { bucket(conn, limit)? } else { RunBucket::default() };
    Ok((RunUse { running: count(running), bucket, permits: permits(conn, limit)? }, count(pending)))
}

/// The permits of a pool that runs hold.
fn permits(conn: &Connection, limit: &RunLimit) -> Result<u64, SqliteFailure> {
    if limit.permits.is_none() {
        return Ok(0);
    }
    let pool = SharedResource::Pool(limit.name.clone()).text();
    let held: Option<i64> = rows::value(&mut *conn.prepare_cached(sql::POOL_HELD)?, [pool])?;
    Ok(u64::try_from(held.unwrap_or_default()).unwrap_or_default())
}

fn bucket(conn: &Connection, limit: &RunLimit) -> Result<RunBucket, SqliteFailure> {
    let mut select = conn.prepare_cached(sql::DOCUMENT_BODY)?;
    let place = [Drawer::RunBuckets.as_str(), &limit.name];
    let body: Option<String> = rows::value(&mut select, place)?;
    Ok(body.map(|body| run_limits::bucket(&body)).unwrap_or_default())
}

/// Writes what rates have left.
pub(crate) fn keep(conn: &Connection, rooms: &RunRooms) -> Result<(), SqliteFailure> {
    for (name, bucket) in rooms.spent() {
        let values = params![Drawer::RunBuckets.as_str(), name, run_limits::body(bucket)];
        conn.prepare_cached(sql::DOCUMENT_SAVE)?.execute(values)?;
    }
    Ok(())
}

/// The revision of the document that has all limits; 0 when there is none.
pub(crate) fn revision(conn: &Connection) -> Result<i64, SqliteFailure> {
    let mut select = conn.prepare_cached(sql::DOCUMENT_REVISION)?;
    let found: Option<i64> = rows::value(&mut select, [Drawer::RunLimits.as_str(), run_limits::KEY])?;
    Ok(found.unwrap_or_default())
}

/// What is used of limits.
pub(crate) fn views(
    snapshot: &Snapshot<'_>,
    limits: &[RunLimit],
) -> Result<Vec<RunLimitView>, SqliteFailure> {
    let view = |limit: &RunLimit| {
        let (used, pending) = counted(snapshot.conn, limit)?;
        Ok(RunLimitView { limit: limit.clone(), used, pending, now: snapshot.now })
    };
    limits.iter().map(view).collect()
}
