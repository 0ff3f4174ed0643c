//! Sends single messages by a bridge, for the kind `publish` (B2).

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::broker::{Broker, BrokerError, BrokerPublisher};
use crate::brokers;
use crate::message::NewMessage;
use crate::settings::{BridgeSettings, BridgeSettingsError};

/// One connection that publishes, made when it is first needed and again when it broke.
pub struct BridgeSender {
    broker: Arc<dyn Broker>,
    queue: Option<String>,
    /// One message at a time: a connection has one user.
    session: Mutex<Option<Box<dyn BrokerPublisher>>>,
}

impl std::fmt::Debug for BridgeSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BridgeSender").field("broker", &self.broker.address()).finish_non_exhaustive()
    }
}

impl BridgeSender {
    /// The sender of a bridge. `node` tells this process from others of the same bridge.
    ///
    /// # Errors
    /// When the settings cannot be meant, or this program was built without the broker.
    pub fn new(name: &str, settings: &BridgeSettings, node: &str) -> Result<Self, BridgeSettingsError> {
        settings.check(name, |_| true)?;
        let sink = settings.sink.as_ref().filter(|sink| !sink.queue.is_empty() || sink.exchange.is_some());
        // Without a name it is the exchange of the sink.
        let queue = sink.map(|sink| sink.queue.clone());
        let alone = if queue.is_some() { settings.sink_alone() } else { settings.clone() };
        Ok(Self { broker: brokers::open(name, &alone, node)?, queue, session: Mutex::new(None) })
    }

    /// The queue of the bridge's sink, if it has one.
    #[must_use]
    pub fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// Publishes a message. An `Ok` means that the broker has confirmed it; after an error it may be there or not.
    ///
    /// # Errors
    /// When the broker is unavailable, refuses it, or has no such queue.
    pub async fn send(&self, queue: &str, message: NewMessage) -> Result<(), BrokerError> {
        let messages = [message];
        let mut held = self.session.lock().await;
        if let Some(mut session) = held.take() {
            match session.publish(queue, &messages).await {
                // A connection that was idle may have been closed meanwhile: that is found out here and not before.
                Err(BrokerError::Unavailable { .. }) => {}
                answer => return kept(&mut held, session, answer),
            }
        }
        let mut session = self.broker.publisher().await?;
        session.look_for(queue).await?;
        let answer = session.publish(queue, &messages).await;
        kept(&mut held, session, answer)
    }
}

/// Keeps a connection that worked; one that failed is thrown away.
fn kept(
    held: &mut Option<Box<dyn BrokerPublisher>>,
    session: Box<dyn BrokerPublisher>,
    answer: Result<(), BrokerError>,
) -> Result<(), BrokerError> {
    if answer.is_ok() {
        *held = Some(session);
    }
    answer
}
