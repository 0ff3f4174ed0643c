//! How much waits for a sink (B2).

use backstop_core::Timestamp;
use backstop_core::outbox::OutboxKey;

/// What waits for a sink, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxBacklog {
    /// That moment, by the store's clock.
    pub now: Timestamp,
    /// Documents: one for each commit, or more for a large one.
    pub documents: u64,
    /// Messages in them.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// When the oldest was written.
    pub oldest: Option<Timestamp>,
}

impl OutboxBacklog {
    /// Nothing waits.
    #[must_use]
    pub const fn empty(now: Timestamp) -> Self {
        Self { now, documents: 0, messages: 0, bytes: 0, oldest: None }
    }

    /// What these documents hold, which are those of one sink.
    pub fn of<'a>(now: Timestamp, keys: impl IntoIterator<Item = &'a str>) -> Self {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let mut backlog = Self::empty(now);
        for key in keys.into_iter().filter_map(OutboxKey::read) {
            backlog.documents += 1;
            backlog.messages += count(key.messages);
            backlog.bytes += count(key.bytes);
            backlog.oldest = Some(backlog.oldest.map_or(key.at(), |oldest| oldest.min(key.at())));
        }
        backlog
    }

    /// Sums that a database has made, with the lowest key.
    #[must_use]
    pub fn summed(now: Timestamp, [documents, messages, bytes]: [i64; 3], first: Option<&str>) -> Self {
        let [documents, messages, bytes] =
            [documents, messages, bytes].map(|sum| u64::try_from(sum).unwrap_or_default());
        let oldest = first.and_then(OutboxKey::read).map(|key| key.at());
        Self { now, documents, messages, bytes, oldest }
    }
}
