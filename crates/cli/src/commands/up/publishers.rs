//! The bridges of the settings as the kind `publish` uses them (B2): connected when the first message is sent.

use std::sync::Arc;

use backstop_bridges::{BridgeSender, BrokerError, NewMessage};
use backstop_kinds::Kinds;
use backstop_kinds::publish::{MessagePublisher, PublishAnswer, PublishFailure, PublishRequest};

use crate::app::App;

/// What the built-in kinds may do, with the bridges lent to `publish`. One that cannot be opened is not lent: that is
/// told where it is started.
pub(super) fn kinds(app: &App, node: &str) -> Kinds {
    let mut kinds = app.settings.kinds.clone();
    for (name, bridge) in &app.settings.bridges {
        if let Ok(sender) = BridgeSender::new(name, bridge, node) {
            let publisher = Arc::new(SenderOfBridge(sender));
            kinds.publish = std::mem::take(&mut kinds.publish).bridge(name.as_str(), publisher);
        }
    }
    kinds
}

/// A sender, as kinds know it.
struct SenderOfBridge(BridgeSender);

impl MessagePublisher for SenderOfBridge {
    fn queue(&self) -> Option<&str> {
        self.0.queue()
    }

    fn publish<'a>(&'a self, queue: &'a str, message: PublishRequest) -> PublishAnswer<'a> {
        let mut new = NewMessage::new(message.body).with_id(message.id);
        new.headers = message.headers;
        Box::pin(async move {
            self.0.send(queue, new).await.map_err(|error| match error {
                away @ BrokerError::Unavailable { .. } => PublishFailure::Unavailable(away.to_string()),
                refused => PublishFailure::Refused { code: refused.code(), message: refused.to_string() },
            })
        })
    }
}
