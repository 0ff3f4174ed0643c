//! Sinks: who takes what.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::OutboxClock;

/// Sinks of one store at most: each transition asks all of them.
pub const MOST_SINKS: usize = 100;

/// Characters of the name of a sink: it stands in keys.
const NAME_CHARS: usize = 64;

/// What a sink can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SinkTopic {
    /// How jobs have ended: what they returned, or why they are dead.
    Results,
    /// Dead letters, as the envelope has them (D1).
    DeadLetters,
    /// Items that runs could not handle (W9).
    Rejects,
    /// What happens to jobs (V1).
    Events,
}

impl SinkTopic {
    /// Every topic.
    pub const ALL: [Self; 4] = [Self::Results, Self::DeadLetters, Self::Rejects, Self::Events];

    /// Its name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Results => "results",
            Self::DeadLetters => "dead_letters",
            Self::Rejects => "rejects",
            Self::Events => "events",
        }
    }
}

/// Why a sink cannot be meant like this.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkError {
    /// Its name cannot stand in keys.
    Name(String),
    /// It takes nothing.
    Nothing,
}

impl std::fmt::Display for SinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "`{name}` cannot be the name of a sink: use 1 to {NAME_CHARS} of a-z, A-Z, 0-9, `.`, `_` and `-`"
            ),
            Self::Nothing => {
                write!(
                    f,
                    "the sink takes nothing: name at least one of results, dead_letters, rejects, events"
                )
            }
        }
    }
}

impl std::error::Error for SinkError {}

/// Somebody who takes messages, as every process of the store knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sink {
    /// What it is called: the name of its bridge.
    pub name: Arc<str>,
    /// What it takes.
    pub of: BTreeSet<SinkTopic>,
    /// The kinds of the jobs whose messages it takes; of all when there are none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub kinds: BTreeSet<Arc<str>>,
    /// True while too much waits for it: what comes is counted as refused, and what waits is kept.
    #[serde(skip)]
    pub full: bool,
}

impl Sink {
    /// A sink that takes this of all kinds.
    pub fn new(name: impl Into<Arc<str>>, of: impl IntoIterator<Item = SinkTopic>) -> Self {
        Self { name: name.into(), of: of.into_iter().collect(), kinds: BTreeSet::new(), full: false }
    }

    /// Takes jobs of this kind, and of no others but those named like it.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.kinds.insert(kind.into());
        self
    }

    /// Checks that it can be meant.
    ///
    /// # Errors
    /// [`SinkError`].
    pub fn check(&self) -> Result<(), SinkError> {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        if self.name.is_empty() || self.name.len() > NAME_CHARS || !self.name.chars().all(fits) {
            return Err(SinkError::Name(self.name.chars().take(2 * NAME_CHARS).collect()));
        }
        if self.of.is_empty() { Err(SinkError::Nothing) } else { Ok(()) }
    }

    /// True when it takes this of a job of this kind.
    #[must_use]
    pub fn takes(&self, topic: SinkTopic, kind: &str) -> bool {
        self.of.contains(&topic) && (self.kinds.is_empty() || self.kinds.contains(kind))
    }
}

/// The sinks in force, and the stamps of this process.
#[derive(Debug, Clone, Default)]
pub struct Sinks {
    all: Arc<[Sink]>,
    stamps: Arc<OutboxClock>,
}

impl Sinks {
    /// These sinks, with the stamps that this process has used so far.
    #[must_use]
    pub fn new(all: impl Into<Arc<[Sink]>>, stamps: Arc<OutboxClock>) -> Self {
        Self { all: all.into(), stamps }
    }

    /// Other sinks, with the stamps of these.
    #[must_use]
    pub fn with(&self, all: impl Into<Arc<[Sink]>>) -> Self {
        Self { all: all.into(), stamps: self.stamps.clone() }
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The sinks.
    pub fn iter(&self) -> impl Iterator<Item = &Sink> {
        self.all.iter()
    }

    /// True when one takes this of a job of this kind.
    #[must_use]
    pub fn take(&self, topic: SinkTopic, kind: &str) -> bool {
        self.all.iter().any(|sink| sink.takes(topic, kind))
    }

    /// True when one takes this of some kind.
    #[must_use]
    pub fn takes_any(&self, topic: SinkTopic) -> bool {
        self.all.iter().any(|sink| sink.of.contains(&topic))
    }

    pub(super) fn stamps(&self) -> &OutboxClock {
        &self.stamps
    }
}
