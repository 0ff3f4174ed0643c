//! Hand-offs (B7): finished jobs that another Backstop goes on with, how they stand, and who publishes them.
//!
//! A hand-off is a sink of its own kind. What it takes is written into the outbox by the transaction of the ending;
//! [`HandOffPublisher`] takes it from there, one process at a time. How a hand-off stands is kept in the store, so
//! every process shows the same. Knows no HTTP: who posts is the business of `backstop-bridges`.

mod publisher;
pub(crate) mod stored;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use backstop_core::handoff::{
    HandOffKey, HandOffRefusal, HandOffScope, ItemAnswer, KeyField, KeyFieldError, KeyOrigin, KeySource,
    RequestAnswer, publication_of,
};
use backstop_core::handoff::{is_name, sink_name};
use backstop_core::tenant::{NO_TENANT, Tenant};
use backstop_store::Error as StoreError;

pub use publisher::{HandOffPage, HandOffPublisher, HandOffRound, HandOffStanding};
pub use stored::{HandOffCause, HandOffStop, HandOffTally, HandOffWait};
pub use view::{HandOffState, HandOffView};

use self::stored::{HandOffNote, HandOffTarget};
use crate::engine::Backstop;
use crate::parts::EngineParts;
use crate::sinks::measure;
use crate::sinks::stored::{Part, SinkDocuments, StoredSink, edit};
use crate::sinks::{Sink, SinkLimits, SinkProblem};

/// How often a change by a person is tried again when the publisher writes at the same time.
const TRIES: usize = 20;

/// A hand-off, as every process of the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOff {
    /// The publication: what it is called at both ends.
    pub name: String,
    /// Where the receiver is, as it may be shown.
    pub to: String,
    /// The kinds of the jobs that it takes; of all when there are none.
    pub kinds: BTreeSet<Arc<str>>,
    /// The fields that the key is made of; none for the incoming id.
    pub key: Vec<KeyField>,
    /// Whose jobs it takes: a tenant, or `default` for those of none.
    pub tenant: String,
    /// The kind of the jobs at the receiver.
    pub kind: String,
    /// Their queue there; what is usual there unless said.
    pub queue: Option<String>,
    /// Whether its requests are signed.
    pub signed: bool,
    /// Changes with whatever a person can change, also with what is not kept here: a hand-off that stood still starts
    /// again when it does.
    pub fingerprint: String,
}

impl HandOff {
    /// A hand-off of all kinds to jobs of the kind that it is called like.
    pub fn new(name: impl Into<String>, to: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            kind: name.clone(),
            name,
            to: to.into(),
            kinds: BTreeSet::new(),
            key: Vec::new(),
            tenant: NO_TENANT.to_owned(),
            queue: None,
            signed: false,
            fingerprint: String::new(),
        }
    }

    /// Takes jobs of this kind, and of no others but those named like it.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<Arc<str>>) -> Self {
        self.kinds.insert(kind.into());
        self
    }

    /// Makes the key of these fields.
    #[must_use]
    pub fn key(mut self, fields: impl IntoIterator<Item = KeyField>) -> Self {
        self.key.extend(fields);
        self
    }

    /// Checks that it can be meant.
    ///
    /// # Errors
    /// [`HandOffProblem`].
    pub fn check(&self) -> Result<(), HandOffProblem> {
        if !is_name(&self.name) {
            return Err(HandOffProblem::Name(self.name.chars().take(100).collect()));
        }
        if self.tenant != NO_TENANT {
            let checked = self.tenant.parse::<Tenant>();
            checked.map_err(|problem| HandOffProblem::Tenant(problem.to_string()))?;
        }
        Ok(())
    }

    fn stored(&self) -> StoredSink {
        let take = HandOffScope { tenant: self.tenant.clone(), key: self.key.clone() };
        let sink = Sink { kinds: self.kinds.clone(), ..Sink::of_hand_off(&self.name, take) };
        let target = HandOffTarget {
            to: self.to.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            signed: self.signed,
            fingerprint: self.fingerprint.clone(),
        };
        // Nothing is refused: who is handed work must get all of it, and the jobs themselves are in the store too.
        let limits = SinkLimits { documents: u64::MAX, bytes: u64::MAX };
        StoredSink { sink, limits, target: Some(target) }
    }
}

/// Why a hand-off was not kept or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandOffProblem {
    /// Its name cannot stand in keys.
    #[error("`{0}` cannot be the name of a hand-off: use 1 to 64 of a-z, A-Z, 0-9, `.`, `_` and `-`")]
    Name(String),
    /// Whose jobs it takes is no tenant.
    #[error("{0}")]
    Tenant(String),
    /// There is none of this name.
    #[error("there is no hand-off `{0}`")]
    Unknown(String),
    /// A process publishes it.
    #[error("hand-off `{name}` is published by {node}")]
    Running {
        /// The hand-off.
        name: String,
        /// The process.
        node: String,
    },
    /// Others kept changing it at the same time.
    #[error("hand-off `{0}` keeps being changed by others: try again in a moment")]
    Changing(String),
    /// It cannot be a sink of this store.
    #[error(transparent)]
    Sink(#[from] SinkProblem),
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The hand-offs of a store: see [`Backstop::handoffs`].
#[derive(Debug, Clone, Copy)]
pub struct HandOffs<'a> {
    parts: &'a Arc<EngineParts>,
    engine: &'a Backstop,
}

impl Backstop {
    /// Hand-offs: finished jobs that another Backstop goes on with (B7).
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::handoffs::{HandOff, HandOffView};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let paid = HandOff::new("paid", "https://warehouse.example").kind("charge");
    /// engine.handoffs().set(&paid).await?;
    /// let views: Vec<HandOffView> = engine.handoffs().list().await?;
    /// assert_eq!((views.len(), views[0].backlog.messages), (1, 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn handoffs(&self) -> HandOffs<'_> {
        HandOffs { parts: &self.parts, engine: self }
    }
}

impl HandOffs<'_> {
    /// Keeps a hand-off, whether it is there or not. Jobs that succeed are left for it from now on by this process, and
    /// within five seconds by every other one. One that stood still goes on when anything about it is new.
    ///
    /// # Errors
    /// When its name cannot be one, there are too many, or the store is away.
    pub async fn set(self, hand_off: &HandOff) -> Result<(), HandOffProblem> {
        hand_off.check()?;
        let wanted = hand_off.stored();
        let sink = wanted.sink.name.clone();
        let known = self.engine.sinks().keep(wanted.clone(), Vec::new()).await?;
        if known.is_some_and(|known| known != wanted) {
            self.control(&sink, &hand_off.name, |control| control.stop = None).await?;
        }
        Ok(())
    }

    /// Every hand-off and how it stands, by name.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<HandOffView>, StoreError> {
        let store = &*self.parts.store;
        let found = SinkDocuments::read(store).await?;
        let mut waiting = Vec::new();
        for stored in found.sinks().filter(|stored| stored.target.is_some()) {
            waiting.push((stored, measure::backlog(store, &found, &stored.sink.name).await?));
        }
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        // Read after what waits: whatever has left the backlog is counted in what is shown beside it.
        let standing = SinkDocuments::read(store).await?;
        let view = |(stored, backlog)| HandOffView::new(stored, &standing, backlog);
        Ok(waiting.into_iter().filter_map(view).collect())
    }

    /// One hand-off and how it stands; none when there is no such one.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn show(self, name: &str) -> Result<Option<HandOffView>, StoreError> {
        Ok(self.list().await?.into_iter().find(|view| view.hand_off.name == name))
    }

    /// Lets a hand-off go on at once, whether it stands still or waits for its next try.
    ///
    /// # Errors
    /// When there is none of this name, or the store is away.
    pub async fn retry(self, name: &str, by: &str) -> Result<HandOffView, HandOffProblem> {
        let unknown = || HandOffProblem::Unknown(name.to_owned());
        self.show(name).await?.ok_or_else(unknown)?;
        let by: String = by.chars().take(200).collect();
        self.control(&sink_name(name), name, move |control| {
            control.stop = None;
            control.retries = control.retries.saturating_add(1);
            control.retried_by = Some(by.clone());
        })
        .await?;
        self.show(name).await?.ok_or_else(unknown)
    }

    /// Removes a hand-off that no process publishes, with all that waits for it. Answers how many jobs that were. A
    /// process whose settings still have it keeps it again when it starts.
    ///
    /// # Errors
    /// When there is none of this name, a process publishes it, or the store is away; then do it again.
    pub async fn remove(self, name: &str) -> Result<u64, HandOffProblem> {
        let unknown = || HandOffProblem::Unknown(name.to_owned());
        let view = self.show(name).await?.ok_or_else(unknown)?;
        if let Some(node) = view.publisher {
            return Err(HandOffProblem::Running { name: name.to_owned(), node: node.to_string() });
        }
        self.engine.sinks().remove(&sink_name(name)).await?.ok_or_else(unknown)
    }

    /// Publishes what waits for a hand-off, once it holds its lease.
    #[must_use]
    pub fn publisher(self, name: &str) -> HandOffPublisher {
        HandOffPublisher::new(self.engine, name)
    }

    /// Changes what people say of a hand-off, whoever writes at the same time.
    async fn control(
        self,
        sink: &str,
        name: &str,
        change: impl Fn(&mut HandOffNote),
    ) -> Result<(), HandOffProblem> {
        let store = &*self.parts.store;
        for _ in 0..TRIES {
            let found = SinkDocuments::read(store).await?;
            let mut control = found.control(sink);
            change(&mut control);
            let expect = found.expect(Part::HandOff, sink);
            if stored::amend(store, vec![edit(Part::HandOff, sink, expect, Some(&control))]).await? {
                return Ok(());
            }
        }
        Err(HandOffProblem::Changing(name.to_owned()))
    }
}
