//! Alerts: who is told that jobs became dead letters (D3) and that circuits opened or closed (H3), and how often.
//!
//! A death puts its alert into the store's outbox in the same transaction. From there the node that leads the duty
//! takes it, puts the alerts of one incident together, and tells every channel. A channel that fails, hangs or is
//! away is tried again later; it holds up no job and no other channel.
//!
//! The event `alert` is a channel of its own and needs no settings: see [`Backstop::events`](crate::Backstop::events).
//!
//! ```
//! use std::time::Duration;
//! use backstop::{Alerts, Config, LogChannel};
//!
//! let alerts = Alerts::default().channel(LogChannel).gap(Duration::from_secs(300));
//! let config = Config::default().alerts(alerts);
//! # assert_eq!(config.alerts.channels.len(), 1);
//! ```

pub(crate) mod channel_log;
pub(crate) mod stored;
#[cfg(feature = "webhook")]
mod webhook;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::circuit::CircuitAlert;
use backstop_core::failure::TerminalReason;
use backstop_core::{JobId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(feature = "webhook")]
pub use webhook::{Webhook, WebhookError};

/// At most one message about an incident in this time, unless told otherwise.
const GAP: Duration = Duration::from_secs(60);

/// Who is told of dead letters, and how often.
#[derive(Clone)]
#[non_exhaustive]
pub struct Alerts {
    /// Who is told. Without any, no alert is stored.
    pub channels: Vec<Arc<dyn AlertChannel>>,
    /// The shortest time between two messages about one incident; what happens in between is told together.
    pub gap: Duration,
}

impl Default for Alerts {
    fn default() -> Self {
        Self { channels: Vec::new(), gap: GAP }
    }
}

impl std::fmt::Debug for Alerts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.channels.iter().map(|channel| channel.name()).collect();
        f.debug_struct("Alerts").field("channels", &names).field("gap", &self.gap).finish()
    }
}

impl Alerts {
    /// Adds a channel.
    #[must_use]
    pub fn channel(mut self, channel: impl AlertChannel) -> Self {
        self.channels.push(Arc::new(channel));
        self
    }

    /// Sets the shortest time between two messages about one incident.
    #[must_use]
    pub const fn gap(mut self, gap: Duration) -> Self {
        self.gap = gap;
        self
    }
}

/// What a delivery returns.
pub type AlertFuture<'a> = Pin<Box<dyn Future<Output = Result<(), AlertError>> + Send + 'a>>;

/// A way to tell people.
///
/// A delivery may take ten seconds, and is dropped then. One that failed, or of which nobody knows whether it came
/// through because the process died, is made again with the same [`AlertMessage::id`].
///
/// ```
/// use backstop::{AlertChannel, AlertFuture, AlertMessage, Alerts};
///
/// struct Pager;
///
/// impl AlertChannel for Pager {
///     fn name(&self) -> &str {
///         "pager"
///     }
///
///     fn deliver<'a>(&'a self, message: &'a AlertMessage) -> AlertFuture<'a> {
///         Box::pin(async move {
///             println!("{} dead letters of {}", message.count, message.kind);
///             Ok(())
///         })
///     }
/// }
///
/// let alerts = Alerts::default().channel(Pager);
/// # assert_eq!(alerts.channels.len(), 1);
/// ```
pub trait AlertChannel: Send + Sync + 'static {
    /// Its name, the same in every process: what was told through it is remembered under that name.
    fn name(&self) -> &str;

    /// Tells of one incident.
    fn deliver<'a>(&'a self, message: &'a AlertMessage) -> AlertFuture<'a>;
}

/// Why a message did not come through, in one sentence. It is logged and stored, sanitized like the errors of jobs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AlertError(String);

impl AlertError {
    /// An error with these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// What is told of one incident: how many jobs died of it since the last message. Or what is told of a circuit, then of
/// nothing else: see [`AlertMessage::circuit`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AlertMessage {
    /// Its identity: the same for every delivery of the same content, so that a receiver can tell a repeat.
    pub id: String,
    /// The failure's fingerprint, or the terminal reason of jobs that no run killed, or `circuit:` and the dependency.
    pub incident: String,
    /// The kind of the first job; empty when there is none.
    pub kind: String,
    /// The queue of the first job; empty when there is none.
    pub queue: String,
    /// Why the first job is dead; none when there is none.
    pub reason: Option<TerminalReason>,
    /// The error's type, if a run left one.
    pub error_type: Option<String>,
    /// The sanitized error of the first job, if a run left one; of a circuit, what happened to it.
    pub error: Option<String>,
    /// How many jobs died, or how often the circuit opened or closed.
    pub count: u64,
    /// When the first one did.
    pub first_at: Timestamp,
    /// When the latest one did.
    pub last_at: Timestamp,
    /// The first ten of them.
    pub jobs: Vec<JobId>,
    /// The first dead letter as other systems read it (D1).
    pub envelope: Value,
    /// The circuit that opened or closed (H3), as it is after the latest change; none when jobs died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit: Option<CircuitAlert>,
}

/// Writes one line per message to the log, at the level `error`.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogChannel;

impl AlertChannel for LogChannel {
    fn name(&self) -> &'static str {
        "log"
    }

    fn deliver<'a>(&'a self, message: &'a AlertMessage) -> AlertFuture<'a> {
        let AlertMessage { incident, kind, queue, count, first_at, .. } = message;
        let error = message.error.as_deref().unwrap_or_default();
        if let Some(CircuitAlert { key, state, generation, .. }) = &message.circuit {
            let state = state.as_str();
            tracing::error!(circuit = %key, state, generation, changes = count, since = %first_at,
                "alert: {error}");
            return Box::pin(std::future::ready(Ok(())));
        }
        let reason = message.reason.map_or("", TerminalReason::as_str);
        let sample = message.jobs.first().map(ToString::to_string).unwrap_or_default();
        tracing::error!(%incident, %kind, %queue, %reason, count, since = %first_at, %sample, error,
            "alert: jobs became dead letters");
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What one channel was told of one incident so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AlertLog {
    /// The channel.
    pub channel: String,
    /// Messages that came through.
    pub told: u64,
    /// When the latest one did.
    pub told_at: Option<Timestamp>,
    /// Deaths that were told by the message of another one.
    pub suppressed: u64,
    /// Deaths that were not told because the incident was muted.
    pub muted: u64,
    /// Deaths that were never told because the channel was away for too long.
    pub dropped: u64,
    /// Deaths that wait to be told.
    pub waiting: u64,
    /// Failed deliveries in a row.
    pub failures: u32,
    /// When the next delivery is tried after a failure.
    pub next_try: Option<Timestamp>,
    /// Why the latest delivery failed.
    pub trouble: Option<String>,
}

/// What one channel was told of one incident.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IncidentAlertLog {
    /// The failure's fingerprint, or the terminal reason of jobs that no run killed.
    pub incident: String,
    /// What was told.
    pub log: AlertLog,
}
