//! Jobs that ended long ago leave the hot tables (L16): one row with a document stands for all of theirs.

use std::collections::HashMap;
use std::sync::Arc;

use backstop_core::job::{JobDetail, Retention, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::desk::{Writes, lane_of};
use backstop_store::{Archived, Duty, Term};

use crate::duty;
use crate::error::Failure;
use crate::load;
use crate::query;
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::Value;

/// Moves up to `limit` jobs whose retention is over.
pub(crate) async fn archive(
    unit: &mut Unit,
    term: &Term,
    retention: &Retention,
    limit: usize,
) -> Result<usize, Failure> {
    let batch = vec![unit.clock(), duty::ask(term)];
    let mut answers = unit.run(batch).await?;
    let current = answers.pop().unwrap_or_default();
    let now = crate::shared::moment_of(answers.swap_remove(0))?;
    duty::expect_term(term, Duty::Archive, current, now)?;
    let mut ids: Vec<JobId> = Vec::new();
    for state in Retention::STATES {
        ids.extend(ended(unit, retention, state, now, limit - ids.len()).await?);
    }
    if ids.is_empty() {
        return unit.commit(Vec::new()).await.map(|_| 0);
    }
    let moved = ids.len();
    let (details, documents) = documents(unit, &ids, now).await?;
    let mut queries = leave(&details, &documents, now);
    for gone in [sql::RECORDS_DELETE, sql::DONE_DELETE, sql::ATTEMPTS_DELETE, sql::JOBS_DELETE] {
        gone.add(&mut queries, ids.iter().map(|id| vec![Value::job(*id)]).collect());
    }
    let mut writes = Writes::default();
    for detail in &details {
        writes.count(&lane_of(&detail.view.job.spec), Some(detail.view.record.state), None);
    }
    unit.write_after(queries, writes, now).await?;
    Ok(moved)
}

/// Jobs that are in `state` for longer than their retention, the longest ended first.
async fn ended(
    unit: &mut Unit,
    retention: &Retention,
    state: State,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<JobId>, Failure> {
    let Some(cutoff) = retention.cutoff(state, now).filter(|_| limit > 0) else { return Ok(Vec::new()) };
    let query = if state == State::Succeeded {
        Query::new(sql::ENDED_WELL, vec![Value::at(cutoff), Value::count(limit)])
    } else {
        let status = Value::int(rows::status_code(state));
        Query::new(sql::ENDED, vec![status, Value::at(cutoff), Value::count(limit)])
    };
    unit.one(query).await?.into_iter().map(|mut row| row.job()).collect()
}

async fn documents(
    unit: &mut Unit,
    ids: &[JobId],
    now: Timestamp,
) -> Result<(Vec<JobDetail>, Vec<Archived>), Failure> {
    let details: Vec<JobDetail> = query::details(unit, ids, now).await?.into_iter().flatten().collect();
    let mut documents = Vec::with_capacity(details.len());
    for detail in &details {
        let mut runs = query::ledger(unit, detail.view.job.spec.id).await?;
        runs.reverse();
        documents.push(Archived::new(detail, &runs, now)?);
    }
    Ok((details, documents))
}

fn leave(details: &[JobDetail], documents: &[Archived], now: Timestamp) -> Vec<Query> {
    let mut saved = Vec::new();
    let mut tags = Vec::new();
    for (detail, archived) in details.iter().zip(documents) {
        let (spec, record) = (&detail.view.job.spec, &detail.view.record);
        saved.push(vec![
            Value::job(spec.id),
            Value::int(rows::status_code(record.state)),
            Value::maybe_at(record.finished_at),
            Value::at(now),
            Value::text(&archived.document),
        ]);
        tags.extend(spec.tags.iter().map(|tag| vec![Value::text(tag), Value::job(spec.id)]));
    }
    let mut queries = Vec::new();
    sql::ARCHIVE_SAVE.add(&mut queries, saved);
    sql::TAGS_DELETE.add(&mut queries, tags);
    queries
}

/// Archived jobs by id, in order.
pub(crate) async fn archived(unit: &mut Unit, ids: &[JobId]) -> Result<Vec<Option<Archived>>, Failure> {
    let rows = unit.one(Query::listed(sql::ARCHIVED, vec![Value::jobs(ids)])).await?;
    let mut found = HashMap::new();
    for mut row in rows {
        let (id, state) = (row.job()?, rows::state_of(row.int()?)?);
        let (archived_at, document) = (row.moment()?, Arc::from(row.text()?));
        found.insert(id, Archived { archived_at, state, document });
    }
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// How archived jobs had ended.
pub(crate) async fn states(
    session: &mut impl Session,
    ids: &[JobId],
) -> Result<Vec<(JobId, State)>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = load::by_ids(session, &sql::ARCHIVED_STATUS, ids).await?;
    rows.into_iter().map(|mut row| Ok((row.job()?, rows::state_of(row.int()?)?))).collect()
}
