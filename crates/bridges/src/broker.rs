//! What a broker can do for a bridge, whichever broker it is.
//!
//! Must not decide anything: what becomes of a message is the business of `decide`.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use crate::message::{BrokerMessage, DeliveryTag, NewMessage};

/// How long a connection may take to be made, and an answer to come that no message has to be waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What a call to a broker returns: a boxed future, so that the traits stay object-safe.
pub type BrokerAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, BrokerError>> + Send + 'a>>;

/// Why a broker did not do what it was asked to.
///
/// Texts never hold credentials: addresses are shown without them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// It is away, or the connection broke: what was asked for may have happened or not.
    #[error("the broker at {address} is unavailable: {problem}")]
    Unavailable {
        /// Which broker.
        address: String,
        /// What happened.
        problem: String,
    },
    /// The queue, stream or tube is not there.
    #[error("queue `{queue}` does not exist on the broker at {address}; create it or check the spelling")]
    NoSuchQueue {
        /// Its name.
        queue: String,
        /// Which broker.
        address: String,
    },
    /// It refuses, and will refuse the same again.
    #[error("the broker at {address} refuses: {problem}")]
    Refused {
        /// Which broker.
        address: String,
        /// What it says.
        problem: String,
    },
}

impl BrokerError {
    /// The stable code that machines switch on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "broker_unavailable",
            Self::NoSuchQueue { .. } => "no_such_queue",
            Self::Refused { .. } => "broker_refused",
        }
    }
}

/// Reads the file of an authority. It is read for every connection, so that it can be changed.
#[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
pub(crate) fn read_authority(address: &str, file: Option<&Path>) -> Result<Option<String>, BrokerError> {
    authority(file).map_err(|problem| BrokerError::Refused { address: address.to_owned(), problem })
}

/// The same, and why not in words.
#[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
pub(crate) fn authority(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(file) = file else { return Ok(None) };
    let problem = |problem: &str| format!("`tls_ca` {} cannot be used: {problem}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| problem(&error.to_string()))?;
    if !text.contains("BEGIN CERTIFICATE") {
        return Err(problem("there is no certificate in it"));
    }
    Ok(Some(text))
}

/// A broker that can be connected to, with the queue that a bridge takes messages from.
pub trait Broker: Send + Sync + 'static {
    /// Where it is, without credentials.
    fn address(&self) -> &str;

    /// Makes a connection and checks that the queue is there. It takes no message before [`BrokerSession::receive`].
    fn connect(&self) -> BrokerAnswer<'_, Box<dyn BrokerSession>>;

    /// Makes a connection that only publishes. It leaves no trace at the broker but its messages: a consumer that
    /// nobody reads with would make some brokers keep them for ever.
    fn publisher(&self) -> BrokerAnswer<'_, Box<dyn BrokerPublisher>> {
        Box::pin(async move { Ok(Box::new(self.connect().await?) as Box<dyn BrokerPublisher>) })
    }
}

/// One connection that publishes. After an error it is thrown away: what was published then may be there or not.
pub trait BrokerPublisher: Send {
    /// Publishes messages, in order. An `Ok` means that the broker has confirmed every one.
    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()>;

    /// Looks whether something published there would be kept, without publishing, where a connection alone does not
    /// tell.
    fn look_for<'a>(&'a mut self, queue: &'a str) -> BrokerAnswer<'a, ()> {
        let _ = queue;
        Box::pin(std::future::ready(Ok(())))
    }
}

impl BrokerPublisher for Box<dyn BrokerSession> {
    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        (**self).publish(queue, messages)
    }
}

/// One connection. It has one user, so that a read that blocks holds up nobody; it does not reconnect by itself, and
/// after an error it is thrown away. What was received and not settled then is delivered again.
pub trait BrokerSession: Send {
    /// Takes up to `most` messages. Waits for the first one for at most `wait`, and for no other.
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>>;

    /// Settles messages: they are not delivered again.
    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()>;

    /// Gives messages back: they are delivered again, to anybody, after `delay`. Where the broker knows no delay, this
    /// session keeps them back for so long and gives them back when it receives next.
    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()>;

    /// Gives a message up for good, to where its broker keeps such messages (B6). It is never dropped.
    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, reason: &'a str) -> BrokerAnswer<'a, ()>;

    /// Publishes messages to a queue of the same broker. An `Ok` means that the broker has confirmed every one.
    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()>;

    /// How many messages wait that nobody has received, if the broker tells.
    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>>;
}
