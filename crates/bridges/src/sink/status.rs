//! What a sink tells of itself.

use serde::Serialize;

/// How a sink is, in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SinkRunState {
    /// It has not reached its store yet.
    #[default]
    Starting,
    /// It publishes.
    Publishing,
    /// Another process publishes, or somebody paused the sink.
    Standby,
    /// Its broker or its store is away; it goes on by itself, and messages wait in the outbox.
    Disconnected,
    /// It has ended.
    Stopped,
}

/// How a sink is, and what it has done in this process since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SinkStatus {
    /// How it is.
    pub state: SinkRunState,
    /// Messages that the broker has confirmed and the outbox has lost.
    pub published: u64,
    /// Messages that the broker has confirmed and that are published again, because they could not be removed.
    pub repeated: u64,
    /// Rounds that failed, because the broker or the store was away.
    pub failures: u64,
    /// How often it reached its broker.
    pub connections: u64,
    /// What went wrong last, in words.
    pub last_error: Option<String>,
    /// The same in a stable word: a code of [`BrokerError`](crate::BrokerError), or of the store's error.
    pub error_code: Option<&'static str>,
}

impl SinkStatus {
    /// It reached its broker.
    pub(super) fn publishing(&mut self) {
        self.state = SinkRunState::Publishing;
        self.last_error = None;
        self.error_code = None;
    }
}
