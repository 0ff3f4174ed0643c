//! One message, and which transition makes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{SinkTopic, Sinks};
use crate::digest;
use crate::envelope::envelope;
use crate::event::Event;
use crate::failure::TerminalReason;
use crate::handoff::{HandOffScope, KeySource};
use crate::id::JobId;
use crate::job::{Ending, FailureRecord, Header, Record, State, StoredJob, value_or_text};
use crate::reject::{Reject, RejectBatch};
use crate::tenant;
use crate::time::Timestamp;

/// How a job ended, in the words that readers of result messages know (B3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ResultStatus {
    /// It succeeded.
    ResultSuccess,
    /// Its handler returned a failure as its result (F16).
    ResultFailure,
    /// It died of something else.
    ResultException,
    /// What it was given could not be handled at all.
    InvalidTask,
}

impl ResultStatus {
    /// That of a job with this record; none while it is not over, and when it was canceled.
    #[must_use]
    pub const fn of(record: &Record) -> Option<Self> {
        match (record.state, record.reason) {
            (State::Succeeded, _) => Some(Self::ResultSuccess),
            (State::Failed, Some(TerminalReason::ReportedFailure)) => Some(Self::ResultFailure),
            (State::Failed, Some(TerminalReason::Invalid)) => Some(Self::InvalidTask),
            (State::Failed, _) => Some(Self::ResultException),
            _ => None,
        }
    }
}

/// What a message says, beside whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageBody {
    /// A job has ended.
    Result {
        /// How.
        status: ResultStatus,
        /// Its runs so far.
        run: u32,
        /// What it returned, as it is stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
        /// Why it is dead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<TerminalReason>,
        /// The class of the error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_type: Option<String>,
        /// The sanitized error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A job became a dead letter.
    DeadLetter {
        /// The envelope, as every other reader of dead letters has it (D1).
        envelope: Value,
    },
    /// A run could not handle an item.
    Reject {
        /// The run.
        run: u32,
        /// The attempt, as its budget counts.
        attempt: u32,
        /// The item, and what went wrong.
        reject: Reject,
    },
    /// Something happened to a job.
    Event {
        /// The event, as subscribers see it.
        data: Value,
    },
    /// A job has succeeded, and another Backstop is to go on with what it returned (B7).
    HandOff(Box<HandedOff>),
}

/// What a hand-off needs to know of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandedOff {
    /// The id under which it came itself: its idempotency key as `key:KEY`, or else `job:ID`.
    pub incoming: String,
    /// What it returned, as it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What it was given, as it is stored, when the key may be made of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// The job whose callback it was: its payload was sealed for that one (E12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_of: Option<JobId>,
    /// The trace it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<Arc<str>>,
}

/// One message to sinks. Its JSON is what the profile `plain` sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxMessage {
    /// What receivers tell a repeated message by: the same in every publication.
    #[serde(rename = "message_id")]
    pub id: String,
    /// The job; none for an event that is about no job.
    #[serde(default, rename = "id", skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Its kind; empty for an event that is about none.
    pub kind: Arc<str>,
    /// Its queue; empty for an event that is about none.
    pub queue: Arc<str>,
    /// The queues of its jobs, for an event about a workflow: whoever may not see one of them is not told (E13).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub queues: BTreeSet<Arc<str>>,
    /// Whose it is.
    pub tenant: String,
    /// Its business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Its correlation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// When it happened, by the store's clock.
    pub at: Timestamp,
    /// What it says.
    #[serde(flatten)]
    pub body: MessageBody,
}

impl OutboxMessage {
    /// What it is about.
    #[must_use]
    pub const fn topic(&self) -> SinkTopic {
        match self.body {
            MessageBody::Result { .. } => SinkTopic::Results,
            MessageBody::DeadLetter { .. } => SinkTopic::DeadLetters,
            MessageBody::Reject { .. } => SinkTopic::Rejects,
            MessageBody::Event { .. } => SinkTopic::Events,
            MessageBody::HandOff(_) => SinkTopic::HandOffs,
        }
    }

    /// The result of a job whose run has just ended; none unless that was its end and somebody takes it.
    #[must_use]
    pub fn result(sinks: &Sinks, ending: &Ending, record: &Record, now: Timestamp) -> Option<Self> {
        let result = ending.result.as_deref().map(value_or_text);
        Self::result_with(sinks, &ending.job, record, (result, ending.failure.as_ref()), now)
    }

    /// The result of a job that has just ended without a run.
    #[must_use]
    pub fn result_without_run(sinks: &Sinks, job: &Header, record: &Record, now: Timestamp) -> Option<Self> {
        Self::result_with(sinks, job, record, (None, None), now)
    }

    fn result_with(
        sinks: &Sinks,
        job: &Header,
        record: &Record,
        (result, failure): (Option<Value>, Option<&FailureRecord>),
        now: Timestamp,
    ) -> Option<Self> {
        let status = ResultStatus::of(record).filter(|_| sinks.take(SinkTopic::Results, &job.kind))?;
        let body = MessageBody::Result {
            status,
            run: record.runs,
            result,
            reason: record.reason,
            error_type: failure.map(|failure| failure.error_type.clone()),
            error: failure.map(|failure| failure.message.clone()),
        };
        Some(Self::about(job, dedupe(job.id, record, "result"), now, body))
    }

    /// The dead letter that a job has just become; none unless it has and somebody takes it.
    #[must_use]
    pub fn dead_letter(
        sinks: &Sinks,
        job: &StoredJob,
        record: &Record,
        failure: Option<&FailureRecord>,
        code_version: Option<&str>,
        now: Timestamp,
    ) -> Option<Self> {
        if !sinks.take(SinkTopic::DeadLetters, &job.spec.kind) {
            return None;
        }
        let envelope = envelope(job, record, failure, code_version)?;
        let id = dedupe(job.spec.id, record, "dead_letter");
        Some(Self::about(&job.spec.header(), id, now, MessageBody::DeadLetter { envelope }))
    }

    /// What is handed off of a job whose run has just ended; none unless it has succeeded and somebody takes it (B7).
    #[must_use]
    pub fn hand_off(
        sinks: &Sinks,
        job: &StoredJob,
        ending: &Ending,
        record: &Record,
        now: Timestamp,
    ) -> Option<Self> {
        let spec = &job.spec;
        if record.state != State::Succeeded || !sinks.hand_off(&spec.kind, &spec.queue) {
            return None;
        }
        let result = ending.result.as_deref().map(value_or_text);
        // What is sealed tells nothing here: the payload is taken along in case.
        let enough = |take: &HandOffScope| KeySource::result_is_enough(result.as_ref(), &take.key);
        let payload = !sinks.hand_offs(&spec.kind, &spec.queue).all(enough);
        let incoming = match &spec.idempotency_key {
            Some(key) => format!("key:{key}"),
            None => format!("job:{}", spec.id),
        };
        let body = MessageBody::HandOff(Box::new(HandedOff {
            incoming,
            payload: payload.then(|| value_or_text(&spec.payload)),
            callback_of: spec.callback_of.filter(|_| payload),
            trace_parent: spec.trace().cloned(),
            result,
        }));
        Some(Self::about(&spec.header(), dedupe(spec.id, record, "hand_off"), now, body))
    }

    /// The rejects that a run has just stored.
    pub fn rejects<'a>(sinks: &Sinks, batch: &'a RejectBatch) -> impl Iterator<Item = Self> + 'a {
        let RejectBatch { job, run, attempt, generation, .. } = batch;
        let taken = sinks.take(SinkTopic::Rejects, &batch.kind);
        batch.rejects.iter().filter(move |_| taken).map(move |reject| Self {
            id: format!("{job}:{generation}:{run}:reject:{:016x}", reject.identity()),
            job: Some(*job),
            kind: batch.kind.clone(),
            queue: batch.queue.clone(),
            queues: BTreeSet::new(),
            tenant: tenant::shown(&batch.queue).to_owned(),
            business_key: None,
            correlation_id: None,
            at: batch.at,
            body: MessageBody::Reject { run: *run, attempt: *attempt, reject: reject.clone() },
        })
    }

    /// Something that happened at this node, in the commit with this stamp.
    pub(super) fn event(event: &Event, node: Option<&Arc<str>>, stamp: i64, position: usize) -> Self {
        // What an event says has no way to fail.
        let mut data = serde_json::to_value(event).unwrap_or_default();
        if let (None, Some(node), Some(fields)) = (&event.node, node, data.as_object_mut()) {
            fields.insert("node".to_owned(), Value::from(&**node));
        }
        let id = match &event.job {
            Some(job) => format!("{}:{stamp}:{position}:event", job.id),
            // Another process may have the same stamp.
            None => format!("{}:{stamp}:{position}:event", digest::short(&data.to_string())),
        };
        let body = MessageBody::Event { data };
        match &event.job {
            Some(job) => Self::about(job, id, event.at, body),
            None => Self {
                id,
                job: None,
                kind: event.kind().unwrap_or_default().into(),
                queue: event.queue().unwrap_or_default().into(),
                queues: event.workflow().map_or_else(BTreeSet::new, |workflow| (*workflow.queues).clone()),
                tenant: event.tenant().to_owned(),
                business_key: None,
                correlation_id: None,
                at: event.at,
                body,
            },
        }
    }

    fn about(job: &Header, id: String, at: Timestamp, body: MessageBody) -> Self {
        Self {
            id,
            job: Some(job.id),
            kind: job.kind.clone(),
            queue: job.queue.clone(),
            queues: BTreeSet::new(),
            tenant: job.tenant().to_owned(),
            business_key: job.business_key.clone(),
            correlation_id: job.correlation_id.clone(),
            at,
            body,
        }
    }
}

/// One end of a job: it can die again after it was driven again, with or without another run.
fn dedupe(job: JobId, record: &Record, what: &str) -> String {
    format!("{job}:{}:{}:{what}", record.redrives, record.runs)
}
