//! A source: the loops that take messages from a broker and submit jobs (B1).
//!
//! Owns how a source is started, paused and watched. It has a loop for each of its consumers, and a consumer has a
//! connection of its own. What one round does is in `round`, what it does with a batch in `admit`.

mod admit;
mod before_run;
mod look;
mod round;
mod status;
mod tracked;

use std::sync::Arc;
use std::time::Duration;

use backstop::sinks::{Sink, SinkLimits};
use backstop::{Backoff, Backstop};
use backstop_core::failure::redact::sanitize;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;
use crate::brokers;
use crate::profile::MessageProfile;
use crate::route::JobRoute;
use crate::settings::{BridgeSettings, BridgeSettingsError};

use crate::shared_status::SharedStatus;
pub(crate) use look::SharedLook;
pub use status::{SourceState, SourceStatus};

use before_run::RunStatusCheck;
use tracked::TrackedJobs;

/// A text as it may be stored and shown: without secrets, and within the limit of error texts.
fn sanitized(engine: &Backstop, text: &str) -> String {
    let config = engine.config();
    sanitize(&*config.redactor, text, config.limits.error_chars)
}

/// How a source behaves in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceTimes {
    /// How long one call waits for the first message; also how long a stop may take.
    pub wait: Duration,
    /// How it waits between attempts to reach the broker or the store.
    pub backoff: Backoff,
    /// How often it looks whether its queue is paused or full, or a circuit open.
    pub look: Duration,
    /// How long it waits at its start when messages are answered by a sink: until then every process knows the sink,
    /// and no job ends unanswered.
    pub sink_known: Duration,
}

impl Default for SourceTimes {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(1),
            backoff: Backoff::exponential(Duration::from_millis(500), Duration::from_secs(30)),
            look: Duration::from_secs(1),
            // Processes look for new sinks every five seconds.
            sink_known: Duration::from_secs(6),
        }
    }
}

/// A source about to be started.
///
/// ```no_run
/// use backstop::prelude::*;
/// use backstop_bridges::{BridgeSettings, Source, SourceSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Backstop::open("sqlite:jobs.db").await?;
/// let settings = BridgeSettings::new("redis://127.0.0.1:6379", SourceSettings::new("orders", "charge"));
/// let source = Source::new(&engine, "orders", &settings)?.start();
/// println!("{:?}", source.status());
/// source.stop().await;
/// # Ok(()) }
/// ```
pub struct Source {
    engine: Backstop,
    /// One for each consumer: some brokers keep what a consumer holds under its name.
    brokers: Vec<Arc<dyn Broker>>,
    route: JobRoute,
    profile: MessageProfile,
    /// The sink that answers messages, if one does.
    answered_by: Option<(Sink, SinkLimits)>,
    /// When every process knows that sink; none before it was made known.
    answered_from: Mutex<Option<Instant>>,
    /// What is known elsewhere of its messages and jobs.
    tracked: Arc<TrackedJobs>,
    prefetch: usize,
    times: SourceTimes,
    paused: bool,
    look: Arc<SharedLook>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("route", &self.route)
            .field("broker", &self.brokers.first().map(|broker| broker.address()))
            .field("consumers", &self.brokers.len())
            .finish_non_exhaustive()
    }
}

impl Source {
    /// The source of a bridge.
    ///
    /// # Errors
    /// When the settings cannot be meant, or this program was built without the broker.
    pub fn new(
        engine: &Backstop,
        name: &str,
        settings: &BridgeSettings,
    ) -> Result<Self, BridgeSettingsError> {
        settings.check(name, |_| true)?;
        let (node, place) = (&engine.config().node, settings.place());
        let open = |number| brokers::open(name, settings, &consumer_name(node, number));
        let brokers = (1..=place.concurrency).map(open).collect::<Result<Vec<_>, _>>()?;
        let route = settings.route(name)?;
        let profile = settings.message_profile(name)?;
        let sink = settings.sink.as_ref().filter(|_| profile.needs_jobs());
        let answered_by = sink.map(|sink| (sink.sink(name), sink.limits()));
        let source = Self::with(engine, brokers, route).prefetch(place.prefetch);
        Ok(Self { profile, answered_by, ..source })
    }

    /// A source on a broker of its own making.
    #[must_use]
    pub fn on(engine: &Backstop, broker: Arc<dyn Broker>, route: JobRoute) -> Self {
        Self::with(engine, vec![broker], route)
    }

    fn with(engine: &Backstop, brokers: Vec<Arc<dyn Broker>>, route: JobRoute) -> Self {
        let (profile, times) = (MessageProfile::default(), SourceTimes::default());
        Self {
            engine: engine.clone(),
            brokers,
            route,
            profile,
            answered_by: None,
            answered_from: Mutex::default(),
            tracked: Arc::default(),
            prefetch: 100,
            times,
            paused: false,
            look: Arc::default(),
        }
    }

    /// Holds so many messages at once at most, in each consumer.
    #[must_use]
    pub fn prefetch(mut self, messages: usize) -> Self {
        self.prefetch = messages.max(1);
        self
    }

    /// Behaves so in time.
    #[must_use]
    pub const fn times(mut self, times: SourceTimes) -> Self {
        self.times = times;
        self
    }

    /// Asks the store together with others whether messages may become jobs.
    #[must_use]
    pub(crate) fn looking(mut self, look: &Arc<SharedLook>) -> Self {
        self.look = look.clone();
        self
    }

    /// Takes no messages before [`SourceHandle::resume`].
    #[must_use]
    pub const fn paused(mut self) -> Self {
        self.paused = true;
        self
    }

    /// Starts the loop of each consumer in a task of its own. A broker that is away is tried again for as long as the
    /// loops run.
    #[must_use]
    pub fn start(self) -> SourceHandle {
        let (source, board) = (Arc::new(self), Arc::new(SharedStatus::<SourceStatus>::default()));
        board.write(|status| status.expect_consumers(source.brokers.len()));
        let (paused, listen) = watch::channel(source.paused);
        let stop = CancellationToken::new();
        let consume = |(number, broker): (usize, &Arc<dyn Broker>)| {
            let consumer = SourceConsumer {
                source: source.clone(),
                number,
                broker: broker.clone(),
                board: board.clone(),
            };
            tokio::spawn(round::run(consumer, listen.clone(), stop.clone()))
        };
        let tasks = source.brokers.iter().enumerate().map(consume).collect();
        let check = RunStatusCheck {
            kind: source.route.kind.clone(),
            profile: source.profile.clone(),
            tracked: source.tracked.clone(),
            board: board.clone(),
        };
        let check = check.start(&source.engine);
        SourceHandle { board, paused, stop, tasks, _check: check }
    }
}

/// One connection of a source, and the loop that has it.
struct SourceConsumer {
    source: Arc<Source>,
    /// Its place among the consumers of the source, counted from 0.
    number: usize,
    broker: Arc<dyn Broker>,
    board: Arc<SharedStatus<SourceStatus>>,
}

/// Under which name a broker knows a consumer, counted from 1. The first has that of its node: whether there are others
/// may change, and what it holds is found again.
fn consumer_name(node: &str, number: usize) -> String {
    if number == 1 { node.to_owned() } else { format!("{node}-{number}") }
}

/// A running source; it stops when this value goes away.
#[derive(Debug)]
pub struct SourceHandle {
    board: Arc<SharedStatus<SourceStatus>>,
    paused: watch::Sender<bool>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    // Asked for as long as this value is there.
    _check: Option<Arc<RunStatusCheck>>,
}

impl SourceHandle {
    /// How it is, and what it has done.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        self.board.read()
    }

    /// Waits until its status is as `wanted` says.
    pub async fn until(&self, wanted: impl Fn(&SourceStatus) -> bool + Send) -> SourceStatus {
        self.board.until(wanted).await
    }

    /// True while it is told to take none.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Takes no messages until [`SourceHandle::resume`].
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Takes messages again.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Ends it: what it holds is settled or goes back to the broker first.
    pub async fn stop(mut self) {
        self.stop.cancel();
        for task in &mut self.tasks {
            // A panic of the loop has been told where it happened.
            let _ = task.await;
        }
    }

    /// Its status, to be read when it has ended too.
    pub(crate) fn board(&self) -> Arc<SharedStatus<SourceStatus>> {
        self.board.clone()
    }
}

impl Drop for SourceHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
