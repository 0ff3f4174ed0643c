//! What tells the outside how things are: event streams, figures, readiness. One of each per API.

use std::sync::Arc;

use backstop::{Health, Loops};
use backstop_kinds::HttpSettings;

use crate::api::Api;
use crate::figures::{AnsweredRequest, RequestFigures};
use crate::ready::ReadyChecks;
use crate::stream::EventHub;
use crate::webhooks::WebhookBacklog;

/// Settings of what tells the outside.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReportSettings {
    /// Events that are kept for subscribers that come back.
    pub kept_events: usize,
    /// Bytes of such events.
    pub kept_bytes: usize,
    /// True lets everybody read `/metrics`, without a token.
    pub open_metrics: bool,
    /// Where webhooks may lead to; public addresses only by default.
    pub webhooks: HttpSettings,
}

impl Default for ReportSettings {
    fn default() -> Self {
        Self {
            kept_events: 65_536,
            kept_bytes: 32 * 1024 * 1024,
            open_metrics: false,
            webhooks: HttpSettings::default().section("webhooks"),
        }
    }
}

/// What every handler that tells something has at hand.
#[derive(Debug)]
pub(crate) struct Reporting {
    /// Event streams.
    pub(crate) hub: Arc<EventHub>,
    /// What readiness rests on.
    pub(crate) checks: ReadyChecks,
    /// The server's own tasks, which readiness rests on too (H11).
    pub(crate) loops: Arc<Loops>,
    /// What is counted of requests.
    pub(crate) requests: RequestFigures,
    /// Messages on their way to webhooks.
    pub(crate) webhooks: WebhookBacklog,
}

impl Reporting {
    pub(crate) fn new(settings: &ReportSettings, loops: &Arc<Loops>) -> Self {
        let (checks, watch) = (ReadyChecks::default(), loops.watch());
        checks.watch("server".to_owned(), Box::new(move || watch.health()));
        Self {
            hub: EventHub::new(settings.kept_events, settings.kept_bytes, loops.clone()),
            checks,
            loops: loops.clone(),
            requests: RequestFigures::default(),
            webhooks: WebhookBacklog::default(),
        }
    }
}

impl Api {
    /// Lets readiness rest on a worker too (H2). `health` says how its loops are, and none when it has stopped; pass
    /// `let watch = handle.watch(); move || watch.health()`. The name is shown to everybody who asks for readiness.
    pub fn watch(
        &self,
        name: impl Into<String>,
        health: impl Fn() -> Option<Health> + Send + Sync + 'static,
    ) {
        self.reporting().checks.watch(name.into(), Box::new(health));
    }

    /// Lets somebody hear of every request that was answered, such as an exporter of traces. It is called on the
    /// request's own task and must not wait for anything; the first one stays.
    pub fn on_answer(&self, listener: impl Fn(AnsweredRequest) + Send + Sync + 'static) {
        // A second listener would silently cost every request twice.
        let _ = self.reporting().requests.listener.set(Box::new(listener));
    }

    /// Ends every event stream, now and for good: they would otherwise keep a server that stops waiting.
    pub fn close_streams(&self) {
        self.reporting().hub.close();
    }
}
