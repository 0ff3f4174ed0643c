//! Where the messages of a bridge go: the kind and the queue of their jobs, and the id that keeps a message from
//! becoming two.
//!
//! Pure: it looks at a message and touches nothing.

use std::sync::Arc;

use backstop_core::Refusal;
use serde_json::Value;

use crate::message::{BrokerMessage, MessageId};

/// Why a message cannot be a job (B4).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageProblem {
    /// There is no body.
    #[error("the body is empty; the payload of a job is JSON")]
    Empty,
    /// The body is not text.
    #[error("the body is not UTF-8 text: {0}")]
    NotText(std::str::Utf8Error),
    /// It has no id where the bridge looks for one.
    #[error("the message has no id: {0} is missing, empty or not text")]
    NoId(String),
    /// It is not what the profile of its bridge reads.
    #[error("{0}")]
    Profile(String),
    /// No job can be like this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store fails on it, and not on others.
    #[error("the store does not take it: {0}")]
    Store(String),
}

impl MessageProblem {
    /// It is not what a profile reads; why, in words.
    pub(crate) fn profile(problem: impl Into<String>) -> Self {
        Self::Profile(problem.into())
    }
}

/// Where the id of a message is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum IdPlace {
    /// Where the broker has it.
    #[default]
    Message,
    /// In a header.
    Header(String),
    /// In the body, by a JSON pointer.
    Pointer(String),
    /// It is a digest of the body.
    Body,
}

/// How messages of one bridge become jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRoute {
    /// The bridge.
    pub bridge: Arc<str>,
    /// The kind of the jobs.
    pub kind: Arc<str>,
    /// Their queue.
    pub queue: Arc<str>,
    id: IdPlace,
}

impl JobRoute {
    /// Messages become jobs of this kind in this queue, and have the ids that their broker says.
    pub fn new(bridge: impl Into<Arc<str>>, kind: impl Into<Arc<str>>, queue: impl Into<Arc<str>>) -> Self {
        Self { bridge: bridge.into(), kind: kind.into(), queue: queue.into(), id: IdPlace::Message }
    }

    /// The same with ids from elsewhere: `header:NAME`, a JSON pointer such as `/order/id`, or `body` for a digest.
    ///
    /// # Errors
    /// One sentence when it is none of these.
    pub fn id_from(mut self, place: &str) -> Result<Self, String> {
        self.id = match (place, place.strip_prefix("header:")) {
            ("body", _) => IdPlace::Body,
            (_, Some(name)) if !name.is_empty() => IdPlace::Header(name.to_owned()),
            (pointer, None) if pointer.starts_with('/') => IdPlace::Pointer(pointer.to_owned()),
            _ => {
                return Err(format!(
                    "`{place}` does not say where the id is: write header:NAME, /json/pointer or body"
                ));
            }
        };
        Ok(self)
    }

    /// True when the settings say where ids are.
    pub(crate) fn has_own_place(&self) -> bool {
        self.id != IdPlace::Message
    }

    /// The idempotency key of a message's job: the same in every delivery, and never that of another bridge.
    pub(crate) fn key(&self, message: &BrokerMessage) -> Result<String, MessageProblem> {
        Ok(format!("{}/{}", self.bridge, self.id(message)?))
    }

    /// What tells this message from others.
    pub(crate) fn id(&self, message: &BrokerMessage) -> Result<MessageId, MessageProblem> {
        let found = match &self.id {
            IdPlace::Message => Some(message.id.clone()),
            IdPlace::Body => Some(MessageId::of_body(&message.body)),
            IdPlace::Header(name) => message.header(name).map(MessageId::producer),
            IdPlace::Pointer(pointer) => pointed(&message.body, pointer).map(MessageId::producer),
        };
        found.filter(|id| !id.text.is_empty()).ok_or_else(|| MessageProblem::NoId(self.place()))
    }

    fn place(&self) -> String {
        match &self.id {
            IdPlace::Message => "the id of the message".to_owned(),
            IdPlace::Body => "its body".to_owned(),
            IdPlace::Header(name) => format!("header `{name}`"),
            IdPlace::Pointer(pointer) => format!("`{pointer}` of its body"),
        }
    }
}

/// A text or a whole number at this place of a body.
fn pointed(body: &[u8], pointer: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    match body.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_u64() || number.is_i64() => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::DeliveryTag;

    fn message(body: &[u8]) -> BrokerMessage {
        BrokerMessage {
            body: body.to_vec(),
            headers: vec![("Order-Id".into(), "o-7".into()), ("Blank".into(), String::new())],
            ..BrokerMessage::new(MessageId::broker("m-1"), DeliveryTag::new("1"))
        }
    }

    fn route() -> JobRoute {
        JobRoute::new("orders", "charge", "default")
    }

    #[test]
    fn ids_come_from_where_the_bridge_says_and_belong_to_the_bridge() {
        // B1
        let body = br#"{"order":{"id":"x","number":7,"price":1.5,"tags":[]}}"#;
        let digest = MessageId::of_body(body).text;
        for (place, key) in [
            ("header:order-id", Some("orders/o-7")),
            ("header:Blank", None),
            ("header:absent", None),
            ("/order/id", Some("orders/x")),
            ("/order/number", Some("orders/7")),
            ("/order/price", None),
            ("/order/tags", None),
            ("/absent", None),
            ("body", Some(format!("orders/{digest}").as_str())),
        ] {
            let found = route().id_from(place).expect(place).key(&message(body));
            assert_eq!(found.ok().as_deref(), key, "{place}");
        }
        assert_eq!(route().key(&message(b"")).unwrap(), "orders/m-1");
        let missing = route().id_from("/id").unwrap().key(&message(b"[")).unwrap_err().to_string();
        assert_eq!(missing, "the message has no id: `/id` of its body is missing, empty or not text");
        for place in ["", "header:", "id", "headers:x"] {
            assert!(route().id_from(place).unwrap_err().contains("does not say where the id is"), "{place}");
        }
    }
}
