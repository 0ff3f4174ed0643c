//! An engine for tests: the real one, on a store in memory, with a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, Config, State, Timestamp, WorkerId};
use backstop_store::{Clock as _, ManualClock, ModelStore, Store};

use crate::enqueued::every_job;

/// How long the node of a test leads its maintenance duties: longer than one call takes, whatever the machine does.
const TERM: Duration = Duration::from_secs(30);

/// An engine, its store and its clock. Nothing happens in it by itself.
///
/// ```
/// use std::time::Duration;
///
/// use backstop::prelude::*;
/// use backstop::{Cause, State};
/// use backstop_testing::TestEngine;
///
/// #[job]
/// async fn poll(cx: JobContext<()>) -> JobResult {
///     if cx.run_number() == 1 {
///         Err(Outcome::snooze(Duration::from_secs(600)))?;
///     }
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let test = TestEngine::new();
/// test.engine().enqueue(Poll {}).submit().await.unwrap();
///
/// let first = test.drain((), |worker| worker.register::<Poll>()).await;
/// assert_eq!((first[0].cause, first[0].due_in), (Cause::Snoozed, Some(Duration::from_secs(600))));
///
/// test.advance(Duration::from_secs(600));
/// let second = test.drain((), |worker| worker.register::<Poll>()).await;
/// assert_eq!(second[0].state, State::Succeeded);
/// # }
/// ```
#[derive(Debug)]
pub struct TestEngine {
    engine: Backstop,
    clock: ManualClock,
    node: WorkerId,
}

impl TestEngine {
    /// An engine with the default settings, at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new() -> Self {
        Self::with_config(Config::default())
    }

    /// The same with settings of the application's own.
    ///
    /// ```
    /// use backstop::{Config, Policy};
    /// use backstop_testing::TestEngine;
    ///
    /// let test = TestEngine::with_config(Config::default().kind("charge", Policy::default().retries(0)));
    /// assert_eq!(test.engine().config().kinds["charge"].max_retries, Some(0));
    /// ```
    #[must_use]
    pub fn with_config(config: Config) -> Self {
        Self::at(ManualClock::default(), config)
    }

    pub(crate) fn at(clock: ManualClock, config: Config) -> Self {
        let store = Arc::new(ModelStore::new(Arc::new(clock.clone())));
        Self { engine: Backstop::on(store, config), clock, node: backstop::worker_id() }
    }

    /// The engine, to hand to the application's code.
    #[must_use]
    pub const fn engine(&self) -> &Backstop {
        &self.engine
    }

    /// The store underneath, such as for a [`CrashAt`](crate::CrashAt) around it.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.engine.store().clone()
    }

    /// The clock that due times, leases and expiries go by.
    #[must_use]
    pub const fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    /// Moves the clock to the moment when the next job becomes due, and says how far that was: nothing when one is due
    /// already. None, and a clock that stands, when no job waits for its time.
    ///
    /// Backoffs have jitter unless told otherwise, so their exact length is not known: this finds it.
    ///
    /// ```
    /// # use backstop::prelude::*;
    /// use std::time::Duration;
    /// use backstop_testing::TestEngine;
    ///
    /// # #[job]
    /// # async fn nightly() {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let test = TestEngine::new();
    /// assert_eq!(test.advance_to_next().await, None);
    /// test.engine().enqueue(Nightly {}).delay(Duration::from_secs(90)).submit().await.unwrap();
    /// assert_eq!(test.advance_to_next().await, Some(Duration::from_secs(90)));
    /// # }
    /// ```
    pub async fn advance_to_next(&self) -> Option<Duration> {
        self.advance_to_one_due(Timestamp::MIN).await
    }

    /// The same for the first job that becomes due at `earliest` or later.
    pub(crate) async fn advance_to_one_due(&self, earliest: Timestamp) -> Option<Duration> {
        let jobs = every_job(&self.engine).await;
        // By the record: a job that waits for code has its moment all the same.
        let pending = jobs.iter().filter(|view| view.record.state == State::Pending);
        let next = pending.map(|view| view.record.run_at).filter(|due| *due >= earliest).min()?;
        let span = self.clock.now().until(next);
        self.clock.advance(span);
        Some(span)
    }

    /// Does the maintenance that a running worker does: takes back what dead workers held once their leases have run
    /// out (L15), and fails what has expired (L19).
    ///
    /// # Panics
    /// Never, on the store of this engine.
    pub async fn maintain(&self) {
        if let Err(problem) = self.engine.maintain(self.node, TERM).await {
            panic!("maintenance of the test's store failed: {problem}");
        }
    }

    /// Opens the engine anew on the same store, as a process does that was started again.
    pub fn restart(&mut self) {
        self.engine = Backstop::on(self.store(), self.engine.config().clone());
        self.node = backstop::worker_id();
    }
}

impl Default for TestEngine {
    fn default() -> Self {
        Self::new()
    }
}
