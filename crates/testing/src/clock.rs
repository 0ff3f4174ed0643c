//! A clock for tests that pause tokio's time.

use std::sync::Arc;

use backstop::{Backstop, Config, Timestamp};
use backstop_store::{Clock, ManualClock, ModelStore};
use tokio::time::Instant;

/// A clock that goes with tokio's, also when that is paused or moved.
///
/// A real worker polls, renews and waits by tokio's timers, while its store has a clock of its own. In a test with
/// `#[tokio::test(start_paused = true)]` the two must move together, or a retry never becomes due.
///
/// ```
/// use std::time::Duration;
///
/// use backstop::State;
/// use backstop::prelude::*;
/// use backstop_testing::TokioClock;
///
/// #[job]
/// async fn nightly() {}
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let engine = TokioClock::engine();
/// let job = engine.enqueue(Nightly {}).delay(Duration::from_secs(3_600)).submit().await.unwrap();
/// let hour = tokio::time::sleep(Duration::from_secs(3_605));
/// engine.worker(()).register::<Nightly>().queue("default", 1).run_until(hour).await.unwrap();
/// assert_eq!(engine.job(job.id).await.unwrap().unwrap().view.state(), State::Succeeded);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TokioClock {
    born: Instant,
    shown: Timestamp,
}

impl TokioClock {
    /// A clock that shows 2026-01-01T00:00:00Z now, and goes on from there.
    #[must_use]
    pub fn new() -> Self {
        Self { born: Instant::now(), shown: ManualClock::default().now() }
    }

    /// An engine on an empty store in memory that lives in tokio's time.
    #[must_use]
    pub fn engine() -> Backstop {
        Self::engine_with(Config::default())
    }

    /// The same with settings.
    #[must_use]
    pub fn engine_with(config: Config) -> Backstop {
        Backstop::on(Arc::new(ModelStore::new(Arc::new(Self::new()))), config)
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.shown.after(self.born.elapsed())
    }
}
