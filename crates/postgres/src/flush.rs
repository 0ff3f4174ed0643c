//! Writes the sum of a transaction, in a handful of statements and in one fixed order of tables.

use std::collections::BTreeSet;

use backstop_core::Timestamp;
use backstop_store::desk::{LaneKey, Writes};

use crate::document;
use crate::error::Failure;
use crate::incident;
use crate::lanes::{LaneIds, Lanes, id_of};
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::sql::insert::Insert;
use crate::values::{Columns, Value};

/// Statements that write, and the lanes they mention. When failures are counted, the last statement does that, because
/// everybody who fails alike waits for it; what it answers is for [`incident::judge`].
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
    let keys = |keys: &[(String, backstop_core::JobId)]| -> Vec<Vec<Value>> {
        keys.iter().map(|(key, job)| vec![Value::text(key), Value::job(*job)]).collect()
    };
    add(&mut out, sql::IDEMPOTENCY_INSERT, keys(&writes.idempotency));
    add(&mut out, sql::KEYS_DELETE, keys(&writes.keys_out));
    add(&mut out, sql::KEYS_INSERT, keys(&writes.keys_in));
    write_jobs(&mut out, writes, ids)?;
    let gone = writes.ready_out.iter();
    let gone = gone.map(|row| vec![id_of(ids, &row.lane), Value::at(row.run_at), Value::job(row.id)]);
    add(&mut out, sql::READY_DELETE, gone.collect());
    let records = writes.records_in.iter().map(|row| rows::record_values(row, id_of(ids, &row.lane)));
    insert(&mut out, &sql::insert::RECORDS, records)?;
    if !writes.records_out.is_empty() {
        out.push(Query::new(sql::RECORDS_DELETE, vec![Value::jobs(&writes.records_out)]));
    }
    let ready = writes.ready_in.iter().map(|row| {
        let expires_at = Value::Int(row.expires_at.map(Timestamp::as_micros));
        let (lane, run_at) = (id_of(ids, &row.lane), Value::at(row.run_at));
        Ok(vec![lane, run_at, Value::job(row.id), expires_at, Value::Bool(row.rowed)])
    });
    insert(&mut out, &sql::insert::READY, ready)?;
    let done = writes.done.iter().map(|row| rows::done_values(row, id_of(ids, &row.lane)));
    insert(&mut out, &sql::insert::DONE, done)?;
    let runs = writes.attempts.iter().map(|(job, run)| rows::attempt_values(*job, run));
    insert(&mut out, &sql::insert::ATTEMPTS, runs)?;
    write_grips(&mut out, writes);
    let tally = writes.tally.iter().filter(|(_, counts)| counts.iter().any(|count| *count != 0));
    let tally = tally.map(|(lane, counts)| {
        let counts = counts.iter().map(|count| Value::Int(Some(*count)));
        Ok(std::iter::once(id_of(ids, lane)).chain(counts).collect())
    });
    insert(&mut out, &sql::insert::TALLY, tally)?;
    document::write_alerts(&mut out, &writes.alerts)?;
    incident::write_open(&mut out, writes);
    if !writes.incidents.is_empty() {
        out.push(incident::count(writes, now));
    }
    Ok(out)
}

/// Adds a statement for rows, unless there are none.
pub(crate) fn add(out: &mut Vec<Query>, sql: &'static str, rows: Vec<Vec<Value>>) {
    if rows.is_empty() {
        return;
    }
    let mut columns = Columns::default();
    rows.into_iter().for_each(|row| columns.push(row));
    out.push(Query::new(sql, columns.into_params()));
}

/// Adds a statement that inserts rows, unless there are none.
fn insert(
    out: &mut Vec<Query>,
    into: &Insert,
    rows: impl Iterator<Item = Result<Vec<Value>, Failure>>,
) -> Result<(), Failure> {
    let mut columns = Columns::default();
    for row in rows {
        columns.push(row?);
    }
    if columns.len() > 0 {
        out.push(into.query(columns));
    }
    Ok(())
}

fn write_jobs(out: &mut Vec<Query>, writes: &Writes, ids: &LaneIds) -> Result<(), Failure> {
    let jobs = writes.jobs.iter().map(|(job, run_at)| {
        let lane = id_of(ids, &backstop_store::desk::lane_of(&job.spec));
        rows::job_values(job, *run_at, lane)
    });
    insert(out, &sql::insert::JOBS, jobs)?;
    let tags = writes
        .jobs
        .iter()
        .flat_map(|(job, _)| job.spec.tags.iter().map(|tag| vec![Value::text(tag), Value::job(job.spec.id)]));
    add(out, sql::TAGS_INSERT, tags.collect());
    Ok(())
}

fn write_grips(out: &mut Vec<Query>, writes: &Writes) {
    let (spent, kept): (Vec<_>, Vec<_>) = writes.grips.iter().partition(|grip| grip.is_spent());
    if !spent.is_empty() {
        let fences = spent.iter().map(|grip| Some(grip.fence.0)).collect();
        out.push(Query::new(sql::GRIPS_DELETE, vec![Value::Ints(fences)]));
    }
    let kept =
        kept.iter().map(|grip| vec![Value::Int(Some(grip.fence.0)), Value::Bytes(grip.encode_slots())]);
    add(out, sql::GRIPS_UPDATE, kept.collect());
}

#[cfg(test)]
mod tests {
    use backstop_core::JobId;
    use backstop_core::job::{NewJob, Spec};
    use backstop_store::Submit;
    use backstop_store::desk::{Desk, Wants};

    use super::*;

    /// The statements of a batch of jobs, each with how many parameters it has.
    fn batch(traced: bool) -> Vec<(String, usize)> {
        let now = Timestamp::from_micros(1);
        let mut jobs: Vec<NewJob> =
            (1..=50).map(|number| NewJob::new(Spec::new(JobId::from_u128(number), "work", "{}"))).collect();
        if traced {
            jobs[7].spec.papers_mut().trace = Some("00-1-2-01".into());
        }
        let mut desk = Desk::new(now, Wants { events: false, alerts: false });
        desk.submit(&Submit { jobs, atomic: true }).expect("small");
        let writes = desk.into_writes();
        let ids = mentioned(&writes).into_iter().map(|lane| (lane, 1)).collect();
        let queries = statements(&writes, &ids, now).expect("plain data");
        queries.into_iter().map(|query| (query.sql.into_owned(), query.params.len())).collect()
    }

    #[test]
    fn what_a_batch_does_not_use_costs_nothing() {
        // E9
        let (plain, traced) = (batch(false), batch(true));
        let begins =
            |text: &str, columns: &str| text.starts_with(&format!("INSERT INTO backstop.job ({columns})"));
        assert!(begins(&plain[0].0, "id, lane, created_at, run_at, payload"), "{plain:?}");
        assert!(begins(&traced[0].0, "id, lane, created_at, run_at, payload, papers"), "{traced:?}");
        assert_eq!((plain[0].1, traced[0].1), (5, 6));
        assert_eq!(plain.len(), 3, "jobs, ready and the tally, as ever");
        assert_eq!(plain[1..], traced[1..], "and all else is the same");
    }
}
