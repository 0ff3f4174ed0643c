//! What the parts of one engine share: its store, its settings, and what this process remembers.
//!
//! Workers, maintenance and remote workers take this, or only the store and the settings, and never the whole engine.

use std::sync::Arc;

use backstop_core::event::{Event, EventKind};
use backstop_core::job::{JobDetail, Operated, Operation, StoredJob};
use backstop_core::{JobId, Refusal};
use backstop_store::{Claim, Error as StoreError, Finish, Observer, Store};
use tokio::sync::Notify;

use crate::bridges::local::LocalBridges;
use crate::budget::Budgets;
use crate::circuits::breakers::CircuitMemory;
use crate::config::Config;
use crate::error::OperateError;
use crate::events::EventChannel;
use crate::figures::{Figures, Metered};
use crate::limits::cache::LimitCache;
use crate::loops::ErrorThrottle;
use crate::redrive::mark::MarksCompared;
use crate::rule::cache::RuleCache;
use crate::run::suspects::ClearedSuspects;
use crate::run_checks::RunChecks;
use crate::runs::LocalRuns;
use crate::sinks::cache::SinkCache;
use crate::tenant_incidents::TenantIncidents;
use crate::tx::TransactionContext;
use crate::workflows::inputs::InputReader;
use crate::workflows::memory::WorkflowMemory;

/// See the module.
pub(crate) struct EngineParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    pub(crate) events: Arc<EventChannel>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) runs: LocalRuns,
    /// Whom to ask before a run.
    pub(crate) run_checks: RunChecks,
    pub(crate) cleared_suspects: ClearedSuspects,
    pub(crate) rules: RuleCache,
    pub(crate) limits: LimitCache,
    pub(crate) circuits: CircuitMemory,
    pub(crate) budgets: Budgets,
    pub(crate) tenant_incidents: TenantIncidents,
    /// Who takes messages.
    pub(crate) sinks: SinkCache,
    /// Bridges that run in this process.
    pub(crate) bridges: LocalBridges,
    /// Rung when somebody here changes a re-drive plan.
    pub(crate) plans_changed: Notify,
    /// When the marks of re-drive plans were last compared with the plans.
    pub(crate) plans_marked: MarksCompared,
    /// Rung when somebody here changes a schedule.
    pub(crate) schedules_changed: Notify,
    /// What is remembered of workflows.
    pub(crate) workflows: WorkflowMemory,
    /// Reads what steps are given.
    pub(crate) inputs: InputReader,
    /// Keeps the loops of this process from logging one error again and again.
    pub(crate) error_throttle: Arc<ErrorThrottle>,
}

impl std::fmt::Debug for EngineParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineParts").field("store", &self.store.info()).finish_non_exhaustive()
    }
}

impl EngineParts {
    pub(crate) fn new(store: Arc<dyn Store>, config: Config) -> Arc<Self> {
        let events = EventChannel::new(config.node.clone(), config.has_alerts());
        let figures = Figures::new();
        let store: Arc<dyn Store> = Arc::new(Metered::new(store, figures.clone()));
        store.observe(events.clone() as Arc<dyn Observer>);
        events.keep_in(&store);
        Arc::new(Self {
            store,
            config,
            events,
            figures,
            runs: LocalRuns::default(),
            run_checks: RunChecks::default(),
            cleared_suspects: ClearedSuspects::default(),
            rules: RuleCache::default(),
            limits: LimitCache::default(),
            circuits: CircuitMemory::default(),
            budgets: Budgets::default(),
            tenant_incidents: TenantIncidents::default(),
            sinks: SinkCache::default(),
            bridges: LocalBridges::default(),
            plans_changed: Notify::new(),
            plans_marked: MarksCompared::default(),
            schedules_changed: Notify::new(),
            workflows: WorkflowMemory::default(),
            inputs: InputReader::default(),
            error_throttle: Arc::default(),
        })
    }

    /// Gives endings their places before they are written: retries in the budget of their kind (F19), failures among
    /// the incidents of their tenant (E13). What they say of dependencies is told first (H3).
    pub(crate) async fn place(&self, endings: &mut [Finish]) {
        self.circuits.tell(&self.into()).await;
        self.budgets.smear(&*self.store, &self.config, endings).await;
        self.tenant_incidents.gather(&*self.store, &self.config, endings).await;
    }

    /// Where the jobs are, for a caller's transaction.
    pub(crate) fn transaction_context(&self) -> TransactionContext {
        TransactionContext { info: self.store.info(), sinks: self.events.sinks() }
    }

    /// Gives a claim the limits in force (H5).
    pub(crate) async fn limit(&self, claim: &mut Claim) -> Result<(), StoreError> {
        // Who takes messages is known before the first run.
        self.sinks.expect(&*self.store, &self.events).await;
        let limits = self.limits.fresh(&*self.store, &self.config).await?;
        self.limits.apply(limits, claim);
        Ok(())
    }

    /// Wakes whoever waits for room that limits left none of: runs have ended here (H5).
    pub(crate) fn runs_ended(&self) {
        if !self.limits.last_read().is_empty() {
            self.events.work_arrived();
        }
        self.workflows.runs_ended();
    }

    /// Tells those here of an event about a job that a commit of somebody else has written.
    pub(crate) async fn tell_here(&self, job: &StoredJob, what: EventKind) {
        if let Ok(at) = self.store.now().await {
            self.events.tell_here(Event { at, node: None, job: Some(job.spec.header()), what });
        }
    }

    /// Publishes an event about a job that no commit carries.
    pub(crate) async fn publish(&self, job: &StoredJob, what: EventKind) {
        if let Ok(at) = self.store.now().await {
            self.events.publish(Event { at, node: None, job: Some(job.spec.header()), what });
        }
    }

    /// Looks a job up that is not archived.
    pub(crate) async fn job(&self, job: JobId) -> Result<Option<JobDetail>, StoreError> {
        Ok(self.store.jobs(vec![job]).await?.pop().flatten())
    }

    pub(crate) async fn operate(&self, job: JobId, operation: Operation) -> Result<Operated, OperateError> {
        let mut answers = self.store.operate(vec![job], operation).await?;
        Ok(answers.pop().unwrap_or(Err(Refusal::NoSuchJob { job }))?)
    }

    /// Calls a job off, and tells its run if that is in this process (L7).
    pub(crate) async fn cancel(&self, job: JobId, reason: &str) -> Result<Operated, OperateError> {
        let reason = self.config.sanitized(reason);
        let operated = self.operate(job, Operation::Cancel { reason }).await?;
        self.runs.cancel(job);
        Ok(operated)
    }
}
