//! Incidents, and the explanation of a single job: what people look at when work has failed.

pub use backstop_core::failure::Fingerprint;
pub use backstop_core::incident::{Incident, IncidentState, IncidentVerb, Standing};
pub use backstop_store::IncidentFilter;

use std::sync::Arc;

use backstop_core::JobId;
use backstop_core::explain::{ExplainRelated, Explanation, PlanNote, WorkerPause, explain};
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::{JobView, State};
use backstop_store::{Error as StoreError, Page};

use crate::alerts::stored::{self, StoredChannelLog};
use crate::alerts::{AlertLog, IncidentAlertLog};
use crate::engine::Backstop;
use crate::parts::EngineParts;
use crate::redrive::RedriveError;
use crate::worker_reports::could_run;
use crate::workflows::steps_before;

/// Failures that belong together: see [`Backstop::incidents`].
#[derive(Debug, Clone, Copy)]
pub struct Incidents<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// Incidents: failures with one fingerprint as one thing that is known, looked after and fixed (D2).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::incident::IncidentVerb;
    ///
    /// #[job(max_retries = 0)]
    /// async fn bill() -> JobResult {
    ///     Err("no template".into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.submit_all(vec![engine.enqueue(Bill {}), engine.enqueue(Bill {})], true).await?;
    /// engine.worker(()).register::<Bill>().queue("default", 1).inline()?.drain(2).await?;
    /// let incident = engine.incidents().list(10).await?.remove(0);
    /// assert_eq!(incident.dead, 2);
    /// engine.incidents().say(&incident.fingerprint, IncidentVerb::Acknowledge, "ann", None).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn incidents(&self) -> Incidents<'_> {
        Incidents { parts: &self.parts }
    }
}

impl Incidents<'_> {
    /// Incidents, latest seen first.
    ///
    /// # Errors
    /// When the store is away or more are asked for than a page holds.
    pub async fn list(self, limit: usize) -> Result<Vec<Incident>, StoreError> {
        self.parts.config.check_page(limit)?;
        self.parts.store.incidents(limit).await
    }

    /// Incidents that a filter finds, latest seen first.
    ///
    /// # Errors
    /// As [`Incidents::list`].
    pub async fn matching(self, filter: IncidentFilter, limit: usize) -> Result<Vec<Incident>, StoreError> {
        self.parts.config.check_page(limit)?;
        self.parts.store.incidents_like(filter, limit).await
    }

    /// One incident; none when it is unknown.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn get(self, fingerprint: &Fingerprint) -> Result<Option<Incident>, StoreError> {
        Ok(self.parts.store.incidents_of(vec![fingerprint.clone()]).await?.pop().flatten())
    }

    /// Says something of an incident, and answers it as it is now; none when it is unknown.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn say(
        self,
        fingerprint: &Fingerprint,
        verb: IncidentVerb,
        by: &str,
        note: Option<&str>,
    ) -> Result<Option<Incident>, StoreError> {
        let statement = IncidentUpdate {
            verb,
            by: self.parts.config.sanitized(by),
            note: note.map(|note| self.parts.config.sanitized(note)),
        };
        Ok(self.parts.store.say(vec![fingerprint.clone()], statement).await?.pop().flatten())
    }

    /// What every channel of every node was told of every incident (D3): by channel, first what has yet to be told,
    /// then by incident. `after` is `next` of the page before.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn alerts(
        self,
        after: Option<String>,
        limit: usize,
    ) -> Result<Page<IncidentAlertLog, String>, StoreError> {
        self.parts.config.check_page(limit)?;
        let found = stored::all(&*self.parts.store, after, limit).await?;
        let with_incident = |(channel, stored): (String, StoredChannelLog)| {
            let log = stored.log.shown(channel);
            IncidentAlertLog { incident: stored.incident, log }
        };
        Ok(Page { items: found.items.into_iter().map(with_incident).collect(), next: found.next })
    }

    /// What each channel of this engine was told of an incident: its fingerprint, or a terminal reason (D3). A channel
    /// that never heard of it is left out.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn alert_logs(self, incident: &str) -> Result<Vec<AlertLog>, StoreError> {
        let mut logs = Vec::new();
        for named in stored::named_channels(&self.parts.config.alerts) {
            let found = stored::one(&*self.parts.store, &named.name, incident).await?;
            logs.extend(found.map(|stored| stored.log.shown(named.name)));
        }
        Ok(logs)
    }
}

impl Backstop {
    /// Says why a job is where it is and what happens next (F20).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn explain(&self, job: JobId) -> Result<Option<(JobView, Explanation)>, StoreError> {
        let Some((mut view, around)) = self.parts.store.surroundings(job).await? else { return Ok(None) };
        self.parts.mark_held([&mut view]).await?;
        let beyond = self.beyond(&view).await?;
        let explanation = explain(&view, &around, &beyond);
        Ok(Some((view, explanation)))
    }

    /// Live workers that could run a job which waits, and leave it for now, as they say themselves (H1, H8).
    async fn held_back(&self, view: &JobView) -> Result<Vec<WorkerPause>, StoreError> {
        if view.record.state != State::Pending {
            return Ok(Vec::new());
        }
        let spec = &view.job.spec;
        let mut workers = self.workers().await?;
        workers.retain(|worker| could_run(worker, spec));
        let mut reports = self.worker_reports(&workers).await?;
        let held = workers.into_iter().filter_map(|worker| {
            let report = reports.remove(&worker.id)?;
            if let Some(red) = report.red_for(&spec.kind) {
                let dependency = Some(red.dependency.clone());
                let (since, next_at) = (red.since, red.next_at);
                return Some(WorkerPause { worker: worker.name, dependency, since, next_at });
            }
            let paused = report.paused?;
            let (since, next_at) = (paused.since, Some(paused.until));
            Some(WorkerPause { worker: worker.name, dependency: None, since, next_at })
        });
        Ok(held.collect())
    }

    /// What concerns a job and is kept elsewhere: its incident, and the plans that have driven it or will.
    async fn beyond(&self, view: &JobView) -> Result<ExplainRelated, StoreError> {
        let (limits, held_back) = (self.parts.limits_about(view).await?, self.held_back(view).await?);
        let mut beyond = ExplainRelated { limits, held_back, ..ExplainRelated::default() };
        if let Some(part) = view.job.spec.part_of().filter(|_| view.record.state == State::Waiting) {
            beyond.steps_before = steps_before(&self.parts, part).await?;
        }
        if let Some(failure) = &view.last_failure {
            beyond.incident = self.incidents().get(&failure.fingerprint).await?;
        }
        let concerned = view.record.plan().is_some() || view.record.state == State::Failed;
        if concerned {
            let plans = match self.redrives().list().await {
                Ok(plans) => plans,
                Err(RedriveError::Store(error)) => return Err(error),
                // Listing refuses nothing and changes nothing; whatever else it says must not hide the explanation.
                Err(_) => Vec::new(),
            };
            for plan in plans {
                let drove_it = view.record.plan() == Some(&plan.id);
                if drove_it || plan.may_still_drive(view) {
                    let sentence = plan.describe();
                    beyond.plans.push(PlanNote { plan: plan.id.clone(), drove_it, sentence });
                }
            }
        }
        Ok(beyond)
    }
}
