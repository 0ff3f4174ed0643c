//! Bridges as every process of a store knows them (B1, B2, B4): how each is, pausing and testing it, and the messages
//! that could not become jobs.
//!
//! Processes that run bridges tell of them in documents of the store, and read there what people ask; so a server that
//! runs none shows and pauses those of others. Knows no broker: that is the business of `backstop-bridges`.

mod invalid;
pub(crate) mod local;
mod report;
mod reporter;
mod stored;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_store::{Amend, Amended, Error as StoreError, Expect};
use tokio::time::Instant;

pub use invalid::{InvalidMessage, InvalidMessages, InvalidPage, MOST_INVALID, WrittenInvalid};
pub use local::{BridgeTestAnswer, BridgeTester};
pub use report::{BridgeCounts, BridgeProblem, BridgeReport, BridgeState, SinkReport, SourceReport};
pub use reporter::{BridgeReporter, BridgeRequests};
pub use stored::{BridgeCheck, BridgePause, BridgeTest};
pub use view::{BridgeProcess, BridgeView};

use self::stored::{BridgeDocuments, BridgePart, StoredRequests, StoredTest, StoredTestAnswer, edit, one};
use self::view::BridgeContext;
use crate::engine::Backstop;
use crate::parts::EngineParts;
use crate::sinks::stored::{Part, edit as sink_edit};

/// How often a process that runs bridges reads what people ask: a pause is obeyed within this.
pub const ASKED_EVERY: Duration = Duration::from_secs(5);

/// How often a process tells of its bridges when nothing changes.
pub const TOLD_EVERY: Duration = Duration::from_secs(15);

/// A process that was not heard of for so long does not run its bridges any more.
pub const SILENT_AFTER: Duration = Duration::from_secs(45);

/// How long a test may take: the request is found within five seconds, and a broker is waited for ten.
const TEST_PATIENCE: Duration = Duration::from_secs(25);

/// How often it is looked for the answer to a test.
const TEST_LOOK: Duration = Duration::from_millis(250);

/// How often a change is tried again when another process writes at the same moment.
const TRIES: usize = 10;

/// Characters of the name of whoever pauses a bridge.
const BY_CHARS: usize = 128;

/// Why nothing was changed or tested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeRefusal {
    /// Nothing is known of it.
    #[error("no bridge `{0}` is known: no process has run it, or its name has a mistake")]
    Unknown(String),
    /// No process runs it that could be asked.
    #[error("no process runs bridge `{name}` since {since}")]
    NotRunning {
        /// The bridge.
        name: String,
        /// When one was last heard of.
        since: Timestamp,
    },
    /// A process runs it.
    #[error("bridge `{name}` is run by {node}")]
    Running {
        /// The bridge.
        name: String,
        /// The process.
        node: String,
    },
    /// Messages that could not become jobs are kept for it.
    #[error("bridge `{name}` keeps {kept} messages that could not become jobs")]
    KeepsInvalid {
        /// The bridge.
        name: String,
        /// How many.
        kept: u64,
    },
    /// The processes that run it did not answer.
    #[error("no process that runs bridge `{0}` answered in time")]
    NoAnswer(String),
    /// Others change it all the time.
    #[error("bridge `{0}` was changed by others again and again; nothing was changed, try once more")]
    Changing(String),
    /// The store is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The bridges of a store: see [`Backstop::bridges`].
#[derive(Debug, Clone, Copy)]
pub struct Bridges<'a> {
    engine: &'a Backstop,
    parts: &'a Arc<EngineParts>,
}

impl Backstop {
    /// Bridges: how each is, and pausing and testing it, whichever process runs it.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use backstop::bridges::{BridgeReport, BridgeState, BridgeView, Bridges};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// let engine = Backstop::open("memory:").await?;
    /// let bridges: Bridges<'_> = engine.bridges();
    /// let mut reporter = bridges.reporter();
    /// reporter.tell(&[BridgeReport::new("orders", "redis://127.0.0.1")]).await?;
    /// let views: Vec<BridgeView> = bridges.list().await?;
    /// assert_eq!((views[0].name.as_str(), views[0].state), ("orders", BridgeState::Starting));
    /// bridges.pause("orders", "ann").await?;
    /// assert_eq!(bridges.list().await?[0].state, BridgeState::Paused);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn bridges(&self) -> Bridges<'_> {
        Bridges { engine: self, parts: &self.parts }
    }
}

impl Bridges<'_> {
    /// Every bridge that a process runs or has run, by name.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn list(self) -> Result<Vec<BridgeView>, StoreError> {
        let (found, mut around) = self.read().await?;
        // Stores read what each worker holds to list them; only a source needs to know them.
        if reports(&found).any(|report| report.source.is_some()) {
            let workers = self.parts.store.workers().await?;
            let live: Vec<_> = workers.iter().filter(|worker| worker.live).collect();
            let kinds =
                live.iter().flat_map(|worker| worker.kinds.iter().map(|known| known.kind.to_string()));
            // Without a worker nobody can say whether a kind is known.
            around.kinds = (!live.is_empty()).then(|| kinds.collect::<BTreeSet<_>>());
        }
        Ok(view::views(&found, &around))
    }

    /// The same, without a look at what workers know: for figures and checks, which are asked for often.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn survey(self) -> Result<Vec<BridgeView>, StoreError> {
        let (found, around) = self.read().await?;
        Ok(view::views(&found, &around))
    }

    /// One bridge; none when nothing is known of it.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn show(self, name: &str) -> Result<Option<BridgeView>, StoreError> {
        Ok(self.list().await?.into_iter().find(|view| view.name == name))
    }

    /// Pauses a bridge in every process: it takes no messages and publishes none, within five seconds. Messages wait at
    /// the broker and in the outbox. One that is paused stays paused by whom it was.
    ///
    /// # Errors
    /// When nothing is known of it, or the store is away.
    pub async fn pause(self, name: &str, by: &str) -> Result<BridgeView, BridgeRefusal> {
        let by: String = by.chars().take(BY_CHARS).collect();
        let pause = |at| BridgePause { by: by.clone(), at };
        self.change(name, |control, now| {
            control.paused.get_or_insert_with(|| pause(now));
        })
        .await
    }

    /// Resumes a bridge in every process, within five seconds.
    ///
    /// # Errors
    /// When nothing is known of it, or the store is away.
    pub async fn resume(self, name: &str) -> Result<BridgeView, BridgeRefusal> {
        self.change(name, |control, _| control.paused = None).await
    }

    /// Tests a bridge: its broker is reached, takes the credentials and has the queues. No message is taken or sent.
    /// Here at once, when this process runs it; otherwise by a process that does, within 25 seconds.
    ///
    /// # Errors
    /// When nothing is known of it, no process runs it or none answers, or the store is away.
    pub async fn test(self, name: &str) -> Result<BridgeTest, BridgeRefusal> {
        if let Some(test) = self.parts.bridges.test(name).await {
            return Ok(test);
        }
        let Some(view) = self.show(name).await? else { return Err(BridgeRefusal::Unknown(name.to_owned())) };
        if view.state == BridgeState::NotRunning {
            return Err(BridgeRefusal::NotRunning { name: name.to_owned(), since: view.seen_at });
        }
        let id = crate::ids::worker_id().to_string();
        self.change(name, |control, at| control.test = Some(StoredTest { id: id.clone(), at })).await?;
        let began = Instant::now();
        while began.elapsed() < TEST_PATIENCE {
            let found = one::<StoredTestAnswer>(&*self.parts.store, BridgePart::Answer, name).await?;
            if let Some((_, answer)) = found.filter(|(_, answer)| answer.id == id) {
                return Ok(answer.test);
            }
            tokio::time::sleep(TEST_LOOK).await;
        }
        Err(BridgeRefusal::NoAnswer(name.to_owned()))
    }

    /// Removes a bridge that no process runs, with its sink and what waits for that. Answers how many messages were
    /// never published.
    ///
    /// A process whose settings still have it makes it known again when it starts.
    ///
    /// # Errors
    /// When nothing is known of it, a process runs it, messages are kept that could not become jobs, or the store is
    /// away; then do it again.
    pub async fn remove(self, name: &str) -> Result<u64, BridgeRefusal> {
        let store = &*self.parts.store;
        for _ in 0..TRIES {
            let view = self.show(name).await?;
            if let Some(runs) = view.iter().flat_map(|view| &view.processes).find(|one| one.is_running()) {
                return Err(BridgeRefusal::Running { name: name.to_owned(), node: runs.node.clone() });
            }
            let kept = self.invalid().count(name).await?;
            if kept > 0 {
                return Err(BridgeRefusal::KeepsInvalid { name: name.to_owned(), kept });
            }
            let edits = BridgeDocuments::read(store).await?.without(name);
            if let Amended::Done { .. } = store.amend(Amend { edits, ..Amend::default() }).await? {
                let sinks = self.engine.sinks();
                // Not the sink of a hand-off.
                return match (view, sinks.show(name).await?) {
                    (_, Some(_)) => Ok(sinks.remove(name).await?.unwrap_or_default()),
                    (Some(_), None) => Ok(0),
                    (None, None) => Err(BridgeRefusal::Unknown(name.to_owned())),
                };
            }
        }
        Err(BridgeRefusal::Changing(name.to_owned()))
    }

    /// The messages that could not become jobs (B4).
    #[must_use]
    pub fn invalid(self) -> InvalidMessages {
        InvalidMessages::of(self.engine)
    }

    /// For a process that runs bridges: how it tells of them, and hears what people ask.
    #[must_use]
    pub fn reporter(self) -> BridgeReporter {
        BridgeReporter::new(self.parts.clone())
    }

    /// For a process that runs bridges: answers a test that was asked for in another one.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn answer(self, name: &str, request: &str, test: BridgeTest) -> Result<(), StoreError> {
        let answer = StoredTestAnswer { id: request.to_owned(), test };
        let edits = vec![edit(BridgePart::Answer, name, Expect::Any, Some(&answer))];
        self.parts.store.amend(Amend { edits, ..Amend::default() }).await.map(drop)
    }

    /// Lets tests that are asked for in this process be answered here, for as long as the tester is there.
    pub fn attach(self, tester: &Arc<dyn BridgeTester>) {
        self.parts.bridges.add(tester);
    }

    async fn read(self) -> Result<(BridgeDocuments, BridgeContext), StoreError> {
        let found = BridgeDocuments::read(&*self.parts.store).await?;
        let mut around = BridgeContext::default();
        if reports(&found).any(|report| report.sink.is_some()) {
            around.sinks = self.engine.sinks().list().await?;
        }
        // Also of one without a source: it may have had one when they came.
        let names: BTreeSet<&str> = reports(&found).map(|report| report.name.as_str()).collect();
        if !names.is_empty() {
            let counts = self.invalid().counts(&names.iter().copied().collect::<Vec<_>>()).await?;
            around.invalid = names.into_iter().map(str::to_owned).zip(counts).collect::<BTreeMap<_, _>>();
        }
        Ok((found, around))
    }

    /// Changes what is asked of a bridge. The pause of its sink goes with it, in the same transaction.
    async fn change(
        self,
        name: &str,
        what: impl Fn(&mut StoredRequests, Timestamp),
    ) -> Result<BridgeView, BridgeRefusal> {
        let store = &*self.parts.store;
        for _ in 0..TRIES {
            let Some(view) = self.show(name).await? else {
                return Err(BridgeRefusal::Unknown(name.to_owned()));
            };
            let found = one::<StoredRequests>(store, BridgePart::Control, name).await?;
            let expect = found.as_ref().map_or(Expect::Absent, |(revision, _)| Expect::Revision(*revision));
            let before = found.map(|(_, control)| control).unwrap_or_default();
            let mut after = before.clone();
            what(&mut after, store.now().await?);
            let mut edits = vec![edit(BridgePart::Control, name, expect, Some(&after))];
            if view.sink.is_some() && before.paused != after.paused {
                let paused = after.paused.as_ref().map(|_| &true);
                edits.push(sink_edit(Part::Pause, name, Expect::Any, paused));
            }
            if let Amended::Done { .. } = store.amend(Amend { edits, ..Amend::default() }).await? {
                let view = self.show(name).await?;
                return view.ok_or_else(|| BridgeRefusal::Unknown(name.to_owned()));
            }
        }
        Err(BridgeRefusal::Changing(name.to_owned()))
    }
}

/// What processes tell of bridges, and what those told last that are gone.
fn reports(found: &BridgeDocuments) -> impl Iterator<Item = &BridgeReport> {
    let told = found.processes.iter().flat_map(|(.., process)| process.bridges.iter());
    told.chain(found.past.iter().map(|(.., past)| &past.last))
}
