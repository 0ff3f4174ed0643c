//! Writes the sum of a transaction, in a handful of statements and in one fixed order of tables.

use std::collections::BTreeSet;

use backstop_core::{JobId, Timestamp};
use backstop_store::desk::{LaneKey, ReadyRow, Writes};

use crate::document;
use crate::error::Failure;
use crate::incident;
use crate::lanes::{LaneIds, Lanes, id_of};
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::values::Value;

/// Statements that write, and the lanes they mention.
pub(crate) struct Flush {
    pub(crate) queries: Vec<Query>,
    pub(crate) lanes: LaneIds,
}

/// Makes the statements for what a transaction changed. Lanes that do not exist yet are made right away.
pub(crate) async fn prepare(
    session: &mut impl Session,
    lanes: &Lanes,
    writes: &Writes,
    now: Timestamp,
) -> Result<Flush, Failure> {
    let ids = lanes.ids(session, mentioned(writes)).await?;
    let queries = statements(writes, &ids, now)?;
    Ok(Flush { queries, lanes: ids })
}

fn mentioned(writes: &Writes) -> BTreeSet<LaneKey> {
    // Whatever moves is counted, but a job that goes back to where it was is not.
    let rows = writes.ready_in.iter().chain(&writes.ready_out).map(|row| &row.lane);
    let records = writes.records_in.iter().map(|row| &row.lane);
    let done = writes.done.iter().map(|row| &row.lane);
    let mut lanes: BTreeSet<LaneKey> = writes.tally.keys().cloned().collect();
    for lane in rows.chain(records).chain(done) {
        if !lanes.contains(lane) {
            lanes.insert(lane.clone());
        }
    }
    lanes
}

fn statements(writes: &Writes, ids: &LaneIds, now: Timestamp) -> Result<Vec<Query>, Failure> {
    let mut out = Vec::new();
    let key = |(key, job): &(String, JobId)| vec![Value::text(key), Value::job(*job)];
    sql::IDEMPOTENCY_INSERT.add(&mut out, writes.idempotency.iter().map(key).collect());
    out.extend(writes.keys_out.iter().map(|gone| Query::new(sql::KEY_DELETE, key(gone))));
    sql::KEYS_INSERT.add(&mut out, writes.keys_in.iter().map(key).collect());
    write_jobs(&mut out, writes, ids)?;
    write_ready(&mut out, writes, ids)?;
    let done = writes.done.iter().map(|row| rows::done_values(row, id_of(ids, &row.lane)));
    sql::DONE_INSERT.add(&mut out, done.collect::<Result<_, _>>()?);
    let runs = writes.attempts.iter().map(|(job, run)| rows::attempt_values(*job, run));
    sql::ATTEMPTS_INSERT.add(&mut out, runs.collect::<Result<_, _>>()?);
    write_grips(&mut out, writes);
    document::put_alerts(&mut out, &writes.alerts)?;
    let tally = writes.tally.iter().filter(|(_, counts)| counts.iter().any(|count| *count != 0));
    let tally = tally.map(|(lane, counts)| {
        std::iter::once(id_of(ids, lane)).chain(counts.iter().copied().map(Value::int)).collect()
    });
    sql::TALLY_INSERT.add(&mut out, tally.collect());
    incident::write(&mut out, writes, now);
    Ok(out)
}

fn write_jobs(out: &mut Vec<Query>, writes: &Writes, ids: &LaneIds) -> Result<(), Failure> {
    let mut tags = Vec::new();
    let with_papers = writes.jobs.iter().any(|(job, _)| job.spec.provenance.is_some());
    let mut jobs = Vec::with_capacity(writes.jobs.len());
    for (job, run_at) in &writes.jobs {
        let lane = id_of(ids, &backstop_store::desk::lane_of(&job.spec));
        let mut values = rows::job_values(job, *run_at, lane)?;
        if with_papers {
            values.push(rows::papers_value(job));
        }
        jobs.push(values);
        tags.extend(job.spec.tags.iter().map(|tag| vec![Value::text(tag), Value::job(job.spec.id)]));
    }
    let insert = if with_papers { sql::JOBS_INSERT_PAPERS } else { sql::JOBS_INSERT };
    insert.add(out, jobs);
    sql::TAGS_INSERT.add(out, tags);
    Ok(())
}

/// Writes what waits: rows of `ready`, and the records that they and others have.
fn write_ready(out: &mut Vec<Query>, writes: &Writes, ids: &LaneIds) -> Result<(), Failure> {
    let mut gone: Vec<&ReadyRow> = writes.ready_out.iter().collect();
    gone.sort_by_key(|row| (ids.get(&row.lane).copied(), row.run_at, row.id));
    let key = |row: &&ReadyRow| vec![id_of(ids, &row.lane), Value::at(row.run_at), Value::job(row.id)];
    sql::READY_DELETE.add(out, gone.iter().map(key).collect());
    let records = writes.records_in.iter().map(|row| rows::record_values(row, id_of(ids, &row.lane)));
    sql::RECORDS_SAVE.add(out, records.collect::<Result<_, _>>()?);
    sql::RECORDS_DELETE.add(out, writes.records_out.iter().map(|id| vec![Value::job(*id)]).collect());
    let ready = writes.ready_in.iter().map(|row| {
        let (lane, run_at) = (id_of(ids, &row.lane), Value::at(row.run_at));
        let rowed = Value::int(i64::from(row.rowed));
        vec![lane, run_at, Value::job(row.id), Value::maybe_at(row.expires_at), rowed]
    });
    sql::READY_INSERT.add(out, ready.collect());
    Ok(())
}

fn write_grips(out: &mut Vec<Query>, writes: &Writes) {
    let (spent, kept): (Vec<_>, Vec<_>) = writes.grips.iter().partition(|grip| grip.is_spent());
    sql::GRIPS_DELETE.add(out, spent.iter().map(|grip| vec![Value::int(grip.fence.0)]).collect());
    out.extend(kept.iter().map(|grip| {
        Query::new(sql::GRIP_UPDATE, vec![Value::bytes(grip.encode_slots()), Value::int(grip.fence.0)])
    }));
}
