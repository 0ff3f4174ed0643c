//! One batch of messages: which become jobs, which are invalid, which are published elsewhere, and which go back.
//!
//! Nothing is acknowledged here. The answer says what may be, and every message of it is durable by then.

use std::collections::VecDeque;

use backstop::bridges::{InvalidMessage, InvalidMessages, WrittenInvalid};
use backstop::{Backstop, Enqueue};
use backstop_store::Error as StoreError;

use super::Source;
use crate::decide::{self, MessageDecision, SubmitDecision};
use crate::message::{BrokerMessage, DeliveryTag};
use crate::profile::{Addressed, MessageJob, ReadMessage, StatusAnswer};
use crate::route::{JobRoute, MessageProblem};

/// What may be done with the messages of a batch now.
#[derive(Debug, Default)]
pub(super) struct AdmittedBatch {
    /// Jobs that are stored.
    pub(super) admitted: u64,
    /// Messages that were jobs already.
    pub(super) duplicates: u64,
    /// Messages that are in the invalid channel.
    pub(super) invalid: u64,
    /// Messages that nobody wants any more.
    pub(super) discarded: u64,
    /// Everything that may be acknowledged.
    pub(super) settled: Vec<DeliveryTag>,
    /// Messages that may be acknowledged once these are published.
    pub(super) published: Vec<(BrokerMessage, Vec<Addressed>)>,
    /// Messages that their broker is to keep, with why; the channel has a note of each.
    pub(super) abandoned: Vec<(BrokerMessage, String)>,
    /// Messages that must not be trusted, with why: their broker is to keep them.
    pub(super) rejected: Vec<(BrokerMessage, String)>,
    /// Messages that go back.
    pub(super) back: Vec<DeliveryTag>,
    /// Why the source takes no more for a while.
    pub(super) hold: Option<String>,
}

/// A message, and the job that it becomes.
type Candidate = (BrokerMessage, Box<MessageJob>);

/// Makes jobs of messages. `known` is what was asked about each before.
pub(super) async fn admit(
    source: &Source,
    messages: Vec<BrokerMessage>,
    known: Vec<Option<StatusAnswer>>,
    now_ms: i64,
) -> AdmittedBatch {
    let Source { engine, route, .. } = source;
    let mut batch = AdmittedBatch::default();
    let mut invalid = Vec::new();
    let candidates = sort(source, messages.into_iter().zip(known), now_ms, &mut batch, &mut invalid);
    // Halves are tried from the front, so that jobs are stored in the order of their messages.
    let mut parts = VecDeque::from([candidates]);
    while let Some(mut part) = parts.pop_front() {
        if batch.hold.is_some() {
            batch.back.extend(part.into_iter().map(|(message, _)| message.tag));
            continue;
        }
        let Err(error) = submit(engine, route, &mut part, &mut batch, &mut invalid).await else { continue };
        match decide::of_store_error(&error, part.len()) {
            SubmitDecision::Split => {
                let rest = part.split_off(part.len() / 2);
                parts.push_front(rest);
                parts.push_front(part);
            }
            SubmitDecision::Invalid => {
                let problem = |(message, _)| (message, MessageProblem::Store(error.to_string()));
                invalid.extend(part.into_iter().map(problem));
            }
            SubmitDecision::GiveBack => {
                batch.hold = Some(error.to_string());
                batch.back.extend(part.into_iter().map(|(message, _)| message.tag));
            }
        }
    }
    keep_invalid(source, invalid, now_ms, &mut batch).await;
    batch
}

/// Reads messages by the profile of the bridge; answers those that are to become jobs.
fn sort(
    source: &Source,
    messages: impl Iterator<Item = (BrokerMessage, Option<StatusAnswer>)>,
    now_ms: i64,
    batch: &mut AdmittedBatch,
    invalid: &mut Vec<(BrokerMessage, MessageProblem)>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (message, known) in messages {
        match source.profile.read(&source.route, &message, known, now_ms) {
            Ok(ReadMessage::Job(job)) => candidates.push((message, job)),
            Ok(ReadMessage::Publish(all)) => batch.published.push((message, all)),
            Ok(ReadMessage::Poisoned(all, reason)) => {
                tracing::error!(bridge = %source.route.bridge, message = %message.id, "message poisoned: {reason}");
                batch.published.push((message, all));
            }
            Ok(ReadMessage::Reject(reason)) => batch.rejected.push((message, reason)),
            Ok(ReadMessage::Discard(reason)) => {
                tracing::debug!(bridge = %source.route.bridge, message = %message.id, "discarded: {reason}");
                batch.discarded += 1;
                batch.settled.push(message.tag);
            }
            Err(problem) => invalid.push((message, problem)),
        }
    }
    candidates
}

/// Submits a part in one transaction. What is left in `part` after an error is what the store failed on.
async fn submit(
    engine: &Backstop,
    route: &JobRoute,
    part: &mut Vec<Candidate>,
    batch: &mut AdmittedBatch,
    invalid: &mut Vec<(BrokerMessage, MessageProblem)>,
) -> Result<(), StoreError> {
    if part.is_empty() {
        return Ok(());
    }
    let jobs = part.iter().map(|(_, job)| enqueued(engine, route, job)).collect();
    let answers = engine.submit_all(jobs, false).await?;
    for ((message, _), answer) in part.drain(..).zip(answers) {
        match answer {
            Ok(stored) if stored.deduplicated => {
                batch.duplicates += 1;
                batch.settled.push(message.tag);
            }
            Ok(_) => {
                batch.admitted += 1;
                batch.settled.push(message.tag);
            }
            Err(refusal) if decide::of_refusal(&refusal) == MessageDecision::GiveBack => {
                batch.hold.get_or_insert_with(|| refusal.to_string());
                batch.back.push(message.tag);
            }
            Err(refusal) => invalid.push((message, refusal.into())),
        }
    }
    Ok(())
}

fn enqueued(engine: &Backstop, route: &JobRoute, job: &MessageJob) -> Enqueue {
    let mut new = engine.enqueue_raw(&job.kind, job.payload.as_str());
    new = new.queue(route.queue.clone()).idempotency_key(job.key.as_str());
    if let Some(priority) = job.priority {
        new = new.priority(priority);
    }
    if let Some(retries) = job.max_retries {
        new = new.max_retries(retries);
    }
    if let Some(crashes) = job.max_crashes {
        new = new.max_crashes(crashes);
    }
    if let Some(id) = &job.correlation_id {
        new = new.correlation_id(id.as_str());
    }
    match &job.params {
        Some(params) => new.params(params),
        None => new,
    }
}

/// Writes what cannot be a job to the invalid channel; what cannot be written goes back.
async fn keep_invalid(
    source: &Source,
    invalid: Vec<(BrokerMessage, MessageProblem)>,
    now_ms: i64,
    batch: &mut AdmittedBatch,
) {
    if invalid.is_empty() {
        return;
    }
    let Source { engine, route, profile, .. } = source;
    let reason = |problem: &MessageProblem| super::sanitized(engine, &problem.to_string());
    let note = |(message, problem): &(BrokerMessage, MessageProblem)| {
        let abandoned = decide::of_invalid(message) == MessageDecision::Abandon;
        InvalidMessage::new(&message.id.text, &message.body, &message.headers, reason(problem), abandoned)
    };
    let notes: Vec<InvalidMessage> = invalid.iter().map(note).collect();
    let written = InvalidMessages::of(engine).put(&route.bridge, notes).await;
    let problem = match written {
        Ok(WrittenInvalid::Kept(_)) => None,
        Ok(WrittenInvalid::Full) => Some(format!(
            "the invalid channel of bridge `{}` is full: export what is in it, then remove it",
            route.bridge
        )),
        Err(error) => Some(error.to_string()),
    };
    for (message, why) in invalid {
        match (&problem, decide::of_invalid(&message)) {
            (Some(_), _) => batch.back.push(message.tag),
            (None, MessageDecision::Abandon) => batch.abandoned.push((message, why.to_string())),
            (None, _) => {
                batch.invalid += 1;
                let answers = profile.refusal(&message, &reason(&why), now_ms);
                if answers.is_empty() {
                    batch.settled.push(message.tag);
                } else {
                    batch.published.push((message, answers));
                }
            }
        }
    }
    if let Some(problem) = problem {
        batch.hold.get_or_insert(problem);
    }
}
