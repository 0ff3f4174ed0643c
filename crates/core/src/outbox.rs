//! What sinks are sent (B2, D6): which message a transition makes, under which id, and how messages are kept until they
//! are published.
//!
//! A transition decides nothing about brokers. It writes a document beside itself for each sink that takes what
//! happened, in its own transaction; a publisher sends the messages later and removes the document once the broker has
//! confirmed them. Nothing is made for what no sink takes.

mod key;
mod message;
mod sink;

#[cfg(test)]
mod tests;

pub use key::{OutboxClock, OutboxKey};
pub use message::{HandedOff, MessageBody, OutboxMessage, ResultStatus};
pub use sink::{MOST_SINKS, Sink, SinkError, SinkTopic, Sinks};

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
    /// It must be called while what the commit changes is locked: the order of the keys of one job is then the order
    /// of its commits.
    #[must_use]
    pub fn documents(
        &self,
        messages: &[OutboxMessage],
        events: &[Event],
        now: Timestamp,
    ) -> Vec<OutboxDocument> {
        let told = self.takes_any(SinkTopic::Events) && events.iter().any(|event| event.job.is_some());
        if messages.is_empty() && !told {
            return Vec::new();
        }
        let stamp = || self.stamps().next(now);
        let commit = stamp();
        let mut all: Vec<OutboxMessage> = Vec::new();
        if told {
            let of_jobs = events.iter().enumerate();
            all.extend(of_jobs.filter_map(|(position, event)| {
                let job = event.job.as_ref()?;
                let taken = self.take(SinkTopic::Events, &job.kind);
                taken.then(|| OutboxMessage::event(event, job, commit, position))
            }));
        }
        all.extend(messages.iter().cloned());
        self.iter().flat_map(|sink| sink.documents(&all, &stamp)).collect()
    }
}

impl Sink {
    /// Each document has a stamp of its own: a job may have messages in several, and they stay in order.
    fn documents(&self, all: &[OutboxMessage], stamp: &dyn Fn() -> i64) -> Vec<OutboxDocument> {
        let mine = || all.iter().filter(|message| self.takes_message(message));
        if self.full {
            let refused = mine().count();
            return mine().next().map(|first| self.refused(first, refused, stamp())).into_iter().collect();
        }
        let (mut documents, mut chunk, mut bytes) = (Vec::new(), Vec::new(), 0);
        for message in mine() {
            // Text and numbers have no way to fail.
            let text = serde_json::to_string(message).unwrap_or_default();
            if chunk.len() >= MOST_TOGETHER || (bytes > 0 && bytes + text.len() > MOST_BYTES_TOGETHER) {
                documents.extend(self.waiting(&std::mem::take(&mut chunk), stamp()));
                bytes = 0;
            }
            bytes += text.len();
            chunk.push((message, text));
        }
        if !chunk.is_empty() {
            documents.extend(self.waiting(&chunk, stamp()));
        }
        documents
    }

    fn waiting(&self, chunk: &[(&OutboxMessage, String)], stamp: i64) -> Option<OutboxDocument> {
        let first = chunk.first()?.0;
        let texts: Vec<&str> = chunk.iter().map(|(_, text)| text.as_str()).collect();
        // What `OutboxBatch` reads, of parts that are JSON already.
        let body = format!("{{\"messages\":[{}]}}", texts.join(","));
        let key = OutboxKey { sink: self.name.clone(), stamp, messages: chunk.len(), bytes: body.len() };
        Some(OutboxDocument { place: OutboxPlace::Waiting, key: key.text(&first.id), body: body.into() })
    }

    fn refused(&self, first: &OutboxMessage, messages: usize, stamp: i64) -> OutboxDocument {
        let key = OutboxKey { sink: self.name.clone(), stamp, messages, bytes: 0 };
        OutboxDocument { place: OutboxPlace::Refused, key: key.text(&first.id), body: Arc::from("1") }
    }
}
