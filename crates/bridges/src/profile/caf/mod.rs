//! Profile `caf`: tasks of the CAF Worker Framework on RabbitMQ become jobs, and their ends responses (B3).
//!
//! A task is acknowledged when its job is durable, not when its worker has answered: the response is an outbox message
//! of the transaction that ends the job, and is published with confirm. So the framework's promise, no
//! acknowledgement without a response, holds with the store in place of the broker.

mod answer;
mod task;
#[cfg(test)]
mod tests;

use std::time::Duration;

use backstop::sinks::OutboxMessage;
use backstop_core::job::Priority;
use serde_json::{Value, json};

use super::read::{Addressed, KnownJob, MessageJob, ReadMessage, RunDecision, StatusAnswer, TrackedStatus};
use super::settings::{CafQueueKind, CafSettings, ProfileFault, ProfileParts};
use crate::message::{BrokerMessage, IdOrigin, NewMessage};
use crate::route::{JobRoute, MessageProblem};
use task::{TaskMessage, TrackingInfo};

/// The header that counts retries where the broker does not.
const RETRY_HEADER: &str = "x-caf-worker-retry";

/// The header in which quorum queues count deliveries.
const DELIVERY_HEADER: &str = "x-delivery-count";

/// Why a task is discarded.
const GONE: &str = "its job does not exist";
const OVER: &str = "its job is over";

/// For how long a task of a paused job waits before it is asked about again, whatever the answer says.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Crashes and redeliveries that are forgiven unless somebody says otherwise.
const RETRY_LIMIT: u32 = 10;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct CafProfile {
    /// The bridge: only what it took is answered by it.
    bridge: String,
    /// Where tasks come from; empty when it takes none, and answers those of others.
    from: String,
    /// Where responses go; none for a worker at the end of the line.
    to: Option<String>,
    worker: String,
    limit: u32,
    reject_queue: String,
    /// Whether tasks for other queues are passed on.
    check_diverted: bool,
    settings: CafSettings,
}

/// What the number of its deliveries means for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeliveryDecision {
    /// It is handled; so many crashes are still forgiven.
    Handle { crashes: u32 },
    /// It goes to the queue of retries, as this retry.
    Retry(u32),
    /// It was tried so often without an end that it is given up.
    Poison(u32),
}

impl CafProfile {
    pub(super) fn new(parts: &ProfileParts<'_>) -> Result<Self, ProfileFault> {
        let mut caf = parts.caf.cloned().unwrap_or_default();
        let said = std::env::var("CAF_WORKER_DISABLE_ZERO_PROGRESS_REPORTING").unwrap_or_default();
        caf.disable_zero_progress |= said.eq_ignore_ascii_case("true");
        let said = std::env::var("CAF_WORKER_RETRY_LIMIT").ok().filter(|text| !text.is_empty());
        let limit = match (caf.retry_limit, said) {
            (Some(limit), _) => limit,
            (None, Some(text)) => text.parse().map_err(|_| {
                let problem = "is not said, and CAF_WORKER_RETRY_LIMIT is not a number";
                ProfileFault::new("caf.retry_limit", problem)
            })?,
            (None, None) => RETRY_LIMIT,
        };
        let said = std::env::var("CAF_WORKER_ENABLE_DIVERTED_TASK_CHECKING").unwrap_or_default();
        let check_diverted = caf.check_diverted.unwrap_or_else(|| !said.eq_ignore_ascii_case("false"));
        if limit == 0 {
            return Err(ProfileFault::new("caf.retry_limit", "is 0: give 1 or more"));
        }
        let worker = caf.worker_name.clone().unwrap_or_else(|| parts.name.to_owned());
        let reject_queue = caf.reject_queue.clone().unwrap_or_else(|| format!("{worker}-reject"));
        Ok(Self {
            bridge: parts.name.to_owned(),
            from: parts.from.unwrap_or_default().to_owned(),
            to: parts.to.map(str::to_owned),
            worker,
            limit,
            reject_queue,
            check_diverted,
            settings: caf,
        })
    }

    /// Queues that the profile publishes to by itself, and that are made when they do not exist.
    #[allow(dead_code, reason = "RabbitMQ needs it, and can be left out")]
    pub(crate) fn own_queues(&self) -> Vec<String> {
        let CafSettings { retry_queue, paused_queue, invalid_queue, .. } = &self.settings;
        let said = [retry_queue, paused_queue, invalid_queue];
        said.into_iter().flatten().cloned().chain([self.reject_queue.clone()]).collect()
    }

    /// What those queues are.
    #[allow(dead_code, reason = "RabbitMQ needs it, and can be left out")]
    pub(crate) const fn queue_type(&self) -> CafQueueKind {
        self.settings.queue_type
    }

    /// The largest priority of its queues.
    #[allow(dead_code, reason = "RabbitMQ needs it, and can be left out")]
    pub(crate) const fn max_priority(&self) -> u8 {
        self.settings.max_priority
    }

    pub(super) fn question(&self, message: &BrokerMessage, now_ms: i64) -> Option<String> {
        let task = TaskMessage::read(message).ok()?;
        task.tracking.as_ref()?.question(now_ms).map(str::to_owned)
    }

    /// Whether anybody may be asked.
    pub(super) fn asks(&self) -> bool {
        !self.settings.status_hosts.is_empty()
    }

    /// The same question about a job that was made of a task of this bridge, and is about to run.
    pub(super) fn question_before_run(&self, params: &Value, now_ms: i64) -> Option<String> {
        let kept = params.get("caf")?;
        if kept.get("bridge").and_then(Value::as_str) != Some(&*self.bridge) {
            return None;
        }
        let tracking: TrackingInfo = serde_json::from_value(kept.get("tracking")?.clone()).ok()?;
        tracking.question(now_ms).map(str::to_owned)
    }

    /// What the answer means for it. Tasks of paused jobs run unless somebody named a queue for them; those that are in
    /// the store by then wait there.
    pub(super) fn before_run(&self, answer: StatusAnswer) -> RunDecision {
        match answer.status {
            TrackedStatus::Gone => RunDecision::CallOff(GONE),
            TrackedStatus::Over => RunDecision::CallOff(OVER),
            TrackedStatus::Paused if self.settings.paused_queue.is_some() => {
                let wait = Duration::from_millis(u64::try_from(answer.interval_ms).unwrap_or_default());
                RunDecision::Wait(wait.clamp(SHORTEST_WAIT, LONGEST_WAIT))
            }
            TrackedStatus::Paused | TrackedStatus::Active => RunDecision::Run,
        }
    }

    /// Whether this address may be asked. Messages name addresses: whoever can send one would choose what this process
    /// connects to, so that only hosts that the settings name are asked.
    pub(super) fn may_ask(&self, url: &str) -> bool {
        let Ok(url) = url::Url::parse(url) else { return false };
        let hosts = &self.settings.status_hosts;
        let is_web = matches!(url.scheme(), "http" | "https");
        is_web && url.host_str().is_some_and(|host| hosts.contains(host))
    }

    pub(super) fn read(
        &self,
        route: &JobRoute,
        message: &BrokerMessage,
        status: Option<StatusAnswer>,
        now_ms: i64,
    ) -> Result<ReadMessage, MessageProblem> {
        let mut task = TaskMessage::read(message)?;
        let decision = self.delivery(message);
        if let (DeliveryDecision::Retry(count), Some(queue)) = (decision, &self.settings.retry_queue) {
            return Ok(ReadMessage::Publish(vec![Addressed::new(queue, copied(message, Some(count)))]));
        }
        if let (Some(answer), Some(tracking)) = (status, &mut task.tracking) {
            tracking.last_status_check_time = Some(json!(answer.at_ms));
            tracking.status_check_interval_millis = answer.interval_ms;
        }
        let (status, known) =
            (status.map_or(TrackedStatus::Active, |answer| answer.status), status.is_some());
        match status {
            TrackedStatus::Gone => return Ok(ReadMessage::Discard(GONE.to_owned())),
            TrackedStatus::Over => return Ok(ReadMessage::Discard(OVER.to_owned())),
            TrackedStatus::Active | TrackedStatus::Paused => {}
        }
        if self.check_diverted && !task.is_for(&self.from) {
            let queue = task.to.clone().unwrap_or_default();
            return Ok(ReadMessage::Publish(vec![passed_on(task, &queue, message, known)]));
        }
        if let (TrackedStatus::Paused, Some(queue)) = (status, &self.settings.paused_queue) {
            // It comes back from there, so its tracking does not end.
            let paused = NewMessage { body: task.bytes(), ..copied(message, None) };
            return Ok(ReadMessage::Publish(vec![Addressed::new(queue, paused)]));
        }
        match decision {
            DeliveryDecision::Poison(retries) => Ok(self.poisoned_delivery(&task, retries, now_ms)),
            DeliveryDecision::Handle { crashes } => self.job(route, message, task, crashes),
            DeliveryDecision::Retry(_) => self.job(route, message, task, self.limit),
        }
    }

    /// What the number of deliveries means. Only what was delivered before can be poison: nobody has tried the others.
    fn delivery(&self, message: &BrokerMessage) -> DeliveryDecision {
        let count = |name: &str| message.header(name).and_then(|text| text.parse::<u32>().ok());
        let (counted, stamped) = (count(DELIVERY_HEADER), count(RETRY_HEADER));
        let retries = counted.or(stamped).unwrap_or_default();
        let delivered_before = message.deliveries != Some(1);
        let crashes = self.limit.saturating_sub(retries);
        match (delivered_before, counted) {
            (true, Some(_)) if retries > self.limit => DeliveryDecision::Poison(retries),
            (true, None) if retries >= self.limit => DeliveryDecision::Poison(retries),
            // A queue that is its own queue of retries would only lose its order: what is a job already is known.
            (true, None) if self.settings.retry_queue.as_ref().is_some_and(|queue| *queue != self.from) => {
                DeliveryDecision::Retry(retries.saturating_add(1))
            }
            _ => DeliveryDecision::Handle { crashes },
        }
    }

    fn job(
        &self,
        route: &JobRoute,
        message: &BrokerMessage,
        task: TaskMessage,
        crashes: u32,
    ) -> Result<ReadMessage, MessageProblem> {
        let payload = task.data()?;
        let own = route.has_own_place() || message.id.origin == IdOrigin::Producer;
        let key = if own { route.key(message)? } else { format!("{}/{}", route.bridge, task.identity()) };
        let priority = task.priority.and_then(|priority| u8::try_from(priority).ok()).or(message.priority);
        Ok(ReadMessage::Job(Box::new(MessageJob {
            kind: route.kind.clone(),
            payload,
            key,
            priority: level(priority, self.settings.max_priority),
            // A worker that fails has answered: the framework never retries an exception.
            max_retries: Some(0),
            max_crashes: Some(crashes),
            correlation_id: task.correlation_id.clone().filter(|id| !id.is_empty()),
            params: Some(json!({ "caf": self.kept(task, self.limit.saturating_sub(crashes)) })),
        })))
    }

    /// What is kept of a task with its job: all but its data, which is the payload, and who took it.
    fn kept(&self, task: TaskMessage, retries: u32) -> Value {
        let task = TaskMessage { task_data: None, ..task };
        let mut kept = serde_json::to_value(&task).unwrap_or_default();
        if let Value::Object(fields) = &mut kept {
            fields.retain(|_, value| !value.is_null());
            fields.insert("bridge".to_owned(), json!(self.bridge));
            if retries > 0 {
                fields.insert("retries".to_owned(), json!(retries));
            }
        }
        kept
    }

    /// Whether a job is to be answered here: a bridge that takes tasks answers those, and no job of another bridge or
    /// of other ways, whose result its consumers have not asked for.
    fn answers_for(&self, kept: Option<&Value>) -> bool {
        let taken_by = kept.and_then(|kept| kept.get("bridge")).and_then(Value::as_str);
        self.from.is_empty() || taken_by == Some(&*self.bridge)
    }

    pub(super) fn refusal(&self, message: &BrokerMessage, reason: &str, now_ms: i64) -> Vec<Addressed> {
        match TaskMessage::read(message) {
            Ok(task) => self.invalid_answer(&task, &message.id.text, reason, now_ms),
            // Nobody knows whom to answer.
            Err(_) => Vec::new(),
        }
    }

    pub(super) fn answers(&self, message: &OutboxMessage, job: Option<&KnownJob>) -> Vec<Addressed> {
        self.end_of_job(message, job)
    }
}

/// A message as it came, for another queue. The broker's own count of its deliveries belongs to the old one.
fn copied(message: &BrokerMessage, retries: Option<u32>) -> NewMessage {
    let is_own = |name: &str| name.eq_ignore_ascii_case(DELIVERY_HEADER);
    let is_count = |name: &str| retries.is_some() && name.eq_ignore_ascii_case(RETRY_HEADER);
    let headers = message.headers.iter().filter(|(name, _)| !is_own(name) && !is_count(name)).cloned();
    let copy = NewMessage { headers: headers.collect(), ..message.copied() };
    match retries {
        Some(retries) => copy.with_header(RETRY_HEADER, retries.to_string()),
        None => copy,
    }
}

/// A task for another worker. Its bytes stay as they are unless there is something to change in them.
fn passed_on(task: TaskMessage, queue: &str, message: &BrokerMessage, changed: bool) -> Addressed {
    let copy = copied(message, None);
    let ends = task.tracking.as_ref().is_some_and(|tracking| tracking.ends_at(queue));
    if !ends && !changed {
        return Addressed::new(queue, copy);
    }
    Addressed::new(queue, NewMessage { body: task.sent_to(queue).bytes(), ..copy })
}

/// Which of five levels a priority is, of a queue with this largest one. A message without one is the least urgent, as
/// RabbitMQ has it.
fn level(priority: Option<u8>, most: u8) -> Option<Priority> {
    if most == 0 {
        return None;
    }
    let priority = usize::from(priority.unwrap_or_default().min(most));
    Priority::ALL.get(priority * Priority::ALL.len() / (usize::from(most) + 1)).copied()
}
