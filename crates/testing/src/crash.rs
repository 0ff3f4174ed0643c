//! A process that dies at a chosen call to its store, and a test that dies at each of them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop::{Backstop, Config};
use backstop_core::Timestamp;
use backstop_core::job::NewJob;
use backstop_store::{Answer, Error, Layer, Store};

use crate::engine::TestEngine;

/// Crash points that [`crash_everywhere`] tries at most: a scenario that makes more calls is one for a simulation.
const POINTS: usize = 10_000;

/// Longer than any lease a scenario is likely to have taken.
const PAST_EVERY_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// Where a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// The call to the store, from 1.
    pub call: usize,
    /// True when that call is still done and only its answer is lost: the process dies after the commit.
    pub done: bool,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = if self.done { "after" } else { "before" };
        write!(f, "the process died {when} store call {}", self.call)
    }
}

/// A store that a process loses at one call, and for good: what a crash looks like from the store's side.
///
/// Clones share their count of calls. Reading the clock does not count, because nothing can be lost by it.
///
/// ```
/// use std::sync::Arc;
///
/// use backstop::prelude::*;
/// use backstop::{Config, State};
/// use backstop_testing::{CrashAt, TestEngine};
///
/// #[job]
/// async fn pay() {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut test = TestEngine::new();
/// // The submit is call 1. An inline worker enlists, claims and finishes: the process dies before it can finish.
/// let doomed = Backstop::on(Arc::new(CrashAt::new(test.store(), 4)), Config::default());
/// let job = doomed.enqueue(Pay {}).submit().await.unwrap();
/// let worker = doomed.worker(()).register::<Pay>().queue("default", 1).inline().unwrap();
/// assert!(worker.run_next().await.is_err());
///
/// // Another process finds the job by its lease, and runs it again.
/// test.restart();
/// test.advance(std::time::Duration::from_secs(3_600));
/// test.maintain().await;
/// test.run_to_end((), |worker| worker.register::<Pay>()).await;
/// assert_eq!(test.engine().job(job.id).await.unwrap().unwrap().view.state(), State::Succeeded);
/// # }
/// ```
#[derive(Clone)]
pub struct CrashAt {
    inner: Arc<dyn Store>,
    point: CrashPoint,
    calls: Arc<AtomicUsize>,
}

impl fmt::Debug for CrashAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashAt")
            .field("point", &self.point)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl CrashAt {
    /// Loses `store` at its call number `call`, from 1: that call and all later ones do nothing and answer
    /// [`Error::Unavailable`].
    #[must_use]
    pub fn new(store: Arc<dyn Store>, call: usize) -> Self {
        Self::at(store, CrashPoint { call, done: false })
    }

    /// Loses `store` right after its call number `call`, from 1: that call is done, but answers [`Error::Unknown`];
    /// all later ones do nothing and answer [`Error::Unavailable`].
    #[must_use]
    pub fn after(store: Arc<dyn Store>, call: usize) -> Self {
        Self::at(store, CrashPoint { call, done: true })
    }

    /// Loses `store` at `point`.
    #[must_use]
    pub fn at(store: Arc<dyn Store>, point: CrashPoint) -> Self {
        Self { inner: store, point, calls: Arc::default() }
    }

    /// Calls made so far, the lost ones too.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// True when the crash has come.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.calls() >= self.point.call
    }

    fn location(&self) -> String {
        self.inner.info().location
    }

    fn lost<'a, T: Send + 'a>(&self) -> Answer<'a, T> {
        let (location, problem) = (self.location(), self.point.to_string());
        Box::pin(std::future::ready(Err(Error::Unavailable { location, problem, source: None })))
    }
}

impl Layer for CrashAt {
    fn below(&self) -> &dyn Store {
        &*self.inner
    }

    /// Makes the call, unless the process is dead by now.
    fn around<'a, T: Send + 'a>(
        &'a self,
        _: &'static str,
        verb: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let CrashPoint { call: last, done } = self.point;
        if call > last || (call == last && !done) {
            return self.lost();
        }
        let answer = verb(&*self.inner);
        if call < last {
            return answer;
        }
        let location = self.location();
        Box::pin(async move {
            answer.await?;
            Err(Error::Unknown { location, source: None })
        })
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        if self.has_crashed() { self.lost() } else { self.inner.now() }
    }

    /// Stores no job, and is not counted.
    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        if self.has_crashed() { self.lost() } else { self.inner.prepare(jobs) }
    }
}

/// Plays `scenario` once for every call it makes to the store, and lets its process die there: before the call, and in
/// a second try after it. Then a new process takes over, with all leases run out and the dead one's jobs taken back,
/// and `recovered` looks at what it finds. Answers how many crashes there were.
///
/// What the scenario returns is not looked at, so its steps can be joined by `?`. It should run its jobs inline: a
/// worker with loops waits for a lost store to come back. When `recovered` panics, the crash point is printed.
///
/// ```
/// use backstop::prelude::*;
/// use backstop::State;
/// use backstop_testing::crash_everywhere;
///
/// #[job]
/// async fn charge(order: u32) {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let crashes = crash_everywhere(
///     async |engine: Backstop| -> JobResult {
///         engine.enqueue(Charge { order: 17 }).idempotency_key("order-17").submit().await?;
///         engine.worker(()).register::<Charge>().queue("default", 1).inline()?.drain(1).await?;
///         Ok(())
///     },
///     async |test, point| {
///         // The client does not know whether its job was stored, so it submits again: still one job (L10).
///         let job = test.engine().enqueue(Charge { order: 17 }).idempotency_key("order-17").submit().await.unwrap();
///         test.run_to_end((), |worker| worker.register::<Charge>()).await;
///         let job = test.engine().job(job.id).await.unwrap().unwrap();
///         assert_eq!(job.view.state(), State::Succeeded, "{point}");
///     },
/// )
/// .await;
/// assert!(crashes >= 10);
/// # }
/// ```
///
/// # Panics
/// When the scenario makes more than 10,000 calls.
pub async fn crash_everywhere<T>(
    scenario: impl AsyncFn(Backstop) -> T,
    recovered: impl AsyncFn(&TestEngine, CrashPoint),
) -> usize {
    let mut crashes = 0;
    for call in 1..=POINTS {
        for done in [false, true] {
            let point = CrashPoint { call, done };
            let mut test = TestEngine::new();
            let store = CrashAt::at(test.store(), point);
            scenario(Backstop::on(Arc::new(store.clone()), Config::default())).await;
            if !store.has_crashed() {
                return crashes;
            }
            crashes += 1;
            test.restart();
            test.advance(PAST_EVERY_LEASE);
            test.maintain().await;
            let last_words = LastWords(point);
            recovered(&test, point).await;
            drop(last_words);
        }
    }
    panic!("the scenario makes more than {POINTS} calls to its store")
}

/// Says where the process had died when a test fails, because the panic itself cannot know.
struct LastWords(CrashPoint);

impl Drop for LastWords {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
