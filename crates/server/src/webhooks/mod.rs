//! Events by webhook (V2): from the commit to a job that delivers.
//!
//! An event that somebody subscribed to becomes a job of our own engine; from then on nothing is lost, and a receiver
//! that is away delays nothing but its own messages. Between the commit and that job lies a bounded queue in memory:
//! what is in it when the process dies is lost, and what does not fit is dropped and counted.

mod delivery;
mod hand_over;
pub(crate) mod subscription;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop::WorkerHandle;
use backstop::figures::{Family, Sample, Sort, float};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::api::Api;
use hand_over::hand_over;
use watch::Watch;

/// Messages that wait to become jobs at most.
const BACKLOG: usize = 10_000;

/// How long the last messages of a server that stops may take to become jobs.
const LAST_MESSAGES: Duration = Duration::from_secs(5);

/// Asks the hand-over to read the subscriptions anew; it answers when it has.
type Ask = mpsc::UnboundedSender<oneshot::Sender<()>>;

/// What requests and figures know of the hand-over.
#[derive(Debug, Default)]
pub(crate) struct HandOver {
    /// Asks the hand-over to read the subscriptions anew; none while it does not run here.
    reload: Mutex<Option<Ask>>,
    waiting: AtomicU64,
    handed_over: AtomicU64,
    dropped: AtomicU64,
}

impl HandOver {
    /// Resolves when the hand-over of this process knows the subscriptions as they are now.
    pub(crate) async fn reload(&self) {
        let (done, known) = oneshot::channel();
        let asked = self.lock().as_ref().is_some_and(|reload| reload.send(done).is_ok());
        if asked {
            // A hand-over that stops in between knows nothing any more, and need not.
            let _ = known.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Ask>> {
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let family = |name, help, sort, number: &AtomicU64| {
            let value = float(number.load(Ordering::Relaxed));
            Family::new(name, help, sort, vec![Sample::number(vec![], value)])
        };
        vec![
            family(
                "backstop_webhook_backlog",
                "Messages that wait to become jobs.",
                Sort::Gauge,
                &self.waiting,
            ),
            family(
                "backstop_webhook_messages_total",
                "Messages that became jobs.",
                Sort::Counter,
                &self.handed_over,
            ),
            family(
                "backstop_webhook_dropped_total",
                "Events that no subscriber will get, because they came faster than they were stored.",
                Sort::Counter,
                &self.dropped,
            ),
        ]
    }
}

/// Deliveries under way. Dropping it stops them without waiting.
pub struct Webhooks {
    api: Api,
    watch: AbortOnDropHandle<Option<WorkerHandle>>,
    hand_over: AbortOnDropHandle<()>,
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
        let (reload, reloads) = mpsc::unbounded_channel();
        *self.tell().webhooks.lock() = Some(reload);
        let watch = tokio::spawn(Watch::new(self.clone(), messages).run(reloads));
        self.tell().webhooks.reload().await;
        let hand_over = tokio::spawn(hand_over(self.clone(), waiting));
        Webhooks {
            api: self.clone(),
            watch: AbortOnDropHandle::new(watch),
            hand_over: AbortOnDropHandle::new(hand_over),
        }
    }
}

impl Webhooks {
    /// Stops: what has been told becomes jobs, deliveries under way may end, the rest is for later.
    pub async fn stop(self) {
        let Self { api, watch, hand_over } = self;
        // With nobody left who could ask, the watch ends, and with it what the hand-over waits for.
        *api.tell().webhooks.lock() = None;
        let worker = tokio::time::timeout(LAST_MESSAGES, watch).await;
        // One that takes too long is ended by being dropped.
        let _ = tokio::time::timeout(LAST_MESSAGES, hand_over).await;
        if let Ok(Ok(Some(worker))) = worker {
            worker.stop().await;
        }
    }
}
