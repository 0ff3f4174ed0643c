//! All bridges of a program: started together, told of in the store, and obedient to what people ask there.
//!
//! Owns which bridges run here. How each takes and sends messages is the business of `source` and `sink`; what a
//! process tells and hears goes through [`backstop::bridges`], so that every process of the store shows and pauses
//! them.

mod bridge;
mod rounds;

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop::Backstop;
use backstop::bridges::{BridgeProblem, BridgeReport, BridgeTestAnswer, BridgeTester};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::bridge::RunningBridge;
use crate::settings::{BridgeSettings, BridgeSettingsError, check_all};

/// The bridges of a program that run.
///
/// ```no_run
/// use std::collections::BTreeMap;
///
/// use backstop::prelude::*;
/// use backstop_bridges::{BridgeRunner, BridgeSettings, SourceSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Backstop::open("sqlite:jobs.db").await?;
/// let orders = BridgeSettings::new("redis://127.0.0.1:6379", SourceSettings::new("orders", "charge"));
/// let runner = BridgeRunner::start(&engine, &BTreeMap::from([("orders".to_owned(), orders)]));
/// for bridge in engine.bridges().list().await? {
///     println!("{}: {}", bridge.name, bridge.state.as_str());
/// }
/// runner.stop().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct BridgeRunner {
    bridges: Arc<RunningBridges>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// What the runner and its loop share.
#[derive(Debug)]
struct RunningBridges {
    all: Vec<RunningBridge>,
}

impl RunningBridges {
    fn reports(&self) -> Vec<BridgeReport> {
        self.all.iter().map(RunningBridge::report).collect()
    }

    fn get(&self, name: &str) -> Option<&RunningBridge> {
        self.all.iter().find(|bridge| bridge.name() == name)
    }
}

impl BridgeTester for RunningBridges {
    fn test<'a>(&'a self, bridge: &'a str) -> BridgeTestAnswer<'a> {
        Box::pin(async move { Some(self.get(bridge)?.test().await) })
    }
}

impl BridgeRunner {
    /// Starts every bridge that can be started. One that cannot is told of like the others, with why; the engine and
    /// the other bridges go on.
    #[must_use]
    pub fn start(engine: &Backstop, settings: &BTreeMap<String, BridgeSettings>) -> Self {
        let shared = shared_consumers(settings);
        let look = Arc::default();
        let start = |(name, bridge): (&String, &BridgeSettings)| {
            RunningBridge::start(engine, name, bridge, shared.get(name).cloned(), &look)
        };
        let all: Vec<RunningBridge> = settings.iter().map(start).collect();
        let (bridges, stop) = (Arc::new(RunningBridges { all }), CancellationToken::new());
        if bridges.all.is_empty() {
            return Self { bridges, stop, task: None };
        }
        let tester: Arc<dyn BridgeTester> = bridges.clone();
        engine.bridges().attach(&tester);
        let task = tokio::spawn(rounds::run(engine.clone(), bridges.clone(), stop.clone()));
        Self { bridges, stop, task: Some(task) }
    }

    /// Why bridges were not started: the name of each, and a sentence without credentials.
    #[must_use]
    pub fn problems(&self) -> Vec<(String, BridgeProblem)> {
        let problem = |bridge: &RunningBridge| Some((bridge.name().to_owned(), bridge.report().problem?));
        self.bridges.all.iter().filter_map(problem).collect()
    }

    /// How the bridges are here.
    #[must_use]
    pub fn reports(&self) -> Vec<BridgeReport> {
        self.bridges.reports()
    }

    /// Ends them: what is held is settled or goes back to its broker, what is being published is confirmed, and what
    /// waits stays in the outbox for the next process. The store is told.
    pub async fn stop(mut self) {
        for bridge in &self.bridges.all {
            bridge.stop().await;
        }
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic of the loop has been told where it happened.
            let _ = task.await;
        }
    }
}

impl Drop for BridgeRunner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Bridges that would take each other's messages: none of them is started, for nobody knows which one is meant.
fn shared_consumers(settings: &BTreeMap<String, BridgeSettings>) -> BTreeMap<String, BridgeProblem> {
    let mut shared = BTreeMap::new();
    for fault in check_all(settings, |_| true) {
        if let BridgeSettingsError::SameConsumer { first, second, .. } = &fault {
            let problem = BridgeProblem::new(fault.code(), fault.to_string());
            shared.entry(first.clone()).or_insert_with(|| problem.clone());
            shared.insert(second.clone(), problem);
        }
    }
    shared
}
