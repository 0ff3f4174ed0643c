//! The documents of bridges: one for each process that runs some, one for each bridge that a person asked something of,
//! and one for each that has run before.

use std::sync::Arc;

use backstop_core::Timestamp;
use backstop_store::{Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::report::{BridgeCounts, BridgeProblem, BridgeReport};

/// Documents that are read at once.
const PAGE: usize = 500;

/// The documents that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BridgePart {
    /// What a process tells, by process.
    Process,
    /// What a person asks, by bridge.
    Control,
    /// The answer to a test, by bridge.
    Answer,
    /// What processes that are gone have told, by bridge.
    Past,
}

impl BridgePart {
    const ALL: [Self; 4] = [Self::Process, Self::Control, Self::Answer, Self::Past];

    const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Control => "control",
            Self::Answer => "answer",
            Self::Past => "past",
        }
    }

    /// Names of bridges and processes have no slash.
    pub(super) fn key(self, name: &str) -> String {
        format!("{}/{name}", self.name())
    }

    fn read(key: &str) -> Option<(Self, &str)> {
        let (part, name) = key.split_once('/')?;
        Self::ALL.into_iter().find(|known| known.name() == part).map(|part| (part, name))
    }
}

/// What a process tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredProcess {
    /// What people call it.
    pub(super) node: String,
    /// When it began to run bridges.
    pub(super) since: Timestamp,
    /// When it told this.
    pub(super) at: Timestamp,
    pub(super) bridges: Vec<BridgeReport>,
}

/// What a person asks of a bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredRequests {
    pub(super) paused: Option<BridgePause>,
    pub(super) test: Option<StoredTest>,
}

/// That a person paused a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgePause {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// That a person wants a bridge to be tested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTest {
    pub(super) id: String,
    pub(super) at: Timestamp,
}

/// How one direction of a bridge did in a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeCheck {
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What is wrong; none when the broker was reached, took the credentials and has the queue.
    pub problem: Option<BridgeProblem>,
}

/// How a bridge did in a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BridgeTest {
    /// The process that tested.
    pub node: String,
    /// Where messages are taken from, if it has a source.
    pub source: Option<BridgeCheck>,
    /// Where messages are sent to, if it has a sink.
    pub sink: Option<BridgeCheck>,
    /// Why nothing could be tested, if nothing could.
    pub problem: Option<BridgeProblem>,
}

impl BridgeTest {
    /// True when nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let well = |check: &Option<BridgeCheck>| check.as_ref().is_none_or(|check| check.problem.is_none());
        self.problem.is_none() && well(&self.source) && well(&self.sink)
    }
}

/// The answer to one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTestAnswer {
    pub(super) id: String,
    pub(super) test: BridgeTest,
}

/// What is known of a bridge from processes that are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredHistory {
    /// What they have done together.
    pub(super) counts: BridgeCounts,
    /// When the last of them was heard of.
    pub(super) at: Timestamp,
    /// What it was called.
    pub(super) node: String,
    /// What it told last.
    pub(super) last: BridgeReport,
}

/// All that is kept of bridges.
#[derive(Debug)]
pub(super) struct BridgeDocuments {
    pub(super) processes: Vec<(String, i64, StoredProcess)>,
    pub(super) controls: Vec<(String, StoredRequests)>,
    pub(super) past: Vec<(String, i64, StoredHistory)>,
    /// The store's clock.
    pub(super) now: Timestamp,
}

impl Default for BridgeDocuments {
    fn default() -> Self {
        let (processes, controls, past) = Default::default();
        Self { processes, controls, past, now: Timestamp::MIN }
    }
}

impl BridgeDocuments {
    /// Reads them: a page, unless there are hundreds of processes.
    pub(super) async fn read(store: &dyn WorkStore) -> Result<Self, StoreError> {
        let mut all = Self::default();
        let mut range = DocumentRange::first(Drawer::Bridges, PAGE);
        loop {
            let found = store.documents(range.clone()).await?;
            all.now = found.now;
            let last = found.items.last().map(|document| document.key.clone());
            found.items.iter().for_each(|document| all.take(document));
            match last {
                Some(last) if found.more => range = range.after(last),
                _ => return Ok(all),
            }
        }
    }

    /// What makes all of this not know a bridge any more.
    pub(super) fn without(&self, bridge: &str) -> Vec<Edit> {
        let none = None::<&StoredTestAnswer>;
        let mut edits = vec![
            edit(BridgePart::Answer, bridge, Expect::Any, none),
            edit(BridgePart::Control, bridge, Expect::Any, none),
        ];
        let past = self.past.iter().filter(|(name, ..)| name == bridge);
        edits.extend(
            past.map(|(name, revision, _)| edit(BridgePart::Past, name, Expect::Revision(*revision), none)),
        );
        for (name, revision, process) in &self.processes {
            let mut left = process.clone();
            left.bridges.retain(|report| report.name != bridge);
            if left.bridges.len() < process.bridges.len() {
                let left = Some(&left).filter(|left| !left.bridges.is_empty());
                edits.push(edit(BridgePart::Process, name, Expect::Revision(*revision), left));
            }
        }
        edits
    }

    fn take(&mut self, document: &Document) {
        let Some((part, name)) = BridgePart::read(&document.key) else { return };
        let (name, revision) = (name.to_owned(), document.revision);
        match part {
            BridgePart::Process => {
                self.processes.extend(parsed(document).map(|body| (name, revision, body)));
            }
            BridgePart::Control => self.controls.extend(parsed(document).map(|body| (name, body))),
            BridgePart::Past => self.past.extend(parsed(document).map(|body| (name, revision, body))),
            BridgePart::Answer => {}
        }
    }
}

/// What people ask of bridges, with the store's clock: one statement, whatever is told of them.
pub(super) async fn controls(
    store: &dyn WorkStore,
) -> Result<(Timestamp, Vec<(String, StoredRequests)>), StoreError> {
    let range = DocumentRange::first(Drawer::Bridges, PAGE).under(BridgePart::Control.key(""));
    let found = store.documents(range).await?;
    let read = |document: &Document| {
        let name = BridgePart::read(&document.key)?.1.to_owned();
        Some((name, parsed(document)?))
    };
    Ok((found.now, found.items.iter().filter_map(read).collect()))
}

/// One document by its name.
pub(super) async fn one<T: DeserializeOwned>(
    store: &dyn WorkStore,
    part: BridgePart,
    name: &str,
) -> Result<Option<(i64, T)>, StoreError> {
    let found = store.named_documents(vec![(Drawer::Bridges, part.key(name))]).await?;
    let document = found.into_iter().next().flatten();
    Ok(document.and_then(|document| Some((document.revision, parsed(&document)?))))
}

/// The change of one document; none removes it.
pub(super) fn edit<T: Serialize>(part: BridgePart, name: &str, expect: Expect, body: Option<&T>) -> Edit {
    // Texts and numbers have no way to fail.
    let body = body.map(|body| Arc::from(serde_json::to_string(body).unwrap_or_default()));
    Edit { drawer: Drawer::Bridges, key: part.key(name), expect, body }
}

/// What another version wrote, and this one cannot read, is left out.
fn parsed<T: DeserializeOwned>(document: &Document) -> Option<T> {
    let read = serde_json::from_str(&document.body);
    read.inspect_err(
        |error| tracing::debug!(key = document.key, %error, "a document of a bridge is unreadable"),
    )
    .ok()
}
