//! How a process tells of the bridges that it runs, and hears what people ask of them.
//!
//! One small document for each process, whatever the number of its bridges. It is written when a state or a problem
//! changes, every five seconds while messages pass, and every fifteen seconds otherwise. What people ask is one read
//! every five seconds. The counts of a process that is gone are added to those of its bridges once, by whoever finds
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_store::{Amend, Amended, Edit, Error as StoreError, Expect, WorkStore};
use tokio::time::Instant;

use super::report::{BridgeCounts, BridgeReport};
use super::stored::{
    BridgeDocuments, BridgePart, StoredHistory, StoredProcess, StoredTestAnswer, controls, edit, one,
};
use super::{ASKED_EVERY, SILENT_AFTER, TOLD_EVERY};
use crate::parts::EngineParts;

/// How often counts are told while nothing else changes.
const COUNTED_EVERY: Duration = Duration::from_secs(5);

/// How often it is looked for processes that are gone.
const GATHERED_EVERY: Duration = Duration::from_secs(60);

/// How long a process may be silent before its counts are taken over. Longer than it takes to be shown as not running:
/// it may come back.
const GONE_AFTER: Duration = Duration::from_secs(10 * 60);

/// How long a bridge without a sink is known that no process runs.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 86_400);

/// How often a write is tried again when another process writes at the same moment.
const TRIES: usize = 10;

/// What people ask of the bridges of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BridgeRequests {
    /// Bridges that are to take and send nothing.
    pub paused: Vec<String>,
    /// Bridges that are to be tested: the name, and the id of the request.
    pub tests: Vec<(String, String)>,
}

/// What was written last.
#[derive(Debug)]
struct Told {
    revision: i64,
    at: Instant,
    bridges: Vec<BridgeReport>,
}

/// Tells of the bridges of one process: made by [`super::Bridges::reporter`].
#[derive(Debug)]
pub struct BridgeReporter {
    parts: Arc<EngineParts>,
    process: String,
    since: Option<Timestamp>,
    /// The store's clock, when it was last read.
    clock: Option<(Timestamp, Instant)>,
    asked_at: Option<Instant>,
    gathered_at: Option<Instant>,
    told: Option<Told>,
    /// Counts of this process that others took over, because they thought it was gone.
    taken_over: BTreeMap<String, BridgeCounts>,
}

impl BridgeReporter {
    pub(super) fn new(parts: Arc<EngineParts>) -> Self {
        let process = crate::ids::worker_id().to_string();
        Self {
            parts,
            process,
            since: None,
            clock: None,
            asked_at: None,
            gathered_at: None,
            told: None,
            taken_over: BTreeMap::new(),
        }
    }

    /// What people ask, once in five seconds; none in between.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn asked(&mut self) -> Result<Option<BridgeRequests>, StoreError> {
        if self.asked_at.is_some_and(|at| at.elapsed() < ASKED_EVERY) {
            return Ok(None);
        }
        let (now, found) = controls(&*self.parts.store).await?;
        self.clock = Some((now, Instant::now()));
        self.asked_at = Some(Instant::now());
        let mut requests = BridgeRequests::default();
        for (name, control) in found {
            // An old one has nobody who waits for it.
            let wanted = control.test.filter(|test| now.since(test.at) < SILENT_AFTER);
            requests.tests.extend(wanted.map(|test| (name.clone(), test.id)));
            requests.paused.extend(control.paused.map(|_| name));
        }
        Ok(Some(requests))
    }

    /// Tells how the bridges are, if there is something to tell. Answers whether it did.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn tell(&mut self, bridges: &[BridgeReport]) -> Result<bool, StoreError> {
        if !self.is_due(bridges) {
            return Ok(false);
        }
        let at = self.now().await?;
        for _ in 0..TRIES {
            let bridges = self.own(bridges);
            let body = self.body(at, bridges.clone());
            let expect = self.told.as_ref().map_or(Expect::Absent, |told| Expect::Revision(told.revision));
            let edits = vec![edit(BridgePart::Process, &self.process, expect, Some(&body))];
            if self.write(edits).await? {
                let revision = self.told.as_ref().map_or(1, |told| told.revision + 1);
                self.told = Some(Told { revision, at: Instant::now(), bridges });
                return Ok(true);
            }
            self.find_again().await?;
        }
        Ok(false)
    }

    /// Takes over what processes told that are gone, once in a minute.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn gather(&mut self) -> Result<(), StoreError> {
        if self.gathered_at.is_some_and(|at| at.elapsed() < GATHERED_EVERY) {
            return Ok(());
        }
        self.gathered_at = Some(Instant::now());
        let store = &*self.parts.store;
        let found = BridgeDocuments::read(store).await?;
        let gone = |process: &StoredProcess| found.now.since(process.at) >= GONE_AFTER;
        for (name, revision, process) in found.processes.iter().filter(|(.., process)| gone(process)) {
            take_over(store, name, *revision, process).await?;
        }
        let runs = |name: &str| {
            found.processes.iter().any(|(.., process)| process.bridges.iter().any(|it| it.name == name))
        };
        // As long as messages may be left for it, it is shown: somebody has to remove it.
        let old =
            |past: &StoredHistory| past.last.sink.is_none() && found.now.since(past.at) >= FORGOTTEN_AFTER;
        for (name, revision, _) in found.past.iter().filter(|(name, _, past)| old(past) && !runs(name)) {
            let edits = vec![
                edit::<StoredHistory>(BridgePart::Past, name, Expect::Revision(*revision), None),
                edit::<StoredTestAnswer>(BridgePart::Answer, name, Expect::Any, None),
                edit::<StoredTestAnswer>(BridgePart::Control, name, Expect::Any, None),
            ];
            self.write(edits).await?;
        }
        Ok(())
    }

    /// Tells how the bridges were when this process stopped running them.
    ///
    /// # Errors
    /// When the store is away; then the process is shown as not running a while later.
    pub async fn end(mut self, bridges: &[BridgeReport]) -> Result<(), StoreError> {
        let at = self.now().await?;
        for _ in 0..TRIES {
            let process = self.body(at, self.own(bridges));
            let Some(revision) = self.told.as_ref().map(|told| told.revision) else { return Ok(()) };
            if take_over(&*self.parts.store, &self.process, revision, &process).await? {
                return Ok(());
            }
            self.find_again().await?;
        }
        Ok(())
    }

    fn is_due(&self, bridges: &[BridgeReport]) -> bool {
        let Some(told) = &self.told else { return true };
        let age = told.at.elapsed();
        let bare = |all: &[BridgeReport]| all.iter().map(BridgeReport::without_counts).collect::<Vec<_>>();
        age >= TOLD_EVERY
            || (age >= COUNTED_EVERY && told.bridges != self.own(bridges))
            || bare(&told.bridges) != bare(bridges)
    }

    /// What is told under this process: without what others have taken over.
    fn own(&self, bridges: &[BridgeReport]) -> Vec<BridgeReport> {
        let mut own = bridges.to_vec();
        for bridge in &mut own {
            if let Some(counted) = self.taken_over.get(&bridge.name) {
                bridge.count(&bridge.counts().minus(*counted));
            }
        }
        own
    }

    fn body(&mut self, at: Timestamp, bridges: Vec<BridgeReport>) -> StoredProcess {
        let since = *self.since.get_or_insert(at);
        StoredProcess { node: self.parts.config.node.to_string(), since, at, bridges }
    }

    /// Finds out why the document is not as it was left: a write whose answer was lost has changed it, or somebody took
    /// it over.
    async fn find_again(&mut self) -> Result<(), StoreError> {
        let found = one::<StoredProcess>(&*self.parts.store, BridgePart::Process, &self.process).await?;
        if let Some((revision, process)) = found {
            self.told = Some(Told { revision, at: Instant::now(), bridges: process.bridges });
            return Ok(());
        }
        for bridge in self.told.take().into_iter().flat_map(|told| told.bridges) {
            let counted = self.taken_over.entry(bridge.name.clone()).or_default();
            *counted = counted.plus(bridge.counts());
        }
        Ok(())
    }

    /// The store's clock, as far as this process knows it.
    async fn now(&mut self) -> Result<Timestamp, StoreError> {
        if let Some((now, at)) = self.clock {
            return Ok(now.after(at.elapsed()));
        }
        let now = self.parts.store.now().await?;
        self.clock = Some((now, Instant::now()));
        Ok(now)
    }

    async fn write(&self, edits: Vec<Edit>) -> Result<bool, StoreError> {
        let amended = self.parts.store.amend(Amend { edits, ..Amend::default() }).await?;
        Ok(matches!(amended, Amended::Done { .. }))
    }
}

/// Adds what a process told to what is known of its bridges, and removes it: both or none. False when it has told
/// something since, or somebody else was faster.
async fn take_over(
    store: &dyn WorkStore,
    name: &str,
    revision: i64,
    process: &StoredProcess,
) -> Result<bool, StoreError> {
    for _ in 0..TRIES {
        let gone = edit::<StoredProcess>(BridgePart::Process, name, Expect::Revision(revision), None);
        let gone_key = gone.key.clone();
        let mut edits = vec![gone];
        for bridge in &process.bridges {
            let known = one::<StoredHistory>(store, BridgePart::Past, &bridge.name).await?;
            let expect = known.as_ref().map_or(Expect::Absent, |(revision, _)| Expect::Revision(*revision));
            let past = followed(known.map(|(_, past)| past), process, bridge);
            edits.push(edit(BridgePart::Past, &bridge.name, expect, Some(&past)));
        }
        match store.amend(Amend { edits, ..Amend::default() }).await? {
            Amended::Done { .. } => return Ok(true),
            Amended::Conflict { key, .. } if key != gone_key => {}
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// What is known of a bridge after one more process is gone.
fn followed(past: Option<StoredHistory>, process: &StoredProcess, bridge: &BridgeReport) -> StoredHistory {
    let counts = past.as_ref().map(|past| past.counts).unwrap_or_default().plus(bridge.counts());
    match past {
        Some(past) if past.at > process.at => StoredHistory { counts, ..past },
        _ => {
            let (at, node) = (process.at, process.node.clone());
            StoredHistory { counts, at, node, last: bridge.without_counts() }
        }
    }
}
