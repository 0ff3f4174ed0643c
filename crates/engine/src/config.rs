//! What an engine can be told, with defaults that are safe.

mod encryption;
mod signing;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use backstop_core::admit::AllowedKinds;
use backstop_core::circuit::{self, CircuitSettings, KindDependency};
use backstop_core::depth::{DepthLimit, DepthScope};
use backstop_core::failure::BudgetSettings;
use backstop_core::failure::redact::{Redactor, StandardRedactor, sanitize};
use backstop_core::job::{Aging, JobDefaults, Mask, Masking, Policy, Retention, Spec};
use backstop_core::run_limit::{RunLimit, RunRate};
use backstop_core::{Limits, Refusal, tenant};
use backstop_store::Error as StoreError;

use crate::alerts::Alerts;
use crate::dependency::DependencySettings;
use crate::error::Error;
use crate::events::kept::EventLogLimits;
use crate::isolate::settings::IsolationSettings;
use crate::rejects::settings::RejectSettings;

pub use encryption::Encryption;
pub use signing::Signing;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A year and a month: whoever looks back once a year finds the whole year.
const AUDIT: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// How long what is over stays before it is retired: counted from the end of a re-drive plan or a workflow, from the
/// last failure of an incident that has no open dead letters, and from when a lane was found empty. None keeps it for
/// ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retirement {
    /// Re-drive plans that are done or were canceled; they are removed, with a line in the audit log.
    pub plans: Option<Duration>,
    /// Incidents without open dead letters, of which nobody has spoken since; likewise.
    pub incidents: Option<Duration>,
    /// Empty lanes of queues; they are left out of lists and limits until their next job.
    pub queues: Option<Duration>,
    /// Workflows and batches that have ended; they are removed, and their jobs stay as long as any.
    pub workflows: Option<Duration>,
    /// Rejects of items; they are removed, counted from when they were written.
    pub rejects: Option<Duration>,
}

impl Default for Retirement {
    fn default() -> Self {
        let (plans, incidents, queues) = (Some(DAY * 90), Some(DAY * 90), Some(DAY * 30));
        Self { plans, incidents, queues, workflows: Some(DAY * 90), rejects: Some(DAY * 30) }
    }
}

impl Retirement {
    /// How long re-drive plans stay that have ended; none for ever.
    #[must_use]
    pub const fn plans(mut self, span: Option<Duration>) -> Self {
        self.plans = span;
        self
    }

    /// How long incidents stay that are over; none for ever.
    #[must_use]
    pub const fn incidents(mut self, span: Option<Duration>) -> Self {
        self.incidents = span;
        self
    }

    /// How long queues are shown that are empty; none for ever.
    #[must_use]
    pub const fn queues(mut self, span: Option<Duration>) -> Self {
        self.queues = span;
        self
    }

    /// How long workflows and batches stay that have ended; none for ever.
    #[must_use]
    pub const fn workflows(mut self, span: Option<Duration>) -> Self {
        self.workflows = span;
        self
    }

    /// How long rejects of items stay; none for ever.
    #[must_use]
    pub const fn rejects(mut self, span: Option<Duration>) -> Self {
        self.rejects = span;
        self
    }
}

/// How signals are kept that nobody waits for (W10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignalSettings {
    /// How long they are kept, and how long the ids count of those that were delivered.
    pub keep: Duration,
    /// How many a tenant may have at once; jobs of no tenant count as one.
    pub max_kept: usize,
}

impl Default for SignalSettings {
    fn default() -> Self {
        Self { keep: DAY * 7, max_kept: 10_000 }
    }
}

impl SignalSettings {
    /// How long they are kept.
    #[must_use]
    pub const fn keep(mut self, time: Duration) -> Self {
        self.keep = time;
        self
    }

    /// How many a tenant may have at once.
    #[must_use]
    pub const fn max_kept(mut self, most: usize) -> Self {
        self.max_kept = most;
        self
    }
}

/// Settings of an engine. Every field has a default; build it with `Config::default()` and change what you need.
///
/// ```
/// use std::time::Duration;
/// use backstop::prelude::*;
/// use backstop::{Config, QueueConfig, Retention, Retirement, SignalSettings};
///
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
///
/// let mut config = Config::default()
///     .queue("mail", QueueConfig::default().allow(["send_email"]).policy(Policy::default().retries(20)))
///     .kind("charge", Policy::default().timeout(Duration::from_secs(30)))
///     .retention(Retention::default().succeeded(Some(7 * DAY)))
///     .retirement(Retirement::default().incidents(Some(30 * DAY)));
/// config.signals = SignalSettings::default().keep(3 * DAY).max_kept(1_000);
/// config.limits.payload_bytes = 64 * 1024;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() { Backstop::open_with("memory:", Config::default()).await.unwrap(); }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The name of this process among all that serve the store; every event that it tells carries it (V1).
    pub node: Arc<str>,
    /// Bounds on everything (L20).
    pub limits: Limits,
    /// How waiting counts against priority (L3).
    pub aging: Aging,
    /// Settings by queue.
    pub queues: BTreeMap<String, QueueConfig>,
    /// Retries, backoff and times by kind; each goes before the queue's and after what a submit says (L19).
    pub kinds: BTreeMap<String, JobDefaults>,
    /// Which runs of a kind have a process of their own, by kind; each goes before what the code says (E2).
    pub isolation: BTreeMap<String, IsolationSettings>,
    /// What kinds need that may be away, by kind; each goes before what the code says (H1).
    pub kind_dependencies: BTreeMap<String, String>,
    /// Where payloads say which one of several a job needs, by kind, as a JSON pointer; each goes before what the code
    /// says (H3).
    pub dependency_fields: BTreeMap<String, String>,
    /// How each of these is checked, by its name.
    pub dependencies: BTreeMap<String, DependencySettings>,
    /// How many retries a kind may have, as a share of its first runs (F19); none lets every retry run when it is due.
    pub retry_budget: Option<BudgetSettings>,
    /// The same for single kinds.
    pub retry_budgets: BTreeMap<String, Option<BudgetSettings>>,
    /// When the circuits of dependencies open and close (H3), by dependency; as usual for all others.
    pub circuits: BTreeMap<String, CircuitSettings>,
    /// How runs are limited, beside what queues say (H5).
    pub run_limits: Vec<RunLimit>,
    /// How long ended jobs stay before they are archived (L16).
    pub retention: Retention,
    /// How long plans, incidents and empty queues stay.
    pub retirement: Retirement,
    /// How signals are kept that nobody waits for (W10).
    pub signals: SignalSettings,
    /// How long what was done over HTTP stays in the audit log, counted from the newest line of each of its documents;
    /// none for ever.
    pub audit_retention: Option<Duration>,
    /// Where rejects of items go, and how many a run may make (W9).
    pub rejects: RejectSettings,
    /// How much of the event log stays for streams that come back (V2).
    pub event_log: EventLogLimits,
    /// Who is told of dead letters, and how often (D3).
    pub alerts: Alerts,
    /// What takes secrets out of errors before they are stored (F11).
    pub redactor: Arc<dyn Redactor>,
    /// Who vouches for jobs (E9); none signs nothing and checks nothing.
    pub signing: Option<Signing>,
    /// Which payloads and results are sealed (E12).
    pub encryption: Option<Encryption>,
    /// Fields of payloads, params and results that nobody sees (E12).
    pub masking: Masking,
}

/// Settings of one queue.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct QueueConfig {
    /// The kinds it takes (E8).
    pub gate: AllowedKinds,
    /// Retries, backoff and times of its jobs, each unless kind or submit say otherwise (L19).
    pub defaults: JobDefaults,
    /// True makes a kind that no worker knows a failed attempt instead of a wait (H10).
    pub fail_unknown_kind: bool,
    /// Further submits are refused while so many jobs wait here (H12); any number may unless set.
    pub max_depth: Option<u64>,
    /// So many of its jobs start in a time, on all workers together (H5); any number may unless set.
    pub rate: Option<RunRate>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node: this_node(),
            limits: Limits::default(),
            aging: Aging::default(),
            queues: BTreeMap::new(),
            kinds: BTreeMap::new(),
            isolation: BTreeMap::new(),
            kind_dependencies: BTreeMap::new(),
            dependency_fields: BTreeMap::new(),
            dependencies: BTreeMap::new(),
            retry_budget: Some(BudgetSettings::default()),
            retry_budgets: BTreeMap::new(),
            circuits: BTreeMap::new(),
            run_limits: Vec::new(),
            retention: Retention::default(),
            retirement: Retirement::default(),
            signals: SignalSettings::default(),
            audit_retention: Some(AUDIT),
            rejects: RejectSettings::default(),
            event_log: EventLogLimits::default(),
            alerts: Alerts::default(),
            redactor: Arc::new(StandardRedactor::default()),
            signing: None,
            encryption: None,
            masking: Masking::default(),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("node", &self.node)
            .field("limits", &self.limits)
            .field("aging", &self.aging)
            .field("queues", &self.queues)
            .field("kinds", &self.kinds)
            .field("isolation", &self.isolation)
            .field("kind_dependencies", &self.kind_dependencies)
            .field("dependency_fields", &self.dependency_fields)
            .field("dependencies", &self.dependencies)
            .field("circuits", &self.circuits)
            .field("run_limits", &self.run_limits)
            .field("retry_budget", &self.retry_budget)
            .field("retry_budgets", &self.retry_budgets)
            .field("retention", &self.retention)
            .field("retirement", &self.retirement)
            .field("signals", &self.signals)
            .field("audit_retention", &self.audit_retention)
            .field("rejects", &self.rejects)
            .field("event_log", &self.event_log)
            .field("alerts", &self.alerts)
            .field("signing", &self.signing)
            .field("encryption", &self.encryption)
            .field("masking", &self.masking)
            .finish_non_exhaustive()
    }
}

/// The machine and the process, such as `web-3:4711`.
fn this_node() -> Arc<str> {
    static NODE: OnceLock<Arc<str>> = OnceLock::new();
    let name = || {
        let told = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let machine = told.trim();
        let machine = if machine.is_empty() { "node" } else { machine };
        format!("{machine}:{}", std::process::id()).into()
    };
    NODE.get_or_init(name).clone()
}

impl Config {
    /// Names this process, for events (V1).
    #[must_use]
    pub fn node(mut self, name: impl Into<Arc<str>>) -> Self {
        self.node = name.into();
        self
    }

    /// Sets what is known of one queue.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>, queue: QueueConfig) -> Self {
        self.queues.insert(name.into(), queue);
        self
    }

    /// Says when the circuit of a dependency opens and closes (H3).
    #[must_use]
    pub fn circuit_settings(mut self, dependency: impl Into<String>, settings: CircuitSettings) -> Self {
        self.circuits.insert(dependency.into(), settings);
        self
    }

    /// Limits runs over all workers, by queue, kind or both (H5).
    #[must_use]
    pub fn run_limit(mut self, limit: RunLimit) -> Self {
        self.run_limits.push(limit);
        self
    }

    /// Sets retries, backoff and times of one kind.
    #[must_use]
    pub fn kind(mut self, name: impl Into<String>, defaults: impl Into<JobDefaults>) -> Self {
        self.kinds.insert(name.into(), defaults.into());
        self
    }

    /// Says which runs of a kind have a process of their own, and what those may use (E2).
    #[must_use]
    pub fn isolation(mut self, kind: impl Into<String>, settings: IsolationSettings) -> Self {
        self.isolation.insert(kind.into(), settings);
        self
    }

    /// Says what a kind needs that may be away (H1).
    #[must_use]
    pub fn kind_dependency(mut self, kind: impl Into<String>, dependency: impl Into<String>) -> Self {
        self.kind_dependencies.insert(kind.into(), dependency.into());
        self
    }

    /// Says where the payloads of a kind name which one of several it needs, as a JSON pointer (H3): with `/host` and
    /// the dependency `partner`, a job whose payload has `"host": "eu"` needs `partner:eu`, with a circuit of its own.
    ///
    /// ```
    /// use backstop::Config;
    ///
    /// let config = Config::default().kind_dependency("order", "partner").kind_dependency_from("order", "/host");
    /// # assert_eq!(config.dependency_fields["order"], "/host");
    /// ```
    #[must_use]
    pub fn kind_dependency_from(mut self, kind: impl Into<String>, pointer: impl Into<String>) -> Self {
        self.dependency_fields.insert(kind.into(), pointer.into());
        self
    }

    /// Says how a dependency is checked (H1).
    #[must_use]
    pub fn dependency(mut self, name: impl Into<String>, settings: DependencySettings) -> Self {
        self.dependencies.insert(name.into(), settings);
        self
    }

    /// Sets how long ended jobs stay before they are archived (L16).
    #[must_use]
    pub const fn retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how long plans, incidents and empty queues stay.
    #[must_use]
    pub const fn retirement(mut self, retirement: Retirement) -> Self {
        self.retirement = retirement;
        self
    }

    /// Sets how long the audit log stays; none for ever.
    #[must_use]
    pub const fn audit_retention(mut self, span: Option<Duration>) -> Self {
        self.audit_retention = span;
        self
    }

    /// Sets where rejects of items go, and how many a run may make (W9).
    #[must_use]
    pub fn rejects(mut self, rejects: RejectSettings) -> Self {
        self.rejects = rejects;
        self
    }

    /// Sets how much of the event log stays for streams that come back (V2).
    #[must_use]
    pub fn event_log(mut self, limits: EventLogLimits) -> Self {
        self.event_log = limits;
        self
    }

    /// Sets who is told of dead letters, and how often (D3).
    #[must_use]
    pub fn alerts(mut self, alerts: Alerts) -> Self {
        self.alerts = alerts;
        self
    }

    /// Signs what is submitted, and checks it before it is run (E9).
    #[must_use]
    pub fn signing(mut self, signing: Signing) -> Self {
        self.signing = Some(signing);
        self
    }

    /// Seals payloads and results (E12).
    #[must_use]
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = Some(encryption);
        self
    }

    /// Hides fields by name from everybody who looks at jobs (E12).
    #[must_use]
    pub fn masking(mut self, masking: Masking) -> Self {
        self.masking = masking;
        self
    }

    /// Sets how many retries every kind may have (F19); none sets no bound.
    #[must_use]
    pub const fn retry_budget(mut self, budget: Option<BudgetSettings>) -> Self {
        self.retry_budget = budget;
        self
    }

    /// Sets how many retries one kind may have (F19); none sets no bound.
    #[must_use]
    pub fn retry_budget_of(mut self, kind: impl Into<String>, budget: Option<BudgetSettings>) -> Self {
        self.retry_budgets.insert(kind.into(), budget);
        self
    }

    /// True when somebody is to be told of dead letters.
    pub(crate) const fn has_alerts(&self) -> bool {
        !self.alerts.channels.is_empty()
    }

    /// The retry budget of a kind.
    pub(crate) fn budget(&self, kind: &str) -> Option<BudgetSettings> {
        self.retry_budgets.get(kind).copied().unwrap_or(self.retry_budget)
    }

    /// What everything passes through that is shown.
    #[must_use]
    pub fn mask(&self) -> Mask<'_> {
        Mask { redactor: &*self.redactor, masking: &self.masking }
    }

    /// A person's words, which are stored, told and shown like an error's (F11).
    pub(crate) fn sanitized(&self, text: &str) -> String {
        sanitize(&*self.redactor, text, self.limits.error_chars)
    }

    /// Refuses a page over the limit of this engine (L20); that of the store stands behind it.
    pub(crate) const fn check_page(&self, rows: usize) -> Result<(), StoreError> {
        let limit = self.limits.page;
        if rows > limit { Err(StoreError::TooMany { what: "page", actual: rows, limit }) } else { Ok(()) }
    }

    /// How many jobs may wait where a job of this queue would (H12).
    pub(crate) fn depth_limits(&self, queue: &str) -> Vec<DepthLimit> {
        let of_queue = self.queues.get(queue).and_then(|queue| queue.max_depth);
        let of_queue = of_queue.map(|most| DepthLimit { scope: DepthScope::Queue(queue.into()), most });
        let of_tenant = tenant::of_queue(queue).zip(self.limits.max_depth_per_tenant);
        let of_tenant =
            of_tenant.map(|(name, most)| DepthLimit { scope: DepthScope::Tenant(name.into()), most });
        of_queue.into_iter().chain(of_tenant).collect()
    }

    /// Refuses what could never let anything through. A worker checks it when it starts, a server when it listens.
    ///
    /// # Errors
    /// [`Error::Configuration`], which names what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let limits = self.run_limits();
        let limits =
            limits.iter().map(|limit| (format!("limit `{}`", limit.name), limit.check(&self.limits)));
        let circuits =
            self.circuits.iter().map(|(key, circuit)| (format!("circuit `{key}`"), circuit.check()));
        let of_field = |(kind, pointer): (&String, &String)| {
            (format!("kind `{kind}`"), KindDependency::check_pointer(pointer))
        };
        let fields = self.dependency_fields.iter().map(of_field);
        let depths = self.queues.iter().map(|(name, queue)| (format!("queue `{name}`"), queue.max_depth));
        let depths = depths.chain([("every tenant".to_owned(), self.limits.max_depth_per_tenant)]);
        let depths = depths.map(|(what, most)| {
            let none = Refusal::invalid("max_depth", "where no job may wait none is taken: the minimum is 1");
            (what, if most == Some(0) { Err(none) } else { Ok(()) })
        });
        for (what, checked) in limits.chain(circuits).chain(fields).chain(depths) {
            checked.map_err(|problem| Error::Configuration { what, problem })?;
        }
        Ok(())
    }

    /// When the circuit of a dependency opens and closes. One of several has those of all of them, unless it has its
    /// own.
    pub(crate) fn circuit(&self, dependency: &str) -> CircuitSettings {
        let own = self.circuits.get(dependency);
        let of_all = || self.circuits.iter().rev().find(|(name, _)| circuit::is_one_of(dependency, name));
        own.or_else(|| of_all().map(|(_, settings)| settings)).copied().unwrap_or_default()
    }

    /// How runs are limited (H5).
    pub(crate) fn run_limits(&self) -> Vec<RunLimit> {
        let rates = self.queues.iter().filter_map(|(name, queue)| Some((name, queue.rate?)));
        let of_queues = rates.map(|(name, rate)| RunLimit { rate: Some(rate), ..RunLimit::of_queue(name) });
        of_queues.chain(self.run_limits.iter().cloned()).collect()
    }

    pub(crate) fn gate(&self, queue: &str) -> AllowedKinds {
        self.queues.get(queue).map(|queue| queue.gate.clone()).unwrap_or_default()
    }

    /// The policy of a job of which nothing else is said.
    pub(crate) fn policy_of(&self, spec: &Spec) -> Policy {
        self.defaults(&spec.kind, &spec.queue, JobDefaults::default()).applied_to(Policy::default())
    }

    /// What a job gets that says nothing itself, field by field: what the settings say of its kind, else what its code
    /// declares, else what the settings say of its queue (L19).
    pub(crate) fn defaults(&self, kind: &str, queue: &str, declared: JobDefaults) -> JobDefaults {
        let of_kind = self.kinds.get(kind).copied().unwrap_or_default();
        let of_queue = self.queues.get(queue).map(|queue| queue.defaults).unwrap_or_default();
        of_kind.over(declared).over(of_queue)
    }
}

impl QueueConfig {
    /// Only these kinds may wait and run here (E8).
    #[must_use]
    pub fn allow<S: Into<String>>(mut self, kinds: impl IntoIterator<Item = S>) -> Self {
        self.gate.kinds = Some(kinds.into_iter().map(Into::into).collect());
        self
    }

    /// Retries, backoff and times of its jobs: [`JobDefaults`], or a policy.
    #[must_use]
    pub fn policy(mut self, defaults: impl Into<JobDefaults>) -> Self {
        self.defaults = defaults.into();
        self
    }

    /// Refuses further submits while so many jobs wait here, due or not (H12).
    #[must_use]
    pub const fn max_depth(mut self, jobs: u64) -> Self {
        self.max_depth = Some(jobs);
        self
    }

    /// So many of its jobs start in a time, on all workers together (H5).
    #[must_use]
    pub const fn rate(mut self, count: u64, per: Duration) -> Self {
        self.rate = Some(RunRate { count, per });
        self
    }

    /// A kind that no worker knows fails its attempt instead of waiting (H10).
    #[must_use]
    pub const fn fail_unknown_kind(mut self) -> Self {
        self.fail_unknown_kind = true;
        self
    }
}

/// How a worker behaves in time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerTimes {
    /// How long it may be silent before others take its jobs back (L15).
    pub lease: Duration,
    /// How often it looks for work when no wake-up comes (L13).
    pub poll: Duration,
    /// How long running work may go on after a stop was asked for (L18).
    pub grace: Duration,
    /// How long a handler may ignore that it was told to stop before it is reported as stuck (F10).
    pub stuck_after: Duration,
}

impl Default for WorkerTimes {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            grace: Duration::from_secs(25),
            stuck_after: Duration::from_secs(5),
        }
    }
}
