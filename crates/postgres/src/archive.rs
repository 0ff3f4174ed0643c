//! Jobs that ended long ago leave the hot tables (L16): one row with a document stands for all of theirs.

use std::collections::HashMap;

use backstop_core::job::{JobDetail, Retention, Spec, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::desk::{Writes, lane_of};
use backstop_store::{Archived, Duty, Page, PageRequest, Term, show};

use crate::columns::Columns;
use crate::duty;
use crate::error::Failure;
use crate::flush::add;
use crate::purge::{self, Endings};
use crate::query;
use crate::rows;
use crate::session::{Query, Session};
use crate::sql::archive as sql;
use crate::unit::Unit;
use crate::values::Value;

/// Moves up to `limit` jobs whose retention is over.
pub(crate) async fn archive(
    unit: &mut Unit,
    term: &Term,
    retention: &Retention,
    limit: usize,
) -> Result<usize, Failure> {
    let now = duty::lead_on(unit, term, Duty::Archive).await?;
    let mut ids: Vec<JobId> = Vec::new();
    for state in Retention::STATES {
        ids.extend(ended(unit, retention, state, now, limit - ids.len()).await?);
    }
    if ids.is_empty() {
        return unit.commit(Vec::new()).await.map(|_| 0);
    }
    let moved = ids.len();
    let (details, documents) = documents(unit, &ids, now).await?;
    let mut queries = vec![save(&details, &documents, now)];
    replaced(unit, &details).await?.write(&mut queries);
    take_out(&mut queries, details.iter().map(|detail| &detail.view.job.spec));
    let mut writes = Writes::default();
    for JobDetail { view, .. } in &details {
        writes.count(&lane_of(&view.job.spec), Some(view.record.state), None);
        writes.count_open(view.record.incident(), None);
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
        let status = Value::Int(Some(rows::status_code(state)));
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

/// The statement that writes the documents.
fn save(details: &[JobDetail], documents: &[Archived], now: Timestamp) -> Query {
    let mut columns = Columns::default();
    for (detail, archived) in details.iter().zip(documents) {
        columns.push(&[
            Value::job(detail.view.job.spec.id),
            Value::Int(Some(rows::status_code(archived.state))),
            Value::Int(detail.view.record.finished_at.map(Timestamp::as_micros)),
            Value::Bool(archived.ran),
            Value::text(&archived.document),
        ]);
    }
    let mut params = columns.into_params();
    params.push(Value::at(now));
    Query::new(sql::SAVE, params)
}

/// The keys of earlier jobs with the same ids, whose documents are about to be replaced: nothing else tells of them.
async fn replaced(unit: &mut Unit, details: &[JobDetail]) -> Result<Endings, Failure> {
    let states: HashMap<JobId, State> =
        details.iter().map(|detail| (detail.view.job.spec.id, detail.view.record.state)).collect();
    let mut endings = Endings::default();
    for mut row in unit.one(Query::new(sql::LOCK, vec![Value::jobs(states.keys())])).await? {
        let id = row.job()?;
        row.skip(1);
        if let Some(state) = states.get(&id) {
            endings.note(purge::key_in(&row.text()?)?, id, *state);
        }
    }
    Ok(endings)
}

/// Adds the statements that take ended jobs out of every hot table.
pub(crate) fn take_out<'s>(out: &mut Vec<Query>, specs: impl Iterator<Item = &'s Spec>) {
    let (mut ids, mut tags) = (Vec::new(), Vec::new());
    for spec in specs {
        ids.push(spec.id);
        tags.extend(spec.tags.iter().map(|tag| vec![Value::text(tag), Value::job(spec.id)]));
    }
    if ids.is_empty() {
        return;
    }
    add(out, sql::TAGS_DELETE, tags);
    for statement in [crate::sql::RECORDS_DELETE, sql::DONE_DELETE, sql::ATTEMPTS_DELETE, sql::JOBS_DELETE] {
        out.push(Query::new(statement, vec![Value::jobs(&ids)]));
    }
}

/// Archived jobs by id, in order.
pub(crate) async fn archived(unit: &mut Unit, ids: &[JobId]) -> Result<Vec<Option<Archived>>, Failure> {
    let rows = unit.one(Query::new(sql::BY_ID, vec![Value::jobs(ids)])).await?;
    let found = rows.into_iter().map(rows::archived).collect::<Result<HashMap<_, _>, _>>()?;
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Archived jobs, newest id first.
pub(crate) async fn archive_page(
    unit: &mut Unit,
    page: PageRequest<JobId>,
) -> Result<Page<(JobId, Archived), JobId>, Failure> {
    show::page_limit(page.limit)?;
    let after = Value::Id(page.after.map(|id| id.as_uuid()));
    let rows = unit.one(Query::new(sql::PAGE, vec![after, Value::count(page.limit + 1)])).await?;
    let found = rows.into_iter().map(rows::archived).collect::<Result<_, _>>()?;
    Ok(show::cut(found, page.limit, |(id, _)| *id))
}

/// How archived jobs had ended.
pub(crate) async fn states(
    session: &mut impl Session,
    ids: &[JobId],
) -> Result<Vec<(JobId, State)>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = session.one(Query::new(sql::STATUS, vec![Value::jobs(ids)])).await?;
    rows.into_iter().map(|mut row| Ok((row.job()?, rows::state_of(row.int()?)?))).collect()
}
