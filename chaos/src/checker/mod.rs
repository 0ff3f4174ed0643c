//! Compares what the processes said with what the store holds, when the faults are over.
//!
//! `summary` sums up the journals, `kept` is a job with its ledger, `job` looks at one of them, `steps` and `bulk` at
//! what handlers of some kinds did, `whole` at what concerns many, `workflows` at workflows, batches and schedules,
//! `fires` at one of these. All times that are compared are the store's own; those of the journals only order what
//! happened on this machine.

mod bulk;
mod fires;
mod job;
mod kept;
mod steps;
mod summary;
mod whole;
mod workflows;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use backstop::prelude::*;
use backstop::{Cause, JobId};
use backstop_core::job::JobView;
use backstop_store::{JobFilter, PageRequest, Store};

use kept::Kept;
pub use summary::JournalSummary;

/// How many ledgers are read at once.
const READERS: usize = 8;

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct CampaignReport {
    /// Jobs in the store.
    pub jobs: usize,
    /// Submits that were acknowledged.
    pub acked: usize,
    /// Cancels that were acknowledged.
    pub canceled: usize,
    /// Runs in the ledger.
    pub runs: usize,
    /// Of these, crashes.
    pub crashes: usize,
    /// Ends of runs that were refused as stale.
    pub refused: usize,
    /// What is wrong, one sentence each; empty is a pass.
    pub violations: Vec<String>,
}

impl std::fmt::Display for CampaignReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { jobs, acked, canceled, runs, crashes, refused, violations } = self;
        write!(
            f,
            "{jobs} jobs, {acked} submits acknowledged, {canceled} cancels acknowledged, {runs} runs, {crashes} \
             crashes, {refused} stale ends refused, {} violations",
            violations.len()
        )
    }
}

/// Reads every journal of `folder` and the whole store, and lists every violation.
///
/// # Errors
/// When the store cannot be read.
pub async fn check(engine: &Backstop, folder: &Path) -> JobResult<CampaignReport> {
    let summary = JournalSummary::read(folder);
    let jobs = all_jobs(engine).await?;
    let mut report = CampaignReport {
        jobs: jobs.len(),
        acked: summary.acked.len(),
        canceled: summary.canceled.len(),
        refused: summary.refused.len(),
        ..CampaignReport::default()
    };
    for kept in jobs.values() {
        report.runs += kept.rows.len();
        report.crashes += kept.rows.iter().filter(|row| row.cause == Cause::Crash).count();
        job::check(kept, &summary, &mut report.violations);
    }
    whole::check(&jobs, &summary, &mut report.violations);
    whole::check_counts(&jobs, &engine.queues().list().await?, &mut report.violations);
    workflows::check(engine, &jobs, &mut report.violations).await?;
    workflows::check_fires(&engine.schedules().list().await?, &jobs, &mut report.violations);
    Ok(report)
}

/// Every job that is not archived, with its ledger.
async fn all_jobs(engine: &Backstop) -> JobResult<BTreeMap<JobId, Kept>> {
    let mut views = Vec::new();
    let mut page = PageRequest::first(1_000);
    loop {
        let answer = engine.jobs(JobFilter::default(), page).await?;
        views.extend(answer.items);
        match answer.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    let share = views.len().div_ceil(READERS).max(1);
    let mut readers = tokio::task::JoinSet::new();
    for part in views.chunks(share) {
        readers.spawn(with_ledgers(engine.store().clone(), part.to_vec()));
    }
    let mut jobs = BTreeMap::new();
    while let Some(part) = readers.join_next().await {
        jobs.extend(part??.into_iter().map(|kept| (kept.view.job.spec.id, kept)));
    }
    Ok(jobs)
}

async fn with_ledgers(
    store: Arc<dyn Store>,
    views: Vec<JobView>,
) -> Result<Vec<Kept>, backstop_store::Error> {
    let mut part = Vec::with_capacity(views.len());
    for view in views {
        let mut rows = Vec::new();
        if view.record.runs > 0 {
            rows = store.attempts(view.job.spec.id, PageRequest::first(1_000)).await?.items;
            rows.reverse();
        }
        part.push(Kept { view, rows });
    }
    Ok(part)
}
