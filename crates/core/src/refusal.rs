//! Refusals: what a caller asked for and cannot have, each with a code, a cause and a way out (E10).

use std::time::Duration;

use serde_json::{Value, json};

use crate::depth::DepthScope;
use crate::id::JobId;
use crate::job::State;
use crate::signing::SignatureError;

/// Why a request was refused. Nothing was stored or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A field is larger than its limit (L20).
    #[error("{field} has {actual} {unit}, the limit is {limit}")]
    TooLarge {
        /// The field, as the caller names it.
        field: &'static str,
        /// What was given.
        actual: usize,
        /// What is allowed.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// A field has a value that can never be stored or run (E11).
    #[error("{field} is invalid: {problem}")]
    Invalid {
        /// The field, as the caller names it.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The job came signed or should have, and nobody vouches for it (L12, E9).
    #[error("the signature is refused: {0}")]
    Signature(SignatureError),
    /// The queue's allow list does not hold this kind (E8).
    #[error("kind `{kind}` is not allowed on queue `{queue}`")]
    KindNotAllowed {
        /// The kind that was submitted.
        kind: String,
        /// The queue it was meant for.
        queue: String,
    },
    /// Another live job holds the business key (L11).
    #[error("business key `{key}` is held by job {holder} ({state})")]
    BusinessKeyConflict {
        /// The key.
        key: String,
        /// Who holds it.
        holder: JobId,
        /// Where the holder is.
        state: State,
    },
    /// The job to replace has started or ended already (L22).
    #[error("job {job} is {state} and cannot be replaced: only a job that has not started can")]
    NotReplaceable {
        /// The job.
        job: JobId,
        /// Where it is.
        state: State,
    },
    /// There is no such job.
    #[error("there is no job {job}")]
    NoSuchJob {
        /// The id that was asked for.
        job: JobId,
    },
    /// The state table has no such move (L1).
    #[error("job {job} is {state} and cannot be {verb}")]
    WrongState {
        /// The job.
        job: JobId,
        /// Where it is.
        state: State,
        /// What was asked for, as a past participle.
        verb: &'static str,
    },
    /// Somebody else drove the dead letter again after a plan had looked at it (D4).
    #[error("job {job} was driven again by somebody else in the meantime")]
    MovedOn {
        /// The job.
        job: JobId,
    },
    /// As many jobs wait there as may (H12).
    #[error("{scope} is full ({depth} waiting, the limit is {limit})")]
    QueueFull {
        /// Where.
        scope: DepthScope,
        /// How many wait.
        depth: u64,
        /// How many may.
        limit: u64,
    },
    /// An item was fine, but its batch was not, and the batch is all or nothing.
    #[error("not stored: item {index} of the same batch was refused")]
    BatchRefused {
        /// The first item that was refused.
        index: usize,
    },
}

impl Refusal {
    /// How long to wait before a submit to a full queue is tried again. Nobody knows when there is room; this is soon
    /// enough for a queue that moves, and costs one that does not little.
    pub const WHEN_FULL: Duration = Duration::from_secs(1);

    /// A refusal of one field's value.
    pub fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid { field, problem: problem.into() }
    }

    /// The stable code that machines switch on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Invalid { .. } => "invalid",
            Self::Signature(_) => "signature",
            Self::KindNotAllowed { .. } => "kind_not_allowed",
            Self::BusinessKeyConflict { .. } => "business_key_conflict",
            Self::NotReplaceable { .. } => "not_replaceable",
            Self::NoSuchJob { .. } => "no_such_job",
            Self::WrongState { .. } => "wrong_state",
            Self::MovedOn { .. } => "moved_on",
            Self::QueueFull { .. } => "queue_full",
            Self::BatchRefused { .. } => "batch_refused",
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { field: "payload", .. } => "store the data elsewhere and pass a reference to it",
            Self::TooLarge { .. } => "shorten the value or raise the limit",
            Self::Invalid { .. } => "correct the value and submit again",
            Self::Signature(_) => "sign it with a key that this program has, and change nothing afterwards",
            Self::KindNotAllowed { .. } => "use another queue, or add the kind to the queue's `kinds`",
            Self::BusinessKeyConflict { .. } => {
                "wait for the holder to end, cancel it, or submit with on_conflict skip or replace"
            }
            Self::NotReplaceable { .. } => "cancel it instead, or submit another job",
            Self::NoSuchJob { .. } => "check the id with `backstop job list`",
            Self::WrongState { state: State::Running, verb: "paused", .. } => "cancel it instead",
            Self::WrongState { .. } => "look at it with `backstop job show`",
            Self::MovedOn { .. } => "nothing: it has had its turn",
            Self::QueueFull { .. } => {
                "submit again later: nothing was stored; or start more workers, or raise the limit"
            }
            Self::BatchRefused { .. } => "correct the refused item, or submit with `partial`",
        }
    }

    /// Its facts for machines, by the names that the interfaces use.
    #[must_use]
    pub fn details(&self) -> Value {
        match self {
            Self::TooLarge { field, actual, limit, unit } => {
                json!({ "field": field, "actual": actual, "limit": limit, "unit": unit })
            }
            Self::Invalid { field, problem } => json!({ "field": field, "problem": problem }),
            Self::Signature(problem) => json!({ "field": "signature", "problem": problem.to_string() }),
            Self::KindNotAllowed { kind, queue } => json!({ "kind": kind, "queue": queue }),
            Self::BusinessKeyConflict { key, holder, state } => {
                json!({ "business_key": key, "holder": holder, "status": state })
            }
            Self::NotReplaceable { job, state } => json!({ "id": job, "status": state }),
            Self::NoSuchJob { job } | Self::MovedOn { job } => json!({ "id": job }),
            Self::WrongState { job, state, verb } => json!({ "id": job, "status": state, "verb": verb }),
            Self::QueueFull { scope, depth, limit } => {
                let (what, name) = match scope {
                    DepthScope::Queue(name) => ("queue", name),
                    DepthScope::Tenant(name) => ("tenant", name),
                };
                let wait = u64::try_from(Self::WHEN_FULL.as_millis()).unwrap_or(u64::MAX);
                json!({ what: name, "depth": depth, "limit": limit, "retry_after_ms": wait })
            }
            Self::BatchRefused { index } => json!({ "index": index }),
        }
    }
}
