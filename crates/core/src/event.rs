//! What subscribers are told, after the commit, in order per job (V1).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::circuit::CircuitState;
use crate::failure::{Cause, Fingerprint, TerminalReason, Verdict};
use crate::id::WorkflowId;
use crate::job::{Ending, Header, NewJob, Operation, Record, State};
use crate::schedule::PassReason;
use crate::tenant;
use crate::time::Timestamp;
use crate::workflow::{Condition, Workflow, WorkflowCounts, WorkflowStatus};

/// Something that happened and was committed.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When, by the store's clock.
    pub at: Timestamp,
    /// The node that tells it; none before it is told.
    pub node: Option<Arc<str>>,
    /// To which job; none for what concerns a worker or a queue.
    pub job: Option<Header>,
    /// What.
    pub what: EventKind,
}

impl Event {
    /// True when it tells of a job that could not start in time: told whether anybody listens or not (F12).
    #[must_use]
    pub const fn is_of_expiry(&self) -> bool {
        matches!(
            self.what,
            EventKind::Dead { reason: TerminalReason::Expired, .. }
                | EventKind::Alert { reason: TerminalReason::Expired, .. }
        )
    }

    /// The workflow or the batch that it is about; none for what concerns a job, a worker or a queue.
    #[must_use]
    pub const fn workflow(&self) -> Option<&WorkflowHeader> {
        match &self.what {
            EventKind::Workflow { workflow, .. } | EventKind::BranchTaken { workflow, .. } => Some(workflow),
            _ => None,
        }
    }

    /// The queue that it is about; none for what concerns a workflow, a dependency or a worker.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        match (&self.job, &self.what) {
            (Some(job), _) => Some(&job.queue),
            (None, EventKind::WaitingForCode { queue, .. }) => Some(queue),
            (None, _) => None,
        }
    }

    /// The kind of job that it is about; none for what concerns a workflow, a dependency or a worker.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        match (&self.job, &self.what) {
            (Some(job), _) => Some(&job.kind),
            (None, EventKind::WaitingForCode { kind, .. }) => Some(kind),
            (None, _) => None,
        }
    }

    /// Whose event it is, as it is shown: that of the job, the queue, the incident or the workflow it is about (E13).
    #[must_use]
    pub fn tenant(&self) -> &str {
        match (&self.job, &self.what) {
            (Some(job), _) => job.tenant(),
            (None, EventKind::WaitingForCode { queue, .. }) => tenant::shown(queue),
            (None, EventKind::IncidentOpened { kind, .. } | EventKind::IncidentRegressed { kind, .. }) => {
                tenant::shown(kind)
            }
            (None, _) => {
                self.workflow().and_then(|workflow| workflow.tenant.as_deref()).unwrap_or(tenant::NO_TENANT)
            }
        }
    }
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Told<'a> {
            at: Timestamp,
            #[serde(skip_serializing_if = "Option::is_none")]
            node: Option<&'a str>,
            tenant: &'a str,
            #[serde(flatten)]
            job: Option<&'a Header>,
            #[serde(flatten)]
            what: &'a EventKind,
        }
        let Self { at, node, job, what } = self;
        Told { at: *at, node: node.as_deref(), tenant: self.tenant(), job: job.as_ref(), what }
            .serialize(serializer)
    }
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A job was stored.
    Enqueued {
        /// When it may run.
        run_at: Timestamp,
    },
    /// A run began.
    Started {
        /// Its number.
        run: u32,
    },
    /// A run succeeded.
    Succeeded {
        /// Its number.
        run: u32,
    },
    /// A run ended badly.
    Failed {
        /// Why.
        cause: Cause,
        /// The sanitized error.
        error: String,
        /// True when no run follows.
        r#final: bool,
    },
    /// Another run will follow a failure.
    Retrying {
        /// The sanitized error.
        error: String,
        /// Charged runs so far.
        attempt: u32,
        /// When.
        next: Timestamp,
    },
    /// A job became a dead letter.
    Dead {
        /// The sanitized error, if a run left one.
        error: Option<String>,
        /// Charged runs.
        attempts: u32,
        /// Why.
        reason: TerminalReason,
    },
    /// A job entered the dead letters, and somebody should know (D3). Published for repeats too.
    Alert {
        /// The failure's fingerprint, or the terminal reason of a job that no run killed.
        about: String,
        /// Why it is dead.
        reason: TerminalReason,
        /// How many entries like it were counted and not told since the last one that was; zero when this one is told.
        suppressed: u32,
    },
    /// A failure was seen that is like no other before it (D2).
    IncidentOpened {
        /// Its fingerprint.
        fingerprint: Fingerprint,
        /// The kind of its jobs, with their tenant before it if they have one.
        kind: String,
    },
    /// A failure came back that was said to be fixed (D7).
    IncidentRegressed {
        /// Its fingerprint.
        fingerprint: Fingerprint,
        /// The kind of its jobs, with their tenant before it if they have one.
        kind: String,
        /// The version of the code in which it came back.
        version: Option<String>,
    },
    /// A job went back uncharged.
    Deferred {
        /// Why.
        cause: Cause,
        /// Until when.
        until: Timestamp,
    },
    /// A run was handed back because its worker stops.
    Interrupted,
    /// A run took longer than it may.
    TimedOut,
    /// A run has used 80 % of its time (F10).
    TimeoutNear {
        /// Its number.
        run: u32,
    },
    /// A handler goes on although it was told to stop (F10).
    Stuck {
        /// Its number.
        run: u32,
        /// Its slot.
        slot: usize,
    },
    /// A job was canceled.
    Canceled {
        /// Why.
        reason: String,
    },
    /// A job was paused.
    Paused,
    /// A job was resumed.
    Resumed,
    /// What it waited for in its workflow is there (W1).
    Released,
    /// A run has ended and its job waits for a signal (W10).
    Waiting {
        /// The key of the signal.
        signal: String,
        /// When it goes on without one.
        until: Timestamp,
    },
    /// A job that waited for a signal goes on (W10).
    Signaled {
        /// The key of the signal.
        signal: String,
        /// True when the time was up and nobody had sent one.
        timed_out: bool,
    },
    /// A dead letter was driven again.
    Retried,
    /// A run of a callback failed (F14).
    CallbackFailed {
        /// The sanitized error.
        error: String,
    },
    /// A hook around the handler failed and was swallowed (F14).
    HookFailed {
        /// Which hook.
        hook: &'static str,
        /// The sanitized error.
        error: String,
    },
    /// A handler told something of its own (E6).
    Published {
        /// What it is called.
        name: String,
        /// What it says, as it was given.
        data: Value,
    },
    /// Jobs wait because no live worker of their queue knows their kind (H10).
    WaitingForCode {
        /// The kind.
        kind: String,
        /// The queue.
        queue: String,
        /// How many wait.
        jobs: u64,
    },
    /// A circuit lets through something else than before (H3).
    Circuit {
        /// The dependency.
        key: String,
        /// What it lets through now.
        state: CircuitState,
        /// The number of this change.
        generation: u64,
        /// Calls that were counted.
        calls: u64,
        /// Those of them that failed.
        failures: u64,
        /// When it is tried again, if it is open.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
        /// Who changed it by hand.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A worker stops or resumes claiming, all kinds or some, because of its health (H1, H8).
    WorkerHealth {
        /// The worker's name.
        worker: String,
        /// The dependency that turned red or green; none when its own failures are why.
        #[serde(skip_serializing_if = "Option::is_none")]
        dependency: Option<String>,
        /// True when it resumes.
        ok: bool,
        /// Why it stops.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// A fire of a schedule was passed over (W11). One that was not is told as the `enqueued` of its job.
    FirePassed {
        /// The schedule.
        schedule: String,
        /// The latest fire time that was passed over.
        fire_time: Timestamp,
        /// Why.
        reason: PassReason,
    },
    /// A workflow or a batch was submitted, is further than before, was paused or resumed, or is over (W1, W3).
    Workflow {
        /// Which.
        #[serde(flatten)]
        workflow: WorkflowHeader,
        /// Where it is.
        status: WorkflowStatus,
        /// Its steps, or its jobs, by where they are.
        counts: WorkflowCounts,
    },
    /// A step runs because of how those before it ended; it might not have (W2).
    BranchTaken {
        /// The workflow.
        #[serde(flatten)]
        workflow: WorkflowHeader,
        /// The step.
        step: Arc<str>,
        /// The steps before it.
        after: Vec<Arc<str>>,
        /// What their end had to be like.
        when: Condition,
    },
}

/// The workflow or the batch that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkflowHeader {
    /// Its identity.
    #[serde(rename = "workflow_id")]
    pub id: WorkflowId,
    /// What people call it.
    #[serde(rename = "workflow")]
    pub name: Arc<str>,
    /// The tenant whose it is.
    #[serde(skip)]
    pub tenant: Option<Arc<str>>,
    /// The queues of its jobs: who may not see one of them is not told (E13).
    #[serde(skip)]
    pub queues: Arc<BTreeSet<Arc<str>>>,
}

impl WorkflowHeader {
    /// That of a workflow.
    #[must_use]
    pub fn of(workflow: &Workflow) -> Self {
        let Workflow { id, name, tenant, queues, .. } = workflow;
        Self { id: *id, name: name.clone(), tenant: tenant.clone(), queues: Arc::new(queues.clone()) }
    }
}

impl EventKind {
    /// The name of every event.
    pub const NAMES: [&'static str; 30] = [
        "enqueued",
        "started",
        "succeeded",
        "failed",
        "retrying",
        "dead",
        "alert",
        "incident_opened",
        "incident_regressed",
        "deferred",
        "interrupted",
        "timed_out",
        "timeout_near",
        "stuck",
        "canceled",
        "paused",
        "resumed",
        "released",
        "waiting",
        "signaled",
        "retried",
        "callback_failed",
        "hook_failed",
        "published",
        "waiting_for_code",
        "circuit",
        "worker_health",
        "fire_passed",
        "workflow",
        "branch_taken",
    ];

    /// The event's name, as in its JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Enqueued { .. } => "enqueued",
            Self::Started { .. } => "started",
            Self::Succeeded { .. } => "succeeded",
            Self::Failed { .. } => "failed",
            Self::Retrying { .. } => "retrying",
            Self::Dead { .. } => "dead",
            Self::Alert { .. } => "alert",
            Self::IncidentOpened { .. } => "incident_opened",
            Self::IncidentRegressed { .. } => "incident_regressed",
            Self::Deferred { .. } => "deferred",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "timed_out",
            Self::TimeoutNear { .. } => "timeout_near",
            Self::Stuck { .. } => "stuck",
            Self::Canceled { .. } => "canceled",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Released => "released",
            Self::Waiting { .. } => "waiting",
            Self::Signaled { .. } => "signaled",
            Self::Retried => "retried",
            Self::CallbackFailed { .. } => "callback_failed",
            Self::HookFailed { .. } => "hook_failed",
            Self::Published { .. } => "published",
            Self::WaitingForCode { .. } => "waiting_for_code",
            Self::Circuit { .. } => "circuit",
            Self::WorkerHealth { .. } => "worker_health",
            Self::FirePassed { .. } => "fire_passed",
            Self::Workflow { .. } => "workflow",
            Self::BranchTaken { .. } => "branch_taken",
        }
    }
}

/// The event of a stored job.
#[must_use]
pub fn enqueued(job: &NewJob, record: &Record, now: Timestamp) -> Event {
    Event {
        at: now,
        node: None,
        job: Some(job.spec.header()),
        what: EventKind::Enqueued { run_at: record.run_at },
    }
}

/// The event of a run that was counted as started.
#[must_use]
pub fn started(job: Header, run: u32, now: Timestamp) -> Event {
    Event { at: now, node: None, job: Some(job), what: EventKind::Started { run } }
}

/// The events of a run's end: `record` is the job's record after it.
///
/// A job that was claimed and never started had no run, so its return is nobody's news.
#[must_use]
pub fn ended(ending: &Ending, record: &Record, had_run: bool, now: Timestamp) -> Vec<Event> {
    let mut events = Vec::with_capacity(3);
    let mut tell = |what| events.push(Event { at: now, node: None, job: Some(ending.job.clone()), what });
    if !had_run {
        return events;
    }
    let error = ending.failure.as_ref().map(|failure| failure.message.clone());
    if ending.cause == Cause::Timeout {
        tell(EventKind::TimedOut);
    }
    if ending.cause.is_failure() {
        let r#final = ending.decision.verdict.is_final();
        tell(EventKind::Failed { cause: ending.cause, error: error.clone().unwrap_or_default(), r#final });
    }
    match &ending.decision.verdict {
        Verdict::Succeed => tell(EventKind::Succeeded { run: record.runs }),
        Verdict::Retry { .. } => tell(EventKind::Retrying {
            error: error.unwrap_or_default(),
            attempt: record.attempt,
            next: record.run_at,
        }),
        Verdict::Defer { .. } if ending.cause == Cause::Interrupted => tell(EventKind::Interrupted),
        Verdict::Defer { .. } => tell(EventKind::Deferred { cause: ending.cause, until: record.run_at }),
        Verdict::Wait { signal, until, .. } => {
            tell(EventKind::Waiting { signal: signal.clone(), until: *until });
        }
        Verdict::Dead { reason } => {
            tell(EventKind::Dead { error, attempts: record.attempt, reason: *reason });
            if let Some(what) = alert(record, *reason) {
                tell(what);
            }
        }
        Verdict::Cancel { reason } => tell(EventKind::Canceled { reason: reason.clone() }),
    }
    events
}

/// The event of an operation that changed a job.
#[must_use]
pub fn operated(job: Header, operation: &Operation, now: Timestamp) -> Event {
    let what = match operation {
        Operation::Cancel { reason } => EventKind::Canceled { reason: reason.clone() },
        Operation::Pause => EventKind::Paused,
        Operation::Resume => EventKind::Resumed,
        Operation::Release => EventKind::Released,
        Operation::Signal { signal, timed_out, .. } => {
            EventKind::Signaled { signal: signal.clone(), timed_out: *timed_out }
        }
        Operation::PassBy { cause } => EventKind::Canceled { reason: cause.as_str().to_owned() },
        Operation::Retry | Operation::Redrive { .. } => EventKind::Retried,
    };
    Event { at: now, node: None, job: Some(job), what }
}

/// The events of a job whose time to start has passed.
#[must_use]
pub fn expired(job: &Header, record: &Record, now: Timestamp) -> Vec<Event> {
    debug_assert_eq!(record.state, State::Failed);
    let reason = TerminalReason::Expired;
    let dead = EventKind::Dead { error: None, attempts: record.attempt, reason };
    let both = [Some(dead), alert(record, reason)];
    both.into_iter()
        .flatten()
        .map(|what| Event { at: now, node: None, job: Some(job.clone()), what })
        .collect()
}

fn alert(record: &Record, reason: TerminalReason) -> Option<EventKind> {
    let mark = record.alert()?;
    Some(EventKind::Alert { about: mark.about.clone(), reason, suppressed: mark.suppressed })
}

/// The event of a failure that is like no other before it.
#[must_use]
pub const fn incident_opened(fingerprint: Fingerprint, kind: String, now: Timestamp) -> Event {
    Event { at: now, node: None, job: None, what: EventKind::IncidentOpened { fingerprint, kind } }
}

/// The event of a failure that came back.
#[must_use]
pub const fn incident_regressed(
    fingerprint: Fingerprint,
    kind: String,
    version: Option<String>,
    now: Timestamp,
) -> Event {
    Event {
        at: now,
        node: None,
        job: None,
        what: EventKind::IncidentRegressed { fingerprint, kind, version },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_in_the_list_of_names() {
        // V1: subscribers may ask for any of them, so the list is held against the names that events really have.
        let named: Vec<&str> = include_str!("event.rs")
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once("=> \"")?.1.strip_suffix("\","))
            .collect();
        assert_eq!(named, EventKind::NAMES);
    }

    #[test]
    fn an_event_has_the_same_name_in_its_json() {
        // V1: serde makes that one from the variant.
        for line in include_str!("event.rs").lines() {
            let Some((variant, name)) =
                line.trim().strip_prefix("Self::").and_then(|line| line.split_once("=> \""))
            else {
                continue;
            };
            let variant = variant.split([' ', '{', '(']).next().unwrap_or_default();
            let mut snake = String::new();
            for letter in variant.chars() {
                if letter.is_uppercase() && !snake.is_empty() {
                    snake.push('_');
                }
                snake.extend(letter.to_lowercase());
            }
            assert_eq!(name.strip_suffix("\","), Some(&*snake), "{line}");
        }
    }
}
