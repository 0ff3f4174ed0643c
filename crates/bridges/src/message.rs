//! A message as every broker has it: an id, a body, headers, and what settles it.

use std::any::Any;
use std::collections::HashSet;
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

/// What a broker keeps with a message and others do not know: it goes along when the message is published to the same
/// broker again.
#[derive(Clone, Default)]
pub struct BrokerProperties(Option<Arc<dyn Any + Send + Sync>>);

impl BrokerProperties {
    /// These of a broker.
    #[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
    pub(crate) fn new(properties: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(properties)))
    }

    /// Those of this broker; none for a message that is new or came from another.
    #[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_deref().and_then(|properties| properties.downcast_ref())
    }
}

impl PartialEq for BrokerProperties {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for BrokerProperties {}

impl fmt::Debug for BrokerProperties {
    /// Without what they are: that may be large and belongs to somebody.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "none" })
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
    /// What its broker has beside that.
    pub native: BrokerProperties,
    /// What settles this delivery.
    pub tag: DeliveryTag,
}

impl BrokerMessage {
    /// A message without a body or headers.
    #[must_use]
    pub const fn new(id: MessageId, tag: DeliveryTag) -> Self {
        Self {
            id,
            body: Vec::new(),
            headers: Vec::new(),
            deliveries: None,
            priority: None,
            native: BrokerProperties(None),
            tag,
        }
    }

    /// The message as it came, to be published again: with its id, if its producer gave it one.
    #[must_use]
    pub fn copied(&self) -> NewMessage {
        NewMessage {
            id: (self.id.origin == IdOrigin::Producer).then(|| self.id.text.clone()),
            body: self.body.clone(),
            headers: self.headers.clone(),
            priority: self.priority,
            group: None,
            native: self.native.clone(),
        }
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
        let Self { id, body, headers, deliveries, priority, native, tag } = self;
        f.debug_struct("BrokerMessage")
            .field("id", id)
            .field("bytes", &body.len())
            .field("headers", &headers.len())
            .field("deliveries", deliveries)
            .field("priority", priority)
            .field("native", native)
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
    /// What it keeps its order with, where the broker has groups of messages for that.
    pub group: Option<String>,
    /// What its broker had beside that, when it is published again.
    pub native: BrokerProperties,
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

    /// Keeps its order with others of the same group.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
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

/// How many of the first messages may be published before the broker has answered for any of them: so many and so many
/// bytes, and one of each group. A later one of a group would overtake one that the broker does not take.
#[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
pub(crate) fn published_together(messages: &[NewMessage], most: usize, most_bytes: usize) -> usize {
    let (mut groups, mut bytes) = (HashSet::new(), 0);
    for (index, NewMessage { body, headers, group, .. }) in messages.iter().enumerate() {
        let headers: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 8).sum();
        bytes += body.len() + headers;
        let follows = group.as_ref().is_some_and(|group| !groups.insert(group));
        if index == most || (index > 0 && (bytes > most_bytes || follows)) {
            return index;
        }
    }
    messages.len()
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
    fn what_is_published_together_is_bounded_and_has_one_of_each_group() {
        // B2
        let group = |name: &str| NewMessage::new("12345").in_group(name);
        let all = [group("a"), group("b"), NewMessage::new("12345"), NewMessage::new("12345"), group("a")];
        for (most, bytes, count) in [(9, 99, 4), (2, 99, 2), (9, 14, 2), (9, 15, 3), (9, 1, 1), (1, 1, 1)] {
            assert_eq!(published_together(&all, most, bytes), count, "{most} {bytes}");
        }
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
