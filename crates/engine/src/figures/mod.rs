//! Figures of this process: what an operator's graphs are made of (V3).
//!
//! Everything that passes between the engine and its store is counted in one place, the thin layer of `metered`, so
//! that embedded workers, remote workers and maintenance count alike. Figures live in memory and begin at zero with the
//! process; what the store itself keeps, such as the depth of queues, is read from it by whoever shows figures.

mod measure;
mod metered;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use backstop_core::Refusal;
use backstop_core::failure::{Cause, TerminalReason};
use backstop_core::workflow::NodeEnd;

pub use measure::{Family, FigureCell, FigureValue, LONG, Labelled, SHORT, Sample, Sort, Times, float};
pub(crate) use metered::Metered;

/// Counted up while the engine works.
#[derive(Debug)]
pub struct Figures {
    runs: Labelled<AtomicU64>,
    run_time: Labelled<Times>,
    wait_time: Labelled<Times>,
    last_attempts: Labelled<AtomicU64>,
    dead: Labelled<AtomicU64>,
    submitted: Labelled<AtomicU64>,
    duplicates: Labelled<AtomicU64>,
    refused: Labelled<AtomicU64>,
    events: Labelled<AtomicU64>,
    rejects: Labelled<AtomicU64>,
    workflow_ends: Labelled<AtomicU64>,
    workflow_jobs: Labelled<AtomicU64>,
    branches: Labelled<AtomicU64>,
    rejects_lost: Labelled<AtomicU64>,
    store_time: Labelled<Times>,
    store_errors: Labelled<AtomicU64>,
}

impl Figures {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            runs: Labelled::new(["kind", "cause"]),
            run_time: Labelled::new(["kind", ""]),
            wait_time: Labelled::new(["queue", ""]),
            last_attempts: Labelled::new(["kind", ""]),
            dead: Labelled::new(["kind", "reason"]),
            submitted: Labelled::new(["queue", ""]),
            duplicates: Labelled::new(["queue", ""]),
            refused: Labelled::new(["", "code"]),
            events: Labelled::new(["", "what"]),
            rejects: Labelled::new(["kind", "sink"]),
            workflow_ends: Labelled::new(["", "status"]),
            workflow_jobs: Labelled::new(["", "end"]),
            branches: Labelled::new(["", ""]),
            rejects_lost: Labelled::new(["kind", "sink"]),
            store_time: Labelled::new(["", "verb"]),
            store_errors: Labelled::new(["verb", "code"]),
        })
    }

    /// A run's end that the store has taken.
    fn ended(&self, kind: &str, cause: Cause, dead: Option<TerminalReason>) {
        self.runs.add(kind, cause.as_str(), 1);
        if let Some(reason) = dead {
            self.dead.add(kind, reason.as_str(), 1);
        }
    }

    /// A run took so long, from its start to its answer.
    pub(crate) fn ran(&self, kind: &str, took: Duration) {
        self.run_time.add(kind, "", LONG, took);
    }

    /// A run was ended by the handler's own transaction, past the store of this process (L14).
    pub(crate) fn completed(&self, kind: &str) {
        self.runs.add(kind, Cause::Succeeded.as_str(), 1);
    }

    /// Items were rejected (W9).
    pub(crate) fn rejected(&self, kind: &str, sink: &str, rejects: usize) {
        self.rejects.add(kind, sink, u64::try_from(rejects).unwrap_or(u64::MAX));
    }

    /// Rejects could not be handed over.
    pub(crate) fn rejects_lost(&self, kind: &str, sink: &str, rejects: usize) {
        self.rejects_lost.add(kind, sink, u64::try_from(rejects).unwrap_or(u64::MAX));
    }

    /// Jobs of a workflow or a batch have ended, and what followed: branches that were taken, and its own end.
    pub(crate) fn workflow_advanced(&self, ends: &[NodeEnd], branches: usize, finished: Option<&str>) {
        ends.iter().for_each(|end| self.workflow_jobs.add("", end.as_str(), 1));
        if branches > 0 {
            self.branches.add("", "", u64::try_from(branches).unwrap_or(u64::MAX));
        }
        finished.into_iter().for_each(|status| self.workflow_ends.add("", status, 1));
    }

    /// A submit was refused.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.refused.add("", refusal.code(), 1);
    }

    /// Every figure as it is now. The cost is bounded by the labels, not by how much was counted.
    #[must_use]
    pub fn families(&self) -> Vec<Family> {
        let count =
            |name, help, cells: &Labelled<AtomicU64>| Family::new(name, help, Sort::Counter, cells.samples());
        let times =
            |name, help, cells: &Labelled<Times>| Family::new(name, help, Sort::Histogram, cells.samples());
        vec![
            count("backstop_runs_total", "Runs that ended, by kind and cause.", &self.runs),
            times("backstop_run_seconds", "How long handlers ran, by kind.", &self.run_time),
            times(
                "backstop_wait_seconds",
                "How long due jobs waited for a worker, by queue.",
                &self.wait_time,
            ),
            count(
                "backstop_last_attempts_total",
                "Jobs taken for their last attempt: if it fails they are dead letters.",
                &self.last_attempts,
            ),
            count("backstop_dead_total", "Runs that made a dead letter, by kind and reason.", &self.dead),
            count("backstop_submitted_total", "Jobs stored, by queue.", &self.submitted),
            count(
                "backstop_duplicates_total",
                "Submits answered with a job that was already stored, by queue.",
                &self.duplicates,
            ),
            count("backstop_refused_total", "Submits refused, by the refusal's code.", &self.refused),
            count("backstop_engine_events_total", "What the engine met besides, by what.", &self.events),
            count("backstop_rejects_total", "Rejects of items, by kind and sink.", &self.rejects),
            count(
                "backstop_rejects_lost_total",
                "Rejects of items that could not be handed over, by kind and sink.",
                &self.rejects_lost,
            ),
            count(
                "backstop_workflows_ended_total",
                "Workflows and batches that ended, by how.",
                &self.workflow_ends,
            ),
            count(
                "backstop_workflow_jobs_ended_total",
                "Jobs of workflows and batches whose end was followed up, by how they ended.",
                &self.workflow_jobs,
            ),
            count(
                "backstop_branches_taken_total",
                "Steps that ran because of how those before them ended.",
                &self.branches,
            ),
            times("backstop_store_seconds", "How long calls to the store took, by verb.", &self.store_time),
            count("backstop_store_errors_total", "Calls to the store that failed.", &self.store_errors),
        ]
    }
}
