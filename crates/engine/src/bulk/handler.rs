//! A bulk kind with its type erased, and how its jobs are gathered (W12).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::entry::CallEntry;
use crate::outcome::Failed;

/// Jobs that one call can get at most: their payloads are in memory at once, and each keeps a slot.
pub const MOST_JOBS: usize = 1_000;

/// The longest time that the first job of a call waits for others: it is claimed, and nobody else can run it.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How the jobs of a bulk kind are gathered.
///
/// ```
/// use std::time::Duration;
/// use backstop::bulk::BulkSettings;
///
/// let settings = BulkSettings::default().most(500).wait(Duration::from_millis(50));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkSettings {
    most: usize,
    wait: Duration,
}

impl Default for BulkSettings {
    /// Up to 100 jobs, gathered for 10 ms.
    fn default() -> Self {
        Self { most: 100, wait: Duration::from_millis(10) }
    }
}

impl BulkSettings {
    /// How many jobs one call gets at most: from 1 to [`MOST_JOBS`]. It never gets more than the queue has slots.
    #[must_use]
    pub fn most(mut self, jobs: usize) -> Self {
        self.most = jobs.clamp(1, MOST_JOBS);
        self
    }

    /// How long the first job of a call waits for others, up to [`LONGEST_WAIT`]. A call that is full begins at once.
    #[must_use]
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time.min(LONGEST_WAIT);
        self
    }

    pub(crate) const fn most_jobs(&self) -> usize {
        self.most
    }

    pub(crate) const fn waits(&self) -> Duration {
        self.wait
    }
}

/// What a call comes to besides its answers.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = Result<(), Box<Failed>>> + Send>>;

type Call<C> = Arc<dyn Fn(Arc<C>, Vec<CallEntry>) -> CallFuture + Send + Sync>;

/// How a worker calls a bulk kind. For the engine.
#[doc(hidden)]
pub struct BulkHandler<C> {
    pub(crate) settings: BulkSettings,
    call: Call<C>,
}

impl<C> Clone for BulkHandler<C> {
    fn clone(&self) -> Self {
        Self { settings: self.settings, call: self.call.clone() }
    }
}

impl<C> fmt::Debug for BulkHandler<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkHandler").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<C: Send + Sync + 'static> BulkHandler<C> {
    pub(crate) fn new(settings: BulkSettings, call: fn(Arc<C>, Vec<CallEntry>) -> CallFuture) -> Self {
        Self { settings, call: Arc::new(call) }
    }

    /// The same for a worker whose context is known.
    pub(crate) fn bound(self, app: Arc<C>) -> BulkHandler<()> {
        let Self { settings, call } = self;
        BulkHandler { settings, call: Arc::new(move |_, jobs| call(app.clone(), jobs)) }
    }
}

impl BulkHandler<()> {
    /// The same for a worker whose handlers share something that this kind does not ask for.
    pub(crate) fn without_context<C: Send + Sync + 'static>(self) -> BulkHandler<C> {
        let Self { settings, call } = self;
        BulkHandler { settings, call: Arc::new(move |_, jobs| call(Arc::new(()), jobs)) }
    }

    pub(crate) fn call(&self, jobs: Vec<CallEntry>) -> CallFuture {
        (self.call)(Arc::new(()), jobs)
    }
}
