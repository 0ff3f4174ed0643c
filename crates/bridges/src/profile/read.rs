//! What profiles translate from and to.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Priority, Spec};
use serde_json::Value;

use crate::message::NewMessage;

/// A job that a message becomes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MessageJob {
    pub(crate) kind: Arc<str>,
    pub(crate) payload: String,
    /// The idempotency key: the same in every delivery, and never that of another bridge.
    pub(crate) key: String,
    pub(crate) priority: Option<Priority>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) max_crashes: Option<u32>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) params: Option<Value>,
}

/// A message, and the queue that it goes to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Addressed {
    pub(crate) queue: String,
    pub(crate) message: NewMessage,
    /// False for a report that holds up nothing when its queue does not exist.
    pub(crate) needed: bool,
}

impl Addressed {
    pub(crate) fn new(queue: impl Into<String>, message: NewMessage) -> Self {
        Self { queue: queue.into(), message, needed: true }
    }
}

/// What is to happen with a message. What cannot be read at all is a [`MessageProblem`] instead (B4).
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReadMessage {
    /// It becomes a job.
    Job(Box<MessageJob>),
    /// These are published in its place; it is acknowledged when the broker has confirmed them.
    Publish(Vec<Addressed>),
    /// The same, because it was delivered too often without an end. Why, in words.
    Poisoned(Vec<Addressed>, String),
    /// Nobody wants it any more: it is acknowledged. Why, in words.
    Discard(String),
    /// It must not be trusted: its broker keeps it among its dead letters (B6), and it is never tried again. Why, in
    /// words.
    Reject(String),
}

/// What is known elsewhere of the job that a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "RabbitMQ needs it, and can be left out")]
pub(crate) enum TrackedStatus {
    /// It is under way, or nobody could tell.
    Active,
    /// It is paused.
    Paused,
    /// It has ended or was canceled.
    Over,
    /// There is no such job.
    Gone,
}

/// The answer to what was asked about a message before it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusAnswer {
    pub(crate) status: TrackedStatus,
    /// When it was asked, in milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// For how long nobody need ask again.
    pub(crate) interval_ms: i64,
}

/// What is to happen with a job that is about to run, by what is known of it elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunDecision {
    /// It runs.
    Run,
    /// Nobody wants it any more: it is called off. Why, in words.
    CallOff(&'static str),
    /// It waits for so long, and is asked about again.
    Wait(Duration),
}

/// What a profile keeps with a job, and needs again when it has ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct KnownJob {
    pub(crate) params: Option<Value>,
    pub(crate) payload: Option<String>,
    pub(crate) crashes: u32,
}

impl KnownJob {
    /// That of a stored job whose data is open.
    pub(crate) fn of(spec: &Spec, crashes: u32) -> Self {
        let params = spec.params.as_deref().and_then(|text| serde_json::from_str(text).ok());
        Self { params, payload: Some(spec.payload.to_string()), crashes }
    }

    /// That of a job that was archived: its payload may be hidden there.
    pub(crate) fn of_archive(document: &str) -> Option<Self> {
        let document: Value = serde_json::from_str(document).ok()?;
        Some(Self { params: document.pointer("/job/params").cloned(), payload: None, crashes: 0 })
    }
}
