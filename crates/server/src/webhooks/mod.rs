//! Events by webhook (V2): from the commit to a job that delivers.
//!
//! An event that somebody subscribed to becomes a job of our own engine; from then on nothing is lost, and a receiver
//! that is away delays nothing but its own messages. Between the commit and that job lies a bounded queue in memory:
//! what is in it when the process dies is lost, and what does not fit is dropped and counted.

mod backlog;
mod delivery;
mod hand_over;
pub(crate) mod subscription;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::WorkerHandle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::api::Api;
pub(crate) use backlog::WebhookBacklog;
use delivery::WebhookDelivery;
use hand_over::{WaitingMessages, hand_over};
use watch::EventWatch;

/// Messages that wait to become jobs at most.
const BACKLOG: usize = 10_000;

/// How long the last messages of a server that stops may take to become jobs.
const LAST_MESSAGES: Duration = Duration::from_secs(5);

/// How long one of the tasks may be silent (H11).
const SILENT: Duration = Duration::from_secs(60);

/// What delivers: kept where a task that is started again finds it.
type SharedWorker = Arc<tokio::sync::Mutex<Option<WorkerHandle>>>;

/// Deliveries under way. Dropping it stops them without waiting.
pub struct Webhooks {
    api: Api,
    watch: AbortOnDropHandle<()>,
    hand_over: AbortOnDropHandle<()>,
    worker: SharedWorker,
    stop: CancellationToken,
}

impl std::fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl Api {
    /// Starts to deliver events to those who subscribed by webhook: what is committed through this process, and what
    /// other processes have left. The worker that delivers starts with the first subscription: without one, all this
    /// costs is a look into the store every two seconds.
    pub async fn deliver_webhooks(&self) -> Webhooks {
        let (messages, waiting) = mpsc::channel(BACKLOG);
        let (worker, stop) = (SharedWorker::default(), CancellationToken::new());
        let watch = self.watch_events(messages, worker.clone(), stop.clone());
        self.reporting().webhooks.reload().await;
        let (api, waiting) = (self.clone(), Arc::new(tokio::sync::Mutex::new(WaitingMessages::new(waiting))));
        let hand_over =
            self.reporting().loops.supervise("webhook jobs", SILENT, stop.clone(), move |heartbeat| {
                let (api, waiting) = (api.clone(), waiting.clone());
                async move { hand_over(&api, &mut *waiting.lock().await, &heartbeat).await }
            });
        Webhooks {
            api: self.clone(),
            watch: AbortOnDropHandle::new(watch),
            hand_over: AbortOnDropHandle::new(hand_over),
            worker,
            stop,
        }
    }

    /// Starts the task that hears of events.
    fn watch_events(
        &self,
        messages: mpsc::Sender<WebhookDelivery>,
        worker: SharedWorker,
        stop: CancellationToken,
    ) -> JoinHandle<()> {
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
            let watch = EventWatch::new(api.clone(), messages.clone(), worker.clone());
            async move { watch.run(reloads, &heartbeat).await }
        })
    }
}

impl Webhooks {
    /// Stops: what has been told becomes jobs, deliveries under way may end, the rest is for later.
    pub async fn stop(self) {
        let Self { api, watch, hand_over, worker, stop } = self;
        stop.cancel();
        // With nobody left who could ask, the watch ends, and with it what the hand-over waits for.
        *api.reporting().webhooks.lock() = None;
        // One that takes too long is ended by being dropped.
        let _ = tokio::time::timeout(LAST_MESSAGES, watch).await;
        let _ = tokio::time::timeout(LAST_MESSAGES, hand_over).await;
        if let Some(worker) = worker.lock().await.take() {
            worker.stop().await;
        }
    }
}
