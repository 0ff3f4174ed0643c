//! A message as every broker has it: an id, a body, headers, and what settles it.

use std::fmt;
use std::sync::Arc;

use backstop_core::digest::hexadecimal;
use sha2::{Digest, Sha256};

/// What settles one delivery of a message: only the session that received it understands it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeliveryTag(Arc<str>);

impl DeliveryTag {
    /// A tag by the text that its broker knows.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text that its broker knows.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where the id of a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdOrigin {
    /// The producer gave it to the message.
    Producer,
    /// The broker gave it to the message; a producer that sends the same twice gets two.
    Broker,
    /// It is a digest of the body, for nobody gave the message an id: equal bodies count as one message.
    Body,
}

/// What tells a message from others, in every delivery the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageId {
    /// The id.
    pub text: String,
    /// Who gave it.
    pub origin: IdOrigin,
}

impl MessageId {
    /// An id that the producer gave.
    pub fn producer(text: impl Into<String>) -> Self {
        Self { text: text.into(), origin: IdOrigin::Producer }
    }

    /// An id that the broker gave.
    pub fn broker(text: impl Into<String>) -> Self {
        Self { text: text.into(), origin: IdOrigin::Broker }
    }

    /// The id of a message that has none: a digest of its body.
    #[must_use]
    pub fn of_body(body: &[u8]) -> Self {
        Self { text: digest(body), origin: IdOrigin::Body }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// SHA-256 in hexadecimal digits.
#[must_use]
pub(crate) fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// One delivery of a message.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerMessage {
    /// What tells it from others.
    pub id: MessageId,
    /// Its body, as it came.
    pub body: Vec<u8>,
    /// Headers, attributes or fields beside the body. What is not text is shown with replacement characters.
    pub headers: Vec<(String, String)>,
    /// How often it was delivered, this delivery among them, where the broker tells.
    pub deliveries: Option<u32>,
    /// How urgent its producer says it is, where the broker carries that.
    pub priority: Option<u8>,
    /// What settles this delivery.
    pub tag: DeliveryTag,
}

impl BrokerMessage {
    /// A message without a body or headers.
    #[must_use]
    pub const fn new(id: MessageId, tag: DeliveryTag) -> Self {
        Self { id, body: Vec::new(), headers: Vec::new(), deliveries: None, priority: None, tag }
    }

    /// The header of this name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(header, _)| header.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for BrokerMessage {
    /// Without the body, which may be large and belongs to somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, body, headers, deliveries, priority, tag } = self;
        f.debug_struct("BrokerMessage")
            .field("id", id)
            .field("bytes", &body.len())
            .field("headers", &headers.len())
            .field("deliveries", deliveries)
            .field("priority", priority)
            .field("tag", tag)
            .finish()
    }
}

/// A message to publish.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NewMessage {
    /// What receivers recognize a repeated publication by, where the broker carries one.
    pub id: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Headers beside it.
    pub headers: Vec<(String, String)>,
    /// How urgent it is, where the broker carries that.
    pub priority: Option<u8>,
}

impl NewMessage {
    /// A message without an id or headers.
    pub fn new(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    /// Gives it an id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

impl fmt::Debug for NewMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewMessage").field("id", &self.id).field("bytes", &self.body.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_body_is_stable_and_says_that_it_is_one() {
        let id = MessageId::of_body(b"{}");
        assert_eq!(id, MessageId::of_body(b"{}"));
        assert_eq!(id.origin, IdOrigin::Body);
        assert_eq!(id.text, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
        assert_ne!(id, MessageId::of_body(b"{ }"));
    }

    #[test]
    fn a_message_is_shown_without_its_body() {
        let message = BrokerMessage {
            body: b"secret".to_vec(),
            headers: vec![("X-Kind".into(), "mail".into())],
            ..BrokerMessage::new(MessageId::producer("a"), DeliveryTag::new("1"))
        };
        let shown = format!("{message:?} {:?}", NewMessage::new(b"secret".to_vec()));
        assert!(!shown.contains("secret") && shown.contains("bytes: 6"), "{shown}");
        assert_eq!(message.header("x-kind"), Some("mail"));
    }
}
