//! Profile `plain`: the body is the payload, the id of the message keeps it from becoming two jobs, and what
//! happened is sent as the engine tells it.

use backstop::sinks::OutboxMessage;

use super::read::{MessageJob, ReadMessage};
use crate::message::{BrokerMessage, NewMessage};
use crate::route::{JobRoute, MessageProblem};

/// The job that a message becomes.
pub(super) fn read(route: &JobRoute, message: &BrokerMessage) -> Result<ReadMessage, MessageProblem> {
    if message.body.is_empty() {
        return Err(MessageProblem::Empty);
    }
    let payload = std::str::from_utf8(&message.body).map_err(MessageProblem::NotText)?;
    Ok(ReadMessage::Job(Box::new(MessageJob {
        kind: route.kind.clone(),
        payload: payload.to_owned(),
        key: route.key(message)?,
        ..MessageJob::default()
    })))
}

/// The group of what is about no job.
const OF_NO_JOB: &str = "events";

/// What is sent of something that happened.
pub(super) fn message(message: &OutboxMessage) -> NewMessage {
    // What is told of one job stays in order.
    let group = message.job.map_or_else(|| OF_NO_JOB.to_owned(), |job| job.to_string());
    // Texts and numbers have no way to fail.
    NewMessage::new(serde_json::to_vec(message).unwrap_or_default())
        .with_id(message.id.as_str())
        .in_group(group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{DeliveryTag, MessageId};

    #[test]
    fn bodies_are_payloads_when_they_are_text() {
        // B1, B4: whether it is JSON within the limits is checked by the engine, as for every submit.
        let route = JobRoute::new("orders", "charge", "default");
        let read = |body: &[u8]| {
            let (id, tag) = (MessageId::broker("m-1"), DeliveryTag::new("1"));
            let message = BrokerMessage { body: body.to_vec(), ..BrokerMessage::new(id, tag) };
            read(&route, &message)
        };
        for (body, expected) in [
            (&b"{\"a\":1}"[..], Ok("{\"a\":1}")),
            (b"not json", Ok("not json")),
            (b"a\0b", Ok("a\0b")),
            (b"", Err("the body is empty; the payload of a job is JSON".to_owned())),
        ] {
            let found = read(body).map(|found| match found {
                ReadMessage::Job(job) => (job.payload, job.key),
                other => panic!("{other:?}"),
            });
            let expected = expected.map(|payload| (payload.to_owned(), "orders/m-1".to_owned()));
            assert_eq!(found.map_err(|problem| problem.to_string()), expected);
        }
        let problem = read(b"\"\xff\"").unwrap_err();
        assert!(matches!(problem, MessageProblem::NotText(_)), "{problem}");
    }
}
