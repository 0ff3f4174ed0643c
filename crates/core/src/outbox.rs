//! What sinks are sent (B2, D6): which message a transition makes, under which id, and how messages are kept until they
//! are published.
//!
//! A transition decides nothing about brokers. It writes a document beside itself for each sink that takes what
//! happened, in its own transaction; a publisher sends the messages later and removes the document once the broker has
//! confirmed them. Nothing is made for what no sink takes.

mod key;
mod message;
mod scope;
mod sink;

#[cfg(test)]
mod tests;

pub use key::{OutboxClock, OutboxKey};
pub use message::{HandedOff, MessageBody, OutboxMessage, ResultStatus};
pub use scope::EventScope;
pub use sink::{MOST_SINKS, STREAM_SINK, Sink, SinkError, SinkSort, SinkTopic, Sinks, WEBHOOK_SINKS};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::time::Timestamp;

/// Messages of one document at most.
pub const MOST_TOGETHER: usize = 200;

/// Bytes of messages of one document, unless a single one has more.
pub const MOST_BYTES_TOGETHER: usize = 256 * 1024;

/// Where a document of the outbox goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxPlace {
    /// Messages that wait to be published.
    Waiting,
    /// How many messages were refused because the sink was full. They are counted, not kept.
    Refused,
}

/// A document that a transition writes for a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxDocument {
    /// Which drawer.
    pub place: OutboxPlace,
    /// Its key there: see [`OutboxKey`].
    pub key: String,
    /// What it says.
    pub body: Arc<str>,
}

/// Messages of one commit to one sink, as they are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutboxBatch {
    /// The messages, in the order of what happened.
    pub messages: Vec<OutboxMessage>,
}

impl OutboxBatch {
    /// What is left of a document whose key is this when only some of its messages were published: its key, which keeps
    /// its place, and its body. None when nothing is left, or the key is of another form.
    #[must_use]
    pub fn rest(key: &str, left: Vec<OutboxMessage>) -> Option<(String, Arc<str>)> {
        let (known, first) = (OutboxKey::read(key)?, left.first()?.id.clone());
        let messages = left.len();
        // Texts and numbers have no way to fail.
        let body = serde_json::to_string(&Self { messages: left }).unwrap_or_default();
        let key = OutboxKey { messages, bytes: body.len(), ..known };
        Some((key.text(&first), body.into()))
    }

    /// The messages of a document; none when it cannot be read.
    #[must_use]
    pub fn read(body: &str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }
}

impl Sinks {
    /// The documents that one commit leaves: for each sink what it takes of `messages` and of the events of jobs.
    /// Messages of one commit are one document of a sink, as long as it does not get large.
    ///
    /// Events of a commit that are about no job are left out: whoever hears of them after it writes them, as
    /// [`Sinks::documents_of`] says. Stores on servers know only then whether a failure is like no other before it.
    ///
    /// It must be called while what the commit changes is locked: the order of the keys of one job is then the order
    /// of its commits.
    #[must_use]
    pub fn documents(
        &self,
        messages: &[OutboxMessage],
        events: &[Event],
        now: Timestamp,
    ) -> Vec<OutboxDocument> {
        let of_jobs = events.iter().filter(|event| event.job.is_some());
        self.made(messages, of_jobs.map(|event| (None, event)), now)
    }

    /// When something happens now that no commit writes: its place among all that this process writes.
    #[must_use]
    pub fn stamp(&self, now: Timestamp) -> i64 {
        self.stamps().next(now)
    }

    /// The documents of events that no commit has written, whatever they are about, each with its [stamp](Sinks::stamp)
    /// in their order. A document has the stamp of its last event: it is behind all that came before one of them.
    #[must_use]
    pub fn documents_of(&self, events: &[(i64, Event)]) -> Vec<OutboxDocument> {
        self.made(&[], events.iter().map(|(stamp, event)| (Some(*stamp), event)), Timestamp::MIN)
    }

    fn made<'e>(
        &self,
        messages: &[OutboxMessage],
        events: impl Iterator<Item = (Option<i64>, &'e Event)>,
        now: Timestamp,
    ) -> Vec<OutboxDocument> {
        // Asked before anything is made of an event: most sinks want few of them.
        let told: Vec<_> = events.filter(|(_, event)| self.take_event(event)).collect();
        if messages.is_empty() && told.is_empty() {
            return Vec::new();
        }
        let mut commit = None;
        let mut all = Vec::with_capacity(told.len() + messages.len());
        for (position, (stamp, event)) in told.into_iter().enumerate() {
            let of_commit = || self.stamp(now);
            let at = stamp.unwrap_or_else(|| *commit.get_or_insert_with(of_commit));
            let message = OutboxMessage::event(event, self.node(), at, position);
            all.push(MadeMessage { stamp, ..MadeMessage::new(message, Some(event)) });
        }
        all.extend(messages.iter().map(|message| MadeMessage::new(message.clone(), None)));
        let stamp = |chunk: &[&MadeMessage<'_>]| {
            let told = chunk.last().and_then(|last| last.stamp);
            told.unwrap_or_else(|| self.stamp(now))
        };
        self.iter().flat_map(|sink| sink.documents(&all, &stamp)).collect()
    }
}

/// A message of a commit: written once, whoever takes it.
struct MadeMessage<'a> {
    message: OutboxMessage,
    /// The event that it tells of.
    event: Option<&'a Event>,
    /// The stamp that the event got when it was told; those of a commit have none of their own.
    stamp: Option<i64>,
    /// The message as JSON.
    text: String,
}

impl<'a> MadeMessage<'a> {
    fn new(message: OutboxMessage, event: Option<&'a Event>) -> Self {
        // Text and numbers have no way to fail.
        let text = serde_json::to_string(&message).unwrap_or_default();
        Self { message, event, stamp: None, text }
    }
}

impl Sink {
    fn takes_made(&self, made: &MadeMessage<'_>) -> bool {
        match made.event {
            Some(event) => self.takes_event(event),
            None => self.takes_message(&made.message),
        }
    }

    /// Each document has a stamp of its own: a job may have messages in several, and they stay in order.
    fn documents(
        &self,
        all: &[MadeMessage<'_>],
        stamp: &dyn Fn(&[&MadeMessage<'_>]) -> i64,
    ) -> Vec<OutboxDocument> {
        let mine = || all.iter().filter(|made| self.takes_made(made));
        if self.full {
            let refused: Vec<_> = mine().collect();
            return self.refused(&refused, stamp).into_iter().collect();
        }
        let (mut documents, mut chunk, mut bytes) = (Vec::new(), Vec::new(), 0);
        for made in mine() {
            if chunk.len() >= MOST_TOGETHER || (bytes > 0 && bytes + made.text.len() > MOST_BYTES_TOGETHER) {
                documents.extend(self.waiting(&std::mem::take(&mut chunk), stamp));
                bytes = 0;
            }
            bytes += made.text.len();
            chunk.push(made);
        }
        documents.extend(self.waiting(&chunk, stamp));
        documents
    }

    fn waiting(
        &self,
        chunk: &[&MadeMessage<'_>],
        stamp: &dyn Fn(&[&MadeMessage<'_>]) -> i64,
    ) -> Option<OutboxDocument> {
        let first = &chunk.first()?.message;
        let texts: Vec<&str> = chunk.iter().map(|made| made.text.as_str()).collect();
        // What `OutboxBatch` reads, of parts that are JSON already.
        let body = format!("{{\"messages\":[{}]}}", texts.join(","));
        let (messages, bytes) = (chunk.len(), body.len());
        let key = OutboxKey { sink: self.name.clone(), stamp: stamp(chunk), messages, bytes };
        Some(OutboxDocument { place: OutboxPlace::Waiting, key: key.text(&first.id), body: body.into() })
    }

    fn refused(
        &self,
        all: &[&MadeMessage<'_>],
        stamp: &dyn Fn(&[&MadeMessage<'_>]) -> i64,
    ) -> Option<OutboxDocument> {
        let first = &all.first()?.message;
        let key = OutboxKey { sink: self.name.clone(), stamp: stamp(all), messages: all.len(), bytes: 0 };
        Some(OutboxDocument { place: OutboxPlace::Refused, key: key.text(&first.id), body: Arc::from("1") })
    }
}
