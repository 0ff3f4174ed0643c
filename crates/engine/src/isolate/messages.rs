//! What a worker and its isolated children say to each other.
//!
//! Both ends are the same program at the same version, so nothing here has to stay as it is.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{NewJob, Progress, Record, State, StepWrite, StoredJob};
use backstop_core::outbox::Sink;
use backstop_core::reject::RejectBatch;
use backstop_core::{JobId, Lease, Refusal, Timestamp};
use backstop_store::{Error as StoreError, Submitted};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job_signals::wait::{WaitRequest, WaitStart};
use crate::outcome::{Failed, Reply};
use crate::workflows::inputs::Inputs;

/// What the worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerMessage {
    /// Which store the worker has: first of all.
    Hello { backend: String, location: String },
    /// Run this job now.
    Run(Box<IsolatedRun>),
    /// The run should stop: its job was canceled, its lease was lost, its time is up.
    Cancel,
    /// The answer to a call.
    Answer(u64, Result<CallAnswer, CallError>),
}

/// A job with all that its handler may ask about it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IsolatedRun {
    pub(super) job: StoredJob,
    pub(super) record: Record,
    pub(super) lease: Lease,
    /// The payload as the handler gets it: opened, if it was sealed.
    pub(super) payload: Arc<str>,
    pub(super) inputs: Inputs,
    pub(super) code_version: Option<Arc<str>>,
    /// Who is sent messages: a transaction of the handler's own that completes the job leaves them too (B2).
    pub(super) sinks: Vec<Sink>,
}

/// What a child says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ChildMessage {
    /// It is there, and can run jobs.
    Ready,
    /// A line of the handler's (F15). Sent at once: the last one says most about a crash.
    Log(String),
    /// How long the handler may tidy up after it was told to stop.
    TidiesUpWithin(Duration),
    /// The handler has tried to complete its job in a transaction of its own (L14).
    Completes,
    /// The handler publishes an event (E6).
    Publish(String, Value),
    /// So many rejects could not be handed over, and why (W9): the worker counts them.
    RejectsLost(usize, String),
    /// Something is asked of the store.
    Call(u64, StoreCall),
    /// The handler has returned.
    Ended(Box<IsolatedReply>),
}

/// What a handler may ask of the store: the child has none of its own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum StoreCall {
    Now,
    Submit {
        jobs: Vec<NewJob>,
        atomic: bool,
    },
    Prepare(Vec<NewJob>),
    Progress(Progress),
    /// What became of a step (W7, W8).
    Step(StepWrite),
    /// Results of its steps that are stored, behind this key.
    StepResults(Option<String>),
    /// It is about to wait for a signal (W10).
    Wait(WaitRequest),
    /// Items that the handler rejects (W9).
    Rejects(RejectBatch),
    /// Rejects of the job that are stored, behind this key.
    StoredRejects(Option<String>),
    /// Rejects for the sink that takes them in place of the store: the worker's.
    SinkRejects(RejectBatch),
}

/// What the store says to a [`StoreCall`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CallAnswer {
    Now(Timestamp),
    Submitted(Vec<Result<StoredAnswer, SubmitRefusal>>),
    Done,
    /// Whether a write under the run's lease was taken; false when that is stale.
    Written(bool),
    /// Keys and bodies of documents, and whether more follow.
    Documents {
        now: Timestamp,
        items: Vec<(String, Arc<str>)>,
        more: bool,
    },
    /// How a wait begins; none when the lease is stale.
    Waits(Option<WaitStart>),
    /// Whether the sink has taken rejects, or what it says instead.
    HandedOver(Result<(), String>),
}

/// A [`Submitted`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredAnswer {
    id: JobId,
    state: State,
    deduplicated: bool,
}

/// A [`Refusal`] that a store can answer with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum SubmitRefusal {
    BusinessKeyConflict { key: String, holder: JobId, state: State },
    NotReplaceable { job: JobId, state: State },
    NoSuchJob { job: JobId },
    BatchRefused { index: usize },
    Other { problem: String },
}

/// A store's error.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallError {
    location: String,
    problem: String,
    unknown: bool,
}

/// How a handler ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IsolatedReply {
    reply: Result<Option<Value>, Box<Failed>>,
    /// What is to be submitted with the completion (L23).
    pub(super) children: Vec<NewJob>,
}

impl IsolatedReply {
    pub(super) fn new(reply: Reply, children: Vec<NewJob>) -> Self {
        Self { reply: reply.0, children }
    }

    pub(super) fn into_reply(self) -> Reply {
        Reply(self.reply)
    }
}

impl From<Submitted> for StoredAnswer {
    fn from(Submitted { id, state, deduplicated }: Submitted) -> Self {
        Self { id, state, deduplicated }
    }
}

impl From<StoredAnswer> for Submitted {
    fn from(StoredAnswer { id, state, deduplicated }: StoredAnswer) -> Self {
        Self { id, state, deduplicated }
    }
}

impl SubmitRefusal {
    pub(super) fn new(refusal: Refusal) -> Self {
        match refusal {
            Refusal::BusinessKeyConflict { key, holder, state } => {
                Self::BusinessKeyConflict { key, holder, state }
            }
            Refusal::NotReplaceable { job, state } => Self::NotReplaceable { job, state },
            Refusal::NoSuchJob { job } => Self::NoSuchJob { job },
            Refusal::BatchRefused { index } => Self::BatchRefused { index },
            other => Self::Other { problem: other.to_string() },
        }
    }

    pub(super) fn into_refusal(self) -> Refusal {
        match self {
            Self::BusinessKeyConflict { key, holder, state } => {
                Refusal::BusinessKeyConflict { key, holder, state }
            }
            Self::NotReplaceable { job, state } => Refusal::NotReplaceable { job, state },
            Self::NoSuchJob { job } => Refusal::NoSuchJob { job },
            Self::BatchRefused { index } => Refusal::BatchRefused { index },
            Self::Other { problem } => Refusal::Invalid { field: "job", problem },
        }
    }
}

impl CallError {
    pub(super) fn new(location: &str, error: &StoreError) -> Self {
        Self { location: location.to_owned(), problem: error.to_string(), unknown: error.is_unknown() }
    }

    pub(super) fn into_error(self) -> StoreError {
        let Self { location, problem, unknown } = self;
        if unknown {
            StoreError::Unknown { location, source: None }
        } else {
            StoreError::Unavailable { location, problem, source: None }
        }
    }
}
