//! Publishes messages to several queues, in their order.

use crate::broker::{BrokerAnswer, BrokerError, BrokerPublisher, BrokerSession};
use crate::message::NewMessage;
use crate::profile::read::Addressed;

/// The session of a source, as something that publishes.
pub(crate) struct SessionPublisher<'s>(pub(crate) &'s mut dyn BrokerSession);

impl BrokerPublisher for SessionPublisher<'_> {
    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        self.0.publish(queue, messages)
    }
}

/// Publishes all, those for one queue that stand together in one call. An `Ok` means that the broker has confirmed
/// every one that is needed.
pub(crate) async fn publish_all(
    publisher: &mut dyn BrokerPublisher,
    all: Vec<Addressed>,
) -> Result<(), BrokerError> {
    let mut rest = all.into_iter().peekable();
    while let Some(Addressed { queue, message, needed }) = rest.next() {
        let mut together = vec![message];
        while let Some(next) = rest.next_if(|next| next.queue == queue && next.needed == needed) {
            together.push(next.message);
        }
        match publisher.publish(&queue, &together).await {
            Err(error @ BrokerError::NoSuchQueue { .. }) if !needed => {
                tracing::warn!(queue, messages = together.len(), "reports are not sent: {error}");
            }
            other => other?,
        }
    }
    Ok(())
}
