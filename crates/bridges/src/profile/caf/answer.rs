//! What the profile `caf` sends: responses, copies of poisoned tasks, and reports for whoever follows a job.

use backstop::sinks::{MessageBody, OutboxMessage, ResultStatus};
use backstop_core::Timestamp;
use backstop_core::failure::TerminalReason;
use serde_json::{Map, Value, json};

use super::task::{TaskMessage, TrackingInfo, VERSION, encoded};
use super::{CafProfile, RETRY_HEADER};
use crate::message::NewMessage;
use crate::profile::read::{Addressed, KnownJob, ReadMessage};

/// The status of a task that could not be handled at all.
const INVALID: &str = "INVALID_TASK";

/// The version of a worker that nobody named.
const UNKNOWN_VERSION: &str = "UNKNOWN";

/// The end of a task.
struct TaskEnd<'a> {
    status: &'static str,
    data: Vec<u8>,
    /// What repeated publications are told by.
    id: &'a str,
    at_ms: i64,
    /// How often it was tried in vain, when that is why it ended.
    poisoned: Option<u32>,
}

impl CafProfile {
    /// What is published when a job has ended.
    pub(super) fn end_of_job(&self, message: &OutboxMessage, job: Option<&KnownJob>) -> Vec<Addressed> {
        let MessageBody::Result { status, result, reason, error_type, error, .. } = &message.body else {
            return Vec::new();
        };
        let kept = job.and_then(|job| job.params.as_ref()).and_then(|params| params.get("caf"));
        if !self.answers_for(kept) {
            return Vec::new();
        }
        let mut task = task_of(kept, message);
        task.task_data = job.and_then(|job| job.payload.as_ref()).map(encoded);
        let retries = kept.and_then(|kept| kept.get("retries")).and_then(Value::as_u64).unwrap_or_default();
        let retries = u32::try_from(retries).unwrap_or(u32::MAX);
        let poisoned = (*reason == Some(TerminalReason::Poisoned))
            .then(|| retries.saturating_add(job.map_or(0, |job| job.crashes)));
        let failed = || {
            let error = error.as_deref().or(reason.map(TerminalReason::meaning)).unwrap_or("it failed");
            match (poisoned, error_type.as_deref()) {
                (Some(tries), _) => self.poison_text(tries, error),
                (None, Some(kind)) if *status == ResultStatus::ResultException => format!("{kind}: {error}"),
                (None, _) => error.to_owned(),
            }
        };
        let (status, data) = match status {
            ResultStatus::ResultSuccess => ("RESULT_SUCCESS", result.as_ref().map(to_bytes)),
            ResultStatus::ResultFailure => {
                ("RESULT_FAILURE", Some(result.as_ref().map_or_else(|| failed().into_bytes(), to_bytes)))
            }
            ResultStatus::ResultException => ("RESULT_EXCEPTION", Some(failed().into_bytes())),
            ResultStatus::InvalidTask => (INVALID, Some(failed().into_bytes())),
        };
        let data = data.unwrap_or_default();
        let end = TaskEnd { status, data, id: &message.id, at_ms: millis(message.at), poisoned };
        self.ended(&task, &end)
    }

    /// What is published of a message that came back from its broker too often: no job was made of it.
    pub(super) fn poisoned_delivery(&self, task: &TaskMessage, retries: u32, now_ms: i64) -> ReadMessage {
        let id = format!("{}:poison", task.identity());
        let text = self.poison_text(retries, "its worker died each time, or never settled it");
        let end = TaskEnd {
            status: "RESULT_EXCEPTION",
            data: text.clone().into_bytes(),
            id: &id,
            at_ms: now_ms,
            poisoned: Some(retries),
        };
        ReadMessage::Poisoned(self.ended(task, &end), text)
    }

    /// What is published of a task that cannot be handled at all.
    pub(super) fn invalid_answer(
        &self,
        task: &TaskMessage,
        id: &str,
        reason: &str,
        now_ms: i64,
    ) -> Vec<Addressed> {
        let id = format!("{id}:invalid");
        let data = reason.as_bytes().to_vec();
        let end = TaskEnd { status: INVALID, data, id: &id, at_ms: now_ms, poisoned: None };
        self.ended(task, &end)
    }

    fn poison_text(&self, tries: u32, why: &str) -> String {
        let Self { worker, limit, .. } = self;
        format!(
            "{worker} could not process the item. It was retried {tries} times, the limit is {limit}: {why}"
        )
    }

    /// Report, copy of what is poisoned, and response, in the order of the framework.
    fn ended(&self, task: &TaskMessage, end: &TaskEnd<'_>) -> Vec<Addressed> {
        let mut all = Vec::new();
        let invalid = self.settings.invalid_queue.as_ref().filter(|_| end.status == INVALID);
        let to = invalid.or(self.to.as_ref());
        all.extend(task.tracking.as_ref().and_then(|tracking| self.report(task, tracking, end, to)));
        if end.poisoned.is_some() {
            all.push(self.rejected_copy(task, end));
        }
        // A worker at the end of the line answers nobody.
        let Some(to) = to else { return all };
        let response = TaskMessage {
            version: VERSION,
            task_data: Some(encoded(&end.data)),
            task_status: Some(end.status.to_owned()),
            context: Some(task.context.clone().unwrap_or_default()),
            to: Some(to.clone()),
            source_info: Some(json!({ "name": self.worker, "version": self.version() })),
            priority: None,
            ..task.clone()
        };
        let message = NewMessage::new(response.sent_to(to).bytes()).with_id(end.id);
        all.push(Addressed::new(to, stamped(message, end)));
        all
    }

    fn rejected_copy(&self, task: &TaskMessage, end: &TaskEnd<'_>) -> Addressed {
        let queue = &self.reject_queue;
        let copy = TaskMessage {
            version: VERSION,
            task_data: Some(task.task_data.clone().unwrap_or_default()),
            task_status: Some("RESULT_EXCEPTION".to_owned()),
            context: Some(Map::new()),
            to: Some(queue.clone()),
            priority: None,
            ..task.clone()
        };
        let message = NewMessage::new(copy.sent_to(queue).bytes()).with_id(format!("{}:reject", end.id));
        Addressed::new(queue, stamped(message, end))
    }

    fn version(&self) -> &str {
        self.settings.worker_version.as_deref().unwrap_or(UNKNOWN_VERSION)
    }

    /// What whoever follows the job is told: its part is complete when it leaves for where tracking ends.
    fn report(
        &self,
        task: &TaskMessage,
        tracking: &TrackingInfo,
        end: &TaskEnd<'_>,
        to: Option<&String>,
    ) -> Option<Addressed> {
        let pipe = tracking.tracking_pipe.as_ref().filter(|pipe| !pipe.is_empty())?;
        let failed = matches!(end.status, "RESULT_EXCEPTION" | INVALID);
        let complete = to.is_none_or(|to| tracking.ends_at(to));
        if !failed && !complete && self.settings.disable_zero_progress {
            return None;
        }
        let mut report = json!({
            "jobTaskId": tracking.job_task_id,
            "status": if failed { "Failed" } else if complete { "Complete" } else { "Progress" },
            "estimatedPercentageCompleted": 0,
        });
        if failed {
            report["failure"] = json!({
                "failureId": end.status,
                "failureTime": end.at_ms,
                "failureSource": self.worker,
                "failureMessage": String::from_utf8_lossy(&end.data),
            });
        }
        if let Some(tries) = end.poisoned {
            report["retries"] = json!(tries);
        }
        let data = json!({ "trackingReports": [report] });
        let id = format!("{}:report", end.id);
        let message = TaskMessage {
            version: VERSION,
            task_id: Some(id.clone()),
            task_classifier: Some("TrackingReportTask".to_owned()),
            task_api_version: 1,
            task_data: Some(encoded(data.to_string())),
            task_status: Some("NEW_TASK".to_owned()),
            context: Some(Map::new()),
            to: Some(pipe.clone()),
            tracking: None,
            source_info: None,
            priority: None,
            correlation_id: task.correlation_id.clone(),
        };
        let message = NewMessage::new(message.bytes()).with_id(id);
        Some(Addressed { needed: false, ..Addressed::new(pipe, message) })
    }
}

/// The task that a job was made of. One that was submitted by other ways has the job's own names.
fn task_of(kept: Option<&Value>, message: &OutboxMessage) -> TaskMessage {
    let task = kept.and_then(|kept| serde_json::from_value(kept.clone()).ok());
    task.unwrap_or_else(|| TaskMessage {
        version: VERSION,
        task_id: message.job.map(|job| job.to_string()),
        task_classifier: Some(message.kind.to_string()),
        task_api_version: 1,
        task_data: None,
        task_status: None,
        context: None,
        to: None,
        tracking: None,
        source_info: None,
        priority: None,
        correlation_id: message.correlation_id.clone(),
    })
}

fn stamped(message: NewMessage, end: &TaskEnd<'_>) -> NewMessage {
    match end.poisoned {
        Some(tries) => message.with_header(RETRY_HEADER, tries.to_string()),
        None => message,
    }
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn millis(at: Timestamp) -> i64 {
    i64::try_from(at.since(Timestamp::EPOCH).as_millis()).unwrap_or(i64::MAX)
}
