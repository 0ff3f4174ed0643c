//! What a process tells of the bridges that it runs.

use std::collections::BTreeSet;

use backstop_core::outbox::SinkTopic;
use serde::{Deserialize, Serialize};

/// How a bridge is, or one direction of it, from the worst to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BridgeState {
    /// Its settings cannot be meant: it was not started.
    Failed,
    /// No process that runs it was heard of lately.
    NotRunning,
    /// Its broker is unavailable, or refuses; it is tried again.
    Disconnected,
    /// It takes no messages, because they could not become jobs now; it goes on by itself.
    Held,
    /// It has not reached its broker yet.
    Starting,
    /// A person paused it.
    Paused,
    /// It runs.
    Running,
}

impl BridgeState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Failed,
        Self::NotRunning,
        Self::Disconnected,
        Self::Held,
        Self::Starting,
        Self::Paused,
        Self::Running,
    ];

    /// The stable word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::NotRunning => "not_running",
            Self::Disconnected => "disconnected",
            Self::Held => "held",
            Self::Starting => "starting",
            Self::Paused => "paused",
            Self::Running => "running",
        }
    }

    /// True when nobody has to do anything: it runs, or a person wanted it not to.
    #[must_use]
    pub const fn is_well(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

/// What is wrong with a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeProblem {
    /// A stable word that machines switch on.
    pub code: String,
    /// What happened, in one sentence and without credentials.
    pub message: String,
}

impl BridgeProblem {
    /// A problem by its code and its sentence.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// What a process tells of the source of a bridge. Counts are those since the process started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The queue of the broker.
    pub queue: String,
    /// The kind of the jobs.
    pub kind: String,
    /// Their queue.
    pub to_queue: String,
    /// Under which name the broker keeps how far it is.
    pub consumer: String,
    /// Connections that take messages at the same time, as its settings say.
    #[serde(default)]
    pub concurrency: u32,
    /// Those of them that take messages now.
    #[serde(default)]
    pub consuming: u32,
    /// How it is.
    pub state: BridgeState,
    /// Messages that it received, each delivery counted.
    pub received: u64,
    /// Jobs that it submitted.
    pub admitted: u64,
    /// Messages that were jobs already.
    pub duplicates: u64,
    /// Messages that went to the invalid channel.
    pub invalid: u64,
    /// Messages that were too large for it, and that the broker keeps.
    pub abandoned: u64,
    /// Messages whose signature was missing or wrong, and that the broker keeps.
    #[serde(default)]
    pub rejected: u64,
    /// Messages that were published to other queues, as they are or answered.
    #[serde(default)]
    pub passed_on: u64,
    /// Messages that nobody wanted any more, because their job elsewhere was over.
    #[serde(default)]
    pub discarded: u64,
    /// Messages that were given back to the broker.
    #[serde(default)]
    pub given_back: u64,
    /// Messages that wait at the broker, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u64>,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<BridgeProblem>,
}

/// What a process tells of the sink of a bridge. Counts are those since the process started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkReport {
    /// The queue of the broker.
    pub queue: String,
    /// What it sends.
    pub of: BTreeSet<SinkTopic>,
    /// How it is. One that waits because another process publishes is running.
    pub state: BridgeState,
    /// True when it is this process that publishes.
    pub publishes: bool,
    /// Messages that were confirmed and could not be removed: they are published again.
    pub repeated: u64,
    /// What is wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<BridgeProblem>,
}

/// What a process tells of one bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeReport {
    /// The bridge.
    pub name: String,
    /// The address of its broker, without credentials.
    pub broker: String,
    /// The source, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceReport>,
    /// The sink, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkReport>,
    /// Why it was not started, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<BridgeProblem>,
}

impl BridgeReport {
    /// A bridge of this broker without a source and a sink yet.
    pub fn new(name: impl Into<String>, broker: impl Into<String>) -> Self {
        Self { name: name.into(), broker: broker.into(), source: None, sink: None, problem: None }
    }

    /// How it is: the worse of its directions. It is paused when all of them are.
    #[must_use]
    pub fn state(&self) -> BridgeState {
        if self.problem.is_some() {
            return BridgeState::Failed;
        }
        let states = [self.source.as_ref().map(|it| it.state), self.sink.as_ref().map(|it| it.state)];
        let worst = states.into_iter().flatten().filter(|state| *state != BridgeState::Paused).min();
        let idle = if states.contains(&Some(BridgeState::Paused)) {
            BridgeState::Paused
        } else {
            BridgeState::Starting
        };
        worst.unwrap_or(idle)
    }

    /// What is wrong with it, the worse direction first.
    #[must_use]
    pub fn problem(&self) -> Option<&BridgeProblem> {
        let source = self.source.as_ref().map(|it| (it.state, it.problem.as_ref()));
        let sink = self.sink.as_ref().map(|it| (it.state, it.problem.as_ref()));
        let mut parts: Vec<_> = [source, sink].into_iter().flatten().collect();
        parts.sort_by_key(|(state, _)| *state);
        self.problem.as_ref().or_else(|| parts.into_iter().find_map(|(_, problem)| problem))
    }

    /// The same but for its counts: what is told at once when it changes.
    #[must_use]
    pub(super) fn without_counts(&self) -> Self {
        let mut same = self.clone();
        same.count(&BridgeCounts::default());
        if let Some(source) = &mut same.source {
            source.backlog = None;
        }
        same
    }

    pub(super) fn counts(&self) -> BridgeCounts {
        let source = self.source.as_ref();
        BridgeCounts {
            received: source.map_or(0, |it| it.received),
            admitted: source.map_or(0, |it| it.admitted),
            duplicates: source.map_or(0, |it| it.duplicates),
            invalid: source.map_or(0, |it| it.invalid),
            abandoned: source.map_or(0, |it| it.abandoned),
            rejected: source.map_or(0, |it| it.rejected),
            passed_on: source.map_or(0, |it| it.passed_on),
            discarded: source.map_or(0, |it| it.discarded),
            given_back: source.map_or(0, |it| it.given_back),
            repeated: self.sink.as_ref().map_or(0, |it| it.repeated),
        }
    }

    pub(super) fn count(&mut self, counts: &BridgeCounts) {
        if let Some(source) = &mut self.source {
            source.received = counts.received;
            source.admitted = counts.admitted;
            source.duplicates = counts.duplicates;
            source.invalid = counts.invalid;
            source.abandoned = counts.abandoned;
            source.rejected = counts.rejected;
            source.passed_on = counts.passed_on;
            source.discarded = counts.discarded;
            source.given_back = counts.given_back;
        }
        if let Some(sink) = &mut self.sink {
            sink.repeated = counts.repeated;
        }
    }
}

/// What bridges have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeCounts {
    /// Messages that were received, each delivery counted.
    pub received: u64,
    /// Jobs that were submitted.
    pub admitted: u64,
    /// Messages that were jobs already.
    pub duplicates: u64,
    /// Messages that went to the invalid channel.
    pub invalid: u64,
    /// Messages that were too large for it, and that the broker keeps.
    pub abandoned: u64,
    /// Messages whose signature was missing or wrong, and that the broker keeps.
    pub rejected: u64,
    /// Messages that were published to other queues, as they are or answered.
    pub passed_on: u64,
    /// Messages that nobody wanted any more, because their job elsewhere was over.
    pub discarded: u64,
    /// Messages that were given back to the broker.
    pub given_back: u64,
    /// Messages that were published again.
    pub repeated: u64,
}

impl BridgeCounts {
    /// Each count by what `join` makes of the two.
    fn joined(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            received: join(self.received, other.received),
            admitted: join(self.admitted, other.admitted),
            duplicates: join(self.duplicates, other.duplicates),
            invalid: join(self.invalid, other.invalid),
            abandoned: join(self.abandoned, other.abandoned),
            rejected: join(self.rejected, other.rejected),
            passed_on: join(self.passed_on, other.passed_on),
            discarded: join(self.discarded, other.discarded),
            given_back: join(self.given_back, other.given_back),
            repeated: join(self.repeated, other.repeated),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.joined(other, u64::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.joined(other, u64::saturating_sub)
    }
}
