//! What requests and figures know of messages on their way to webhooks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use backstop::figures::{Family, Sample, Sort, float};
use backstop::sinks::SinkView;
use tokio::sync::{mpsc, oneshot};

/// Asks the loop to read the webhooks again; it answers when it has.
pub(super) type ReloadCall = mpsc::UnboundedSender<oneshot::Sender<()>>;

/// What requests and figures know of the loop that makes jobs of messages.
#[derive(Debug, Default)]
pub(crate) struct WebhookBacklog {
    /// Asks it to read the webhooks again; none while it does not run here.
    reload: Mutex<Option<ReloadCall>>,
    pub(super) handed_over: AtomicU64,
}

impl WebhookBacklog {
    /// Resolves when the loop of this process knows the webhooks as they are now.
    pub(crate) async fn reload(&self) {
        let (done, known) = oneshot::channel();
        let asked = self.lock().as_ref().is_some_and(|reload| reload.send(done).is_ok());
        if asked {
            // One that stops in between knows nothing any more, and need not.
            let _ = known.await;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Option<ReloadCall>> {
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn families(&self) -> Vec<Family> {
        let made = float(self.handed_over.load(Ordering::Relaxed));
        vec![one("backstop_webhook_messages_total", "Messages that became jobs here.", Sort::Counter, made)]
    }
}

/// What the store knows of all webhooks together, and how many events this process could not write for sinks.
pub(crate) fn stored_families(views: &[SinkView], lost: u64) -> Vec<Family> {
    let sum = |of: fn(&SinkView) -> u64| float(views.iter().map(of).fold(0, u64::saturating_add));
    let lag = views.iter().map(SinkView::lag).max().unwrap_or_default().as_secs_f64();
    vec![
        one(
            "backstop_webhook_backlog",
            "Messages that wait to become jobs, of all processes.",
            Sort::Gauge,
            sum(|view| view.backlog.messages),
        ),
        one(
            "backstop_webhook_lag_seconds",
            "How long the oldest message has waited to become a job.",
            Sort::Gauge,
            lag,
        ),
        one(
            "backstop_webhook_refused_total",
            "Messages that were refused because too much waited for their webhook.",
            Sort::Counter,
            sum(|view| view.refused),
        ),
        one(
            "backstop_events_lost_total",
            "Events that no commit makes and that could not be written for webhooks, bridges and subscriptions.",
            Sort::Counter,
            float(lost),
        ),
    ]
}

fn one(name: &'static str, help: &'static str, sort: Sort, value: f64) -> Family {
    Family::new(name, help, sort, vec![Sample::number(vec![], value)])
}
