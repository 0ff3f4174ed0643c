//! One batch of messages: which become jobs, which are invalid, and which go back.
//!
//! Nothing is acknowledged here. The answer says what may be, and every message of it is durable by then.

use std::collections::VecDeque;

use backstop::Backstop;
use backstop_store::Error as StoreError;

use crate::decide::{self, MessageDecision, SubmitDecision};
use crate::invalid::{InvalidMessage, InvalidMessages, WrittenInvalid};
use crate::message::{BrokerMessage, DeliveryTag};
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
    /// Everything that may be acknowledged.
    pub(super) settled: Vec<DeliveryTag>,
    /// Messages that their broker is to keep, with why; the channel has a note of each.
    pub(super) abandoned: Vec<(BrokerMessage, String)>,
    /// Messages that go back.
    pub(super) back: Vec<DeliveryTag>,
    /// Why the source takes no more for a while.
    pub(super) hold: Option<String>,
}

/// Makes jobs of messages.
pub(super) async fn admit(
    engine: &Backstop,
    route: &JobRoute,
    messages: Vec<BrokerMessage>,
) -> AdmittedBatch {
    let mut batch = AdmittedBatch::default();
    let mut invalid = Vec::new();
    // Halves are tried from the front, so that jobs are stored in the order of their messages.
    let mut parts = VecDeque::from([messages]);
    while let Some(mut part) = parts.pop_front() {
        if batch.hold.is_some() {
            batch.back.extend(part.into_iter().map(|message| message.tag));
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
                let problem = |message| (message, MessageProblem::Store(error.to_string()));
                invalid.extend(part.into_iter().map(problem));
            }
            SubmitDecision::GiveBack => {
                batch.hold = Some(error.to_string());
                batch.back.extend(part.into_iter().map(|message| message.tag));
            }
        }
    }
    keep_invalid(engine, route, invalid, &mut batch).await;
    batch
}

/// Submits a part in one transaction. What is left in `part` after an error is what the store failed on.
async fn submit(
    engine: &Backstop,
    route: &JobRoute,
    part: &mut Vec<BrokerMessage>,
    batch: &mut AdmittedBatch,
    invalid: &mut Vec<(BrokerMessage, MessageProblem)>,
) -> Result<(), StoreError> {
    let (mut jobs, mut sent) = (Vec::with_capacity(part.len()), Vec::with_capacity(part.len()));
    for message in part.drain(..) {
        let mapped = route.payload(&message).and_then(|body| {
            let job = engine.enqueue_raw(&route.kind, body.payload).queue(route.queue.clone());
            Ok(job.idempotency_key(route.key(&message)?))
        });
        match mapped {
            Ok(job) => {
                jobs.push(job);
                sent.push(message);
            }
            Err(problem) => invalid.push((message, problem)),
        }
    }
    if sent.is_empty() {
        return Ok(());
    }
    let answers = match engine.submit_all(jobs, false).await {
        Ok(answers) => answers,
        Err(error) => {
            *part = sent;
            return Err(error);
        }
    };
    for (message, answer) in sent.into_iter().zip(answers) {
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

/// Writes what cannot be a job to the invalid channel; what cannot be written goes back.
async fn keep_invalid(
    engine: &Backstop,
    route: &JobRoute,
    invalid: Vec<(BrokerMessage, MessageProblem)>,
    batch: &mut AdmittedBatch,
) {
    if invalid.is_empty() {
        return;
    }
    let note = |(message, problem): &(BrokerMessage, MessageProblem)| {
        let abandoned = decide::of_invalid(message) == MessageDecision::Abandon;
        let reason = super::sanitized(engine, &problem.to_string());
        InvalidMessage::new(message, reason, abandoned)
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
                batch.settled.push(message.tag);
            }
        }
    }
    if let Some(problem) = problem {
        batch.hold.get_or_insert(problem);
    }
}
