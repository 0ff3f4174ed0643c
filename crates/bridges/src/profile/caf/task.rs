//! TaskMessage, version 3: the one form of messages of the CAF Worker Framework, in and out.
//!
//! Byte arrays are base64 in its JSON. Fields that are not known here are left out, as the framework itself does.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{BrokerMessage, digest};
use crate::route::MessageProblem;

/// The version that is read and written.
pub(super) const VERSION: u32 = 3;

/// The states of a task, in the words of the wire.
pub(super) const STATUSES: [&str; 5] =
    ["NEW_TASK", "INVALID_TASK", "RESULT_SUCCESS", "RESULT_FAILURE", "RESULT_EXCEPTION"];

/// A message of the framework. Its required fields are checked by [`TaskMessage::read`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaskMessage {
    #[serde(default = "version")]
    pub(super) version: u32,
    pub(super) task_id: Option<String>,
    pub(super) task_classifier: Option<String>,
    #[serde(default)]
    pub(super) task_api_version: i64,
    pub(super) task_data: Option<String>,
    pub(super) task_status: Option<String>,
    pub(super) context: Option<Map<String, Value>>,
    pub(super) to: Option<String>,
    pub(super) tracking: Option<TrackingInfo>,
    pub(super) source_info: Option<Value>,
    pub(super) priority: Option<i64>,
    pub(super) correlation_id: Option<String>,
}

/// How the job that a task belongs to is followed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TrackingInfo {
    pub(super) job_task_id: Option<String>,
    /// Milliseconds since 1970, or a time in words.
    pub(super) last_status_check_time: Option<Value>,
    pub(super) status_check_interval_millis: i64,
    pub(super) status_check_url: Option<String>,
    pub(super) tracking_pipe: Option<String>,
    pub(super) track_to: Option<String>,
}

const fn version() -> u32 {
    VERSION
}

impl TaskMessage {
    /// Reads a message. Without an id there is nobody who could be answered: both are problems of the message itself.
    pub(super) fn read(message: &BrokerMessage) -> Result<Self, MessageProblem> {
        if message.body.is_empty() {
            return Err(MessageProblem::Empty);
        }
        let task: Self = serde_json::from_slice(&message.body)
            .map_err(|problem| MessageProblem::profile(format!("it is not a TaskMessage: {problem}")))?;
        if task.task_id.as_ref().is_none_or(String::is_empty) {
            return Err(MessageProblem::profile("its `taskId` is missing"));
        }
        Ok(task)
    }

    pub(super) fn id(&self) -> &str {
        self.task_id.as_deref().unwrap_or_default()
    }

    /// The input of the worker.
    pub(super) fn data(&self) -> Result<String, MessageProblem> {
        if self.version > VERSION {
            let version = self.version;
            let known =
                format!("it is a TaskMessage of version {version}; versions up to {VERSION} are known");
            return Err(MessageProblem::profile(known));
        }
        match self.task_status.as_deref() {
            Some(status) if STATUSES.contains(&status) => {}
            Some(other) => {
                return Err(MessageProblem::profile(format!("its `taskStatus` `{other}` is unknown")));
            }
            None => return Err(MessageProblem::profile("its `taskStatus` is missing")),
        }
        if self.task_classifier.is_none() {
            return Err(MessageProblem::profile("its `taskClassifier` is missing"));
        }
        let Some(text) = &self.task_data else {
            return Err(MessageProblem::profile("its `taskData` is missing"));
        };
        let bytes = BASE64_STANDARD
            .decode(text)
            .map_err(|problem| MessageProblem::profile(format!("its `taskData` is not base64: {problem}")))?;
        String::from_utf8(bytes).map_err(|problem| {
            let problem = problem.utf8_error();
            MessageProblem::profile(format!("its `taskData` is not UTF-8 text: {problem}"))
        })
    }

    /// What tells this task from others, in every delivery the same. An id alone is not enough: a task keeps it on its
    /// way through several workers, and may come to one of them twice with other data. Tracking is left out, for it
    /// changes while the task waits.
    pub(super) fn identity(&self) -> String {
        let data = self.task_data.as_deref().unwrap_or_default();
        let rest = (&self.task_status, &self.context, &self.source_info);
        // Texts and numbers have no way to fail.
        let rest = serde_json::to_string(&rest).unwrap_or_default();
        let whole = digest(format!("{}\n{data}\n{rest}", self.id()).as_bytes());
        format!("{}:{}", self.id(), &whole[..32])
    }

    /// Whether this queue is where it wants to be. One that names no queue is where it is.
    pub(super) fn is_for(&self, queue: &str) -> bool {
        self.to.as_ref().is_none_or(|to| to.is_empty() || to.eq_ignore_ascii_case(queue))
    }

    /// The same on its way to another queue: tracking may end there.
    pub(super) fn sent_to(mut self, queue: &str) -> Self {
        if self.tracking.as_ref().is_some_and(|tracking| tracking.ends_at(queue)) {
            self.tracking = None;
        }
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl TrackingInfo {
    /// Whether the job is followed to this queue, and no further.
    pub(super) fn ends_at(&self, queue: &str) -> bool {
        self.track_to.as_ref().is_some_and(|to| to.eq_ignore_ascii_case(queue))
    }

    /// Where to ask for the status of the job at this moment; none while the last answer holds.
    pub(super) fn question(&self, now_ms: i64) -> Option<&str> {
        let url = self.status_check_url.as_deref().filter(|url| !url.is_empty())?;
        let last = self.last_status_check_time.as_ref().and_then(moment);
        let due = last.is_none_or(|last| last.saturating_add(self.status_check_interval_millis) <= now_ms);
        due.then_some(url)
    }
}

/// A moment as Jackson writes it.
fn moment(value: &Value) -> Option<i64> {
    match value {
        Value::Number(millis) => millis.as_i64(),
        Value::String(text) => {
            let moment: backstop_core::Timestamp = text.parse().ok()?;
            i64::try_from(moment.since(backstop_core::Timestamp::EPOCH).as_millis()).ok()
        }
        _ => None,
    }
}

pub(super) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}
