//! Why settings of a bridge are refused.

use super::NAME_CHARS;
use crate::address::AddressError;

/// Why a bridge cannot be what its settings say. Each names the bridge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeSettingsError {
    /// The name cannot be one.
    #[error("`{0}` cannot be the name of a bridge: use up to {NAME_CHARS} letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// Its address cannot be used.
    #[error("bridge `{bridge}`: {problem}")]
    Address {
        /// The bridge.
        bridge: String,
        /// What is wrong with it.
        problem: AddressError,
    },
    /// A value cannot be meant.
    #[error("bridge `{bridge}`: `{key}` {problem}")]
    Value {
        /// The bridge.
        bridge: String,
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// No worker of this program knows the kind.
    #[error("bridge `{bridge}`: kind `{kind}` is not known here; register it or check the spelling")]
    UnknownKind {
        /// The bridge.
        bridge: String,
        /// The kind.
        kind: String,
    },
    /// It takes rejects, and none are stored that it could publish.
    #[error(
        "bridge `{bridge}`: `sink.of` has `rejects`, which are published from the store, and they go to \
         `{reject_sink}` instead: set `[rejects] sink = \"store\"`, or remove `rejects` from `sink.of`"
    )]
    RejectsNotStored {
        /// The bridge.
        bridge: String,
        /// Where rejects go.
        reject_sink: String,
    },
    /// Two bridges would take each other's messages for their own.
    #[error(
        "bridges `{first}` and `{second}` both take `{queue}` as consumer `{consumer}`: give one of them another \
         `consumer`, or remove it"
    )]
    SameConsumer {
        /// One of them.
        first: String,
        /// The other.
        second: String,
        /// The queue of the broker.
        queue: String,
        /// The consumer.
        consumer: String,
    },
    /// This program was built without the broker.
    #[error(
        "bridge `{bridge}`: this program was built without {broker}; build it with the feature `{feature}`"
    )]
    NotBuilt {
        /// The bridge.
        bridge: String,
        /// The broker.
        broker: &'static str,
        /// What to build it with.
        feature: &'static str,
    },
}

impl BridgeSettingsError {
    /// The stable code that machines switch on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "bridge_name",
            Self::Address { .. } => "broker_address",
            Self::Value { .. } => "bridge_setting",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::RejectsNotStored { .. } => "rejects_not_stored",
            Self::SameConsumer { .. } => "same_consumer",
            Self::NotBuilt { .. } => "broker_not_built",
        }
    }
}
