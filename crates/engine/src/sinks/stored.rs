//! The documents of sinks: what each takes, how it stands, who publishes for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_core::outbox::{OutboxKey, Sink, SinkSort};
use backstop_store::{
    Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::handoffs::stored::{HandOffNote, HandOffTally, HandOffTarget};

/// Documents that are removed together.
pub(super) const TOGETHER: usize = 200;

/// Documents of sinks that are read at once, and how many pages there can be.
const PAGE: usize = 1_000;
const PAGES: usize = (Part::ALL.len() * SinkSort::most_of_all()).div_ceil(PAGE);

/// How much may wait for a sink. What comes above it is refused and counted: what waits is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkLimits {
    /// Documents: one for each commit, or more for a large one.
    pub documents: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl Default for SinkLimits {
    fn default() -> Self {
        Self { documents: 100_000, bytes: 256 * 1024 * 1024 }
    }
}

/// The documents that one sink may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// What it takes.
    Sink,
    /// How it stands.
    State,
    /// That a person paused it.
    Pause,
    /// Who publishes for it.
    Lease,
    /// Why a hand-off stands still, and that a person wants it to go on (B7).
    HandOff,
}

impl Part {
    pub(crate) const ALL: [Self; 5] = [Self::Sink, Self::State, Self::Pause, Self::Lease, Self::HandOff];

    const fn name(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::State => "state",
            Self::Pause => "pause",
            Self::Lease => "lease",
            Self::HandOff => "handoff",
        }
    }

    pub(super) fn key(self, sink: &str) -> String {
        format!("{}/{sink}", self.name())
    }

    fn read(key: &str) -> Option<(Self, &str)> {
        let (part, sink) = key.split_once('/')?;
        Self::ALL.into_iter().find(|known| known.name() == part).map(|part| (part, sink))
    }
}

/// A sink as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSink {
    #[serde(flatten)]
    pub(crate) sink: Sink,
    pub(crate) limits: SinkLimits,
    /// Where it publishes to, when it is the sink of a hand-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<HandOffTarget>,
}

/// How a sink stands, as whoever leads the counts last measured it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SinkState {
    /// Since when too much waits for it.
    #[serde(default)]
    pub(crate) full_since: Option<Timestamp>,
    /// Messages that were refused meanwhile, ever.
    #[serde(default)]
    pub(crate) refused: u64,
    /// When the last of them was counted.
    #[serde(default)]
    pub(crate) refused_at: Option<Timestamp>,
    /// What waits for it, as it was last counted, while that is so much that counting it takes long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) large: Option<SinkBacklog>,
}

/// A backlog as it was counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SinkBacklog {
    /// When.
    pub(crate) at: Timestamp,
    pub(crate) documents: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Who publishes for a sink. Its revision is the fence: whoever removes messages rests on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SinkLease {
    /// One publisher of one process; a process that starts again has another.
    pub(crate) holder: String,
    /// What people call its node.
    pub(crate) node: String,
    /// Until when, unless it is renewed.
    pub(crate) until: Timestamp,
    /// Messages that were published, ever.
    #[serde(default)]
    pub(crate) published: u64,
    /// Why the last try failed, if it did.
    #[serde(default)]
    pub(crate) last_error: Option<String>,
    /// What a hand-off has counted: written with the removal of what it counts, so that nothing is counted twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tally: Option<Box<HandOffTally>>,
}

impl Default for SinkLease {
    fn default() -> Self {
        Self {
            holder: String::new(),
            node: String::new(),
            until: Timestamp::MIN,
            published: 0,
            last_error: None,
            tally: None,
        }
    }
}

/// All that is kept of sinks.
#[derive(Debug, Default)]
pub(crate) struct SinkDocuments {
    sinks: Vec<StoredSink>,
    others: BTreeMap<(Part, String), Document>,
    /// The store's clock.
    pub(crate) now: Option<Timestamp>,
}

impl SinkDocuments {
    /// Reads them: five small documents for each sink at most, in one page unless there are very many.
    pub(crate) async fn read(store: &dyn WorkStore) -> Result<Self, StoreError> {
        let mut range = DocumentRange::first(Drawer::Sinks, PAGE);
        let mut all = Self::default();
        for _ in 0..PAGES {
            let found = store.documents(range.clone()).await?;
            all.now = Some(found.now);
            let last = found.items.last().map(|last| last.key.clone());
            found.items.into_iter().for_each(|document| all.take(document));
            match last.filter(|_| found.more) {
                Some(last) => range = range.after(last),
                None => break,
            }
        }
        Ok(all)
    }

    fn take(&mut self, document: Document) {
        let Some((part, sink)) = Part::read(&document.key) else { return };
        if part != Part::Sink {
            let place = (part, sink.to_owned());
            self.others.insert(place, document);
            return;
        }
        match serde_json::from_str(&document.body) {
            Ok(sink) => self.sinks.push(sink),
            Err(error) => {
                tracing::warn!(key = document.key, %error, "a stored sink cannot be read and is skipped");
            }
        }
    }

    pub(crate) fn sinks(&self) -> impl Iterator<Item = &StoredSink> {
        self.sinks.iter()
    }

    /// The sinks as transitions ask them.
    pub(crate) fn in_force(&self) -> Vec<Sink> {
        let full = |name: &str| self.state(name).full_since.is_some();
        self.sinks.iter().map(|known| Sink { full: full(&known.sink.name), ..known.sink.clone() }).collect()
    }

    pub(crate) fn is_paused(&self, sink: &str) -> bool {
        self.others.contains_key(&(Part::Pause, sink.to_owned()))
    }

    pub(crate) fn state(&self, sink: &str) -> SinkState {
        self.part(Part::State, sink)
    }

    pub(crate) fn lease(&self, sink: &str) -> SinkLease {
        self.part(Part::Lease, sink)
    }

    pub(crate) fn control(&self, sink: &str) -> HandOffNote {
        self.part(Part::HandOff, sink)
    }

    /// What a change of this document rests on.
    pub(crate) fn expect(&self, part: Part, sink: &str) -> Expect {
        let document = self.others.get(&(part, sink.to_owned()));
        document.map_or(Expect::Absent, |document| Expect::Revision(document.revision))
    }

    fn part<T: DeserializeOwned + Default>(&self, part: Part, sink: &str) -> T {
        let document = self.others.get(&(part, sink.to_owned()));
        document.and_then(|document| serde_json::from_str(&document.body).ok()).unwrap_or_default()
    }
}

/// The change of one document of a sink; none removes it.
pub(crate) fn edit<T: Serialize>(part: Part, sink: &str, expect: Expect, body: Option<&T>) -> Edit {
    // Texts and numbers have no way to fail.
    let body = body.map(|body| Arc::from(serde_json::to_string(body).unwrap_or_default()));
    Edit { drawer: Drawer::Sinks, key: part.key(sink), expect, body }
}

/// Changes one document of a sink; false when it is not as expected.
pub(crate) async fn write<T: Serialize>(
    store: &dyn WorkStore,
    part: Part,
    sink: &str,
    expect: Expect,
    body: Option<&T>,
) -> Result<bool, StoreError> {
    let edits = vec![edit(part, sink, expect, body)];
    Ok(matches!(store.amend(Amend { edits, ..Amend::default() }).await?, Amended::Done { .. }))
}

/// The documents of a sink, in the order in which they are published.
pub(super) fn waiting(drawer: Drawer, sink: &str, limit: usize) -> DocumentRange {
    DocumentRange::first(drawer, limit).under(OutboxKey::prefix(sink))
}

/// The removal of documents together with another change.
pub(super) fn removal(drawer: Drawer, keys: Vec<String>, also: Vec<Edit>) -> Vec<Edit> {
    let gone = |key| Edit { drawer, key, expect: Expect::Any, body: None };
    also.into_iter().chain(keys.into_iter().map(gone)).collect()
}

/// Removes documents together with another change; false when somebody else was faster.
pub(super) async fn remove_with(
    store: &dyn WorkStore,
    drawer: Drawer,
    keys: Vec<String>,
    also: Vec<Edit>,
) -> Result<bool, StoreError> {
    let edits = removal(drawer, keys, also);
    let amended = store.amend(Amend { edits, ..Amend::default() }).await?;
    Ok(matches!(amended, Amended::Done { .. }))
}
