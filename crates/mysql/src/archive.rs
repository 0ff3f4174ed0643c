//! Jobs that ended long ago leave the hot tables (L16): one row with a document stands for all of theirs.

use std::collections::HashMap;

use backstop_core::job::{JobDetail, Retention, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::desk::{Writes, lane_of};
use backstop_store::show;
use backstop_store::{Archived, Duty, Page, PageRequest, Term};

use crate::duty;
use crate::error::Failure;
use crate::load;
use crate::purge;
use crate::query;
use crate::rows;
use crate::session::{Bulk, Query, Session};
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
    let ends: Vec<(JobId, State)> =
        details.iter().map(|detail| (detail.view.job.spec.id, detail.view.record.state)).collect();
    let mut queries = Vec::new();
    purge::keep_replaced(unit, &mut queries, &ends).await?;
    save(&mut queries, &details, &documents);
    let specs = details.iter().map(|detail| &detail.view.job.spec);
    purge::leave(&mut queries, ids, specs.flat_map(|spec| spec.tags.iter().map(|tag| (tag, spec.id))));
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
        Query::new(sql::archive::ENDED_WELL, vec![Value::at(cutoff), Value::count(limit)])
    } else {
        let status = Value::int(rows::status_code(state));
        Query::new(sql::archive::ENDED, vec![status, Value::at(cutoff), Value::count(limit)])
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

fn save(out: &mut Vec<Query>, details: &[JobDetail], documents: &[Archived]) {
    let row = |(JobDetail { view, .. }, archived): (&JobDetail, &Archived)| {
        vec![
            Value::job(view.job.spec.id),
            Value::int(rows::status_code(archived.state)),
            Value::maybe_at(view.record.finished_at),
            Value::at(archived.archived_at),
            Value::int(i64::from(archived.ran)),
            Value::text(&archived.document),
        ]
    };
    sql::archive::SAVE.add(out, details.iter().zip(documents).map(row).collect());
}

/// Archived jobs by id, in order.
pub(crate) async fn archived(unit: &mut Unit, ids: &[JobId]) -> Result<Vec<Option<Archived>>, Failure> {
    let rows = unit.one(Query::listed(sql::archive::BY_ID, vec![Value::jobs(ids)])).await?;
    let found = rows.into_iter().map(rows::archived).collect::<Result<HashMap<_, _>, _>>()?;
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Archived jobs, newest id first.
pub(crate) async fn archive_page(
    unit: &mut Unit,
    page: PageRequest<JobId>,
) -> Result<Page<(JobId, Archived), JobId>, Failure> {
    show::page_limit(page.limit)?;
    let limit = Value::count(page.limit.saturating_add(1));
    let query = match page.after {
        Some(after) => Query::new(sql::archive::PAGE_AFTER, vec![Value::job(after), limit]),
        None => Query::new(sql::archive::PAGE, vec![limit]),
    };
    let rows = unit.one(query).await?.into_iter().map(rows::archived).collect::<Result<_, _>>()?;
    Ok(show::cut(rows, page.limit, |(id, _)| *id))
}

/// How archived jobs had ended.
pub(crate) async fn states(
    session: &mut impl Session,
    ids: &[JobId],
) -> Result<Vec<(JobId, State)>, Failure> {
    read_states(session, &sql::archive::STATUS, ids).await
}

/// Asks for the states of jobs.
pub(crate) async fn read_states(
    session: &mut impl Session,
    question: &Bulk,
    ids: &[JobId],
) -> Result<Vec<(JobId, State)>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = load::by_ids(session, question, ids).await?;
    rows.into_iter().map(|mut row| Ok((row.job()?, rows::state_of(row.int()?)?))).collect()
}
