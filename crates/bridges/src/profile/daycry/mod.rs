//! Profile `daycry`: signed envelopes of daycry/jobs become jobs.
//!
//! The signature is an HMAC over the fields that never change, and is checked before anything else is believed. What it
//! does not fit is left to its broker as abandoned (B6), told in the log as critical, and never tried again. The broker
//! has done its part when the job is durable: retries, backoff and the end are those of the job.

mod php;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use backstop_core::job::Priority;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::read::{MessageJob, ReadMessage};
use super::settings::{ProfileFault, ProfileParts};
use crate::message::BrokerMessage;
use crate::route::{JobRoute, MessageProblem};
use crate::secret::SecretText;
use php::PhpValue;

/// The fields that are signed, in the order in which they are.
const SIGNED: [&str; 8] =
    ["job", "payload", "queue", "priority", "maxRetries", "name", "identifier", "idempotencyKey"];

/// The variable that has the key where the settings have none.
const KEY_VARIABLE: &str = "JOBS_SIGNING_KEY";

/// See the module.
#[derive(Clone)]
pub(crate) struct DaycryProfile {
    /// Where what happened to jobs is sent.
    pub(super) to: String,
    keys: Vec<SecretText>,
    handlers: BTreeMap<String, String>,
}

impl fmt::Debug for DaycryProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DaycryProfile").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl DaycryProfile {
    pub(super) fn new(parts: &ProfileParts<'_>) -> Result<Self, ProfileFault> {
        let daycry = parts.daycry.cloned().unwrap_or_default();
        let mut keys = daycry.signing_keys;
        if keys.is_empty() {
            keys.extend(std::env::var(KEY_VARIABLE).ok().map(SecretText));
        }
        keys.retain(|key| !key.0.is_empty());
        if keys.is_empty() && !daycry.unsigned && parts.from.is_some() {
            let problem = format!(
                "is missing, and the environment has no {KEY_VARIABLE}: give the key of the producers, or say \
                 `daycry.unsigned = true` to run what anybody sends"
            );
            return Err(ProfileFault::new("daycry.signing_keys", problem));
        }
        Ok(Self { to: parts.to.unwrap_or_default().to_owned(), keys, handlers: daycry.handlers })
    }

    pub(super) fn read(
        &self,
        route: &JobRoute,
        message: &BrokerMessage,
    ) -> Result<ReadMessage, MessageProblem> {
        if message.body.is_empty() {
            return Err(MessageProblem::Empty);
        }
        let envelope: PhpValue = serde_json::from_slice(&message.body)
            .map_err(|problem| MessageProblem::profile(format!("it is not an envelope: {problem}")))?;
        if !matches!(envelope, PhpValue::Object(_)) {
            return Err(MessageProblem::profile("it is not an envelope: it is not a JSON object"));
        }
        if !self.is_signed(&envelope) {
            return Ok(ReadMessage::Reject("its signature `_sig` is missing or wrong".to_owned()));
        }
        let body: Value = serde_json::from_slice(&message.body)
            .map_err(|problem| MessageProblem::profile(format!("it is not an envelope: {problem}")))?;
        self.job(route, message, &body)
    }

    /// Whether one of the keys has signed it; always true when there is none.
    fn is_signed(&self, envelope: &PhpValue) -> bool {
        if self.keys.is_empty() {
            return true;
        }
        let Some(PhpValue::Text(given)) = envelope.get("_sig") else { return false };
        let Some(given) = from_hexadecimal(given) else { return false };
        // Versions before the idempotency key signed one field less; then there must be no such key to believe in.
        let early = envelope.get("idempotencyKey").is_none();
        let forms = [Some(&SIGNED[..]), early.then_some(&SIGNED[..SIGNED.len() - 1])];
        let texts: Vec<String> = forms.into_iter().flatten().map(|form| canonical(envelope, form)).collect();
        self.keys.iter().any(|key| texts.iter().any(|text| fits(key, text, &given)))
    }

    fn job(
        &self,
        route: &JobRoute,
        message: &BrokerMessage,
        envelope: &Value,
    ) -> Result<ReadMessage, MessageProblem> {
        let text = |name: &str| envelope.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let number = |name: &str| envelope.get(name).and_then(Value::as_u64).unwrap_or_default();
        let Some(handler) = text("job") else {
            return Err(MessageProblem::profile("its `job` is missing: it names no handler"));
        };
        let kind = match self.handlers.get(handler) {
            Some(kind) => Arc::from(kind.as_str()),
            None if self.handlers.is_empty() => route.kind.clone(),
            None => {
                let unknown = format!("its handler `{handler}` is not among `daycry.handlers` of the bridge");
                return Err(MessageProblem::profile(unknown));
            }
        };
        // What ran elsewhere before has used up some of its runs.
        let left = number("maxRetries").saturating_sub(number("attempts"));
        let params = json!({ "daycry": {
            "job": handler,
            "name": envelope.get("name"),
            "queue": envelope.get("queue"),
            "identifier": envelope.get("identifier"),
            "attempts": number("attempts"),
        } });
        let payload = envelope.get("payload").unwrap_or(&Value::Null);
        Ok(ReadMessage::Job(Box::new(MessageJob {
            kind,
            payload: payload.to_string(),
            key: key(route, message, envelope)?,
            priority: envelope.get("priority").and_then(Value::as_i64).map(level),
            max_retries: Some(u32::try_from(left).unwrap_or(u32::MAX)),
            max_crashes: None,
            correlation_id: text("identifier").map(str::to_owned),
            params: Some(params),
        })))
    }
}

/// What tells an envelope from others: the key that its producer gave it, or its identifier, which stays the same when
/// it is put back into its queue with another body.
fn key(route: &JobRoute, message: &BrokerMessage, envelope: &Value) -> Result<String, MessageProblem> {
    if route.has_own_place() {
        return route.key(message);
    }
    let text = |name: &str| envelope.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let own = text("idempotencyKey").map(|key| format!("key:{key}"));
    let own = own.or_else(|| text("identifier").map(|id| format!("id:{id}")));
    own.map_or_else(|| route.key(message), |own| Ok(format!("{}/{own}", route.bridge)))
}

/// What the signature is over.
fn canonical(envelope: &PhpValue, fields: &[&str]) -> String {
    let member = |name: &&str| {
        let value = envelope.get(name).cloned().unwrap_or(PhpValue::Null);
        ((*name).to_owned(), value)
    };
    let mut text = String::new();
    PhpValue::Object(fields.iter().map(member).collect()).encode(&mut text);
    text
}

/// Whether this key made this of a text. The comparison takes as long whatever is wrong.
fn fits(key: &SecretText, text: &str, given: &[u8]) -> bool {
    // Keys of every length are keys.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.0.as_bytes()) else { return false };
    mac.update(text.as_bytes());
    mac.verify_slice(given).is_ok()
}

/// Bytes of hexadecimal digits, as PHP writes them.
fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// Which of five levels a priority is: 5 is the usual one, and more is sooner, as its documents say.
const fn level(priority: i64) -> Priority {
    match priority {
        ..=2 => Priority::Lowest,
        3..=4 => Priority::Low,
        5..=6 => Priority::Normal,
        7..=8 => Priority::High,
        _ => Priority::Critical,
    }
}
