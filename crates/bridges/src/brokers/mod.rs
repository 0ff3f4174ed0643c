//! The brokers, each behind a feature of its own.

#[cfg(feature = "beanstalkd")]
pub mod beanstalkd;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqs")]
pub mod sqs;

use std::sync::Arc;

use crate::address::BrokerKind;
use crate::broker::Broker;
use crate::settings::{BridgeSettings, BridgeSettingsError};

/// The broker of a bridge. `node` tells this process from others of the same bridge.
///
/// # Errors
/// When its address cannot be used, or this program was built without it.
pub fn open(
    name: &str,
    settings: &BridgeSettings,
    node: &str,
) -> Result<Arc<dyn Broker>, BridgeSettingsError> {
    let address = settings.address(name)?;
    match address.kind() {
        #[cfg(feature = "beanstalkd")]
        BrokerKind::Beanstalkd => Ok(Arc::new(beanstalkd::BeanstalkdBroker::new(address, settings))),
        #[cfg(feature = "nats")]
        BrokerKind::Nats => Ok(Arc::new(nats::NatsBroker::new(address, name, settings))),
        #[cfg(feature = "rabbitmq")]
        BrokerKind::Rabbitmq => Ok(Arc::new(rabbitmq::RabbitmqBroker::new(address, name, settings))),
        #[cfg(feature = "redis")]
        BrokerKind::Redis
            // A sink of such a bridge publishes to streams.
            if settings.source.is_some() && settings.daycry.as_ref().is_some_and(|daycry| daycry.lists) =>
        {
            Ok(Arc::new(redis::RedisLists::new(address, settings, node)))
        }
        #[cfg(feature = "redis")]
        BrokerKind::Redis => Ok(Arc::new(redis::RedisStreams::new(address, name, settings, node))),
        #[cfg(feature = "sqs")]
        BrokerKind::Sqs => {
            sqs::SqsBroker::new(address, name, settings).map(|broker| Arc::new(broker) as Arc<dyn Broker>)
        }
        #[allow(unreachable_patterns, reason = "there is none left when every broker is built in")]
        other => {
            let _ = node;
            let (broker, feature) = named(other);
            Err(BridgeSettingsError::NotBuilt { bridge: name.to_owned(), broker, feature })
        }
    }
}

/// What people call a broker, and the feature that it is behind.
#[allow(dead_code, reason = "every broker may be built in")]
pub(crate) const fn named(kind: BrokerKind) -> (&'static str, &'static str) {
    match kind {
        BrokerKind::Rabbitmq => ("RabbitMQ", "rabbitmq"),
        BrokerKind::Redis => ("Redis", "redis"),
        BrokerKind::Nats => ("NATS", "nats"),
        BrokerKind::Beanstalkd => ("beanstalkd", "beanstalkd"),
        BrokerKind::Sqs => ("SQS", "sqs"),
    }
}
