//! Every way by which data of jobs leaves this process, and how much of it is shown there: the one list.
//!
//! Data is what a submitter and a handler wrote: payload, params, result, what is published, errors, notes, lines. The
//! keys, tags and names of a job are no data: people look jobs up by them. A test walks the list with secrets in all of
//! it; a route that stands in neither table fails that test, so a new way out has to say here what it shows.

use crate::access::Scope;

/// How much of a job's data comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataShown {
    /// Data with secrets masked, sealed data closed, and hidden where it cannot be looked through (F11, E12). What a
    /// run logged only with the scope `logs`.
    Masked,
    /// Data as it is stored, for callers with this scope and nobody else.
    InClear {
        /// The scope.
        scope: Scope,
        /// True where sealed data is opened too, if this process has the keys.
        opens: bool,
    },
    /// Errors, notes and lines, which were sanitized before they were stored (F11).
    Words,
    /// Names, counts and moments.
    NoData,
}

/// By which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayOutKind {
    /// The answer to a request; a query that changes what is shown stands behind its path.
    Answer {
        /// The method.
        method: &'static str,
        /// The path, as in the table of routes.
        path: &'static str,
        /// The query, empty for the plain request.
        query: &'static str,
    },
    /// `Backstop::events`: subscribers in this process.
    Subscriber,
    /// The messages of webhooks.
    Webhook,
    /// The same messages while they wait in the store, as jobs of their own.
    WebhookCopy,
    /// What alert channels are told.
    Alert,
    /// The lines that this process logs.
    LogLine,
    /// The spans that the program sends to a collector.
    Span,
}

/// One way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayOut {
    /// Which one.
    pub by: WayOutKind,
    /// What comes out.
    pub shows: DataShown,
}

const fn answer(method: &'static str, path: &'static str, query: &'static str, shows: DataShown) -> WayOut {
    WayOut { by: WayOutKind::Answer { method, path, query }, shows }
}

const fn get(path: &'static str, shows: DataShown) -> WayOut {
    answer("GET", path, "", shows)
}

const fn told(by: WayOutKind, shows: DataShown) -> WayOut {
    WayOut { by, shows }
}

const EXPORTED: DataShown = DataShown::InClear { scope: Scope::Logs, opens: false };
const REVEALED: DataShown = DataShown::InClear { scope: Scope::Logs, opens: true };
/// A worker elsewhere gets what a handler in the process gets.
const HANDED_OUT: DataShown = DataShown::InClear { scope: Scope::Work, opens: true };

/// Every way out on which data of jobs is met.
pub const WAYS_OUT: [WayOut; 37] = [
    get("/api/v1/jobs", DataShown::Masked),
    answer("GET", "/api/v1/jobs", "reveal=true", REVEALED),
    get("/api/v1/jobs/{id}", DataShown::Masked),
    answer("GET", "/api/v1/jobs/{id}", "reveal=true", REVEALED),
    get("/api/v1/jobs/{id}/attempts", DataShown::Masked),
    get("/api/v1/jobs/{id}/explain", DataShown::Words),
    get("/api/v1/jobs/{id}/logs", DataShown::Words),
    get("/api/v1/dead-letters", DataShown::Masked),
    answer("GET", "/api/v1/dead-letters", "envelope=true", DataShown::Words),
    get("/api/v1/dead-letters/{id}", DataShown::Masked),
    answer("GET", "/api/v1/dead-letters/{id}", "envelope=true", DataShown::Masked),
    get("/api/v1/dead-letters/export", EXPORTED),
    get("/api/v1/archive", DataShown::Masked),
    get("/api/v1/archive/{id}", DataShown::Masked),
    answer("GET", "/api/v1/archive/{id}", "reveal=true", EXPORTED),
    get("/api/v1/archive/export", EXPORTED),
    get("/api/v1/incidents", DataShown::Words),
    get("/api/v1/incidents/{fingerprint}", DataShown::Words),
    answer("POST", "/api/v1/incidents/{fingerprint}/ack", "", DataShown::Words),
    answer("POST", "/api/v1/incidents/{fingerprint}/fixed", "", DataShown::Words),
    answer("POST", "/api/v1/incidents/{fingerprint}/mute", "", DataShown::Words),
    answer("POST", "/api/v1/incidents/{fingerprint}/reopen", "", DataShown::Words),
    answer("POST", "/api/v1/redrives", "", DataShown::Words),
    get("/api/v1/rejects", DataShown::Masked),
    answer("GET", "/api/v1/rejects", "reveal=true", REVEALED),
    get("/api/v1/rejects/export", REVEALED),
    get("/api/v1/reject-groups", DataShown::Words),
    answer("POST", "/api/v1/rules/test", "", DataShown::Words),
    answer("POST", "/api/v1/work/claim", "", HANDED_OUT),
    answer("POST", "/api/v1/work/effect", "", HANDED_OUT),
    get("/api/v1/events", DataShown::Masked),
    told(WayOutKind::Subscriber, DataShown::Masked),
    told(WayOutKind::Webhook, DataShown::Masked),
    told(WayOutKind::WebhookCopy, DataShown::Masked),
    told(WayOutKind::Alert, DataShown::Words),
    told(WayOutKind::LogLine, DataShown::Words),
    told(WayOutKind::Span, DataShown::NoData),
];

/// Every other route: method and path. Their answers hold no data of jobs. Invalid messages of bridges never became
/// jobs; their bodies need the scope `logs` all the same.
pub const WITHOUT_DATA: [(&str, &str); 100] = [
    ("GET", "/api/v1/alerts"),
    ("GET", "/api/v1/audit"),
    ("GET", "/api/v1/batches"),
    ("GET", "/api/v1/batches/{id}"),
    ("GET", "/api/v1/bridges"),
    ("GET", "/api/v1/bridges/{name}"),
    ("GET", "/api/v1/bridges/{name}/invalid"),
    ("GET", "/api/v1/bridges/{name}/invalid/export"),
    ("GET", "/api/v1/circuits"),
    ("GET", "/api/v1/circuits/{key}"),
    ("GET", "/api/v1/clock"),
    ("GET", "/api/v1/doctor"),
    ("GET", "/api/v1/handoffs"),
    ("GET", "/api/v1/handoffs/{name}"),
    ("GET", "/api/v1/limits"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/ordering-keys"),
    ("GET", "/api/v1/queues"),
    ("GET", "/api/v1/redrives"),
    ("GET", "/api/v1/redrives/{id}"),
    ("GET", "/api/v1/redrives/{id}/jobs"),
    ("GET", "/api/v1/resume/{token}"),
    ("GET", "/api/v1/retention"),
    ("GET", "/api/v1/retry-budgets"),
    ("GET", "/api/v1/rules"),
    ("GET", "/api/v1/scale"),
    ("GET", "/api/v1/schedules"),
    ("GET", "/api/v1/schedules/{name}"),
    ("GET", "/api/v1/signals"),
    ("GET", "/api/v1/tokens"),
    ("GET", "/api/v1/webhooks"),
    ("GET", "/api/v1/workers"),
    ("GET", "/api/v1/workflows"),
    ("GET", "/api/v1/workflows/{id}"),
    ("GET", "/api/v1/workflows/{id}/graph.mmd"),
    ("GET", "/api/v1/workflows/{id}/graph.svg"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
    ("POST", "/api/v1/archive/prune"),
    ("POST", "/api/v1/bridges/{name}/invalid/purge"),
    ("POST", "/api/v1/bridges/{name}/pause"),
    ("POST", "/api/v1/bridges/{name}/resume"),
    ("POST", "/api/v1/bridges/{name}/test"),
    ("POST", "/api/v1/circuits/{key}/close"),
    ("POST", "/api/v1/circuits/{key}/open"),
    ("POST", "/api/v1/dead-letters/purge"),
    ("POST", "/api/v1/handoffs/{name}/retry"),
    ("POST", "/api/v1/jobs"),
    ("POST", "/api/v1/jobs/batch"),
    ("POST", "/api/v1/jobs/change"),
    ("POST", "/api/v1/jobs/{id}/cancel"),
    ("POST", "/api/v1/jobs/{id}/pause"),
    ("POST", "/api/v1/jobs/{id}/resume"),
    ("POST", "/api/v1/jobs/{id}/resume-token"),
    ("POST", "/api/v1/jobs/{id}/retry"),
    ("POST", "/api/v1/ordering-keys/{key}/skip"),
    ("POST", "/api/v1/queues/{name}/pause"),
    ("POST", "/api/v1/queues/{name}/resume"),
    ("POST", "/api/v1/redrives/{id}/cancel"),
    ("POST", "/api/v1/redrives/{id}/pause"),
    ("POST", "/api/v1/redrives/{id}/resume"),
    ("POST", "/api/v1/redrives/{id}/start"),
    ("POST", "/api/v1/resume/{token}"),
    ("POST", "/api/v1/rules"),
    ("POST", "/api/v1/rules/{id}/disable"),
    ("POST", "/api/v1/rules/{id}/enable"),
    ("POST", "/api/v1/batches"),
    ("POST", "/api/v1/batches/{id}/cancel"),
    ("POST", "/api/v1/batches/{id}/jobs"),
    ("POST", "/api/v1/batches/{id}/pause"),
    ("POST", "/api/v1/batches/{id}/resume"),
    ("POST", "/api/v1/batches/{id}/seal"),
    ("POST", "/api/v1/workflows"),
    ("POST", "/api/v1/workflows/{id}/cancel"),
    ("POST", "/api/v1/workflows/{id}/pause"),
    ("POST", "/api/v1/workflows/{id}/resume"),
    ("POST", "/api/v1/schedules/{name}/backfill"),
    ("POST", "/api/v1/schedules/{name}/pause"),
    ("POST", "/api/v1/schedules/{name}/resume"),
    ("POST", "/api/v1/schedules/{name}/run"),
    ("POST", "/api/v1/signals"),
    ("POST", "/api/v1/tokens"),
    ("POST", "/api/v1/webhooks"),
    ("POST", "/api/v1/work/died"),
    ("POST", "/api/v1/work/finish"),
    ("POST", "/api/v1/work/heartbeat"),
    ("POST", "/api/v1/work/log"),
    ("POST", "/api/v1/work/progress"),
    ("POST", "/api/v1/work/reject"),
    ("POST", "/api/v1/work/step"),
    ("PUT", "/api/v1/limits/{name}"),
    ("PUT", "/api/v1/schedules/{name}"),
    ("DELETE", "/api/v1/bridges/{name}"),
    ("DELETE", "/api/v1/handoffs/{name}"),
    ("DELETE", "/api/v1/limits/{name}"),
    ("DELETE", "/api/v1/rules/{id}"),
    ("DELETE", "/api/v1/schedules/{name}"),
    ("DELETE", "/api/v1/tokens/{name}"),
    ("DELETE", "/api/v1/webhooks/{id}"),
];
