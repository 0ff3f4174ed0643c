//! Subscriptions to events by webhook.

use backstop::Timestamp;
use backstop::sinks::SinkView;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A webhook to make.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Where to post to: an address with https or http.
    pub url: String,
    /// Names of events; all when it is left out.
    pub events: Option<Vec<String>>,
    /// Queues; all when it is left out. With a tenant, by the tenant's own names.
    pub queues: Option<Vec<String>>,
    /// The one tenant whose events are sent, under that tenant's own names.
    pub tenant: Option<String>,
}

/// A webhook.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WebhookView {
    /// Its id.
    pub id: String,
    /// Where it posts to, without the path, which is a secret with many receivers.
    pub address: String,
    /// Names of events; none for all.
    pub events: Option<Vec<String>>,
    /// Queues, by the names of the store; none for all.
    pub queues: Option<Vec<String>>,
    /// The one tenant whose events are sent.
    pub tenant: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// What waits for it.
    #[serde(flatten)]
    pub standing: WebhookStanding,
}

/// What waits for a webhook before it becomes a delivery. How deliveries go is seen in their queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct WebhookStanding {
    /// Messages that wait.
    pub backlog: u64,
    /// How long the oldest of them has waited, in milliseconds.
    pub lag_ms: u64,
    /// Messages that were refused because too much waited, ever.
    pub refused: u64,
    /// Why the last try to make deliveries of them failed, if it did.
    pub last_error: Option<String>,
}

impl From<SinkView> for WebhookStanding {
    fn from(view: SinkView) -> Self {
        Self {
            backlog: view.backlog.messages,
            lag_ms: u64::try_from(view.lag().as_millis()).unwrap_or(u64::MAX),
            refused: view.refused,
            last_error: view.last_error,
        }
    }
}

/// A webhook that was just made, with its secret, which is shown this once.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct WebhookMade {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: WebhookView,
    /// What messages are signed with: `whsec_` and the key in base64.
    pub secret: String,
}
