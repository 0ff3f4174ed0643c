//! One bridge that runs: its source, its sink, and what is told of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstop::Backstop;
use backstop::bridges::{
    BridgeCheck, BridgeProblem, BridgeReport, BridgeState, BridgeTest, SinkReport, SourceReport,
};
use tokio::time::Instant;

use crate::broker::{Broker, BrokerError};
use crate::brokers;
use crate::settings::{BridgeSettings, BridgeSettingsError};
use crate::shared_status::SharedStatus;
use crate::sink::{BridgeSink, SinkHandle, SinkRunState, SinkStatus};
use crate::source::{SharedLook, Source, SourceHandle, SourceState, SourceStatus};

/// See the module.
pub(super) struct RunningBridge {
    /// What is told of it but for what changes.
    report: BridgeReport,
    node: String,
    /// They are taken away when it stops; their status stays.
    source: Mutex<Option<SourceHandle>>,
    sink: Mutex<Option<SinkHandle>>,
    source_status: Option<Arc<SharedStatus<SourceStatus>>>,
    sink_status: Option<Arc<SharedStatus<SinkStatus>>>,
    /// Where the sink sends to, as its broker knows it.
    sink_queue: String,
    /// Connections of their own for tests: those of the loops have one user each.
    source_broker: Option<Arc<dyn Broker>>,
    sink_broker: Option<Arc<dyn Broker>>,
    /// Whether a person paused it, as far as this process has heard; it has heard nothing at first.
    asked: AtomicBool,
    paused: AtomicBool,
}

impl std::fmt::Debug for RunningBridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningBridge").field("report", &self.report).finish_non_exhaustive()
    }
}

/// What is opened of a bridge.
struct OpenBridge {
    source: Option<(Source, Arc<dyn Broker>)>,
    sink: Option<(BridgeSink, Arc<dyn Broker>)>,
}

impl RunningBridge {
    /// Starts a bridge, unless there is a problem with it.
    pub(super) fn start(
        engine: &Backstop,
        name: &str,
        settings: &BridgeSettings,
        problem: Option<BridgeProblem>,
        look: &Arc<SharedLook>,
    ) -> Self {
        let settings = &settings.with_own_sink();
        let opened = match problem {
            Some(problem) => Err(problem),
            None => open(engine, name, settings)
                .map_err(|fault| BridgeProblem::new(fault.code(), fault.to_string())),
        };
        let mut report = described(name, settings);
        let (source, sink) = match opened {
            Ok(opened) => (opened.source, opened.sink),
            Err(problem) => {
                report.problem = Some(problem);
                (None, None)
            }
        };
        let (source, source_broker) = source.unzip();
        let (sink, sink_broker) = sink.unzip();
        // Whether it is paused is in the store: nothing is taken before that is known.
        let source = source.map(|source| source.looking(look).paused().start());
        let sink = sink.map(BridgeSink::start);
        Self {
            report,
            node: engine.config().node.to_string(),
            source_status: source.as_ref().map(SourceHandle::board),
            sink_status: sink.as_ref().map(SinkHandle::board),
            source: Mutex::new(source),
            sink: Mutex::new(sink),
            sink_queue: settings.sink.as_ref().map(|sink| sink.queue.clone()).unwrap_or_default(),
            source_broker,
            sink_broker,
            asked: AtomicBool::new(false),
            paused: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.report.name
    }

    /// Does what a person asked for. The sink reads its own pause where it reads its lease.
    pub(super) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
        self.asked.store(true, Ordering::Release);
        if let Some(source) = &*self.source.lock().unwrap_or_else(PoisonError::into_inner) {
            let is_paused = source.is_paused();
            match paused {
                true if !is_paused => source.pause(),
                false if is_paused => source.resume(),
                _ => {}
            }
        }
    }

    /// How it is now.
    pub(super) fn report(&self) -> BridgeReport {
        let mut report = self.report.clone();
        let paused = self.paused.load(Ordering::Acquire);
        if let (Some(told), Some(status)) = (&mut report.source, &self.source_status) {
            tell_source(told, status.read());
            if told.state == BridgeState::Paused && !self.asked.load(Ordering::Acquire) {
                told.state = BridgeState::Starting;
            }
        }
        if let (Some(told), Some(status)) = (&mut report.sink, &self.sink_status) {
            tell_sink(told, status.read(), paused);
        }
        report
    }

    /// Reaches the broker and looks for the queues. No message is taken or sent.
    pub(super) async fn test(&self) -> BridgeTest {
        let source = match &self.source_broker {
            Some(broker) => Some(check(async { broker.connect().await.map(drop) }).await),
            None => None,
        };
        let queue = &self.sink_queue;
        let sink = match &self.sink_broker {
            Some(broker) => Some(check(async { broker.publisher().await?.look_for(queue).await }).await),
            None => None,
        };
        BridgeTest { node: self.node.clone(), source, sink, problem: self.report.problem.clone() }
    }

    /// Ends it. What it has done is told all the same.
    pub(super) async fn stop(&self) {
        // Taken first, so that nothing is awaited while they are locked.
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(source) = source {
            source.stop().await;
        }
        if let Some(sink) = sink {
            sink.stop().await;
        }
    }
}

fn open(engine: &Backstop, name: &str, settings: &BridgeSettings) -> Result<OpenBridge, BridgeSettingsError> {
    let node = &engine.config().node;
    let source = match &settings.source {
        Some(_) => Some((Source::new(engine, name, settings)?, brokers::open(name, settings, node)?)),
        None => None,
    };
    let sink = match &settings.sink {
        Some(_) => {
            let broker = brokers::open(name, &settings.sink_alone(), node)?;
            Some((BridgeSink::new(engine, name, settings)?, broker))
        }
        None => None,
    };
    Ok(OpenBridge { source, sink })
}

/// What the settings say of a bridge, without credentials.
fn described(name: &str, settings: &BridgeSettings) -> BridgeReport {
    // An address that cannot be used is not shown: nobody knows where in it the credentials are.
    let broker = settings.address(name).map(|address| address.to_string()).unwrap_or_default();
    let mut report = BridgeReport::new(name, broker);
    report.source = settings.source.as_ref().map(|source| SourceReport {
        queue: source.queue.clone(),
        kind: source.kind.clone(),
        to_queue: source.to_queue.clone(),
        consumer: settings.consumer(name).to_owned(),
        concurrency: u32::try_from(source.concurrency).unwrap_or(u32::MAX),
        consuming: 0,
        state: BridgeState::Starting,
        received: 0,
        admitted: 0,
        duplicates: 0,
        invalid: 0,
        abandoned: 0,
        rejected: 0,
        passed_on: 0,
        discarded: 0,
        given_back: 0,
        backlog: None,
        problem: None,
    });
    report.sink = settings.sink.as_ref().map(|sink| SinkReport {
        queue: sink.place(),
        of: sink.of.clone(),
        state: BridgeState::Starting,
        publishes: false,
        repeated: 0,
        problem: None,
    });
    report
}

fn tell_source(told: &mut SourceReport, status: SourceStatus) {
    told.state = match status.state {
        SourceState::Starting => BridgeState::Starting,
        SourceState::Consuming => BridgeState::Running,
        SourceState::Paused => BridgeState::Paused,
        SourceState::Held => BridgeState::Held,
        SourceState::Disconnected => BridgeState::Disconnected,
        SourceState::Stopped => BridgeState::NotRunning,
    };
    told.consuming = status.consuming;
    told.received = status.received;
    told.admitted = status.admitted;
    told.duplicates = status.duplicates;
    told.invalid = status.invalid;
    told.abandoned = status.abandoned;
    told.rejected = status.rejected;
    told.passed_on = status.passed_on;
    told.discarded = status.discarded;
    told.given_back = status.given_back;
    told.backlog = status.backlog;
    told.problem = problem(told.state, status.error_code, status.last_error);
}

fn tell_sink(told: &mut SinkReport, status: SinkStatus, paused: bool) {
    told.state = match status.state {
        SinkRunState::Starting => BridgeState::Starting,
        SinkRunState::Standby if paused => BridgeState::Paused,
        SinkRunState::Publishing | SinkRunState::Standby => BridgeState::Running,
        SinkRunState::Disconnected => BridgeState::Disconnected,
        SinkRunState::Stopped => BridgeState::NotRunning,
    };
    told.publishes = status.state == SinkRunState::Publishing;
    told.repeated = status.repeated;
    told.problem = problem(told.state, status.error_code, status.last_error);
}

/// What went wrong is a problem for as long as it keeps the bridge from working.
fn problem(state: BridgeState, code: Option<&'static str>, text: Option<String>) -> Option<BridgeProblem> {
    let stuck = matches!(state, BridgeState::Held | BridgeState::Disconnected);
    text.filter(|_| stuck).map(|text| BridgeProblem::new(code.unwrap_or("failed"), text))
}

async fn check(asked: impl Future<Output = Result<(), BrokerError>>) -> BridgeCheck {
    let began = Instant::now();
    let answer = asked.await;
    BridgeCheck {
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        problem: answer.err().map(|error| BridgeProblem::new(error.code(), error.to_string())),
    }
}
