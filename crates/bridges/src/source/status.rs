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
    /// Consumers that take messages now, of as many as its settings say.
    pub consuming: u32,
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
    /// How each consumer is. What is told of all is that of the one that is worst off: there somebody has to look.
    #[serde(skip)]
    consumers: Vec<ConsumerState>,
}

/// How one consumer of a source is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct ConsumerState {
    state: SourceState,
    last_error: Option<String>,
    error_code: Option<&'static str>,
}

impl SourceState {
    /// How bad it is, beside others. A source is paused or has ended once all its consumers are.
    const fn rank(self) -> u8 {
        match self {
            Self::Disconnected => 5,
            Self::Held => 4,
            Self::Starting => 3,
            Self::Consuming => 2,
            Self::Paused => 1,
            Self::Stopped => 0,
        }
    }
}

impl SourceStatus {
    /// So many consumers are about to start.
    pub(super) fn expect_consumers(&mut self, count: usize) {
        self.consumers = vec![ConsumerState::default(); count];
    }

    /// A consumer takes messages: what went wrong for it before is over.
    pub(super) fn consumes(&mut self, consumer: usize) {
        let state = SourceState::Consuming;
        self.change(consumer, |one| *one = ConsumerState { state, ..ConsumerState::default() });
    }

    /// A consumer takes no messages, because somebody said so.
    pub(super) fn rests(&mut self, consumer: usize, state: SourceState) {
        self.change(consumer, |one| one.state = state);
    }

    /// A consumer cannot take messages.
    pub(super) fn stuck(&mut self, consumer: usize, state: SourceState, code: &'static str, problem: String) {
        let (last_error, error_code) = (Some(problem), Some(code));
        self.change(consumer, |one| *one = ConsumerState { state, last_error, error_code });
    }

    /// True while a consumer cannot take messages.
    pub(super) const fn is_stuck(&self) -> bool {
        matches!(self.state, SourceState::Held | SourceState::Disconnected)
    }

    fn change(&mut self, consumer: usize, change: impl FnOnce(&mut ConsumerState)) {
        if let Some(one) = self.consumers.get_mut(consumer) {
            change(one);
        }
        let consuming = self.consumers.iter().filter(|one| one.state == SourceState::Consuming).count();
        self.consuming = u32::try_from(consuming).unwrap_or(u32::MAX);
        let worst = self.consumers.iter().max_by_key(|one| (one.state.rank(), one.last_error.is_some()));
        if let Some(ConsumerState { state, last_error, error_code }) = worst.cloned() {
            (self.state, self.last_error, self.error_code) = (state, last_error, error_code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consumer_that_is_worst_off_is_the_one_that_is_told_of() {
        // B1, B5
        let mut status = SourceStatus::default();
        status.expect_consumers(3);
        assert_eq!((status.state, status.is_stuck()), (SourceState::Starting, false));
        (0..3).for_each(|consumer| status.consumes(consumer));
        assert_eq!((status.state, status.consuming), (SourceState::Consuming, 3));
        status.stuck(1, SourceState::Held, "held", "queue `q` is full".to_owned());
        status.stuck(2, SourceState::Disconnected, "broker_unavailable", "gone".to_owned());
        status.consumes(0);
        assert_eq!(status.consuming, 1);
        assert_eq!(
            (status.state, status.error_code),
            (SourceState::Disconnected, Some("broker_unavailable"))
        );
        status.consumes(2);
        assert_eq!(
            (status.state, status.last_error.as_deref()),
            (SourceState::Held, Some("queue `q` is full"))
        );
        status.rests(1, SourceState::Paused);
        assert_eq!((status.state, status.last_error.as_deref()), (SourceState::Consuming, None));
        status.rests(0, SourceState::Paused);
        assert_eq!(status.state, SourceState::Consuming, "the third still takes messages");
        status.rests(2, SourceState::Paused);
        assert_eq!(status.state, SourceState::Paused);
        (0..3).for_each(|consumer| status.rests(consumer, SourceState::Stopped));
        assert_eq!((status.state, status.consuming), (SourceState::Stopped, 0));
    }
}
