//! Sinks: who takes what.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{EventScope, OutboxClock, OutboxMessage};
use crate::event::Event;
use crate::handoff::{HandOffScope, NAME_CHARS, is_name, of_sink, sink_name};

/// Sinks of one [sort](SinkSort) in one store at most: each transition asks all of them.
pub const MOST_SINKS: usize = 100;

/// What the names of the sinks of webhooks begin with. No other sink can be called like this.
pub const WEBHOOK_SINKS: &str = "webhook:";

/// The sink in which the outbox keeps what all streams of events together are told. No other one can be called so.
pub const STREAM_SINK: &str = "stream:events";

/// Whose a sink is: each sort has a bound of its own, so that many of one leave room for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkSort {
    /// A bridge, a hand-off or an application.
    Named,
    /// A webhook.
    Webhook,
    /// The streams of all processes together.
    Streams,
}

impl SinkSort {
    /// How many sinks of this sort a store may have.
    #[must_use]
    pub const fn most(self) -> usize {
        match self {
            Self::Named | Self::Webhook => MOST_SINKS,
            Self::Streams => 1,
        }
    }

    /// How many sinks of all sorts a store may have.
    #[must_use]
    pub const fn most_of_all() -> usize {
        Self::Named.most() + Self::Webhook.most() + Self::Streams.most()
    }
}

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
    /// Jobs that have succeeded, for another Backstop (B7). Only the sink of a hand-off takes them.
    HandOffs,
}

impl SinkTopic {
    /// Every topic that a bridge can ask for.
    pub const ALL: [Self; 4] = [Self::Results, Self::DeadLetters, Self::Rejects, Self::Events];

    /// Its name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Results => "results",
            Self::DeadLetters => "dead_letters",
            Self::Rejects => "rejects",
            Self::Events => "events",
            Self::HandOffs => "hand_offs",
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
    /// Hand-offs have sinks of their own.
    HandOff,
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
            Self::HandOff => {
                write!(f, "a sink cannot take hand_offs: what is handed off has a table [handoff.NAME]")
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
    /// Whose jobs it takes, when it is the sink of a hand-off (B7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_off: Option<HandOffScope>,
    /// Which events it takes, when it does not take all of those of its kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventScope>,
    /// True while too much waits for it: what comes is counted as refused, and what waits is kept.
    #[serde(skip)]
    pub full: bool,
}

impl Sink {
    /// A sink that takes this of all kinds.
    pub fn new(name: impl Into<Arc<str>>, of: impl IntoIterator<Item = SinkTopic>) -> Self {
        let of = of.into_iter().collect();
        Self { name: name.into(), of, kinds: BTreeSet::new(), hand_off: None, events: None, full: false }
    }

    /// The sink of the hand-off of this name (B7).
    #[must_use]
    pub fn of_hand_off(name: &str, take: HandOffScope) -> Self {
        Self { hand_off: Some(take), ..Self::new(sink_name(name), [SinkTopic::HandOffs]) }
    }

    /// The sink of the webhook with this id (V2).
    #[must_use]
    pub fn of_webhook(id: &str, events: EventScope) -> Self {
        let name = format!("{WEBHOOK_SINKS}{id}");
        Self { events: Some(events), ..Self::new(name, [SinkTopic::Events]) }
    }

    /// The sink of all streams of events together: it takes every event (V2).
    #[must_use]
    pub fn of_streams() -> Self {
        Self::new(STREAM_SINK, [SinkTopic::Events])
    }

    /// The id of the webhook whose sink it is; none when it is another's.
    #[must_use]
    pub fn webhook(&self) -> Option<&str> {
        self.name.strip_prefix(WEBHOOK_SINKS)
    }

    /// Whose it is.
    #[must_use]
    pub fn sort(&self) -> SinkSort {
        match &*self.name {
            STREAM_SINK => SinkSort::Streams,
            _ if self.webhook().is_some() => SinkSort::Webhook,
            _ => SinkSort::Named,
        }
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
        let name = match (&self.hand_off, &self.events, self.sort()) {
            (Some(_), ..) => of_sink(&self.name).unwrap_or_default(),
            (None, Some(_), SinkSort::Webhook) => self.webhook().unwrap_or_default(),
            // The name is a fixed one, and a person's never has a colon.
            (None, None, SinkSort::Streams) => "events",
            (None, ..) => &self.name,
        };
        if !is_name(name) {
            return Err(SinkError::Name(name.chars().take(2 * NAME_CHARS).collect()));
        }
        if self.of.contains(&SinkTopic::HandOffs) != self.hand_off.is_some() {
            return Err(SinkError::HandOff);
        }
        if self.of.is_empty() { Err(SinkError::Nothing) } else { Ok(()) }
    }

    /// True when it takes this of a job of this kind.
    #[must_use]
    pub fn takes(&self, topic: SinkTopic, kind: &str) -> bool {
        self.of.contains(&topic) && (self.kinds.is_empty() || self.kinds.contains(kind))
    }

    /// True when it takes this event.
    #[must_use]
    pub fn takes_event(&self, event: &Event) -> bool {
        let is_of_kind = self.kinds.is_empty() || event.kind().is_some_and(|kind| self.kinds.contains(kind));
        self.of.contains(&SinkTopic::Events)
            && is_of_kind
            && self.events.as_ref().is_none_or(|scope| scope.takes(event))
    }

    /// True when it takes this message, which is none of an event.
    pub(super) fn takes_message(&self, message: &OutboxMessage) -> bool {
        let is_for = self.hand_off.as_ref().is_none_or(|take| take.is_for(&message.queue));
        is_for && self.takes(message.topic(), &message.kind)
    }
}

/// The sinks in force, and the stamps of this process.
#[derive(Debug, Clone, Default)]
pub struct Sinks {
    all: Arc<[Sink]>,
    stamps: Arc<OutboxClock>,
    /// The node that every event names (V1).
    node: Option<Arc<str>>,
}

impl Sinks {
    /// These sinks, with the stamps that this process has used so far.
    #[must_use]
    pub fn new(all: impl Into<Arc<[Sink]>>, stamps: Arc<OutboxClock>) -> Self {
        Self { all: all.into(), stamps, node: None }
    }

    /// Other sinks, with the stamps and the node of these.
    #[must_use]
    pub fn with(&self, all: impl Into<Arc<[Sink]>>) -> Self {
        Self { all: all.into(), ..self.clone() }
    }

    /// These sinks, for what this node does.
    #[must_use]
    pub fn at_node(self, node: Arc<str>) -> Self {
        Self { node: Some(node), ..self }
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

    /// True when a hand-off takes a job that has succeeded (B7).
    #[must_use]
    pub fn hand_off(&self, kind: &str, queue: &str) -> bool {
        self.hand_offs(kind, queue).next().is_some()
    }

    /// The hand-offs that take a job of this kind on this queue.
    pub(super) fn hand_offs<'a>(
        &'a self,
        kind: &'a str,
        queue: &'a str,
    ) -> impl Iterator<Item = &'a HandOffScope> {
        let taking = self.all.iter().filter(|sink| sink.takes(SinkTopic::HandOffs, kind));
        taking.filter_map(|sink| sink.hand_off.as_ref()).filter(|take| take.is_for(queue))
    }

    /// True when one takes this of some kind.
    #[must_use]
    pub fn takes_any(&self, topic: SinkTopic) -> bool {
        self.all.iter().any(|sink| sink.of.contains(&topic))
    }

    /// True when one takes this event.
    #[must_use]
    pub fn take_event(&self, event: &Event) -> bool {
        self.all.iter().any(|sink| sink.takes_event(event))
    }

    /// True when one takes events of this name, of some job.
    #[must_use]
    pub fn take_events_named(&self, name: &str) -> bool {
        let named = |sink: &Sink| sink.events.as_ref().is_none_or(|scope| scope.names(name));
        self.all.iter().any(|sink| sink.of.contains(&SinkTopic::Events) && named(sink))
    }

    pub(super) fn stamps(&self) -> &OutboxClock {
        &self.stamps
    }

    pub(super) const fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref()
    }
}
