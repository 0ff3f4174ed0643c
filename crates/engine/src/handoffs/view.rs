//! How a hand-off stands, as every process sees it.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::handoff::of_sink;
use backstop_store::OutboxBacklog;
use serde::{Deserialize, Serialize};

use super::HandOff;
use super::stored::{HandOffCause, HandOffStop, HandOffTally};
use crate::sinks::stored::{SinkDocuments, StoredSink};

/// How a hand-off is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandOffState {
    /// It publishes what there is.
    Publishing,
    /// The receiver takes nothing now: what waits is backlog, and it goes on by itself.
    Pressure,
    /// The receiver cannot be reached; it goes on by itself.
    Unreachable,
    /// The receiver refused for good: it stands still until a person lets it go on.
    Stopped,
    /// No process publishes it.
    Unserved,
}

impl HandOffState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Publishing, Self::Pressure, Self::Unreachable, Self::Stopped, Self::Unserved];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Publishing => "publishing",
            Self::Pressure => "pressure",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
            Self::Unserved => "unserved",
        }
    }
}

/// A hand-off, and how it stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HandOffView {
    /// What it does.
    pub hand_off: HandOff,
    /// How it is.
    pub state: HandOffState,
    /// What waits for it. Above ten thousand documents the counts are some seconds old, a minute at most.
    pub backlog: OutboxBacklog,
    /// What it has counted, ever.
    pub tally: HandOffTally,
    /// Why it stands still.
    pub stop: Option<HandOffStop>,
    /// How often people let it go on.
    pub retries: u64,
    /// Who did so last.
    pub retried_by: Option<String>,
    /// The node that publishes; none when nobody does.
    pub publisher: Option<String>,
    /// Why the last try failed, if it did.
    pub last_error: Option<String>,
}

impl HandOffView {
    /// None for a sink that is no hand-off.
    pub(super) fn new(stored: &StoredSink, found: &SinkDocuments, backlog: OutboxBacklog) -> Option<Self> {
        let (sink, target) = (&stored.sink, stored.target.as_ref()?);
        let (lease, control) = (found.lease(&sink.name), found.control(&sink.name));
        let take = sink.hand_off.clone();
        let publisher = (lease.until > backlog.now).then_some(lease.node);
        let tally = lease.tally.map(|tally| *tally).unwrap_or_default();
        let state = match (&control.stop, &publisher, &tally.wait) {
            (Some(_), ..) => HandOffState::Stopped,
            (None, None, _) => HandOffState::Unserved,
            (None, Some(_), None) => HandOffState::Publishing,
            (None, Some(_), Some(wait)) => match wait.trouble {
                HandOffCause::Pressure => HandOffState::Pressure,
                HandOffCause::Unreachable => HandOffState::Unreachable,
            },
        };
        let hand_off = HandOff {
            name: of_sink(&sink.name).unwrap_or(&sink.name).to_owned(),
            to: target.to.clone(),
            kinds: sink.kinds.clone(),
            key: take.as_ref().map(|take| take.key.clone()).unwrap_or_default(),
            tenant: take.map(|take| take.tenant).unwrap_or_default(),
            kind: target.kind.clone(),
            queue: target.queue.clone(),
            signed: target.signed,
            fingerprint: target.fingerprint.clone(),
        };
        Some(Self {
            hand_off,
            state,
            backlog,
            tally,
            stop: control.stop,
            retries: control.retries,
            retried_by: control.retried_by,
            publisher,
            last_error: lease.last_error,
        })
    }

    /// How long the oldest job has waited to be handed off.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.backlog.oldest.map_or(Duration::ZERO, |oldest| self.backlog.now.since(oldest))
    }

    /// When it is tried again, while it waits.
    #[must_use]
    pub fn next_try(&self) -> Option<Timestamp> {
        self.tally.wait.as_ref().map(|wait| wait.until)
    }
}
