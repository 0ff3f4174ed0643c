//! What a source tells of itself.

use serde::Serialize;

/// How a source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SourceState {
    /// It has not reached its broker yet.
    #[default]
    Starting,
    /// It takes messages.
    Consuming,
    /// Somebody paused it.
    Paused,
    /// It takes no messages, because they could not become jobs now; it goes on by itself.
    Held,
    /// Its broker is away; it goes on by itself.
    Disconnected,
    /// It has ended.
    Stopped,
}

/// How a source is, and what it has done since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SourceStatus {
    /// How it is.
    pub state: SourceState,
    /// Messages that it received, each delivery counted.
    pub received: u64,
    /// Jobs that it submitted.
    pub admitted: u64,
    /// Messages that were jobs already.
    pub duplicates: u64,
    /// Messages that went to the invalid channel.
    pub invalid: u64,
    /// Messages that their broker was left to keep, because they were too large for that or could not be passed on.
    pub abandoned: u64,
    /// Messages whose signature was missing or wrong: their broker keeps them too.
    pub rejected: u64,
    /// Messages that were published to other queues, as they are or answered.
    pub passed_on: u64,
    /// Messages that nobody wants any more, because their job elsewhere is over.
    pub discarded: u64,
    /// Messages that it settled.
    pub acked: u64,
    /// Messages that it gave back.
    pub given_back: u64,
    /// Rounds that failed, because the broker or the store was away or there was no room.
    pub failures: u64,
    /// How often it reached its broker.
    pub connections: u64,
    /// Messages that wait at the broker, where it tells; as it was a while ago.
    pub backlog: Option<u64>,
    /// Why it does not take messages, or what went wrong last, in words.
    pub last_error: Option<String>,
    /// The same in a stable word: a code of [`BrokerError`](crate::BrokerError), or `held`.
    pub error_code: Option<&'static str>,
}
