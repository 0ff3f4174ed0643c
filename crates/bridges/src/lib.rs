//! Bridges: messages of the brokers that people run already, as jobs of Backstop, and what became of jobs as messages.
//!
//! A source takes messages from a broker and submits a job for each: admitted once by the id of the message, and
//! acknowledged to the broker only after the job is durable (B1). What cannot be a job goes to the bridge's invalid
//! channel with its raw bytes and the reason (B4). A broker that is away is tried again, and never holds up the engine.
//!
//! # Layout
//! - [`BrokerMessage`], [`NewMessage`], [`Broker`], [`BrokerSession`]: what a broker can do, whichever it is.
//! - [`brokers`]: RabbitMQ, Redis streams, NATS JetStream, SQS and beanstalkd, each behind a feature.
//! - [`BridgeSettings`]: `[bridges.NAME]` of the configuration, checked.
//! - [`BridgeProfile`]: how messages are read and answered, as pure translations: `plain`, [`CafSettings`] and
//!   [`DaycrySettings`] for teams that come from elsewhere.
//! - [`Source`]: the loops that turn messages into jobs, one for each of its connections; [`SourceHandle`] pauses,
//!   resumes and watches them.
//! - [`BridgeSink`]: the loop that publishes what the outbox of the store holds for a bridge (B2).
//! - [`BridgeRunner`]: all bridges of a program, told of in the store and obedient to what people ask there.
//! - [`InvalidMessages`]: what could not become a job.
//! - [`handoff`]: the loop that publishes finished jobs to another Backstop (B7).
//! - `floor` (feature): bare loops of the brokers' clients, to measure bridges against.
//!
//! Must not know a store or a database: it uses what every program has that submits jobs.

mod address;
mod broker;
pub mod brokers;
mod decide;
#[cfg(feature = "floor")]
pub mod floor;
#[cfg(feature = "handoff")]
pub mod handoff;
#[cfg(feature = "http")]
mod http_get;
#[cfg(doctest)]
mod learn;
mod message;
#[cfg(feature = "http")]
mod net;
mod profile;
mod route;
mod runner;
mod secret;
mod sender;
mod settings;
mod shared_status;
mod sink;
mod source;
mod span;

pub use address::{AddressError, BrokerAddress, BrokerKind};
pub use backstop::bridges::{InvalidMessage, InvalidMessages, InvalidPage, MOST_INVALID, WrittenInvalid};
pub use broker::{Broker, BrokerAnswer, BrokerError, BrokerPublisher, BrokerSession};
pub use decide::{MOST_KEPT_BYTES, MessageDecision, SubmitDecision};
pub use message::{BrokerMessage, BrokerProperties, DeliveryTag, IdOrigin, MessageId, NewMessage};
pub use profile::{BridgeProfile, CafQueueKind, CafSettings, DaycrySettings};
pub use route::{JobRoute, MessageProblem};
pub use runner::BridgeRunner;
pub use sender::BridgeSender;
pub use settings::{BridgeSettings, BridgeSettingsError, SinkSettings, SourceSettings, check_all};
pub use sink::{BridgeSink, SinkHandle, SinkRunState, SinkStatus, SinkTimes};
pub use source::{Source, SourceHandle, SourceState, SourceStatus, SourceTimes};
