//! Writes the sum of a transaction, in a handful of statements and in one fixed order of tables.

use std::collections::BTreeSet;

use backstop_core::Timestamp;
use backstop_store::desk::{LaneKey, Writes, lane_of};

use crate::columns::{Cells, Columns};
use crate::document;
use crate::error::Failure;
use crate::incident;
use crate::lanes::{LaneIds, Lanes, id_of};
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::sql::insert::Insert;
use crate::values::Value;

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
    let mut lanes = Numbers { ids, latest: None };
    write_jobs(&mut out, writes, &mut lanes)?;
    let gone = writes.ready_out.iter();
    let gone = gone.map(|row| vec![id_of(ids, &row.lane), Value::at(row.run_at), Value::job(row.id)]);
    add(&mut out, sql::READY_DELETE, gone.collect());
    insert(&mut out, &sql::insert::RECORDS, &writes.records_in, |row, record| {
        rows::write_record(row, record, lanes.of(&record.lane))
    })?;
    if !writes.records_out.is_empty() {
        out.push(Query::new(sql::RECORDS_DELETE, vec![Value::jobs(&writes.records_out)]));
    }
    insert(&mut out, &sql::insert::READY, &writes.ready_in, |row, ready| {
        row.maybe_int(lanes.of(&ready.lane)).int(ready.run_at.as_micros()).id(Some(ready.id.as_uuid()));
        row.maybe_int(ready.expires_at.map(Timestamp::as_micros)).bool(ready.rowed);
        Ok(())
    })?;
    insert(&mut out, &sql::insert::DONE, &writes.done, |row, done| {
        rows::write_done(row, done, lanes.of(&done.lane))
    })?;
    insert(&mut out, &sql::insert::ATTEMPTS, &writes.attempts, |row, (job, run)| {
        rows::write_attempt(row, *job, run)
    })?;
    write_grips(&mut out, writes);
    let tally = writes.tally.iter().filter(|(_, counts)| counts.iter().any(|count| *count != 0));
    insert(&mut out, &sql::insert::TALLY, tally, |row, (lane, counts)| {
        row.maybe_int(lanes.of(lane));
        for count in counts {
            row.int(*count);
        }
        Ok(())
    })?;
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
    rows.iter().for_each(|row| columns.push(row));
    out.push(Query::new(sql, columns.into_params()));
}

/// Adds a statement that inserts a row for each of `all`, unless there are none.
fn insert<T>(
    out: &mut Vec<Query>,
    into: &Insert,
    all: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Cells<'_>, T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut columns = Columns::default();
    for one in all {
        write(&mut columns.row(), one)?;
    }
    if columns.len() > 0 {
        out.push(into.query(columns));
    }
    Ok(())
}

/// The ids of lanes. Rows of one lane mostly follow each other, so the one before is tried first.
struct Numbers<'i> {
    ids: &'i LaneIds,
    latest: Option<(LaneKey, Option<i64>)>,
}

impl Numbers<'_> {
    fn of(&mut self, lane: &LaneKey) -> Option<i64> {
        match &self.latest {
            Some((latest, id)) if latest == lane => *id,
            _ => {
                let id = self.ids.get(lane).copied();
                self.latest = Some((lane.clone(), id));
                id
            }
        }
    }
}

fn write_jobs(out: &mut Vec<Query>, writes: &Writes, lanes: &mut Numbers<'_>) -> Result<(), Failure> {
    insert(out, &sql::insert::JOBS, &writes.jobs, |row, (job, run_at)| {
        rows::write_job(row, job, *run_at, lanes.of(&lane_of(&job.spec)))
    })?;
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
            jobs[7].spec.provenance_mut().trace = Some("00-1-2-01".into());
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
