//! The loop of a runner: hear what people ask, do it, tell how the bridges are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop::Backstop;
use backstop::bridges::{BridgeReporter, BridgeRequests};
use backstop_store::Error as StoreError;
use tokio_util::sync::CancellationToken;

use super::RunningBridges;

/// How often it looks whether something changed here. That costs no statement.
const LOOK: Duration = Duration::from_secs(1);

pub(super) async fn run(engine: Backstop, bridges: Arc<RunningBridges>, stop: CancellationToken) {
    let mut reporter = engine.bridges().reporter();
    let mut answered = BTreeMap::new();
    while !stop.is_cancelled() {
        if let Err(error) = round(&engine, &bridges, &mut reporter, &mut answered).await {
            // Whatever else uses the store tells that it is away.
            tracing::debug!(%error, "the store was not told of bridges");
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    if let Err(error) = reporter.end(&bridges.reports()).await {
        tracing::debug!(%error, "the store was not told that bridges have stopped");
    }
}

async fn round(
    engine: &Backstop,
    bridges: &Arc<RunningBridges>,
    reporter: &mut BridgeReporter,
    answered: &mut BTreeMap<String, String>,
) -> Result<(), StoreError> {
    if let Some(requests) = reporter.asked().await? {
        obey(engine, bridges, requests, answered);
    }
    reporter.tell(&bridges.reports()).await?;
    reporter.gather().await
}

fn obey(
    engine: &Backstop,
    bridges: &Arc<RunningBridges>,
    requests: BridgeRequests,
    answered: &mut BTreeMap<String, String>,
) {
    for bridge in &bridges.all {
        bridge.pause(requests.paused.iter().any(|name| name == bridge.name()));
    }
    for (name, request) in requests.tests {
        let is_new = answered.get(&name) != Some(&request);
        if is_new && bridges.get(&name).is_some() {
            answered.insert(name.clone(), request.clone());
            tokio::spawn(answer(engine.clone(), bridges.clone(), name, request));
        }
    }
}

/// A broker may take long to answer: pauses and reports do not wait for it.
async fn answer(engine: Backstop, bridges: Arc<RunningBridges>, name: String, request: String) {
    let Some(bridge) = bridges.get(&name) else { return };
    let test = bridge.test().await;
    if let Err(error) = engine.bridges().answer(&name, &request, test).await {
        tracing::debug!(%error, bridge = name, "the answer to a test was not stored");
    }
}
