//! Sinks (B2, D6): who is sent results, dead letters, rejects and events of jobs, what waits for them, and who
//! publishes it.
//!
//! An application that must miss no event has a sink of its own, and is its publisher: [`EventSubscription`].
//!
//! A sink is a document of the store that every process knows. What it takes is written into the outbox by the
//! transaction of the transition; [`OutboxPublisher`] takes it from there, one process at a time for each sink. Knows
//! no broker: what a message becomes on its way out is the business of `backstop-bridges`.

pub(crate) mod cache;
pub(crate) mod gathered;
pub(crate) mod measure;
mod publisher;
pub(crate) mod stored;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use backstop_core::Timestamp;
pub use backstop_core::outbox::{
    EventScope, HandedOff, MOST_SINKS, MessageBody, OutboxMessage, ResultStatus, Sink, SinkError, SinkSort,
    SinkTopic, WEBHOOK_SINKS,
};
use backstop_store::{
    Amend, Amended, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Observer as _, OutboxBacklog,
};

pub use publisher::{JobsMade, OutboxPage, OutboxPublisher};
pub use stored::SinkLimits;
pub use subscription::{EventSubscription, SUBSCRIPTION_PREFIX};

use self::stored::{Part, SinkDocuments, StoredSink};
use crate::engine::Backstop;
use crate::parts::EngineParts;

/// A sink, and how it stands.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SinkView {
    /// What it takes.
    pub sink: Sink,
    /// How much may wait for it.
    pub limits: SinkLimits,
    /// True when nobody publishes for it, because a person said so.
    pub paused: bool,
    /// What waits for it. Above ten thousand documents the counts are some seconds old, a minute at most.
    pub backlog: OutboxBacklog,
    /// Messages that were refused because too much waited, ever.
    pub refused: u64,
    /// When the last of them was counted.
    pub refused_at: Option<Timestamp>,
    /// Since when too much waits; none when it does not.
    pub full_since: Option<Timestamp>,
    /// Messages that were published, ever: confirmed by the broker and removed.
    pub published: u64,
    /// The node that publishes; none when nobody does.
    pub publisher: Option<String>,
    /// Why the last try to publish failed, if it did.
    pub last_error: Option<String>,
}

impl SinkView {
    /// How long the oldest message has waited.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.backlog.oldest.map_or(Duration::ZERO, |oldest| self.backlog.now.since(oldest))
    }
}

/// Why a sink was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkProblem {
    /// It cannot be meant like this.
    #[error(transparent)]
    Invalid(#[from] SinkError),
    /// It takes rejects, and none are stored that could be published.
    #[error(
        "sink `{sink}` takes rejects, which are published from the store, and they go to `{reject_sink}` instead: keep \
         rejects in the store, or leave them out of what the sink takes"
    )]
    RejectsNotStored {
        /// The sink.
        sink: String,
        /// Where rejects go.
        reject_sink: String,
    },
    /// There are too many.
    #[error("there are {MOST_SINKS} sinks already; remove some before adding another")]
    TooMany,
    /// Something else that was to change with it is not as expected.
    #[error("somebody else has changed it meanwhile; look at it and try again")]
    Changed,
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The sinks of a store: see [`Backstop::sinks`].
#[derive(Debug, Clone, Copy)]
pub struct OutboxSinks<'a> {
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// Sinks: who is sent results, dead letters, rejects and events of jobs (B2).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::sinks::{OutboxSinks, Sink, SinkLimits, SinkTopic, SinkView};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let sinks: OutboxSinks<'_> = engine.sinks();
    /// sinks.set(&Sink::new("billing", [SinkTopic::Results]), SinkLimits::default()).await?;
    /// let views: Vec<SinkView> = sinks.list().await?;
    /// assert_eq!((views.len(), views[0].backlog.messages), (1, 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn sinks(&self) -> OutboxSinks<'_> {
        OutboxSinks { parts: &self.parts }
    }
}

impl OutboxSinks<'_> {
    /// Keeps a sink, whether it is there or not. Messages are left for it from now on by this process, and within five
    /// seconds by every other one that has a worker, a server or maintenance.
    ///
    /// # Errors
    /// When it takes nothing or its name cannot be one, it takes rejects and they go elsewhere than to the store, there
    /// are too many, or the store is away.
    pub async fn set(self, sink: &Sink, limits: SinkLimits) -> Result<(), SinkProblem> {
        self.set_with(sink, limits, Vec::new()).await
    }

    /// Keeps a sink together with documents of whoever it belongs to: there is never one without the other.
    ///
    /// # Errors
    /// As [`OutboxSinks::set`], and when one of the documents is not as expected.
    pub async fn set_with(self, sink: &Sink, limits: SinkLimits, also: Vec<Edit>) -> Result<(), SinkProblem> {
        self.keep(StoredSink { sink: sink.clone(), limits, target: None }, also).await.map(drop)
    }

    /// Keeps a sink as it is stored, and makes these changes with it; answers what was known of it before.
    pub(crate) async fn keep(
        self,
        wanted: StoredSink,
        also: Vec<Edit>,
    ) -> Result<Option<StoredSink>, SinkProblem> {
        wanted.sink.check()?;
        let rejects = &self.parts.config.rejects;
        if rejects.sink.is_some() && wanted.sink.of.contains(&SinkTopic::Rejects) {
            let (sink, reject_sink) = (wanted.sink.name.to_string(), rejects.sink_name().to_owned());
            return Err(SinkProblem::RejectsNotStored { sink, reject_sink });
        }
        let store = &*self.parts.store;
        let found = SinkDocuments::read(store).await?;
        let known = found.sinks().find(|known| known.sink.name == wanted.sink.name).cloned();
        let sort = wanted.sink.sort();
        let beside = || found.sinks().filter(|known| known.sink.sort() == sort).count();
        if known.is_none() && beside() >= sort.most() {
            return Err(SinkProblem::TooMany);
        }
        let mut edits = also;
        if known.as_ref() != Some(&wanted) {
            edits.push(stored::edit(Part::Sink, &wanted.sink.name, Expect::Any, Some(&wanted)));
        }
        if !edits.is_empty() {
            let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
            if !matches!(amended, Amended::Done { .. }) {
                return Err(SinkProblem::Changed);
            }
        }
        self.parts.sinks.refresh(store, &self.parts.events).await?;
        Ok(known)
    }

    /// Removes a sink and all that waits for it. Answers how many messages that were; none when there is no such sink.
    ///
    /// # Errors
    /// When the store is away; then do it again.
    pub async fn remove(self, name: &str) -> Result<Option<u64>, StoreError> {
        let known =
            SinkDocuments::read(&*self.parts.store).await?.sinks().any(|known| *known.sink.name == *name);
        if known { self.remove_with(name, Vec::new()).await.map(Some) } else { Ok(None) }
    }

    /// Removes a sink, whether it is there or not, together with documents of whoever it belongs to, and then all that
    /// waits for it. Answers how many messages that were.
    ///
    /// # Errors
    /// When the store is away; then do it again.
    pub async fn remove_with(self, name: &str, also: Vec<Edit>) -> Result<u64, StoreError> {
        let store = &*self.parts.store;
        let waited = store.outbox_backlog(name).await?.messages;
        // All at once: nobody would look for what is left of a sink that is not there.
        let gone = |part| stored::edit::<StoredSink>(part, name, Expect::Any, None);
        let edits = Part::ALL.into_iter().map(gone).chain(also).collect();
        store.amend(Amend { edits, ..Amend::default() }).await?;
        self.parts.sinks.refresh(store, &self.parts.events).await?;
        for drawer in [Drawer::Outbox, Drawer::OutboxRefused] {
            measure::clear(store, drawer, name, Timestamp::MAX).await?;
        }
        Ok(waited)
    }

    /// Stops or resumes publishing for a sink, in every process. Messages are left for it all the same.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn pause(self, name: &str, paused: bool) -> Result<(), StoreError> {
        let body = paused.then_some(&paused);
        stored::write(&*self.parts.store, Part::Pause, name, Expect::Any, body).await?;
        Ok(())
    }

    /// Every sink of a bridge or an application and how it stands, by name. Others are listed apart: see
    /// [`Backstop::handoffs`] and [`OutboxSinks::webhooks`].
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<SinkView>, StoreError> {
        self.views(|sink| sink.sort() == SinkSort::Named).await
    }

    /// The sink of every webhook and how it stands.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn webhooks(self) -> Result<Vec<SinkView>, StoreError> {
        self.views(|sink| sink.sort() == SinkSort::Webhook).await
    }

    /// The names of those sinks whose names begin like this and for which something waits. It costs a small read for
    /// each of them, and one more.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn waiting(self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let mut range = DocumentRange::first(Drawer::Outbox, 1).under(prefix);
        let mut names = Vec::new();
        while let Some(document) = self.parts.store.documents(range.clone()).await?.items.pop() {
            let name = document.key.split('/').next().unwrap_or_default().to_owned();
            // Above every key of this sink.
            range = range.after(format!("{name}/\u{10ffff}"));
            names.push(name);
        }
        Ok(names)
    }

    /// The sinks as this process last read them, five seconds ago at most where there is a worker, a server or
    /// maintenance.
    #[must_use]
    pub fn known(self) -> Vec<Sink> {
        self.parts.events.sinks().iter().cloned().collect()
    }

    /// Events that no commit makes and that this process could not write for the sinks that want them: too many came at
    /// once, or the store was away for too long.
    #[must_use]
    pub fn lost(self) -> u64 {
        self.parts.events.gathered().lost()
    }

    async fn views(self, wanted: impl Fn(&Sink) -> bool) -> Result<Vec<SinkView>, StoreError> {
        let store = &*self.parts.store;
        let found = SinkDocuments::read(store).await?;
        let mut views = Vec::new();
        let sinks = found.sinks().filter(|known| known.target.is_none() && wanted(&known.sink));
        for StoredSink { sink, limits, .. } in sinks {
            let backlog = measure::backlog(store, &found, &sink.name).await?;
            let (state, lease) = (found.state(&sink.name), found.lease(&sink.name));
            let live = lease.until > backlog.now;
            views.push(SinkView {
                sink: Sink { full: state.full_since.is_some(), ..sink.clone() },
                limits: *limits,
                paused: found.is_paused(&sink.name),
                backlog,
                refused: state.refused,
                refused_at: state.refused_at,
                full_since: state.full_since,
                published: lease.published,
                publisher: live.then(|| lease.node.clone()),
                last_error: lease.last_error.clone(),
            });
        }
        Ok(views)
    }

    /// One sink and how it stands; none when there is no such sink.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn show(self, name: &str) -> Result<Option<SinkView>, StoreError> {
        Ok(self.views(|known| *known.name == *name).await?.pop())
    }

    /// Publishes what waits for a sink, once it holds its lease.
    #[must_use]
    pub fn publisher(self, name: &str) -> OutboxPublisher {
        OutboxPublisher::new(self.parts.clone(), name)
    }
}
