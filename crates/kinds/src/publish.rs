//! The kind `publish`: sends a message to a broker by a configured bridge, and ends well when the broker has confirmed
//! it (B2).
//!
//! It must not send by a bridge or to a queue that no pattern allows; an empty list allows nothing. Knows no broker:
//! whoever starts the worker lends publishers.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use backstop::{BoxError, Job, JobContext, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::SettingsError;
use crate::kinds::Kinds;
use crate::refusal::{PayloadRefusal, RefusalCode, brief, refused};

/// Longest name of a queue, and longest id of a message.
const NAME_MAX: usize = 255;

/// Headers of a message, and the longest value of one.
const HEADERS_MAX: usize = 64;
const HEADER_VALUE_MAX: usize = 4_096;

/// A message on its way to a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishRequest {
    /// What receivers recognize a repeated publication by.
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// Headers beside it, where the broker carries them.
    pub headers: Vec<(String, String)>,
}

/// Why a broker has not confirmed a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishFailure {
    /// It is unavailable: the run is repeated later, and costs no attempt.
    #[error("{0}")]
    Unavailable(String),
    /// It refuses, and will refuse the same again.
    #[error("{message}")]
    Refused {
        /// The type of the failed run's error.
        code: &'static str,
        /// What it says, without credentials.
        message: String,
    },
}

/// What [`MessagePublisher::publish`] returns: a boxed future, so that the trait stays object-safe.
pub type PublishAnswer<'a> = Pin<Box<dyn Future<Output = Result<(), PublishFailure>> + Send + 'a>>;

/// Publishes by one bridge.
pub trait MessagePublisher: Send + Sync {
    /// Where messages go that name no queue; none when there is no such place.
    fn queue(&self) -> Option<&str>;

    /// Publishes a message. An `Ok` means that the broker has confirmed it.
    fn publish<'a>(&'a self, queue: &'a str, message: PublishRequest) -> PublishAnswer<'a>;
}

/// By which bridges messages may be sent, and to which queues.
#[derive(Clone, Default)]
pub struct PublishSettings {
    /// The bridge and the queue of each: `*` is every queue, none the bridge's own.
    allowed: Vec<(String, Option<String>)>,
    bridges: BTreeMap<String, Arc<dyn MessagePublisher>>,
}

impl fmt::Debug for PublishSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.bridges.keys().collect();
        f.debug_struct("PublishSettings").field("allowed", &self.allowed).field("bridges", &names).finish()
    }
}

impl PublishSettings {
    /// Allows `BRIDGE` to send to its own queue, `BRIDGE/QUEUE` to send to that queue, `BRIDGE/*` to send to any.
    ///
    /// # Errors
    /// When it is no such pattern.
    pub fn allow(mut self, pattern: impl Into<String>) -> Result<Self, SettingsError> {
        let pattern = pattern.into();
        let (bridge, queue) = match pattern.split_once('/') {
            Some((bridge, queue)) => (bridge, Some(queue)),
            None => (pattern.as_str(), None),
        };
        if !is_name(bridge) || queue.is_some_and(|queue| !is_name(queue)) {
            return Err(SettingsError::PublishPattern { pattern: brief(&pattern) });
        }
        self.allowed.push((bridge.to_owned(), queue.map(str::to_owned)));
        Ok(self)
    }

    /// Lends the publisher of a bridge.
    #[must_use]
    pub fn bridge(mut self, name: impl Into<String>, publisher: Arc<dyn MessagePublisher>) -> Self {
        self.bridges.insert(name.into(), publisher);
        self
    }

    /// True when a message may be sent by this bridge, to this queue or to its own.
    #[must_use]
    pub fn allows(&self, bridge: &str, queue: Option<&str>) -> bool {
        let own = self.bridges.get(bridge).and_then(|publisher| publisher.queue());
        let meant = queue.or(own);
        self.allowed.iter().filter(|(known, _)| known == bridge).any(|(_, allowed)| {
            match allowed.as_deref() {
                Some("*") => true,
                Some(allowed) => meant == Some(allowed),
                None => meant.is_some() && meant == own,
            }
        })
    }
}

/// What every broker takes as a name: nothing that could end a line or a word of its protocol.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A job that publishes a message. `C` is the worker's context.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "", deny_unknown_fields)]
pub struct PublishMessage<C = Kinds> {
    /// The bridge to send by.
    pub bridge: String,
    /// The queue to send to; that of the bridge's sink unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What to send: a text as it is, anything else as JSON.
    pub body: Box<RawValue>,
    /// Headers to send, where the broker carries them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What receivers recognize a repeated publication by; the id of the job unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip)]
    context: PhantomData<fn() -> C>,
}

impl<C> PublishMessage<C> {
    /// A job that sends `body` by a bridge to its own queue: a text as it is, anything else as JSON.
    ///
    /// # Errors
    /// When `body` is no JSON.
    pub fn new(bridge: impl Into<String>, body: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self {
            bridge: bridge.into(),
            queue: None,
            body: serde_json::value::to_raw_value(body)?,
            headers: BTreeMap::new(),
            id: None,
            context: PhantomData,
        })
    }

    /// The same to another queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// The same with a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The same with an id of its own.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What is wrong with it by itself.
    fn check(&self) -> Result<(), PayloadRefusal> {
        let wrong = |code, told: String| Err(PayloadRefusal::new(code, told));
        if let Some(queue) = self.queue.as_deref().filter(|queue| !is_name(queue)) {
            let told = format!("`{}` cannot be the name of a queue", brief(queue));
            return wrong(RefusalCode::PublishQueueInvalid, told);
        }
        let is_id = |id: &str| {
            !id.is_empty() && id.len() <= NAME_MAX && id.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        };
        if let Some(id) = self.id.as_deref().filter(|id| !is_id(id)) {
            return wrong(
                RefusalCode::PublishIdInvalid,
                format!("`{}` cannot be the id of a message", brief(id)),
            );
        }
        if self.headers.len() > HEADERS_MAX {
            let told = format!("{} headers are too many: {HEADERS_MAX} at most", self.headers.len());
            return wrong(RefusalCode::PublishHeaderInvalid, told);
        }
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let good = |name: &str, value: &str| {
            is_name(name)
                && name.bytes().all(token)
                && value.len() <= HEADER_VALUE_MAX
                && !value.chars().any(char::is_control)
        };
        match self.headers.iter().find(|(name, value)| !good(name, value)) {
            Some((name, _)) => {
                let told = format!("header `{}` cannot be sent as it is", brief(name));
                wrong(RefusalCode::PublishHeaderInvalid, told)
            }
            None => Ok(()),
        }
    }

    /// The publisher and the queue, if the settings let it through.
    fn way<'a>(
        &'a self,
        settings: &'a PublishSettings,
    ) -> Result<(&'a Arc<dyn MessagePublisher>, &'a str), PayloadRefusal> {
        let bridge = brief(&self.bridge);
        let Some(publisher) = settings.bridges.get(&self.bridge) else {
            let told = format!("bridge `{bridge}` is not known to this worker");
            return Err(PayloadRefusal::new(RefusalCode::PublishBridgeUnknown, told));
        };
        let Some(queue) = self.queue.as_deref().or_else(|| publisher.queue()) else {
            let told = format!("bridge `{bridge}` has no sink, and the payload names no queue");
            return Err(PayloadRefusal::new(RefusalCode::PublishNoQueue, told));
        };
        if !settings.allows(&self.bridge, self.queue.as_deref()) {
            let told = format!(
                "queue `{}` of bridge `{bridge}` may not be published to: no pattern of handlers.publish.allow \
                 allows it",
                brief(queue)
            );
            return Err(PayloadRefusal::new(RefusalCode::PublishNotAllowed, told));
        }
        Ok((publisher, queue))
    }

    fn bytes(&self) -> Vec<u8> {
        let text = self.body.get();
        serde_json::from_str::<String>(text).map_or_else(|_| text.as_bytes().to_vec(), String::into_bytes)
    }
}

impl<C: AsRef<Kinds> + Send + Sync + 'static> Job for PublishMessage<C> {
    const KIND: &'static str = "publish";
    type Context = C;
    type Output = Result<(), BoxError>;

    async fn run(self, cx: JobContext<C>) -> Result<(), BoxError> {
        self.check().map_err(refused)?;
        let (publisher, queue) = self.way(&cx.app().as_ref().publish).map_err(refused)?;
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        // The same in every run: a receiver knows a message that was sent twice by it.
        let id = self.id.clone().unwrap_or_else(|| cx.id().to_string());
        let message = PublishRequest { id, body: self.bytes(), headers };
        match publisher.publish(queue, message).await {
            Ok(()) => Ok(()),
            Err(PublishFailure::Refused { code, message }) => {
                Err(Outcome::permanent(message).of_type(code).into())
            }
            Err(away) => Err(Outcome::transient_from(format!("bridge/{}", self.bridge), away).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Own(Option<&'static str>);

    impl MessagePublisher for Own {
        fn queue(&self) -> Option<&str> {
            self.0
        }

        fn publish<'a>(&'a self, _: &'a str, _: PublishRequest) -> PublishAnswer<'a> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn settings(patterns: &[&str]) -> PublishSettings {
        let settings = PublishSettings::default()
            .bridge("billing", Arc::new(Own(Some("paid"))))
            .bridge("orders", Arc::new(Own(None)));
        patterns
            .iter()
            .try_fold(settings, |settings, pattern| settings.allow(*pattern))
            .expect("good patterns")
    }

    #[test]
    fn patterns_allow_what_they_say_and_nothing_by_default() {
        // B2
        let table = [
            ("billing", "billing", None, true),
            ("billing", "billing", Some("paid"), true),
            ("billing", "billing", Some("other"), false),
            ("billing/other", "billing", Some("other"), true),
            ("billing/other", "billing", None, false),
            ("billing/paid", "billing", None, true),
            ("billing/*", "billing", Some("anything"), true),
            ("billing/*", "orders", Some("anything"), false),
            ("orders", "orders", None, false),
            ("orders", "orders", Some("x"), false),
            ("orders/x", "orders", Some("x"), true),
        ];
        for (pattern, bridge, queue, expected) in table {
            assert_eq!(settings(&[pattern]).allows(bridge, queue), expected, "{pattern}: {bridge} {queue:?}");
            assert!(!settings(&[]).allows(bridge, queue));
        }
        for pattern in ["", "/paid", "billing/", "bil ling", "billing/a b", "billing/ä"] {
            assert!(PublishSettings::default().allow(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn a_text_is_sent_as_it_is_and_anything_else_as_json() {
        // B2
        for (body, sent) in [
            (serde_json::json!("plain"), "plain"),
            (serde_json::json!({ "a": 1 }), "{\"a\":1}"),
            (serde_json::json!(null), "null"),
        ] {
            let job = <PublishMessage>::new("billing", &body).expect("JSON");
            assert_eq!(job.bytes(), sent.as_bytes());
        }
    }
}
