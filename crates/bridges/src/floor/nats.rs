//! A loop of async-nats, on a stream with a durable consumer that pulls.

use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::client::{FLOOR_BATCH, FloorClient, READER, failed};
use crate::address::BrokerAddress;
use crate::broker::{BrokerAnswer, BrokerError};

/// See the module.
pub(super) struct NatsFloor {
    address: BrokerAddress,
    /// The stream, and its one subject.
    stream: String,
}

impl NatsFloor {
    pub(super) fn new(address: BrokerAddress, stream: &str) -> Self {
        Self { address, stream: stream.to_owned() }
    }

    fn failed(&self, problem: impl ToString) -> BrokerError {
        failed(&self.address.to_string(), problem)
    }

    async fn link(&self) -> Result<(Client, Context), BrokerError> {
        let connected = async_nats::connect(self.address.url().as_str()).await;
        let client = connected.map_err(|error| self.failed(error))?;
        Ok((client.clone(), jetstream::new(client)))
    }

    async fn create(&self) -> Result<(), BrokerError> {
        let (_, context) = self.link().await?;
        let config = stream::Config {
            name: self.stream.clone(),
            subjects: vec![self.stream.clone()],
            ..stream::Config::default()
        };
        context.create_stream(config).await.map(drop).map_err(|error| self.failed(error))
    }

    async fn delete(&self) -> Result<(), BrokerError> {
        let (_, context) = self.link().await?;
        context.delete_stream(&self.stream).await.map(drop).map_err(|error| self.failed(error))
    }

    async fn publish_all(&self, bodies: &[Vec<u8>]) -> Result<Duration, BrokerError> {
        let (_, context) = self.link().await?;
        let began = Instant::now();
        for batch in bodies.chunks(FLOOR_BATCH) {
            let mut confirms = Vec::with_capacity(batch.len());
            for body in batch {
                let sent = context.publish(self.stream.clone(), bytes::Bytes::copy_from_slice(body));
                confirms.push(sent.await.map_err(|error| self.failed(error))?);
            }
            for confirm in confirms {
                confirm.await.map(drop).map_err(|error| self.failed(error))?;
            }
        }
        Ok(began.elapsed())
    }

    async fn receive_all(&self, messages: usize) -> Result<Duration, BrokerError> {
        let (client, context) = self.link().await?;
        let stream = context.get_stream(&self.stream).await.map_err(|error| self.failed(error))?;
        let config = pull::Config {
            durable_name: Some(READER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ..pull::Config::default()
        };
        let made = stream.get_or_create_consumer(READER, config).await;
        let consumer = made.map_err(|error| self.failed(error))?;
        let (began, mut left) = (Instant::now(), messages);
        while left > 0 {
            let fetched = consumer.fetch().max_messages(FLOOR_BATCH).messages().await;
            let mut batch = fetched.map_err(|error| self.failed(error))?;
            let mut count = 0;
            while let Some(message) = batch.next().await {
                let message = message.map_err(|error| self.failed(error))?;
                message.ack().await.map_err(|error| self.failed(error))?;
                count += 1;
            }
            if count == 0 {
                return Err(self.failed(format!("{left} messages are missing")));
            }
            client.flush().await.map_err(|error| self.failed(error))?;
            left = left.saturating_sub(count);
        }
        Ok(began.elapsed())
    }
}

impl FloorClient for NatsFloor {
    fn make(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(self.create())
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
