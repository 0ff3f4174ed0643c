//! What tells the outside how things are: event streams, figures, readiness. One of each per API.

use std::sync::Arc;

use backstop::Loops;
use backstop_kinds::HttpSettings;

use crate::figures::RequestFigures;
use crate::handed_in::HandedIn;
use crate::ready::ReadyChecks;
use crate::stream::EventHub;
use crate::web::{CountHistory, EndedSessions};
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
    /// Jobs that other Backstops have handed off to this one.
    pub(crate) handed_in: HandedIn,
    /// Messages on their way to webhooks.
    pub(crate) webhooks: WebhookBacklog,
    /// How the kept counts were in the last hour, for the page's charts.
    pub(crate) history: Arc<CountHistory>,
    /// Sessions of the page that people have ended.
    pub(crate) ended_sessions: EndedSessions,
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
            handed_in: HandedIn::default(),
            webhooks: WebhookBacklog::default(),
            history: Arc::default(),
            ended_sessions: EndedSessions::default(),
        }
    }
}
