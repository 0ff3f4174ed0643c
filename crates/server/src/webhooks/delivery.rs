//! One message to one receiver, as a job of our own engine: kept, tried again, and a dead letter when nothing helps.

use std::time::Duration;

use backstop::prelude::*;
use backstop::sinks::OutboxMessage;
use backstop_core::digest;
use backstop_kinds::HttpSettings;
use serde_json::{Value, json};

use super::subscription::{self, Subscription};

/// The queue of deliveries. Its own events are never delivered.
pub(crate) const QUEUE: &str = "backstop.webhooks";

/// Tries after the first: with the pauses below, about a day.
const RETRIES: u32 = 28;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// How long a receiver may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A message on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct WebhookDelivery {
    /// Whose it is.
    pub(crate) webhook: String,
    /// The message's identity: the same for every try, so that receivers can tell a repeat.
    pub(crate) id: String,
    /// What is posted.
    pub(crate) message: Value,
}

impl WebhookDelivery {
    /// A message about an event as its receiver is to see it; none when it does not want it.
    pub(crate) fn new(subscription: &Subscription, message: &OutboxMessage) -> Option<Self> {
        let view = subscription.view(message)?;
        let kind = format!("backstop.event.{}", view["event"].as_str().unwrap_or_default());
        let webhook = subscription.id.clone();
        // Whoever makes a delivery of it gives it the same.
        let id = format!("msg_{}", digest::short(&format!("{webhook}:{}", message.id)));
        let message = json!({ "type": kind, "timestamp": message.at, "data": view });
        Some(Self { webhook, id, message })
    }
}

/// What deliveries share.
pub(crate) struct DeliveryContext {
    pub(crate) engine: Backstop,
    /// Where messages may go: public addresses, until more is opened.
    pub(crate) way_out: HttpSettings,
}

impl Job for WebhookDelivery {
    const KIND: &'static str = "backstop.webhook";
    type Context = DeliveryContext;
    type Output = JobResult;

    async fn run(self, cx: JobContext<DeliveryContext>) -> JobResult {
        let courier = cx.app();
        let Some(subscription) = subscription::one(&**courier.engine.store(), &self.webhook).await? else {
            return Err(Outcome::cancel("the webhook was removed"))?;
        };
        let status = courier
            .way_out
            .post_signed(&subscription.url, &subscription.secret, &self.id, self.message.to_string())
            .await?;
        match status {
            200..300 => Ok(()),
            // By the conventions this receiver is gone for good.
            410 => Err(Outcome::permanent("the receiver answered 410: it wants no more messages"))?,
            300..400 => Err(format!("the receiver answered {status}: redirects are not followed"))?,
            _ => Err(format!("the receiver answered {status}"))?,
        }
    }

    fn defaults() -> Defaults {
        let backoff = Backoff::exponential(FIRST_PAUSE, LONGEST_PAUSE);
        Defaults::default()
            .queue(QUEUE)
            .policy(Policy::default().retries(RETRIES).backoff(backoff).timeout(PATIENCE))
    }
}
