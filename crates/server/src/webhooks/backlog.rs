//! What requests and figures know of messages on their way to webhooks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop::figures::{Family, Sample, Sort, float};
use tokio::sync::{mpsc, oneshot};

/// Asks the hand-over to read the subscriptions again; it answers when it has.
pub(super) type ReloadCall = mpsc::UnboundedSender<oneshot::Sender<()>>;

/// What requests and figures know of the hand-over.
#[derive(Debug, Default)]
pub(crate) struct WebhookBacklog {
    /// Asks the hand-over to read the subscriptions again; none while it does not run here.
    reload: Mutex<Option<ReloadCall>>,
    pub(super) waiting: AtomicU64,
    pub(super) handed_over: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl WebhookBacklog {
    /// Resolves when the hand-over of this process knows the subscriptions as they are now.
    pub(crate) async fn reload(&self) {
        let (done, known) = oneshot::channel();
        let asked = self.lock().as_ref().is_some_and(|reload| reload.send(done).is_ok());
        if asked {
            // A hand-over that stops in between knows nothing any more, and need not.
            let _ = known.await;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<ReloadCall>> {
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
