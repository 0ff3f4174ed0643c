//! Jobs that a handler submits together with the completion of its run (L23).

use std::sync::{Mutex, PoisonError};

use backstop_core::Refusal;
use backstop_core::failure::Verdict;
use backstop_core::job::{Ending, NewJob};

/// The children of one run, until it has ended.
#[derive(Debug)]
pub(crate) struct ChildJobs(Mutex<Option<Vec<NewJob>>>);

impl ChildJobs {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Vec<NewJob>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job that passed every check that needs no store; `limit` is how many there may be.
    pub(crate) fn add(&self, child: NewJob, limit: usize) -> Result<(), Refusal> {
        without_keys(&child)?;
        let mut open = self.lock();
        let Some(children) = open.as_mut() else {
            return Err(Self::too_late());
        };
        if children.len() >= limit {
            let actual = children.len() + 1;
            return Err(Refusal::TooLarge { field: "completion", actual, limit, unit: "jobs" });
        }
        children.push(child);
        Ok(())
    }

    /// The refusal of a job that would never be stored without anybody knowing.
    pub(crate) fn too_late() -> Refusal {
        Refusal::invalid("job", "the completion of this run is written already: submit the job by itself")
    }

    /// All of them, to be added elsewhere; none can be added here any more.
    #[cfg(target_os = "linux")]
    pub(crate) fn take(&self) -> Vec<NewJob> {
        self.lock().take().unwrap_or_default()
    }

    /// Puts the children into the ending of a run that went well; a run that did not has none.
    pub(crate) fn join(&self, ending: &mut Ending) {
        if ending.decision.verdict == Verdict::Succeed {
            ending.children = self.lock().clone().unwrap_or_default();
        }
    }

    /// The same at the end of the run: what is added later is refused.
    pub(crate) fn leave_with(&self, ending: &mut Ending) {
        self.join(ending);
        *self.lock() = None;
    }
}

/// A key can be taken by another job, and a completion cannot be refused for that.
fn without_keys(child: &NewJob) -> Result<(), Refusal> {
    let problem =
        "a job that is submitted with a completion has none: submit it by itself, or in a transaction";
    let has = [
        ("idempotency_key", child.spec.idempotency_key.is_some()),
        ("business_key", child.spec.business_key.is_some()),
        ("replaces", child.supersedes.is_some()),
    ];
    match has.into_iter().find(|(_, has)| *has) {
        Some((field, _)) => Err(Refusal::invalid(field, problem)),
        None => Ok(()),
    }
}
