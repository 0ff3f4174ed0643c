//! Events by webhook (V2): from the commit to a job that delivers.
//!
//! A webhook has a sink: the transaction that makes an event which it wants writes a message beside itself, in
//! whichever process. A loop here makes a job of our own engine of each message, and from then on a receiver that is
//! away delays nothing but its own messages.

mod backlog;
mod delivery;
mod follow;
pub(crate) mod subscription;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::WorkerHandle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::api::Api;
pub(crate) use backlog::{WebhookBacklog, stored_families};
use follow::WebhookQueue;

/// How long the page that becomes jobs while a server stops may take.
const LAST_PAGE: Duration = Duration::from_secs(5);

/// How long the task may be silent (H11).
const SILENT: Duration = Duration::from_secs(60);

/// What delivers: kept where a task that is started again finds it.
type SharedWorker = Arc<tokio::sync::Mutex<Option<WorkerHandle>>>;

/// Deliveries under way. Dropping it stops them without waiting.
pub struct Webhooks {
    api: Api,
    follow: AbortOnDropHandle<()>,
    worker: SharedWorker,
    stop: CancellationToken,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Api {
    /// Starts to deliver events to those who subscribed by webhook: what any process of the store has committed. The
    /// worker that delivers starts with the first subscription: without one, all this costs is a look into the store
    /// every two seconds.
    pub async fn deliver_webhooks(&self) -> Webhooks {
        let (worker, stop) = (SharedWorker::default(), CancellationToken::new());
        let follow = AbortOnDropHandle::new(self.follow_webhooks(worker.clone(), stop.clone()));
        self.reporting().webhooks.reload().await;
        Webhooks { api: self.clone(), follow, worker, stop }
    }

    /// Starts the task that makes jobs of messages.
    fn follow_webhooks(&self, worker: SharedWorker, stop: CancellationToken) -> JoinHandle<()> {
        let ways = |api: &Self| {
            let (reload, reloads) = mpsc::unbounded_channel();
            *api.reporting().webhooks.lock() = Some(reload);
            reloads
        };
        // There before the task is, for whoever asks at once.
        let (api, first) = (self.clone(), Mutex::new(Some(ways(self))));
        self.reporting().loops.supervise("webhooks", SILENT, stop, move |heartbeat| {
            let reloads = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let reloads = reloads.unwrap_or_else(|| ways(&api));
            let queue = WebhookQueue::new(api.clone(), worker.clone());
            async move { queue.run(reloads, &heartbeat).await }
        })
    }
}

impl Webhooks {
    /// Stops: other processes go on at once, deliveries under way may end, the rest is for later.
    pub async fn stop(self) {
        let Self { api, follow, worker, stop } = self;
        stop.cancel();
        // With nobody left who could ask, the task ends.
        *api.reporting().webhooks.lock() = None;
        // One that takes too long is ended by being dropped.
        let _ = tokio::time::timeout(LAST_PAGE, follow).await;
        if let Some(worker) = worker.lock().await.take() {
            worker.stop().await;
        }
    }
}
