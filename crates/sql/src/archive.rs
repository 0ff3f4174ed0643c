//! Jobs that ended long ago leave the hot tables (L16): one row with a document replaces all their rows.

use std::collections::HashMap;

use backstop_core::job::{JobDetail, Retention, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::working_set::{Writes, lane_of};
use backstop_store::{Archived, Duty, Page, PageRequest, Term, show};

use crate::columns::Columns;
use crate::decode;
use crate::encode::status_code;
use crate::failure::SqlFailure;
use crate::purge;
use crate::query;
use crate::row;
use crate::session::Session as _;
use crate::statement::{Request, Statement};
use crate::term::lead_on;
use crate::transaction::Transaction;
use crate::value::Value;

/// Moves up to `limit` jobs whose retention is over.
pub(crate) async fn archive(
    tx: &mut Transaction,
    term: &Term,
    retention: &Retention,
    limit: usize,
) -> Result<usize, SqlFailure> {
    let now = lead_on(tx, term, Duty::Archive).await?;
    let mut ids: Vec<JobId> = Vec::new();
    for state in Retention::STATES {
        ids.extend(ended(tx, retention, state, now, limit - ids.len()).await?);
    }
    if ids.is_empty() {
        return tx.commit(Vec::new()).await.map(|_| 0);
    }
    let (details, documents) = documents(tx, &ids, now).await?;
    let ends: Vec<(JobId, State)> =
        details.iter().map(|detail| (detail.view.job.spec.id, detail.view.record.state)).collect();
    let mut requests = vec![purge::keep_replaced(tx, &ends).await?, save(&details, &documents)];
    requests.extend(purge::leave(details.iter().map(|detail| (&detail.view.job.spec, &detail.view.record))));
    let mut writes = Writes::default();
    for JobDetail { view, .. } in &details {
        writes.count(&lane_of(&view.job.spec), Some(view.record.state), None);
        writes.count_open(view.record.incident(), None);
        writes.lines.leave(&view.job.spec, Some(&view.record));
    }
    tx.write_after(requests, writes, now).await?;
    Ok(ids.len())
}

/// Jobs that have been in `state` for longer than their retention, oldest first.
async fn ended(
    tx: &mut Transaction,
    retention: &Retention,
    state: State,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<JobId>, SqlFailure> {
    let Some(cutoff) = retention.cutoff(state, now).filter(|_| limit > 0) else { return Ok(Vec::new()) };
    let request = if state == State::Succeeded {
        Statement::EndedWell.with(vec![Value::at(cutoff), Value::count(limit)])
    } else {
        Statement::Ended.with(vec![Value::int(status_code(state)), Value::at(cutoff), Value::count(limit)])
    };
    row::jobs(tx.ask(request).await?)
}

async fn documents(
    tx: &mut Transaction,
    ids: &[JobId],
    now: Timestamp,
) -> Result<(Vec<JobDetail>, Vec<Archived>), SqlFailure> {
    let details: Vec<JobDetail> = query::details(tx, ids, now).await?.into_iter().flatten().collect();
    let mut documents = Vec::with_capacity(details.len());
    for detail in &details {
        let mut runs = query::ledger(tx, detail.view.job.spec.id).await?;
        runs.reverse();
        documents.push(Archived::new(detail, &runs, now)?);
    }
    Ok((details, documents))
}

/// Writes the documents.
fn save(details: &[JobDetail], documents: &[Archived]) -> Request {
    let mut rows = Columns::default();
    for (JobDetail { view, .. }, archived) in details.iter().zip(documents) {
        rows.row()
            .job(view.job.spec.id)
            .int(status_code(archived.state))
            .maybe_at(view.record.finished_at)
            .at(archived.archived_at)
            .bool(archived.ran)
            .text(&archived.document);
    }
    Statement::SaveArchived.rows(rows)
}

/// Archived jobs by id, in order.
pub(crate) async fn archived(
    tx: &mut Transaction,
    ids: &[JobId],
) -> Result<Vec<Option<Archived>>, SqlFailure> {
    let rows = tx.ask(Statement::ArchivedById.each_job(ids)).await?;
    let found = rows.into_iter().map(decode::archived).collect::<Result<HashMap<_, _>, _>>()?;
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Archived jobs, newest id first.
pub(crate) async fn archive_page(
    tx: &mut Transaction,
    page: PageRequest<JobId>,
) -> Result<Page<(JobId, Archived), JobId>, SqlFailure> {
    show::page_limit(page.limit)?;
    let params = vec![Value::maybe_job(page.after), Value::count(page.limit.saturating_add(1))];
    let rows = tx.ask(Statement::ArchivePage.with(params)).await?;
    let found = rows.into_iter().map(decode::archived).collect::<Result<_, _>>()?;
    Ok(show::cut(found, page.limit, |(id, _)| *id))
}
