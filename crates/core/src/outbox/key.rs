//! The key of a document of the outbox: whose it is, when it was written, and how much is in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::time::Timestamp;

/// Digits of a stamp.
const STAMP_DIGITS: usize = 20;
/// Digits of the number of messages.
const MESSAGES_DIGITS: usize = 5;
/// Digits of the number of bytes.
const BYTES_DIGITS: usize = 10;

/// What the key of a document tells, so that a backlog is measured by keys alone: no body is read for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxKey {
    /// Whose it is.
    pub sink: Arc<str>,
    /// When it was written, in the order of the commits of each job: microseconds since [`Timestamp::MIN`].
    pub stamp: i64,
    /// How many messages are in it.
    pub messages: usize,
    /// How many bytes its body has.
    pub bytes: usize,
}

impl OutboxKey {
    /// How the keys of a sink begin.
    #[must_use]
    pub fn prefix(sink: &str) -> String {
        format!("{sink}/")
    }

    /// Where the number of messages stands in a key of this sink, counted from one, and its digits.
    #[must_use]
    pub const fn messages_at(sink: &str) -> (usize, usize) {
        (sink.len() + 1 + STAMP_DIGITS + 1 + 1, MESSAGES_DIGITS)
    }

    /// Where the number of bytes stands in a key of this sink, counted from one, and its digits.
    #[must_use]
    pub const fn bytes_at(sink: &str) -> (usize, usize) {
        (Self::messages_at(sink).0 + MESSAGES_DIGITS + 1, BYTES_DIGITS)
    }

    /// The key, with the id of the first message at its end: no other document has it.
    #[must_use]
    pub fn text(&self, first: &str) -> String {
        let Self { sink, stamp, messages, bytes } = self;
        format!("{sink}/{stamp:0STAMP_DIGITS$}-{messages:0MESSAGES_DIGITS$}-{bytes:0BYTES_DIGITS$}-{first}")
    }

    /// Reads a key; none when it is of another form.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (sink, rest) = text.split_once('/')?;
        let mut parts = rest.splitn(4, '-');
        let stamp = parts.next().filter(|digits| digits.len() == STAMP_DIGITS)?.parse().ok()?;
        let messages = parts.next().filter(|digits| digits.len() == MESSAGES_DIGITS)?.parse().ok()?;
        let bytes = parts.next().filter(|digits| digits.len() == BYTES_DIGITS)?.parse().ok()?;
        parts.next()?;
        Some(Self { sink: sink.into(), stamp, messages, bytes })
    }

    /// When it was written, by the store's clock.
    #[must_use]
    pub const fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.stamp.saturating_add(Timestamp::MIN.as_micros()))
    }
}

/// Stamps of the commits of one process: each is later than the one before, also when the clock stands or goes back.
#[derive(Debug, Default)]
pub struct OutboxClock(AtomicI64);

impl OutboxClock {
    /// The stamp of a commit at `now`.
    pub fn next(&self, now: Timestamp) -> i64 {
        let wanted = now.as_micros().saturating_sub(Timestamp::MIN.as_micros());
        let later = |last: i64| wanted.max(last.saturating_add(1));
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
        // The closure always answers.
        later(last.unwrap_or_default())
    }
}
