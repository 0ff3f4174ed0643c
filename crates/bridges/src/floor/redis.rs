//! A loop of the client for Redis, on a stream and a group.

use std::time::Duration;

use tokio::time::Instant;

use super::client::{FLOOR_BATCH, FloorClient, READER, failed};
use crate::address::BrokerAddress;
use crate::broker::{BrokerAnswer, BrokerError};
use crate::brokers::redis::{RedisLink, ids_of};

/// See the module.
pub(super) struct RedisFloor {
    address: BrokerAddress,
    stream: String,
}

impl RedisFloor {
    pub(super) fn new(address: BrokerAddress, stream: &str) -> Self {
        Self { address, stream: stream.to_owned() }
    }

    async fn link(&self) -> Result<RedisLink, BrokerError> {
        RedisLink::open(&self.address, None).await
    }

    async fn order(&self, command: &redis::Cmd) -> Result<(), BrokerError> {
        self.link().await?.ask(command, Duration::ZERO).await.map(drop)
    }

    async fn publish_all(&self, bodies: &[Vec<u8>]) -> Result<Duration, BrokerError> {
        let mut link = self.link().await?;
        let began = Instant::now();
        for batch in bodies.chunks(FLOOR_BATCH) {
            let mut all = redis::pipe();
            for body in batch {
                all.cmd("XADD").arg(&self.stream).arg("*").arg("body").arg(body);
            }
            link.ask_all(&all).await?;
        }
        Ok(began.elapsed())
    }

    async fn receive_all(&self, messages: usize) -> Result<Duration, BrokerError> {
        let mut link = self.link().await?;
        let (began, mut left) = (Instant::now(), messages);
        while left > 0 {
            let mut read = redis::cmd("XREADGROUP");
            read.arg("GROUP").arg(READER).arg(READER).arg("COUNT").arg(FLOOR_BATCH);
            read.arg("STREAMS").arg(&self.stream).arg(">");
            let ids = ids_of(link.ask(&read, Duration::ZERO).await?);
            if ids.is_empty() {
                let problem = format!("{left} messages are missing");
                return Err(failed(&self.address.to_string(), problem));
            }
            let mut ack = redis::cmd("XACK");
            ack.arg(&self.stream).arg(READER).arg(&ids);
            link.ask(&ack, Duration::ZERO).await?;
            left = left.saturating_sub(ids.len());
        }
        Ok(began.elapsed())
    }
}

impl FloorClient for RedisFloor {
    fn make(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(async move {
            let mut group = redis::cmd("XGROUP");
            group.arg("CREATE").arg(&self.stream).arg(READER).arg("0").arg("MKSTREAM");
            self.order(&group).await
        })
    }

    fn remove(&self) -> BrokerAnswer<'_, ()> {
        Box::pin(async move {
            let mut remove = redis::cmd("DEL");
            remove.arg(&self.stream);
            self.order(&remove).await
        })
    }

    fn publish<'a>(&'a self, bodies: &'a [Vec<u8>]) -> BrokerAnswer<'a, Duration> {
        Box::pin(self.publish_all(bodies))
    }

    fn receive(&self, messages: usize) -> BrokerAnswer<'_, Duration> {
        Box::pin(self.receive_all(messages))
    }
}
