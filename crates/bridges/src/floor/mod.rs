//! What a bare loop of a broker's own client does: the floor beside which `backstop bench` measures bridges.
//!
//! A loop publishes and waits for confirms, or receives and acknowledges, in batches as large as those of a bridge, and
//! does nothing else: it reads no id, makes no job, keeps nothing, and tries nothing again. Those of SQS and beanstalkd
//! are loops of our own clients, for there is no other that is used here.

mod client;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "beanstalkd", feature = "sqs"))]
mod session;

use std::fmt;
use std::time::Duration;

use crate::address::BrokerKind;
use crate::broker::BrokerError;
use crate::brokers::named;
use crate::settings::{BridgeSettings, BridgeSettingsError, SourceSettings};
pub use client::FLOOR_BATCH;
use client::{FloorClient, READER};

/// A queue of a broker, and the bare loops on it.
///
/// ```no_run
/// use backstop_bridges::floor::BrokerFloor;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let floor = BrokerFloor::new("redis://127.0.0.1:6379", "bench")?;
/// floor.make().await?;
/// println!("out: {:?}", floor.publish(&[b"1".to_vec(), b"2".to_vec()]).await?);
/// println!("in: {:?}", floor.receive(2).await?);
/// floor.remove().await?;
/// # Ok(()) }
/// ```
pub struct BrokerFloor {
    client: Box<dyn FloorClient>,
    name: &'static str,
}

impl fmt::Debug for BrokerFloor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerFloor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl BrokerFloor {
    /// This queue of this broker, which may be on another machine without encryption.
    ///
    /// # Errors
    /// When the address cannot be used, or this program was built without the broker.
    pub fn new(broker: &str, queue: &str) -> Result<Self, BridgeSettingsError> {
        let mut settings = BridgeSettings::new(broker, SourceSettings::new(queue, READER));
        settings.plaintext = true;
        let address = settings.address(READER)?;
        let (title, name) = named(address.kind());
        let client: Box<dyn FloorClient> = match address.kind() {
            #[cfg(feature = "beanstalkd")]
            BrokerKind::Beanstalkd => Box::new(session::BeanstalkdFloor::new(address, &settings)),
            #[cfg(feature = "nats")]
            BrokerKind::Nats => Box::new(nats::NatsFloor::new(address, queue)),
            #[cfg(feature = "rabbitmq")]
            BrokerKind::Rabbitmq => Box::new(rabbitmq::RabbitmqFloor::new(address, queue)),
            #[cfg(feature = "redis")]
            BrokerKind::Redis => Box::new(redis::RedisFloor::new(address, queue)),
            #[cfg(feature = "sqs")]
            BrokerKind::Sqs => Box::new(session::SqsFloor::new(address, &settings)?),
            #[allow(unreachable_patterns, reason = "there is none left when every broker is built in")]
            _ => {
                let bridge = READER.to_owned();
                return Err(BridgeSettingsError::NotBuilt { bridge, broker: title, feature: name });
            }
        };
        Ok(Self { client, name })
    }

    /// The broker in one word: `rabbitmq`, `redis`, `nats`, `sqs` or `beanstalkd`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Makes the queue, where it has to be made.
    ///
    /// # Errors
    /// When the broker is away or refuses.
    pub async fn make(&self) -> Result<(), BrokerError> {
        self.client.make().await
    }

    /// Removes the queue with what is in it.
    ///
    /// # Errors
    /// As [`BrokerFloor::make`].
    pub async fn remove(&self) -> Result<(), BrokerError> {
        self.client.remove().await
    }

    /// Publishes these, each confirmed, and answers how long that took.
    ///
    /// # Errors
    /// As [`BrokerFloor::make`].
    pub async fn publish(&self, bodies: &[Vec<u8>]) -> Result<Duration, BrokerError> {
        self.client.publish(bodies).await
    }

    /// Receives and acknowledges so many messages, and answers how long that took.
    ///
    /// # Errors
    /// As [`BrokerFloor::make`], and when there are fewer.
    pub async fn receive(&self, messages: usize) -> Result<Duration, BrokerError> {
        self.client.receive(messages).await
    }
}
