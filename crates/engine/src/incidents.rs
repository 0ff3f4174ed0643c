//! Incidents, and the explanation of a single job: what people look at when work has failed.

use backstop_core::JobId;
use backstop_core::explain::{ExplainRelated, Explanation, PlanNote, explain};
use backstop_core::failure::Fingerprint;
use backstop_core::failure::redact::sanitize;
use backstop_core::incident::{Incident, IncidentUpdate, IncidentVerb};
use backstop_core::job::{JobView, State};
use backstop_store::{Error as StoreError, IncidentFilter};

use crate::engine::Backstop;
use crate::redrive::RedriveError;

impl Backstop {
    /// Incidents, latest seen first (D2).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn incidents(&self, limit: usize) -> Result<Vec<Incident>, StoreError> {
        self.inner.store.incidents(limit).await
    }

    /// Incidents that a filter finds, latest seen first (D2).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn incidents_like(
        &self,
        filter: IncidentFilter,
        limit: usize,
    ) -> Result<Vec<Incident>, StoreError> {
        self.inner.store.incidents_like(filter, limit).await
    }

    /// Looks an incident up.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn incident(&self, fingerprint: &Fingerprint) -> Result<Option<Incident>, StoreError> {
        Ok(self.inner.store.incidents_of(vec![fingerprint.clone()]).await?.pop().flatten())
    }

    /// Says something of an incident, and answers it as it is now; none when it is unknown.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn say_of_incident(
        &self,
        fingerprint: &Fingerprint,
        verb: IncidentVerb,
        by: &str,
        note: Option<&str>,
    ) -> Result<Option<Incident>, StoreError> {
        let config = &self.inner.config;
        // A person's words are stored and shown like an error's (F11).
        let clean = |text: &str| sanitize(&*config.redactor, text, config.limits.error_chars);
        let statement = IncidentUpdate { verb, by: clean(by), note: note.map(clean) };
        Ok(self.inner.store.say(vec![fingerprint.clone()], statement).await?.pop().flatten())
    }

    /// Says why a job is where it is and what happens next (F20).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn explain(&self, job: JobId) -> Result<Option<(JobView, Explanation)>, StoreError> {
        let Some((view, around)) = self.inner.store.surroundings(job).await? else { return Ok(None) };
        let beyond = self.beyond(&view).await?;
        let explanation = explain(&view, &around, &beyond);
        Ok(Some((view, explanation)))
    }

    /// What concerns a job and is kept elsewhere: its incident, and the plans that have driven it or will.
    async fn beyond(&self, view: &JobView) -> Result<ExplainRelated, StoreError> {
        let mut beyond = ExplainRelated::default();
        if let Some(failure) = &view.last_failure {
            beyond.incident = self.incident(&failure.fingerprint).await?;
        }
        let concerned = view.record.plan().is_some() || view.record.state == State::Failed;
        if concerned {
            let plans = match self.redrive_plans().await {
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
