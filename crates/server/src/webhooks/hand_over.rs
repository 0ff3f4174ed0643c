//! From a message in memory to a job in the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::{Backstop, LoopHeartbeat};
use tokio::sync::mpsc;

use super::delivery::WebhookDelivery;
use crate::api::Api;

/// Messages that become jobs in one commit at most.
const BATCH: usize = 200;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often the task says that it is alive while no message comes.
const BEAT: Duration = Duration::from_secs(5);

/// Messages that have not become jobs: what was taken off the queue stays here until it has, whoever takes it on.
pub(super) struct WaitingMessages {
    queue: mpsc::Receiver<WebhookDelivery>,
    batch: Vec<WebhookDelivery>,
}

impl WaitingMessages {
    pub(super) const fn new(queue: mpsc::Receiver<WebhookDelivery>) -> Self {
        Self { queue, batch: Vec::new() }
    }

    /// Takes what waits; false when no more will come.
    async fn gather(&mut self, heartbeat: &LoopHeartbeat) -> bool {
        while self.batch.is_empty() {
            heartbeat.record();
            let received = tokio::time::timeout(BEAT, self.queue.recv_many(&mut self.batch, BATCH)).await;
            if received == Ok(0) {
                return false;
            }
        }
        true
    }
}

/// Makes jobs of messages until there are no more to come.
pub(super) async fn hand_over(api: &Api, waiting: &mut WaitingMessages, heartbeat: &LoopHeartbeat) {
    while waiting.gather(heartbeat).await {
        store(api.engine(), &waiting.batch, heartbeat).await;
        let count = u64::try_from(waiting.batch.len()).unwrap_or(u64::MAX);
        let counts = &api.reporting().webhooks;
        counts.waiting.fetch_sub(count, Ordering::Relaxed);
        counts.handed_over.fetch_add(count, Ordering::Relaxed);
        waiting.batch.clear();
    }
}

/// Stores messages as jobs, however often that has to be tried. A repeat keeps the message's id.
async fn store(engine: &Backstop, batch: &[WebhookDelivery], heartbeat: &LoopHeartbeat) {
    let mut pause = PAUSE_MIN;
    loop {
        heartbeat.record();
        let jobs = batch.iter().map(|delivery| engine.enqueue(delivery.clone())).collect();
        match engine.submit_all(jobs, false).await {
            Ok(answers) => {
                for refusal in answers.into_iter().filter_map(Result::err) {
                    tracing::error!(%refusal, "a message to a webhook was refused as a job");
                }
                return;
            }
            Err(error) => {
                tracing::warn!(%error, messages = batch.len(), "messages to webhooks wait for the store");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}
