//! A loop of lapin.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::time::{Instant, timeout};

use super::client::{FLOOR_BATCH, FloorClient, READER, failed};
use crate::address::BrokerAddress;
use crate::broker::{BrokerAnswer, BrokerError, PATIENCE};

/// The mode in which messages survive the end of the broker.
const PERSISTENT: u8 = 2;

/// See the module.
pub(super) struct RabbitmqFloor {
    address: BrokerAddress,
    queue: String,
}

impl RabbitmqFloor {
    pub(super) fn new(address: BrokerAddress, queue: &str) -> Self {
        Self { address, queue: queue.to_owned() }
    }

    fn failed(&self, problem: impl ToString) -> BrokerError {
        failed(&self.address.to_string(), problem)
    }

    /// A channel, which lasts as long as its connection.
    async fn channel(&self) -> Result<(Connection, Channel), BrokerError> {
        let connecting = Connection::connect(self.address.url().as_str(), ConnectionProperties::default());
        let connection = connecting.await.map_err(|error| self.failed(error))?;
        let channel = connection.create_channel().await.map_err(|error| self.failed(error))?;
        Ok((connection, channel))
    }

    /// Declares the queue; the answer also says that everything before it has arrived.
    async fn declare(&self, channel: &Channel) -> Result<(), BrokerError> {
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(self.queue.as_str().into(), durable, FieldTable::default());
        declared.await.map(drop).map_err(|error| self.failed(error))
    }

    async fn publish_all(&self, bodies: &[Vec<u8>]) -> Result<Duration, BrokerError> {
        let (_connection, channel) = self.channel().await?;
        let confirms = channel.confirm_select(ConfirmSelectOptions::default());
        confirms.await.map_err(|error| self.failed(error))?;
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let began = Instant::now();
        for batch in bodies.chunks(FLOOR_BATCH) {
            let mut confirms = Vec::with_capacity(batch.len());
            for body in batch {
                let (queue, options) = (self.queue.as_str().into(), BasicPublishOptions::default());
                let sent = channel.basic_publish("".into(), queue, options, body, properties.clone());
                confirms.push(sent.await.map_err(|error| self.failed(error))?);
            }
            for confirm in confirms {
                confirm.await.map(drop).map_err(|error| self.failed(error))?;
            }
        }
        Ok(began.elapsed())
    }

    async fn receive_all(&self, messages: usize) -> Result<Duration, BrokerError> {
        let (_connection, channel) = self.channel().await?;
        let most = u16::try_from(FLOOR_BATCH).unwrap_or(u16::MAX);
        let limited = channel.basic_qos(most, BasicQosOptions::default());
        limited.await.map_err(|error| self.failed(error))?;
        let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
        let consuming = channel.basic_consume(queue, READER.into(), options, FieldTable::default());
        let mut consumer = consuming.await.map_err(|error| self.failed(error))?;
        let (began, mut left) = (Instant::now(), messages);
        while left > 0 {
            let first = timeout(PATIENCE, consumer.next()).await;
            let mut next = first.map_err(|_| self.failed("no message in time"))?;
            let (mut last, mut count) = (None, 0);
            while let Some(delivery) = next {
                last = Some(delivery.map_err(|error| self.failed(error))?.delivery_tag);
                count += 1;
                next = if count < FLOOR_BATCH { consumer.next().now_or_never().flatten() } else { None };
            }
            let Some(last) = last else { return Err(self.failed("the consumer has ended")) };
            let acked = channel.basic_ack(last, BasicAckOptions { multiple: true });
            acked.await.map_err(|error| self.failed(error))?;
            left = left.saturating_sub(count);
        }
        self.declare(&channel).await?;
        Ok(began.elapsed())
    }

    async fn delete(&self) -> Result<(), BrokerError> {
        let (_connection, channel) = self.channel().await?;
        let deleted = channel.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default());
        deleted.await.map(drop).map_err(|error| self.failed(error))
    }
}

impl FloorClient for RabbitmqFloor {
    fn make(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(async move {
            let (_connection, channel) = self.channel().await?;
            self.declare(&channel).await
        })
    }

    fn remove(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(self.delete())
    }

    fn publish<'a>(&'a self, bodies: &'a [Vec<u8>]) -> BrokerAnswer<'a, Duration> {
        Box::pin(self.publish_all(bodies))
    }

    fn receive(&self, messages: usize) -> BrokerAnswer<'_, Duration> {
        Box::pin(self.receive_all(messages))
    }
}
