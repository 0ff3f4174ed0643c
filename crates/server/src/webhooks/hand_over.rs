//! From a message in memory to a job in the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::Backstop;
use tokio::sync::mpsc;

use super::delivery::Delivery;
use crate::api::Api;

/// Messages that become jobs in one commit at most.
const BATCH: usize = 200;

const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Makes jobs of messages until there are no more to come.
pub(super) async fn hand_over(api: Api, mut waiting: mpsc::Receiver<Delivery>) {
    let mut batch = Vec::new();
    while waiting.recv_many(&mut batch, BATCH).await > 0 {
        store(api.engine(), &batch).await;
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let counts = &api.tell().webhooks;
        counts.waiting.fetch_sub(count, Ordering::Relaxed);
        counts.handed_over.fetch_add(count, Ordering::Relaxed);
        batch.clear();
    }
}

/// Stores messages as jobs, however often that has to be tried. A repeat keeps the message's id.
async fn store(engine: &Backstop, batch: &[Delivery]) {
    let mut pause = PAUSE_MIN;
    loop {
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
