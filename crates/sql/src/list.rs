//! Listing and counting jobs by any combination of conditions.

use std::collections::HashMap;

use backstop_core::JobId;
use backstop_core::failure::TerminalReason;
use backstop_core::job::{JobView, State};
use backstop_store::show;
use backstop_store::{JobFilter, Page, PageRequest, Survey, SurveyGroup};

use crate::decode;
use crate::dialect::Listing;
use crate::failure::SqlFailure;
use crate::query;
use crate::row;
use crate::session::Session as _;
use crate::transaction::Transaction;
use crate::worker;

/// Lists jobs, newest id first.
pub(crate) async fn list(
    tx: &mut Transaction,
    filter: &JobFilter,
    page: PageRequest<JobId>,
) -> Result<Page<JobView, JobId>, SqlFailure> {
    show::page_limit(page.limit)?;
    let now = tx.now().await?;
    let roster = worker::roster(tx, now).await?;
    let (scope, _) = query::scope(tx, filter, &roster).await?;
    if scope.empty || page.limit == 0 {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let running = running(tx, filter).await?;
    let limit = page.limit.saturating_add(1);
    let listing = Listing { filter, scope: &scope, running: &running, after: page.after, limit };
    let ids = ids(tx, &listing).await?;
    let views = query::views(tx, &ids, &roster).await?.into_iter().flatten().collect();
    Ok(show::cut(views, page.limit, |view: &JobView| view.job.spec.id))
}

async fn ids(tx: &mut Transaction, listing: &Listing<'_>) -> Result<Vec<JobId>, SqlFailure> {
    let queries = tx.dialect().list(listing);
    row::jobs(tx.run(queries).await?.into_iter().flatten().collect())
}

/// The jobs that workers hold, if it is those that are asked for.
async fn running(tx: &mut Transaction, filter: &JobFilter) -> Result<Vec<JobId>, SqlFailure> {
    if filter.state != Some(State::Running) {
        return Ok(Vec::new());
    }
    Ok(worker::claims(tx).await?.iter().flat_map(|claim| claim.held().map(|(job, _)| job)).collect())
}

/// What the jobs of a group have in common: queue, kind, reason and fingerprint.
type Common = (String, String, Option<TerminalReason>, Option<String>);

/// Counts the jobs that a filter finds, newest id first and `most` of them at most, by what they have in common.
pub(crate) async fn survey(
    tx: &mut Transaction,
    filter: &JobFilter,
    most: usize,
) -> Result<Survey, SqlFailure> {
    let now = tx.now().await?;
    let roster = worker::roster(tx, now).await?;
    let (scope, _) = query::scope(tx, filter, &roster).await?;
    if scope.empty {
        return Ok(Survey::of(Vec::new(), true));
    }
    let running = running(tx, filter).await?;
    let listing = Listing { filter, scope: &scope, running: &running, after: None, limit: most };
    let (survey, lowest) = count(tx, &listing).await?;
    let full = survey.jobs() >= u64::try_from(most).unwrap_or(u64::MAX);
    let complete = !full || ids(tx, &Listing { after: lowest, limit: 1, ..listing }).await?.is_empty();
    Ok(Survey { complete, ..survey })
}

/// The groups of a list, and the lowest id in it.
async fn count(tx: &mut Transaction, listing: &Listing<'_>) -> Result<(Survey, Option<JobId>), SqlFailure> {
    let queries = tx.dialect().survey(listing);
    let rows: Vec<_> = tx.run(queries).await?.into_iter().flatten().collect();
    let shared = tx.shared.clone();
    shared.lanes.meet(tx, rows.iter().filter_map(|row| row.peek_int(0))).await?;
    // Lanes differ in more than queue and kind.
    let mut counts: HashMap<Common, u64> = HashMap::new();
    let mut lowest: Option<JobId> = None;
    for mut row in rows {
        let lane = shared.lanes.get(row.int()?)?;
        let (reason, fingerprint) = (decode::reason(row.text_if_any()?), row.text_if_any()?);
        let common = (lane.queue.to_string(), lane.kind.to_string(), reason, fingerprint);
        *counts.entry(common).or_default() += row.number::<u64>()?;
        let last = row.job()?;
        lowest = Some(lowest.map_or(last, |lowest| lowest.min(last)));
    }
    let group =
        |((queue, kind, reason, fingerprint), jobs)| SurveyGroup { queue, kind, reason, fingerprint, jobs };
    Ok((Survey::of(counts.into_iter().map(group).collect(), true), lowest))
}
