//! Hand-off (B7): the loop that publishes finished jobs to another Backstop over HTTP.
//!
//! Every process that has the hand-off runs one; of all of them one at a time holds the lease and publishes. It never
//! touches a job: a receiver that is away or full leaves messages in the outbox, and nothing else.

mod client;
mod exchange;
mod round;
mod settings;
mod status;

use std::sync::Arc;
use std::time::Duration;

use backstop::handoffs::HandOff;
use backstop::{Backoff, Backstop};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use settings::{HandOffSettings, HandOffSettingsError, check_all};
pub use status::{HandOffRunState, HandOffStatus};

use crate::broker::PATIENCE;
use crate::shared_status::SharedStatus;
use client::Receiver;

/// How a hand-off behaves in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOffTimes {
    /// How often it looks for jobs while there are none, and for people's words while it stands still.
    pub look: Duration,
    /// How long this process may be silent before another one publishes.
    pub lease: Duration,
    /// How long a request may take. Shorter than the lease.
    pub patience: Duration,
    /// How it waits between tries; a receiver that says how long to wait is waited for at least that long.
    pub backoff: Backoff,
}

impl Default for HandOffTimes {
    fn default() -> Self {
        Self {
            look: Duration::from_millis(250),
            lease: Duration::from_secs(15),
            patience: PATIENCE,
            backoff: Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)),
        }
    }
}

/// A hand-off about to be started.
///
/// ```no_run
/// use backstop::prelude::*;
/// use backstop_bridges::handoff::{HandOffHandle, HandOffLoop, HandOffSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Backstop::open("sqlite:jobs.db").await?;
/// let settings = HandOffSettings::to("https://warehouse.example").token("…");
/// let paid: HandOffHandle = HandOffLoop::new(&engine, "paid", &settings)?.start();
/// println!("{:?}", paid.status());
/// paid.stop().await;
/// # Ok(()) }
/// ```
pub struct HandOffLoop {
    engine: Backstop,
    hand_off: HandOff,
    receiver: Receiver,
    times: HandOffTimes,
}

impl std::fmt::Debug for HandOffLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandOffLoop").field("hand_off", &self.hand_off).finish_non_exhaustive()
    }
}

impl HandOffLoop {
    /// The loop of a hand-off.
    ///
    /// # Errors
    /// When the settings cannot be meant, or only say whose publications are taken.
    pub fn new(
        engine: &Backstop,
        name: &str,
        settings: &HandOffSettings,
    ) -> Result<Self, HandOffSettingsError> {
        settings.check(name)?;
        let times = HandOffTimes::default();
        let receiver = Receiver {
            address: settings.address(name)?,
            token: settings.token.clone(),
            secrets: settings.parsed_secrets(name)?,
            authority: settings.tls_ca.clone(),
            patience: times.patience,
        };
        Ok(Self { engine: engine.clone(), hand_off: settings.hand_off(name)?, receiver, times })
    }

    /// Behaves so in time.
    #[must_use]
    pub const fn times(mut self, times: HandOffTimes) -> Self {
        self.receiver.patience = times.patience;
        self.times = times;
        self
    }

    /// Starts the loop in a task of its own. A receiver or a store that is away is tried again for as long as it runs.
    #[must_use]
    pub fn start(self) -> HandOffHandle {
        let board = Arc::new(SharedStatus::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(round::run(self, board.clone(), stop.clone()));
        HandOffHandle { board, stop, task }
    }
}

/// A running hand-off; it stops when this value goes away.
#[derive(Debug)]
pub struct HandOffHandle {
    board: Arc<SharedStatus<HandOffStatus>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HandOffHandle {
    /// How it is, and what it has done in this process.
    #[must_use]
    pub fn status(&self) -> HandOffStatus {
        self.board.read()
    }

    /// Waits until its status is as `wanted` says.
    pub async fn until(&self, wanted: impl Fn(&HandOffStatus) -> bool + Send) -> HandOffStatus {
        self.board.until(wanted).await
    }

    /// Ends it: a request under way is settled first, and another process may publish at once.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // A panic of the loop has been told where it happened.
        let _ = (&mut self.task).await;
    }
}

impl Drop for HandOffHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
