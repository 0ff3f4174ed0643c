//! A sink: the loop that publishes what the outbox of the store holds for a bridge (B2, D6).
//!
//! Every process that has the bridge runs one; of all of them one at a time holds the lease and publishes. It never
//! touches a job: a broker that is away leaves messages in the outbox, and nothing else.

mod round;
mod status;

use std::sync::Arc;
use std::time::Duration;

use backstop::sinks::{Sink, SinkLimits};
use backstop::{Backoff, Backstop};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::brokers;
use crate::profile::MessageProfile;
use crate::settings::{BridgeSettings, BridgeSettingsError};

use crate::shared_status::SharedStatus;
pub use status::{SinkRunState, SinkStatus};

/// How a sink behaves in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkTimes {
    /// How often it looks for messages while there are none.
    pub look: Duration,
    /// How long this process may be silent before another one publishes.
    pub lease: Duration,
    /// How it waits between attempts to reach the broker or the store.
    pub backoff: Backoff,
}

impl Default for SinkTimes {
    fn default() -> Self {
        Self {
            look: Duration::from_millis(500),
            lease: Duration::from_secs(15),
            backoff: Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)),
        }
    }
}

/// A sink about to be started.
///
/// ```no_run
/// use backstop::prelude::*;
/// use backstop::sinks::SinkTopic;
/// use backstop_bridges::{BridgeSettings, BridgeSink, SinkSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Backstop::open("sqlite:jobs.db").await?;
/// let sink = SinkSettings::new("paid", [SinkTopic::Results]);
/// let settings = BridgeSettings::of_sink("redis://127.0.0.1:6379", sink);
/// let sink = BridgeSink::new(&engine, "billing", &settings)?.start();
/// println!("{:?}", sink.status());
/// sink.stop().await;
/// # Ok(()) }
/// ```
pub struct BridgeSink {
    engine: Backstop,
    broker: Arc<dyn Broker>,
    profile: MessageProfile,
    sink: Sink,
    limits: SinkLimits,
    times: SinkTimes,
}

impl std::fmt::Debug for BridgeSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeSink")
            .field("sink", &self.sink)
            .field("broker", &self.broker.address())
            .finish_non_exhaustive()
    }
}

impl BridgeSink {
    /// The sink of a bridge.
    ///
    /// # Errors
    /// When the settings cannot be meant or have no sink, it takes rejects that are not stored, or this program was
    /// built without the broker.
    pub fn new(
        engine: &Backstop,
        name: &str,
        settings: &BridgeSettings,
    ) -> Result<Self, BridgeSettingsError> {
        settings.check(name, |_| true)?;
        settings.check_rejects(name, &engine.config().rejects)?;
        let Some(sink) = &settings.sink else {
            let problem = "is missing".to_owned();
            return Err(BridgeSettingsError::Value { bridge: name.to_owned(), key: "sink", problem });
        };
        let broker = brokers::open(name, &settings.sink_alone(), &engine.config().node)?;
        Ok(Self {
            engine: engine.clone(),
            broker,
            profile: settings.message_profile(name)?,
            sink: sink.sink(name),
            limits: sink.limits(),
            times: SinkTimes::default(),
        })
    }

    /// Behaves so in time.
    #[must_use]
    pub const fn times(mut self, times: SinkTimes) -> Self {
        self.times = times;
        self
    }

    /// Starts the loop in a task of its own. A broker or a store that is away is tried again for as long as the loop
    /// runs.
    #[must_use]
    pub fn start(self) -> SinkHandle {
        let board = Arc::new(SharedStatus::default());
        let stop = CancellationToken::new();
        let task = tokio::spawn(round::run(self, board.clone(), stop.clone()));
        SinkHandle { board, stop, task }
    }
}

/// A running sink; it stops when this value goes away.
#[derive(Debug)]
pub struct SinkHandle {
    board: Arc<SharedStatus<SinkStatus>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl SinkHandle {
    /// How it is, and what it has done in this process.
    #[must_use]
    pub fn status(&self) -> SinkStatus {
        self.board.read()
    }

    /// Waits until its status is as `wanted` says.
    pub async fn until(&self, wanted: impl Fn(&SinkStatus) -> bool + Send) -> SinkStatus {
        self.board.until(wanted).await
    }

    /// Ends it: what is being published is confirmed and removed first, and another process may publish at once.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // A panic of the loop has been told where it happened.
        let _ = (&mut self.task).await;
    }

    /// Its status, to be read when it has ended too.
    pub(crate) fn board(&self) -> Arc<SharedStatus<SinkStatus>> {
        self.board.clone()
    }
}

impl Drop for SinkHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
