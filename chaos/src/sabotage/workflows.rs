//! What a sabotaged store does to workflows, batches, schedules and signals.

use backstop::{JobId, State};
use backstop_core::job::{Operated, Operation};
use backstop_store::{Amend, Amended, Document, DocumentRange, Drawer, Edit, Error, Expect, Submit};

use super::{Bug, SabotagedStore};

/// Notes that are removed at once: a short campaign has no more.
const MOST_ENDS: usize = 500;

impl SabotagedStore {
    /// True for a submit of fires, if the store has this bug.
    pub(super) fn meets_fires(&self, bug: Bug, submit: &Submit) -> bool {
        self.has(bug) && submit.jobs.iter().any(|job| job.spec.schedule().is_some())
    }

    /// Stores steps that follow others as if those had ended.
    pub(super) fn release_early(&self, amend: &mut Amend) {
        if !self.has(Bug::StepReleasedEarly) {
            return;
        }
        for job in &mut amend.jobs {
            if let Some(part) = job.spec.provenance.as_mut().and_then(|known| known.part_of.as_mut()) {
                part.renewed = part.follows;
            }
        }
    }

    /// What is told of signals that reach nobody; none when they are delivered.
    pub(super) async fn swallow_signals(&self, amend: &Amend) -> Result<Option<Amended>, Error> {
        let is_signal = |(_, operation): &(JobId, Operation)| matches!(operation, Operation::Signal { .. });
        if !self.has(Bug::SignalLost) || !amend.operations.iter().any(is_signal) {
            return Ok(None);
        }
        let done = Operated { changed: true, state: State::Pending, ended_run: None };
        let operated = amend.operations.iter().map(|_| Ok(done.clone())).collect();
        Ok(Some(Amended::Done { now: self.below.now().await?, operated, submitted: Vec::new() }))
    }

    /// Removes what is noted of ends and nobody has followed up.
    pub(super) async fn forget_ends(&self) -> Result<(), Error> {
        let ends = self.below.documents(DocumentRange::first(Drawer::WorkflowEnds, MOST_ENDS)).await?;
        let forget = |Document { key, .. }| {
            let (drawer, expect) = (Drawer::WorkflowEnds, Expect::Any);
            Edit { drawer, key, expect, body: None }
        };
        let edits = ends.items.into_iter().map(forget).collect();
        self.below.amend(Amend { edits, ..Amend::default() }).await.map(drop)
    }
}
