//! Addresses of brokers: which broker, where, and whether credentials would cross a network in the clear.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

/// Which broker an address is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerKind {
    /// RabbitMQ, by AMQP 0-9-1.
    Rabbitmq,
    /// Redis streams.
    Redis,
    /// NATS JetStream.
    Nats,
    /// beanstalkd.
    Beanstalkd,
    /// Amazon SQS, or what speaks like it.
    Sqs,
}

/// Schemes, what they name, and whether the connection is encrypted.
const SCHEMES: [(&str, BrokerKind, bool); 9] = [
    ("amqp", BrokerKind::Rabbitmq, false),
    ("amqps", BrokerKind::Rabbitmq, true),
    ("redis", BrokerKind::Redis, false),
    ("rediss", BrokerKind::Redis, true),
    ("nats", BrokerKind::Nats, false),
    ("tls", BrokerKind::Nats, true),
    ("beanstalk", BrokerKind::Beanstalkd, false),
    ("sqs+http", BrokerKind::Sqs, false),
    ("sqs+https", BrokerKind::Sqs, true),
];

/// Why an address cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It is not the URL of a broker.
    #[error(
        "the address names no broker that is known: write amqp://, redis://, nats://, beanstalk:// or sqs+https:// \
         with a host"
    )]
    Unknown,
    /// It has a host that is not this machine and no encryption.
    #[error(
        "{address} is on another machine and not encrypted: use {encrypted}, or say `plaintext = true` if the network \
         between is trusted"
    )]
    Plaintext {
        /// The address without credentials.
        address: String,
        /// The scheme to use instead.
        encrypted: &'static str,
    },
}

/// The address of a broker. It is shown without credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    url: Url,
    kind: BrokerKind,
    shown: String,
}

impl BrokerAddress {
    /// Reads an address. One on another machine must be encrypted, unless `plaintext` allows it not to be.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn parse(text: &str, plaintext: bool) -> Result<Self, AddressError> {
        let url = Url::parse(text).map_err(|_| AddressError::Unknown)?;
        let scheme =
            SCHEMES.iter().find(|(scheme, ..)| *scheme == url.scheme()).ok_or(AddressError::Unknown)?;
        let (_, kind, encrypted) = *scheme;
        let host = url.host().map(|host| host.to_owned()).ok_or(AddressError::Unknown)?;
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let shown = format!("{}://{host}{port}", url.scheme());
        if !encrypted && !plaintext && !is_loopback(&host) {
            let other = SCHEMES.iter().find(|(_, other, encrypted)| *other == kind && *encrypted);
            let encrypted = other.map_or("a tunnel", |(scheme, ..)| scheme);
            return Err(AddressError::Plaintext { address: shown, encrypted });
        }
        Ok(Self { url, kind, shown })
    }

    /// Which broker it is of.
    #[must_use]
    pub const fn kind(&self) -> BrokerKind {
        self.kind
    }

    /// Whether connections to it are encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        SCHEMES.iter().any(|(scheme, _, encrypted)| *encrypted && *scheme == self.url.scheme())
    }

    /// The whole of it, with credentials.
    #[must_use]
    #[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Host and port; the port of the broker's protocol unless it is said.
    #[must_use]
    #[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
    pub(crate) fn host_and_port(&self, usual: u16) -> (String, u16) {
        let host = match self.url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            _ => self.url.host_str().unwrap_or_default().to_owned(),
        };
        (host, self.url.port().unwrap_or(usual))
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrokerAddress({})", self.shown)
    }
}

pub(crate) fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
        // Schemes that the standard of URLs does not know keep addresses as text.
        Host::Domain(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_names_its_broker_and_credentials_are_never_shown() {
        for (text, kind, shown) in [
            ("amqp://ann:hunter2@127.0.0.1:5672/%2f", BrokerKind::Rabbitmq, "amqp://127.0.0.1:5672"),
            ("amqps://ann:hunter2@mq.example/prod", BrokerKind::Rabbitmq, "amqps://mq.example"),
            ("redis://:hunter2@localhost/3", BrokerKind::Redis, "redis://localhost"),
            ("rediss://cache.example:6380", BrokerKind::Redis, "rediss://cache.example:6380"),
            ("nats://hunter2@[::1]:4222", BrokerKind::Nats, "nats://[::1]:4222"),
            ("tls://nats.example", BrokerKind::Nats, "tls://nats.example"),
            ("beanstalk://127.0.0.1", BrokerKind::Beanstalkd, "beanstalk://127.0.0.1"),
            (
                "sqs+https://sqs.eu-west-1.amazonaws.com",
                BrokerKind::Sqs,
                "sqs+https://sqs.eu-west-1.amazonaws.com",
            ),
        ] {
            let address = BrokerAddress::parse(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((address.kind(), address.to_string().as_str()), (kind, shown));
            assert!(!format!("{address:?}").contains("hunter2"));
        }
    }

    #[test]
    fn what_is_no_address_or_would_go_in_the_clear_is_refused() {
        for text in ["", "kafka://127.0.0.1", "127.0.0.1:5672", "redis:", "redis:///3"] {
            assert_eq!(BrokerAddress::parse(text, true), Err(AddressError::Unknown), "{text}");
        }
        let refused = BrokerAddress::parse("redis://:hunter2@cache.example", false).unwrap_err().to_string();
        assert!(refused.contains("use rediss") && !refused.contains("hunter2"), "{refused}");
        let tunnel = BrokerAddress::parse("beanstalk://work.example", false).unwrap_err().to_string();
        assert!(tunnel.contains("use a tunnel"), "{tunnel}");
        assert!(BrokerAddress::parse("redis://cache.example", true).is_ok());
    }
}
