//! Publishes for one hand-off, one process at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::handoff::{HandOffKey, HandOffRefusal, KeyField, KeySource, sink_name};
use backstop_core::outbox::{HandedOff, MessageBody, OutboxMessage};
use backstop_core::tenant::queue_prefix;
use backstop_store::Error as StoreError;

use super::stored::{self, HandOffCause, HandOffStop, HandOffTally, HandOffWait};
use crate::engine::Backstop;
use crate::sinks::stored::{Part, SinkDocuments, SinkLease, edit};
use crate::sinks::{OutboxPage, OutboxPublisher};

/// What people say of a hand-off, as whoever publishes reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOffStanding {
    /// Why it stands still.
    pub stop: Option<HandOffStop>,
    /// Grows when a person wants it to go on at once.
    pub retries: u64,
}

/// Finished jobs that are to be published.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HandOffPage {
    page: OutboxPage,
}

impl HandOffPage {
    /// The jobs with what is known of them, the oldest first.
    pub fn jobs(&self) -> impl Iterator<Item = (&OutboxMessage, &HandedOff)> {
        self.page.messages.iter().filter_map(|message| match &message.body {
            MessageBody::HandOff(body) => Some((message, &**body)),
            _ => None,
        })
    }

    /// True when nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.page.is_empty()
    }

    /// True when more follow.
    #[must_use]
    pub const fn more(&self) -> bool {
        self.page.more
    }

    /// True when this process cannot read what is to be published: it is sealed with keys that it lacks (E12).
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.page.is_sealed()
    }

    /// The key of a job at the receiver.
    #[must_use]
    pub fn key(publication: &str, fields: &[KeyField], body: &HandedOff) -> HandOffKey {
        let (incoming, result) = (body.incoming.as_str(), body.result.as_ref());
        HandOffKey::new(publication, fields, KeySource { incoming, result, payload: body.payload.as_ref() })
    }

    /// The correlation id of a job as its tenant knows it: the receiver's tenant is another.
    #[must_use]
    pub fn correlation_id(message: &OutboxMessage) -> Option<&str> {
        let id = message.correlation_id.as_deref()?;
        Some(id.strip_prefix(&queue_prefix(&message.tenant)).unwrap_or(id))
    }
}

/// What one request came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandOffRound {
    /// Ids of the messages whose jobs the receiver has made.
    pub admitted: BTreeSet<String>,
    /// Ids of those whose keys it had seen before.
    pub duplicates: BTreeSet<String>,
    /// Those of both that lacked a field of the key.
    pub keyless: u64,
    /// What went wrong with the rest, and in how long it is tried again.
    pub trouble: Option<(HandOffCause, Duration)>,
    /// In words.
    pub problem: Option<String>,
    /// True when this was a refusal for good.
    pub refused: bool,
}

/// Publishes what waits for one hand-off: made by [`super::HandOffs::publisher`].
#[derive(Debug)]
pub struct HandOffPublisher {
    engine: Backstop,
    sink: String,
    outbox: OutboxPublisher,
}

impl HandOffPublisher {
    pub(super) fn new(engine: &Backstop, name: &str) -> Self {
        let sink = sink_name(name);
        let outbox = engine.sinks().publisher(&sink);
        Self { engine: engine.clone(), sink, outbox }
    }

    /// How long it may be silent before another process takes over: 15 seconds unless told.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.outbox = self.outbox.lease(lease);
        self
    }

    /// Ends a page with the document that brings it to so many jobs.
    #[must_use]
    pub fn together(mut self, jobs: usize) -> Self {
        self.outbox = self.outbox.together(jobs);
        self
    }

    /// Takes the lease, or renews it; false while another process has it, or there is no such hand-off.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn hold(&mut self) -> Result<bool, StoreError> {
        self.outbox.hold().await
    }

    /// What people say of it.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn control(&self) -> Result<HandOffStanding, StoreError> {
        let control = SinkDocuments::read(&**self.engine.store()).await?.control(&self.sink);
        Ok(HandOffStanding { stop: control.stop, retries: control.retries })
    }

    /// What is to be published next: the oldest jobs.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn next(&self, documents: usize) -> Result<HandOffPage, StoreError> {
        Ok(HandOffPage { page: self.outbox.next(documents).await? })
    }

    /// Removes what the receiver has, counts what happened and renews the lease, in one transaction; false when another
    /// process has the lease by now: then it publishes the same again.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn settle(&mut self, page: HandOffPage, round: &HandOffRound) -> Result<bool, StoreError> {
        let now = self.engine.store().now().await?;
        let done: BTreeSet<String> = round.admitted.union(&round.duplicates).cloned().collect();
        let waited = |ids: &BTreeSet<String>| -> Vec<u64> {
            let of = |message: &OutboxMessage| {
                u64::try_from(now.since(message.at).as_millis()).unwrap_or(u64::MAX)
            };
            page.page.messages.iter().filter(|message| ids.contains(&message.id)).map(of).collect()
        };
        let waited = waited(&done);
        self.outbox.published_some(page.page, &done, |lease| count(lease, round, &waited, now)).await
    }

    /// Keeps the reason why it stands still, until a person lets it go on.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn stop(&self, refused: HandOffRefusal) -> Result<bool, StoreError> {
        let store = &**self.engine.store();
        let found = SinkDocuments::read(store).await?;
        let mut control = found.control(&self.sink);
        let at = match found.now {
            Some(now) => now,
            None => store.now().await?,
        };
        control.stop = Some(HandOffStop { at, refused });
        let expect = found.expect(Part::HandOff, &self.sink);
        stored::amend(store, vec![edit(Part::HandOff, &self.sink, expect, Some(&control))]).await
    }

    /// Lets another process publish, at once.
    ///
    /// # Errors
    /// When the store is away; then the lease runs out.
    pub async fn release(&mut self) -> Result<(), StoreError> {
        self.outbox.release().await
    }
}

/// Adds a round to what was counted.
fn count(lease: &mut SinkLease, round: &HandOffRound, waited: &[u64], now: Timestamp) {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut tally = lease.tally.take().map(|tally| *tally).unwrap_or_default();
    tally.admitted += number(round.admitted.len());
    tally.duplicates += number(round.duplicates.len());
    tally.keyless += round.keyless;
    if let Some(oldest) = waited.iter().max() {
        tally.latency_ms = tally.latency_ms.saturating_add(waited.iter().sum());
        tally.last_latency_ms = Some(*oldest);
        tally.last_at = Some(now);
    }
    tally.refused += u64::from(round.refused);
    tally.wait = round.trouble.map(|(trouble, pause)| waits(&mut tally, trouble, now, pause));
    lease.last_error.clone_from(&round.problem);
    lease.tally = Some(Box::new(tally));
}

/// The wait that a trouble begins or goes on with.
fn waits(tally: &mut HandOffTally, trouble: HandOffCause, now: Timestamp, pause: Duration) -> HandOffWait {
    match trouble {
        HandOffCause::Pressure => tally.pressure += 1,
        HandOffCause::Unreachable => tally.unreachable += 1,
    }
    let before = tally.wait.take().filter(|wait| wait.trouble == trouble);
    let (since, tries) = before.map_or((now, 0), |wait| (wait.since, wait.tries));
    HandOffWait { trouble, since, until: now.after(pause), tries: tries.saturating_add(1) }
}
