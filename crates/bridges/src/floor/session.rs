//! Loops of our own clients, for SQS and beanstalkd.

use std::time::Duration;

use tokio::time::Instant;

use super::client::{FLOOR_BATCH, FloorClient, failed};
use crate::address::BrokerAddress;
use crate::broker::{Broker, BrokerAnswer, BrokerError};
#[cfg(feature = "beanstalkd")]
use crate::brokers::beanstalkd::BeanstalkdBroker;
#[cfg(feature = "sqs")]
use crate::brokers::sqs::SqsBroker;
use crate::message::{DeliveryTag, NewMessage};
use crate::settings::BridgeSettings;
#[cfg(feature = "sqs")]
use crate::settings::BridgeSettingsError;

/// How long a message is waited for that should be there.
const WAIT: Duration = Duration::from_secs(5);

async fn publish(broker: &dyn Broker, queue: &str, bodies: &[Vec<u8>]) -> Result<Duration, BrokerError> {
    let mut session = broker.connect().await?;
    let began = Instant::now();
    for batch in bodies.chunks(FLOOR_BATCH) {
        let messages: Vec<NewMessage> = batch.iter().map(|body| NewMessage::new(body.clone())).collect();
        session.publish(queue, &messages).await?;
    }
    Ok(began.elapsed())
}

async fn receive(broker: &dyn Broker, messages: usize) -> Result<Duration, BrokerError> {
    let mut session = broker.connect().await?;
    let (began, mut left) = (Instant::now(), messages);
    while left > 0 {
        let found = session.receive(FLOOR_BATCH, WAIT).await?;
        if found.is_empty() {
            return Err(failed(broker.address(), format!("{left} messages are missing")));
        }
        let tags: Vec<DeliveryTag> = found.into_iter().map(|message| message.tag).collect();
        session.ack(&tags).await?;
        left = left.saturating_sub(tags.len());
    }
    Ok(began.elapsed())
}

/// A tube.
#[cfg(feature = "beanstalkd")]
pub(super) struct BeanstalkdFloor {
    broker: BeanstalkdBroker,
    tube: String,
}

#[cfg(feature = "beanstalkd")]
impl BeanstalkdFloor {
    pub(super) fn new(address: BrokerAddress, settings: &BridgeSettings) -> Self {
        Self { broker: BeanstalkdBroker::new(address, settings), tube: settings.place().queue }
    }

    /// A tube goes when nothing is in it.
    async fn empty(&self) -> Result<(), BrokerError> {
        let mut session = self.broker.connect().await?;
        loop {
            let found = session.receive(FLOOR_BATCH, Duration::from_secs(1)).await?;
            if found.is_empty() {
                return Ok(());
            }
            let tags: Vec<DeliveryTag> = found.into_iter().map(|message| message.tag).collect();
            session.ack(&tags).await?;
        }
    }
}

#[cfg(feature = "beanstalkd")]
impl FloorClient for BeanstalkdFloor {
    fn make(&self) -> BrokerAnswer<'_, ()> {
        // It is there when something is put into it; whether the server is, is said now.
        Box::pin(async move { self.broker.connect().await.map(drop) })
    }

    fn remove(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(self.empty())
    }

    fn publish<'a>(&'a self, bodies: &'a [Vec<u8>]) -> BrokerAnswer<'a, Duration> {
        Box::pin(publish(&self.broker, &self.tube, bodies))
    }

    fn receive(&self, messages: usize) -> BrokerAnswer<'_, Duration> {
        Box::pin(receive(&self.broker, messages))
    }
}

/// A queue of SQS.
#[cfg(feature = "sqs")]
pub(super) struct SqsFloor {
    broker: SqsBroker,
    queue: String,
}

#[cfg(feature = "sqs")]
impl SqsFloor {
    pub(super) fn new(
        address: BrokerAddress,
        settings: &BridgeSettings,
    ) -> Result<Self, BridgeSettingsError> {
        let broker = SqsBroker::new(address, super::client::READER, settings)?;
        Ok(Self { broker, queue: settings.place().queue })
    }
}

#[cfg(feature = "sqs")]
impl FloorClient for SqsFloor {
    fn make(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(self.broker.make_queue())
    }

    fn remove(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(self.broker.delete_queue())
    }

    fn publish<'a>(&'a self, bodies: &'a [Vec<u8>]) -> BrokerAnswer<'a, Duration> {
        Box::pin(publish(&self.broker, &self.queue, bodies))
    }

    fn receive(&self, messages: usize) -> BrokerAnswer<'_, Duration> {
        Box::pin(receive(&self.broker, messages))
    }
}
