//! One publisher at a time for each sink: it takes messages in order, and removes them once somebody has confirmed
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::Refusal;
use backstop_core::job::NewJob;
use backstop_core::outbox::{OutboxBatch, OutboxMessage};
use backstop_store::{Amend, Amended, Document, Documents, Drawer, Edit, Error as StoreError, Expect};

use super::stored::{Part, SinkDocuments, SinkLease, edit, removal, waiting};
use crate::parts::EngineParts;
use crate::sealing;

/// How long a publisher may be silent before another process takes over.
const LEASE: Duration = Duration::from_secs(15);

/// Messages and bytes after which a page ends: what is published together is published again together.
const PAGE_MESSAGES: usize = 1_000;
const PAGE_BYTES: usize = 1024 * 1024;

/// Characters of an error that are kept.
const ERROR_CHARS: usize = 500;

/// Documents of the outbox, in the order in which they are to be published.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxPage {
    /// As they are kept: what is sealed in them stays so.
    documents: Vec<Document>,
    /// The messages. What is sealed in the store is opened, as far as this process has the keys; the rest stays as it
    /// is: see [`OutboxPage::is_sealed`].
    pub messages: Vec<OutboxMessage>,
    /// True when more follow.
    pub more: bool,
}

impl OutboxPage {
    /// True when nothing waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// True when this process cannot read what is to be published: it is sealed with keys that it lacks (E12). Then
    /// nothing of it is to be published here; another process may have the keys once the lease is released.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.messages.iter().any(sealing::is_message_sealed)
    }

    fn keys(&self) -> Vec<String> {
        self.documents.iter().map(|document| document.key.clone()).collect()
    }

    /// What becomes of the documents when these messages were published: those that go, and what is left of some.
    fn without(&self, done: &BTreeSet<String>) -> (Vec<String>, Vec<Edit>) {
        let (mut gone, mut rests) = (Vec::new(), Vec::new());
        for document in &self.documents {
            let messages = OutboxBatch::read(&document.body).map_or_else(Vec::new, |batch| batch.messages);
            let all = messages.len();
            let left: Vec<_> = messages.into_iter().filter(|message| !done.contains(&message.id)).collect();
            // One in which there is nothing goes with the first that is done.
            if left.len() == all && all > 0 {
                continue;
            }
            if let Some((key, body)) = OutboxBatch::rest(&document.key, left) {
                let drawer = Drawer::Outbox;
                rests.push(Edit { drawer, key, expect: Expect::Absent, body: Some(body) });
            }
            gone.push(document.key.clone());
        }
        (gone, rests)
    }
}

/// What became of a page whose messages were to become jobs: see [`OutboxPublisher::became`].
#[derive(Debug, Clone, PartialEq)]
pub enum JobsMade {
    /// The jobs are stored, and the page is gone.
    Stored,
    /// Another process publishes by now: nothing was changed here.
    Lost,
    /// The store refuses one of the jobs: nothing was changed.
    Refused {
        /// Which one, counted from zero.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
}

/// Publishes what waits for one sink: made by [`super::OutboxSinks::publisher`].
///
/// Hold the lease, read a page, publish it, say that it is published. Whoever dies in between leaves the messages where
/// they are, and the next holder publishes them again, under the same ids.
#[derive(Debug)]
pub struct OutboxPublisher {
    parts: Arc<EngineParts>,
    sink: Arc<str>,
    holder: String,
    /// The lease as this publisher last wrote it, and its revision.
    held: Option<(SinkLease, i64)>,
    lease: Duration,
    together: usize,
}

impl OutboxPublisher {
    pub(super) fn new(parts: Arc<EngineParts>, sink: &str) -> Self {
        let holder = crate::ids::worker_id().to_string();
        Self { parts, sink: sink.into(), holder, held: None, lease: LEASE, together: PAGE_MESSAGES }
    }

    /// How long it may be silent before another process takes over: 15 seconds unless told.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Ends a page with the document that brings it to so many messages: 1,000 unless told.
    #[must_use]
    pub const fn together(mut self, messages: usize) -> Self {
        self.together = messages;
        self
    }

    /// Takes the lease of the sink, or renews it; false while another process has it, the sink is paused, or there is
    /// no such sink.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn hold(&mut self) -> Result<bool, StoreError> {
        let store = &*self.parts.store;
        let found = SinkDocuments::read(store).await?;
        let now = match found.now {
            Some(now) => now,
            None => store.now().await?,
        };
        let known = found.sinks().any(|known| known.sink.name == self.sink);
        let lease = found.lease(&self.sink);
        let mine = lease.holder == self.holder;
        if !known || found.is_paused(&self.sink) {
            self.release().await?;
            return Ok(false);
        }
        if !mine && lease.until > now {
            self.held = None;
            return Ok(false);
        }
        let expect = found.expect(Part::Lease, &self.sink);
        let node = self.parts.config.node.to_string();
        let wanted = SinkLease { holder: self.holder.clone(), node, until: now.after(self.lease), ..lease };
        let edits = vec![edit(Part::Lease, &self.sink, expect, Some(&wanted))];
        let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
        let revision = match expect {
            Expect::Revision(revision) => revision + 1,
            _ => 1,
        };
        self.held = matches!(amended, Amended::Done { .. }).then_some((wanted, revision));
        Ok(self.held.is_some())
    }

    /// What is to be published next: the oldest messages, those of one job in the order of its commits. Documents that
    /// cannot be read stay where they are and hold up none behind them (C7).
    ///
    /// # Errors
    /// When the store is away.
    pub async fn next(&self, documents: usize) -> Result<OutboxPage, StoreError> {
        let mut range = waiting(Drawer::Outbox, &self.sink, documents);
        loop {
            let found = self.parts.store.documents(range.clone()).await?;
            let more = found.more;
            range.after = found.items.last().map(|last| last.key.clone());
            let page = self.page(found);
            if !page.is_empty() || !more {
                return Ok(page);
            }
        }
    }

    fn page(&self, found: Documents) -> OutboxPage {
        let (mut documents, mut messages, mut bytes, mut more) = (Vec::new(), Vec::new(), 0, found.more);
        for document in found.items {
            if messages.len() >= self.together || bytes >= PAGE_BYTES {
                more = true;
                break;
            }
            bytes += document.body.len();
            match OutboxBatch::read(&document.body) {
                Some(batch) => messages.extend(batch.messages),
                None => {
                    tracing::error!(key = document.key, sink = %self.sink,
                        "a document of the outbox cannot be read; it stays where it is");
                    continue;
                }
            }
            documents.push(document);
        }
        // Whoever set the sink up wants to read it.
        messages.iter_mut().for_each(|one| sealing::open_message(&self.parts.config, one));
        OutboxPage { documents, messages, more }
    }

    /// Removes what was published, and renews the lease; false when another process has it by now: then it publishes
    /// the same again.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn published(&mut self, page: OutboxPage) -> Result<bool, StoreError> {
        let count = u64::try_from(page.messages.len()).unwrap_or(u64::MAX);
        self.change(page.keys(), Vec::new(), |lease| {
            lease.published = lease.published.saturating_add(count);
            lease.last_error = None;
        })
        .await
    }

    /// Stores the jobs that were made of the first messages of a page, removes these and renews the lease, in one
    /// transaction: each message becomes what was made of it once, whoever dies when.
    ///
    /// # Errors
    /// When the store is away: it may have happened or not, and the next page tells.
    pub async fn became(
        &mut self,
        page: &OutboxPage,
        first: usize,
        jobs: Vec<NewJob>,
    ) -> Result<JobsMade, StoreError> {
        let Some((lease, revision)) = self.held.take() else { return Ok(JobsMade::Lost) };
        let done: BTreeSet<String> =
            page.messages.iter().take(first).map(|message| message.id.clone()).collect();
        let mut after = lease.clone();
        after.published = after.published.saturating_add(u64::try_from(done.len()).unwrap_or(u64::MAX));
        after.last_error = None;
        after.until = self.parts.store.now().await?.after(self.lease);
        self.parts.circuits.own.mark(&*self.parts.store, &jobs).await;
        let renewed = edit(Part::Lease, &self.sink, Expect::Revision(revision), Some(&after));
        let (gone, rests) = page.without(&done);
        let edits = removal(Drawer::Outbox, gone, std::iter::once(renewed).chain(rests).collect());
        match self.parts.store.amend(Amend { edits, jobs, ..Amend::default() }).await? {
            Amended::Done { .. } => {
                self.held = Some((after, revision + 1));
                Ok(JobsMade::Stored)
            }
            Amended::Conflict { .. } => Ok(JobsMade::Lost),
            Amended::Refused { index, refusal } => {
                self.held = Some((lease, revision));
                Ok(JobsMade::Refused { index, refusal })
            }
        }
    }

    /// Removes those of a page's messages that were published, and renews the lease: what is left of a document keeps
    /// its place. False when another process has the lease by now: then it publishes the same again.
    pub(crate) async fn published_some(
        &mut self,
        page: OutboxPage,
        done: &BTreeSet<String>,
        change: impl FnOnce(&mut SinkLease),
    ) -> Result<bool, StoreError> {
        let (gone, rests) = page.without(done);
        let count = u64::try_from(done.len()).unwrap_or(u64::MAX);
        self.change(gone, rests, |lease| {
            lease.published = lease.published.saturating_add(count);
            change(lease);
        })
        .await
    }

    /// Keeps why nothing was published, for whoever looks at the sink.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn failed(&mut self, problem: &str) -> Result<bool, StoreError> {
        let problem: String = problem.chars().take(ERROR_CHARS).collect();
        self.change(Vec::new(), Vec::new(), |lease| lease.last_error = Some(problem)).await
    }

    /// Lets another process publish, at once.
    ///
    /// # Errors
    /// When the store is away; then the lease runs out.
    pub async fn release(&mut self) -> Result<(), StoreError> {
        if self.held.is_some() {
            self.change(Vec::new(), Vec::new(), |lease| lease.until = backstop_core::Timestamp::MIN).await?;
            self.held = None;
        }
        Ok(())
    }

    async fn change(
        &mut self,
        keys: Vec<String>,
        rests: Vec<Edit>,
        change: impl FnOnce(&mut SinkLease),
    ) -> Result<bool, StoreError> {
        let Some((mut lease, revision)) = self.held.take() else { return Ok(false) };
        let store = &*self.parts.store;
        lease.until = store.now().await?.after(self.lease);
        change(&mut lease);
        let expect = Expect::Revision(revision);
        let renewed = edit(Part::Lease, &self.sink, expect, Some(&lease));
        let also = std::iter::once(renewed).chain(rests).collect();
        let edits = removal(Drawer::Outbox, keys, also);
        let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
        let done = matches!(amended, Amended::Done { .. });
        self.held = done.then_some((lease, revision + 1));
        Ok(done)
    }
}
