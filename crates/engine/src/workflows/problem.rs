//! Why nothing was done about a workflow, and what all of its builders check.

use backstop_core::workflow::{InvalidBatchRule, InvalidWorkflow};
use backstop_core::{JobId, Refusal, WorkflowId};
use backstop_store::Error as StoreError;

use crate::error::SubmitError;
use crate::parts::EngineParts;

/// Why nothing was done about a workflow or a batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowProblem {
    /// Its shape cannot be; nothing is stored.
    #[error(transparent)]
    Invalid(#[from] InvalidWorkflow),
    /// A batch that cannot be judged.
    #[error(transparent)]
    Rule(#[from] InvalidBatchRule),
    /// One of its jobs is refused; nothing is stored.
    #[error("{job}: {refusal}")]
    Job {
        /// Which one: the name of a node, or the place of a job in its batch.
        job: String,
        /// Why.
        refusal: Refusal,
    },
    /// What is said of all of it is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is none with this id.
    #[error("there is no workflow or batch {0}; list those that exist, or check the id")]
    Unknown(WorkflowId),
    /// Jobs cannot be added to it.
    #[error("batch {0} is sealed: no more jobs can be added; submit another batch")]
    Sealed(WorkflowId),
    /// Jobs cannot be added to it any more.
    #[error("batch {0} was canceled: no more jobs can be added; submit another batch")]
    Canceled(WorkflowId),
    /// It is the other thing.
    #[error("{0} is a workflow and not a batch")]
    NotABatch(WorkflowId),
    /// Others change it all the time.
    #[error("{0} was changed by others again and again; nothing was changed, try once more")]
    Changing(WorkflowId),
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl WorkflowProblem {
    pub(super) fn job(name: impl Into<String>) -> impl FnOnce(SubmitError) -> Self {
        let job = name.into();
        move |error| match error {
            SubmitError::Refused(refusal) => Self::Job { job, refusal },
            SubmitError::Store(error) => Self::Store(error),
        }
    }
}

/// Checks what people call a workflow or a batch.
pub(super) fn check_name(parts: &EngineParts, name: &str) -> Result<(), Refusal> {
    backstop_core::admit::name("name", name, &parts.config.limits)
}

/// The id under which payloads of a workflow's own callbacks are sealed.
pub(super) const fn owner(id: WorkflowId) -> JobId {
    JobId::from_uuid(id.as_uuid())
}
