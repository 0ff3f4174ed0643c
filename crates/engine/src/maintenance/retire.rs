//! Retires what is over by age: re-drive plans, incidents, lanes of queues. A few batches a round.
//!
//! Plans and incidents hold history, so each leaves a line in the audit log before it goes. A lane stays where it is,
//! only left out of lists: every process knows lanes by their numbers, and no job may be lost for tidiness.

use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::text::truncate_chars;
use backstop_core::{Timestamp, tenant};
use backstop_store::{
    Amend, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Incident, IncidentFilter, Store, Term,
    WorkStore, retire,
};

use super::BATCH;
use super::retirement_line::{self, RetirementLine};
use crate::alerts::{Alerts, stored as channel_logs};
use crate::config::Config;
use crate::loops::LoopHeartbeat;
use crate::redrive::mark::{self, PlanMark};
use crate::redrive::stored;

/// Batches a round at most: a great backlog must not keep the other duties waiting.
const BATCHES: usize = 20;

/// Marks of plans that are read at once, and job lists of a plan: each may hold what became of hundreds of jobs.
const MARKS: usize = 50;
const JOB_LISTS: usize = 50;

/// Documents of plans that one round removes at most.
const DOCUMENTS: usize = 2_000;

/// Characters of an incident's text that its line keeps.
const TEXT_CHARS: usize = 200;

const PLAN: &str = "/api/v1/redrives/{id}";
const INCIDENT: &str = "/api/v1/incidents/{id}";

/// Removes plans that ended long ago, each with what became of its jobs.
pub(super) async fn plans(
    store: &dyn WorkStore,
    keep: Option<Duration>,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(keep) = keep else { return Ok(()) };
    let mut left = DOCUMENTS;
    loop {
        let marks = mark::ended(store, MARKS).await?;
        let Some(cutoff) = retire::cutoff(keep, marks.now) else { return Ok(()) };
        let mut old =
            marks.plans.into_iter().filter(|it| it.ended_at.is_some_and(|end| end <= cutoff)).peekable();
        if old.peek().is_none() {
            return Ok(());
        }
        for mark in old {
            heartbeat.record();
            if !plan(store, term, mark, marks.now, &mut left).await? {
                return Ok(());
            }
        }
    }
}

/// Removes one plan; false when the rest of it is left to the next round.
async fn plan(
    store: &dyn WorkStore,
    term: Term,
    mark: PlanMark,
    now: Timestamp,
    left: &mut usize,
) -> Result<bool, StoreError> {
    let found = match stored::one(store, &mark.plan).await {
        Ok(found) => found,
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::error!(%error, "cannot read a re-drive plan; it is never removed");
            return mark::remove(store, term, mark).await.map(|()| true);
        }
        Err(error) => return Err(error),
    };
    if found.as_ref().is_some_and(|stored| mark::key(&stored.plan).as_ref() != Some(&mark.key)) {
        return mark::remove(store, term, mark).await.map(|()| true);
    }
    loop {
        let job_lists =
            DocumentRange::first(Drawer::PlanJobs, JOB_LISTS).under(stored::jobs_prefix(&mark.plan));
        let job_lists = store.documents(job_lists).await?.items;
        if job_lists.is_empty() {
            break;
        }
        *left = left.saturating_sub(job_lists.len());
        let gone = |key| Edit { drawer: Drawer::PlanJobs, key, expect: Expect::Any, body: None };
        let edits = job_lists.into_iter().map(|document| gone(document.key)).collect();
        store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await?;
        if *left == 0 {
            return Ok(false);
        }
    }
    let mut edits = vec![mark::removal(&mark)];
    if let Some(stored) = found {
        let line = RetirementLine::of(PLAN, mark.plan.as_str(), stored.plan.describe(), now);
        edits.push(retirement_line::edit(&[line], mark.plan.as_str(), now));
        let expect = Expect::Revision(stored.revision);
        edits.push(Edit { drawer: Drawer::Plans, key: mark.plan.to_string(), expect, body: None });
    }
    store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await?;
    tracing::debug!(plan = %mark.plan, "a re-drive plan that ended long ago was removed");
    *left = left.saturating_sub(1);
    Ok(*left > 0)
}

/// Removes incidents that nobody needs any more, with what channels were told of them.
pub(super) async fn incidents(
    store: &dyn Store,
    config: &Config,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(keep) = config.retirement.incidents else { return Ok(()) };
    let now = store.now().await?;
    let Some(cutoff) = retire::cutoff(keep, now) else { return Ok(()) };
    let mut after = behind(cutoff);
    for _ in 0..BATCHES {
        heartbeat.record();
        let filter = IncidentFilter { closed: true, after, ..IncidentFilter::default() };
        let found = store.incidents_like(filter, BATCH).await?;
        after = found.last().map(|last| (last.last_seen, last.fingerprint.clone()));
        let is_last = found.len() < BATCH;
        let outworn: Vec<Incident> = found.into_iter().filter(|it| it.is_outworn(cutoff)).collect();
        if let Some(first) = outworn.first() {
            let lines: Vec<RetirementLine> = outworn.iter().map(|incident| line(incident, now)).collect();
            let mut edits = vec![retirement_line::edit(&lines, first.fingerprint.as_str(), now)];
            edits.extend(outworn.iter().flat_map(|incident| channel_logs_of(&config.alerts, incident)));
            store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await?;
            let prints = outworn.into_iter().map(|incident| incident.fingerprint).collect();
            let retired = store.retire_incidents(term, prints, keep).await?;
            tracing::debug!(retired, "incidents that were over long ago were removed");
        }
        if is_last {
            return Ok(());
        }
    }
    Ok(())
}

/// The place in a list of incidents, latest first, behind all that were seen after a moment.
fn behind(cutoff: Timestamp) -> Option<(Timestamp, Fingerprint)> {
    let last: Option<Fingerprint> = "f".repeat(16).parse().ok();
    Some((cutoff.after(Duration::from_micros(1)), last?))
}

fn line(incident: &Incident, now: Timestamp) -> RetirementLine {
    let Incident { error_type, failures, dead, first_seen, last_seen, kind, .. } = incident;
    let text = truncate_chars(&incident.message, TEXT_CHARS);
    let what = format!(
        "{kind}: {error_type}: {text} ({failures} failures and {dead} dead letters from {first_seen} to {last_seen})"
    );
    RetirementLine::of(INCIDENT, incident.fingerprint.as_str(), what, now).tenant(tenant::of_queue(kind))
}

fn channel_logs_of(alerts: &Alerts, incident: &Incident) -> Vec<Edit> {
    let named_channels = channel_logs::named_channels(alerts);
    named_channels
        .iter()
        .flat_map(|named| channel_logs::removals(&named.name, incident.fingerprint.as_str()))
        .collect()
}

/// Retires lanes that have been empty for long.
pub(super) async fn lanes(
    store: &dyn WorkStore,
    idle: Option<Duration>,
    term: Term,
    heartbeat: &LoopHeartbeat,
) -> Result<(), StoreError> {
    let Some(idle) = idle else { return Ok(()) };
    for _ in 0..BATCHES {
        heartbeat.record();
        if store.retire_lanes(term, idle, BATCH).await? < BATCH {
            return Ok(());
        }
    }
    Ok(())
}
