//! Small documents that a store keeps for the engine: rules, re-drive plans, retry budgets, alerts to deliver, tokens.
//!
//! The store knows their keys and revisions and nothing of what is in them. A change names the revision it rests on, so
//! two nodes never write over each other; and it can carry jobs and operations on jobs in the same transaction, so what
//! a plan or a workflow says it did and what was done are one.

use std::fmt;
use std::sync::Arc;

use backstop_core::job::{NewJob, Operated, Operation};
use backstop_core::workflow::MOST_NODES;
use backstop_core::{JobId, Limits, Refusal, Timestamp};

use crate::{Error, Submitted, Term};

/// Where documents of one sort are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Drawer {
    /// Failure rules (F18), by their id.
    Rules,
    /// Re-drive plans (D4), by their id.
    Plans,
    /// What became of each job of a plan.
    PlanJobs,
    /// Which plans want steps and which have ended, so that nobody reads plans to find that out.
    PlanMarks,
    /// Retry budgets (F19), by kind.
    Budgets,
    /// Alerts that wait to be delivered (D3), in the order of time.
    Alerts,
    /// What the alert channels last told of each incident, by what they told.
    AlertLog,
    /// API tokens (E13), and sessions of the page that people have ended before their time.
    Tokens,
    /// What was done over HTTP, and by whom. Keys begin with [`Drawer::audit_moment`] of the newest line, so that the
    /// newest documents come first.
    Audit,
    /// Keys that all nodes of one store share.
    Secrets,
    /// Subscriptions to events, and how far each one is (V2).
    Webhooks,
    /// What queues let in (L12), by [`crate::QueueAdmission::key_of`].
    Gates,
    /// The job that a remote worker runs alone (C3), by the id of the worker's name.
    Suspects,
    /// How runs are limited (H5): one document, see [`crate::run_limits`].
    RunLimits,
    /// What the rates of limits have left, by the name of the limit.
    RunBuckets,
    /// The circuits of dependencies (H3), by dependency.
    Circuits,
    /// Kinds of which some jobs name their own dependency (H3), by kind.
    OwnDependencies,
    /// What workers tell of their health (H1, H8), by worker.
    WorkerReports,
    /// What the rates of limits have left for each key, by [`crate::run_limits::key_bucket`].
    KeyBuckets,
    /// Schedules (W11), by name.
    Schedules,
    /// How many schedules there are: one document, whose revision grows whenever somebody changes one.
    ScheduleMarks,
    /// Workflows and batches (W1-W6), by id: how far each is.
    Workflows,
    /// The graphs of workflows, by id. They never change.
    WorkflowGraphs,
    /// The state of each node of a large graph, by id; that of a small one is part of its workflow.
    WorkflowNodes,
    /// Ends of jobs of workflows and batches, of which nobody has said yet what follows, by
    /// [`EndNote::documents`](backstop_core::workflow::EndNote::documents).
    WorkflowEnds,
    /// Which workflow or batch was submitted under a key.
    WorkflowKeys,
    /// Results of durable steps (W7), by [`Drawer::step`]. They are written by leases and go with their jobs.
    Steps,
    /// Signals that are kept, or on their way (W10), under their tenant and their key.
    Signals,
    /// Ids of signals that were delivered (W10): the same one again is answered as the first was.
    SignalIds,
    /// Which jobs may wait for which signal (W10): an index of candidates, the record of each has the last word.
    SignalWaits,
    /// When somebody has to look at a signal or a wait again, in the order of time (W10).
    SignalTimes,
    /// How many signals are kept, by tenant (W10).
    SignalCounts,
    /// Rejected items (W9), a batch in each document, by [`RejectBatch::key`](backstop_core::reject::RejectBatch::key).
    /// They are written by leases.
    Rejects,
    /// Batches of rejects that nobody has counted yet, by the same keys.
    RejectNotes,
    /// Batches of rejects that were counted, by [`Drawer::reject_moment`]: the oldest come first.
    RejectTimes,
    /// Rejects that have something in common, by tenant and fingerprint.
    RejectGroups,
    /// How many items have rejects that are stored, by tenant.
    RejectCounts,
    /// Messages of brokers that cannot be jobs (B4), by bridge, and how many of them there are.
    InvalidMessages,
    /// Sinks (B2): what each takes, who publishes for it, how it stands.
    Sinks,
    /// Messages that wait to be published (B2), by [`OutboxKey`](backstop_core::outbox::OutboxKey): a document for each
    /// commit and sink. They are written by the transitions that they tell of.
    Outbox,
    /// How many messages were refused because their sink was full, by the same keys, until somebody has counted them.
    OutboxRefused,
    /// The event log (V2): events of all processes in one order, for streams, how far it is, and whether anybody
    /// listens.
    EventLog,
    /// Bridges (B1, B2): what the processes that run them tell, what people ask of them, and what they have done.
    Bridges,
}

impl Drawer {
    /// Every drawer.
    pub const ALL: [Self; 43] = [
        Self::Rules,
        Self::Plans,
        Self::PlanJobs,
        Self::PlanMarks,
        Self::Budgets,
        Self::Alerts,
        Self::AlertLog,
        Self::Tokens,
        Self::Audit,
        Self::Secrets,
        Self::Webhooks,
        Self::Gates,
        Self::Suspects,
        Self::RunLimits,
        Self::RunBuckets,
        Self::Circuits,
        Self::OwnDependencies,
        Self::WorkerReports,
        Self::KeyBuckets,
        Self::Schedules,
        Self::ScheduleMarks,
        Self::Workflows,
        Self::WorkflowGraphs,
        Self::WorkflowNodes,
        Self::WorkflowEnds,
        Self::WorkflowKeys,
        Self::Steps,
        Self::Signals,
        Self::SignalIds,
        Self::SignalWaits,
        Self::SignalTimes,
        Self::SignalCounts,
        Self::Rejects,
        Self::RejectNotes,
        Self::RejectTimes,
        Self::RejectGroups,
        Self::RejectCounts,
        Self::InvalidMessages,
        Self::Sinks,
        Self::Outbox,
        Self::OutboxRefused,
        Self::EventLog,
        Self::Bridges,
    ];

    /// How the key of a document of [`Drawer::Audit`] begins: 19 digits that are smaller the later `moment` is.
    #[must_use]
    pub fn audit_moment(moment: Timestamp) -> String {
        format!("{:019}", i64::MAX - moment.as_micros().max(0))
    }

    /// The key of a document of [`Drawer::Steps`]: `position` is the one that the job's record tells.
    #[must_use]
    pub fn step(job: JobId, position: u32) -> String {
        format!("{job}/{position:04}")
    }

    /// The key of a document of [`Drawer::RejectTimes`]: when a batch was written, and its own key.
    #[must_use]
    pub fn reject_moment(moment: Timestamp, key: &str) -> String {
        format!("{:019}/{key}", moment.as_micros().max(0))
    }

    /// Its name, as stores keep it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rules => "rule",
            Self::Plans => "plan",
            Self::PlanJobs => "plan_job",
            Self::PlanMarks => "plan_mark",
            Self::Budgets => "budget",
            Self::Alerts => "alert",
            Self::AlertLog => "alert_log",
            Self::Tokens => "token",
            Self::Audit => "audit",
            Self::Secrets => "secret",
            Self::Webhooks => "webhook",
            Self::Gates => "gate",
            Self::Suspects => "suspect",
            Self::RunLimits => "run_limit",
            Self::RunBuckets => "run_bucket",
            Self::Circuits => "circuit",
            Self::OwnDependencies => "own_dependency",
            Self::WorkerReports => "worker_report",
            Self::KeyBuckets => "key_bucket",
            Self::Schedules => "schedule",
            Self::ScheduleMarks => "schedule_mark",
            Self::Workflows => "workflow",
            Self::WorkflowGraphs => "workflow_graph",
            Self::WorkflowNodes => "workflow_nodes",
            Self::WorkflowEnds => "workflow_end",
            Self::WorkflowKeys => "workflow_key",
            Self::Steps => "step",
            Self::Signals => "signal",
            Self::SignalIds => "signal_id",
            Self::SignalWaits => "signal_wait",
            Self::SignalTimes => "signal_time",
            Self::SignalCounts => "signal_count",
            Self::Rejects => "reject",
            Self::RejectNotes => "reject_note",
            Self::RejectTimes => "reject_time",
            Self::RejectGroups => "reject_group",
            Self::RejectCounts => "reject_count",
            Self::InvalidMessages => "invalid_message",
            Self::Sinks => "sink",
            Self::Outbox => "outbox",
            Self::OutboxRefused => "outbox_refused",
            Self::EventLog => "event_log",
            Self::Bridges => "bridge",
        }
    }
}

impl fmt::Display for Drawer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its name in its drawer.
    pub key: String,
    /// How often it was written: 1 at first. It counts again when the document was removed in between.
    pub revision: i64,
    /// What it says, as its owner wrote it.
    pub body: Arc<str>,
}

/// Which documents to read: those of one drawer whose keys begin with `prefix`, in the order of their bytes or
/// the other way round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRange {
    /// Where.
    pub drawer: Drawer,
    /// How their keys begin; empty for all.
    pub prefix: String,
    /// The key of the last one of the page before.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
    /// From the last key to the first one.
    pub last_first: bool,
}

impl DocumentRange {
    /// The first documents of a drawer.
    #[must_use]
    pub const fn first(drawer: Drawer, limit: usize) -> Self {
        Self { drawer, prefix: String::new(), after: None, limit, last_first: false }
    }

    /// The last documents of a drawer, from the last key on.
    #[must_use]
    pub const fn last(drawer: Drawer, limit: usize) -> Self {
        Self { drawer, prefix: String::new(), after: None, limit, last_first: true }
    }

    /// What is above every key of the range: its prefix with the last character raised by one. None when nothing is.
    #[must_use]
    pub fn end(&self) -> Option<String> {
        let mut end: Vec<char> = self.prefix.chars().collect();
        while let Some(last) = end.pop() {
            if let Some(next) = (last..=char::MAX).nth(1) {
                end.push(next);
                return Some(end.into_iter().collect());
            }
        }
        None
    }

    /// Those whose keys begin like this.
    #[must_use]
    pub fn under(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Those that follow this key, in the direction of the range.
    #[must_use]
    pub fn after(mut self, key: impl Into<String>) -> Self {
        self.after = Some(key.into());
        self
    }
}

/// Documents that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documents {
    /// The store's clock.
    pub now: Timestamp,
    /// The documents.
    pub items: Vec<Document>,
    /// True when more follow.
    pub more: bool,
}

/// Checks that so many documents may be read by name at once.
///
/// # Errors
/// [`Error::TooMany`].
pub fn check_names(actual: usize) -> Result<(), Error> {
    let limit = Limits::default().batch;
    if actual > limit {
        return Err(Error::TooMany { what: "the list of documents", actual, limit });
    }
    Ok(())
}

/// What a change rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: it is written whatever is there.
    Any,
    /// There is no such document.
    Absent,
    /// The document is as it was read.
    Revision(i64),
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where.
    pub drawer: Drawer,
    /// Which document.
    pub key: String,
    /// What it rests on.
    pub expect: Expect,
    /// What it says now; none removes it. Removing what is not there is fine when nothing else is expected.
    pub body: Option<Arc<str>>,
}

/// Changes that are made together or not at all, with operations on jobs in the same transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Amend {
    /// The leadership under which this is done; none for a person.
    pub term: Option<Term>,
    /// The changes. No document is named twice.
    pub edits: Vec<Edit>,
    /// What is done to jobs. No job is named twice.
    pub operations: Vec<(JobId, Operation)>,
    /// Jobs that are stored, all or none, as [`WorkStore::submit`](crate::WorkStore::submit) does.
    pub jobs: Vec<NewJob>,
    /// True when nothing is to be written unless every operation changes its job.
    pub strict: bool,
}

impl Amend {
    /// Checks that it is no larger than a store takes in one transaction.
    ///
    /// # Errors
    /// [`Error::TooMany`].
    pub fn check_size(&self) -> Result<(), Error> {
        let batch = Limits::default().batch;
        let parts =
            [(self.edits.len(), batch), (self.operations.len(), MOST_NODES), (self.jobs.len(), MOST_NODES)];
        match parts.into_iter().find(|(actual, limit)| actual > limit) {
            Some((actual, limit)) => Err(Error::TooMany { what: "the amendment", actual, limit }),
            None => Ok(()),
        }
    }
}

impl Amend {
    /// The first of the answers to its operations that keeps a strict one from being written.
    #[must_use]
    pub fn first_unchanged(
        &self,
        answers: impl IntoIterator<Item = Result<Operated, Refusal>>,
    ) -> Option<(usize, Refusal)> {
        let unchanged = |(index, answer): (usize, Result<Operated, Refusal>)| match answer {
            Ok(operated) if operated.changed => None,
            Ok(_) => Some((index, Refusal::MovedOn { job: self.operations.get(index)?.0 })),
            Err(refusal) => Some((index, refusal)),
        };
        answers.into_iter().take_while(|_| self.strict).enumerate().find_map(unchanged)
    }
}

/// What became of an [`Amend`].
#[derive(Debug, Clone, PartialEq)]
pub enum Amended {
    /// Everything is written.
    Done {
        /// The moment of the transaction.
        now: Timestamp,
        /// One answer per operation, in order; a refused one changed nothing and held up nothing.
        operated: Vec<Result<Operated, Refusal>>,
        /// One answer per job, in order.
        submitted: Vec<Submitted>,
    },
    /// A document is not as expected: nothing was written.
    Conflict {
        /// Where.
        drawer: Drawer,
        /// The first such document.
        key: String,
    },
    /// A job is refused, or an operation of a [strict](Amend::strict) amendment: nothing was written.
    Refused {
        /// Which one.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
}

#[cfg(test)]
mod tests {
    use super::{DocumentRange, Drawer};

    #[test]
    fn the_end_of_a_prefix_is_above_all_that_begins_with_it() {
        let end = |prefix: &str| DocumentRange::first(Drawer::Rules, 1).under(prefix).end();
        assert_eq!(end("plan/open/").as_deref(), Some("plan/open0"));
        assert_eq!(end("a\u{d7ff}").as_deref(), Some("a\u{e000}"), "there are no characters in between");
        assert_eq!(end("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(end(""), None);
        for prefix in ["a", "é", "z\u{7f}"] {
            let highest = format!("{prefix}\u{10ffff}\u{10ffff}");
            assert!(highest.as_bytes() < end(prefix).expect("there is one").as_bytes(), "{prefix:?}");
        }
    }
}
