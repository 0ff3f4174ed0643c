//! Re-drive plans as an application makes and watches them (D4, D7).
//!
//! Everything here is about the stored plan; what drives jobs is a duty of maintenance, on whichever node leads it.
//!
//! ```no_run
//! # async fn doc(engine: backstop::Backstop) -> Result<(), backstop::redrive::RedriveError> {
//! use backstop::redrive::PlanSelector;
//! let invoices = PlanSelector { kind: Some("invoice.render".into()), ..PlanSelector::default() };
//! let plan = engine.redrives().plan(invoices).canary(1).per_second(20).by("ann").create().await?;
//! engine.redrives().start(&plan.id, "ann").await?;
//! # Ok(())
//! # }
//! ```

pub use backstop_core::job::PlanId;
pub use backstop_core::redrive::{
    LeftOut, Plan, PlanCounts, PlanEntry, PlanError, PlanHalt, PlanJob, PlanJobOutcome, PlanPart, PlanPhase,
    PlanRound, PlanSelector, PlanSettings, PlanSurvey, PlanSurveyGroup, UnknownEffect,
};

pub(crate) mod job_list;
pub(crate) mod mark;
pub(crate) mod stored;

use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::incident::IncidentState;
use backstop_core::job::State;
use backstop_core::redrive::PlanDraft;
use backstop_store::{Amend, Amended, Error as StoreError, JobFilter, Page, PageRequest};

use crate::engine::Backstop;
use crate::parts::EngineParts;
use stored::StoredPlan;

/// Dead letters that a dry run looks at one by one; beyond them the store's own sums are taken.
const LOOK_AT: usize = 20_000;

/// Dead letters that a dry run counts at most.
const COUNT: usize = 10_000_000;

/// Rows of a page.
const PAGE: usize = 1_000;

/// How often a change to a plan is tried again when its duty writes at the same time.
const TRIES: usize = 50;

/// Why a plan was not made or not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedriveError {
    /// It cannot be had; nothing was changed.
    #[error(transparent)]
    Refused(#[from] PlanError),
    /// Others kept changing the plan at the same time.
    #[error("plan {plan} keeps being changed by others: try again in a moment")]
    Busy {
        /// Which plan.
        plan: PlanId,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RedriveError {
    /// The stable code that machines switch on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::Busy { .. } => "busy",
            Self::Store(error) => error.code(),
        }
    }
}

/// A plan on its way; nothing is stored before [`Redrive::create`].
#[derive(Debug, Clone)]
#[must_use = "a plan is made by `create`"]
pub struct Redrive {
    parts: Arc<EngineParts>,
    selector: PlanSelector,
    settings: PlanSettings,
    needs: Option<String>,
    note: String,
    by: String,
}

macro_rules! setting {
    ($($name:ident $doc:literal,)*) => {
        $(#[doc = $doc]
        pub const fn $name(mut self, count: u32) -> Self {
            self.settings.$name = count;
            self
        })*
    };
}

impl Redrive {
    setting! {
        canary "Jobs that go first; the rest follow only when they have succeeded. Default 1.",
        batch "Jobs driven in one step at most. Default 100.",
        per_second "Jobs driven each second, on average. Default 50.",
        in_flight "Jobs that are driven and have not ended, at most. Default 1,000.",
        ceiling "A job that was already driven again this often is left out. Default 3.",
        max_failures "Failures of another kind that are tolerated before the plan halts. Default 10.",
    }

    /// Sets everything at once.
    pub const fn settings(mut self, settings: PlanSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Only code of this version or a later one may run the jobs (D7). An incident that is said to be fixed in a
    /// version asks for that one by itself.
    pub fn needs(mut self, version: impl Into<String>) -> Self {
        self.needs = Some(version.into());
        self
    }

    /// Why, in words for whoever reads the plan later.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Who makes it, for the audit.
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = by.into();
        self
    }

    /// Counts what the plan would find now, and changes nothing.
    ///
    /// # Errors
    /// When the selector or a setting is refused, nothing matches, or the store is away.
    pub async fn dry_run(&self) -> Result<PlanSurvey, RedriveError> {
        let now = self.parts.store.now().await?;
        self.check().await?;
        Ok(self.survey(now).await?.finish()?)
    }

    /// Makes the plan and stores it. Nothing is driven before [`Redrives::start`].
    ///
    /// # Errors
    /// As [`Redrive::dry_run`].
    pub async fn create(self) -> Result<Plan, RedriveError> {
        let now = self.parts.store.now().await?;
        let (about, fixed_in) = self.check().await?;
        let expected = self.survey(now).await?.finish()?.jobs;
        let needs = self.needs.clone().or(fixed_in);
        for _ in 0..TRIES {
            let draft = PlanDraft {
                id: PlanId::from_number(u64::from(fastrand::u32(..))),
                selector: self.selector.clone(),
                settings: self.settings,
                needs: needs.clone(),
                about: about.clone(),
                by: self.parts.config.sanitized(&self.by),
                note: self.parts.config.sanitized(&self.note),
            };
            let plan = Plan::new(draft, expected, now)?;
            let amend = Amend { edits: stored::edits(&plan, None), ..Amend::default() };
            // Another plan may have this id by chance: then another one is drawn.
            if let Amended::Done { .. } = self.parts.store.amend(amend).await? {
                return Ok(plan);
            }
        }
        Err(RedriveError::Busy { plan: PlanId::from_number(0) })
    }

    /// Refuses what can be refused before anything is counted; answers what the incident is and what it is fixed in.
    async fn check(&self) -> Result<(Option<String>, Option<String>), RedriveError> {
        self.selector.validate()?;
        self.settings.validate()?;
        let Some(fingerprint) = &self.selector.incident else { return Ok((None, None)) };
        let found = self.parts.store.incidents_of(vec![fingerprint.clone()]).await?.pop().flatten();
        let Some(incident) = found else {
            return Err(PlanError::NoSuchIncident { incident: fingerprint.to_string() }.into());
        };
        let about = format!("{}: {}", incident.error_type, incident.message);
        let fixed_in = incident.standing.fixed_in.filter(|_| incident.standing.state == IncidentState::Fixed);
        Ok((Some(about), fixed_in))
    }

    async fn survey(&self, now: Timestamp) -> Result<PlanSurvey, StoreError> {
        let store = &self.parts.store;
        let mut survey = PlanSurvey::new(self.selector.clone(), self.settings);
        let (filter, mut after) = (filter(&self.selector, now), None);
        for _ in 0..LOOK_AT / PAGE {
            let page = store.list(filter.clone(), PageRequest { limit: PAGE, after }).await?;
            page.items.iter().for_each(|view| survey.count(view));
            after = page.next;
            if after.is_none() {
                return Ok(survey);
            }
        }
        let sums = store.survey(filter, COUNT).await?;
        let groups = sums.groups.into_iter().map(|group| PlanSurveyGroup {
            kind: group.kind,
            queue: group.queue,
            reason: group.reason,
            fingerprint: group.fingerprint.and_then(|print| print.parse().ok()),
            sample: None,
            jobs: group.jobs,
        });
        survey.widen(groups.collect(), sums.complete);
        Ok(survey)
    }
}

/// What to ask the store for: dead letters that the selector fits and that ended before `moment`.
pub(crate) fn filter(selector: &PlanSelector, moment: Timestamp) -> JobFilter {
    JobFilter {
        queue: selector.queue.clone(),
        kind: selector.kind.clone(),
        tag: selector.tag.clone(),
        reason: selector.reason,
        state: Some(State::Failed),
        fingerprint: selector.incident.as_ref().map(ToString::to_string),
        finished_after: selector.finished_after,
        finished_before: Some(selector.finished_before.map_or(moment, |before| before.min(moment))),
        ..JobFilter::default()
    }
}

/// The re-drive plans of a store: see [`Backstop::redrives`].
#[derive(Debug, Clone, Copy)]
pub struct Redrives<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// Re-drive plans: dead letters that are driven again, a canary first (D4).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::redrive::{PlanPhase, PlanSelector};
    ///
    /// #[job(max_retries = 0)]
    /// async fn bill() -> JobResult {
    ///     Err("no template".into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// engine.enqueue(Bill {}).submit().await?;
    /// engine.worker(()).register::<Bill>().queue("default", 1).inline()?.drain(1).await?;
    /// let bills = PlanSelector { kind: Some("bill".into()), ..PlanSelector::default() };
    /// let plan = engine.redrives().plan(bills).canary(1).by("ann").create().await?;
    /// engine.redrives().start(&plan.id, "ann").await?;
    /// engine.redrives().cancel(&plan.id, "ann").await?;
    /// assert_eq!(engine.redrives().get(&plan.id).await?.phase, PlanPhase::Canceled);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn redrives(&self) -> Redrives<'_> {
        Redrives { parts: &self.parts }
    }
}

impl Redrives<'_> {
    /// Prepares a plan to drive the dead letters that `selector` finds; nothing is stored before [`Redrive::create`].
    pub fn plan(self, selector: PlanSelector) -> Redrive {
        Redrive {
            parts: self.parts.clone(),
            selector,
            settings: PlanSettings::default(),
            needs: None,
            note: String::new(),
            by: "an application".to_owned(),
        }
    }

    /// Every plan, latest first.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<Plan>, RedriveError> {
        let mut plans = Vec::new();
        for stored in stored::all(&*self.parts.store).await? {
            plans.push(stored?.plan);
        }
        plans.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.id.cmp(&b.id)));
        Ok(plans)
    }

    /// One plan.
    ///
    /// # Errors
    /// [`PlanError::NoSuchPlan`] when there is none, or when the store is away.
    pub async fn get(self, id: &PlanId) -> Result<Plan, RedriveError> {
        Ok(self.stored(id).await?.plan)
    }

    /// What became of each job of a plan: first those of batches that have ended altogether, oldest batch first, then
    /// those of batches with jobs in flight.
    ///
    /// # Errors
    /// When the store is away or the page is too large.
    pub async fn items(
        self,
        id: &PlanId,
        page: PageRequest<String>,
    ) -> Result<Page<PlanJob, String>, RedriveError> {
        self.parts.config.check_page(page.limit)?;
        Ok(job_list::page(&*self.parts.store, id, page).await?)
    }

    /// Lets a new plan go; the node that leads the duty finds it within a few seconds.
    ///
    /// # Errors
    /// When it was started before, there is no such plan, or the store is away.
    pub async fn start(self, id: &PlanId, by: &str) -> Result<Plan, RedriveError> {
        self.change(id, |plan, now| plan.start(&self.parts.config.sanitized(by), now)).await
    }

    /// Holds a plan back: nothing more is driven, and what is in flight goes on.
    ///
    /// # Errors
    /// When it is not on its way, there is no such plan, or the store is away.
    pub async fn pause(self, id: &PlanId, by: &str) -> Result<Plan, RedriveError> {
        self.change(id, |plan, now| plan.pause(&self.parts.config.sanitized(by), now)).await
    }

    /// Lets a paused plan go on; one that halted begins again with a canary.
    ///
    /// # Errors
    /// When it is neither, there is no such plan, or the store is away.
    pub async fn resume(self, id: &PlanId, by: &str) -> Result<Plan, RedriveError> {
        self.change(id, |plan, now| plan.resume(&self.parts.config.sanitized(by), now)).await
    }

    /// Calls a plan off: nothing more is driven, and what is in flight goes on.
    ///
    /// # Errors
    /// When it has come to its end, there is no such plan, or the store is away.
    pub async fn cancel(self, id: &PlanId, by: &str) -> Result<Plan, RedriveError> {
        self.change(id, |plan, now| plan.cancel(&self.parts.config.sanitized(by), now)).await
    }

    async fn change(
        self,
        id: &PlanId,
        change: impl Fn(&mut Plan, Timestamp) -> Result<(), PlanError>,
    ) -> Result<Plan, RedriveError> {
        for _ in 0..TRIES {
            let StoredPlan { plan: before, revision, now } = self.stored(id).await?;
            let mut plan = before.clone();
            change(&mut plan, now)?;
            let edits = stored::edits(&plan, Some((&before, revision)));
            // The duty may have written a step meanwhile: what a person asks for goes on top of that.
            if let Amended::Done { .. } = self.parts.store.amend(Amend { edits, ..Amend::default() }).await? {
                self.parts.plans_changed.notify_waiters();
                return Ok(plan);
            }
        }
        Err(RedriveError::Busy { plan: id.clone() })
    }

    async fn stored(self, id: &PlanId) -> Result<StoredPlan, RedriveError> {
        let found = stored::one(&*self.parts.store, id).await?;
        Ok(found.ok_or_else(|| PlanError::NoSuchPlan { plan: id.clone() })?)
    }
}
