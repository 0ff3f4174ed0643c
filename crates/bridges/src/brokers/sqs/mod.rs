//! Amazon SQS, or what speaks like it.
//!
//! Keys are static ones: those of the settings, or `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and
//! `AWS_SESSION_TOKEN` of the environment. Abandoned messages are sent to the queue that the redrive policy names, and
//! deleted after that (B6); where there is no such policy they stay, out of sight for as long as SQS allows.

mod client;
mod sign;

use std::time::Duration;

use serde_json::{Value, json};

use crate::address::BrokerAddress;
use crate::broker::{Broker, BrokerAnswer, BrokerError, BrokerSession};
use crate::message::{
    BrokerMessage, BrokerProperties, DeliveryTag, MessageId, NewMessage, digest, published_together,
};
use crate::secret::SecretText;
use crate::settings::{BridgeSettings, BridgeSettingsError};
use client::{SqsConnection, SqsPlace};
use sign::AccessKeys;

/// Messages of one call at most.
const TOGETHER: usize = 10;

/// Bytes of the messages of one call at most, with their attributes: some servers take more.
const TOGETHER_BYTES: usize = 256 * 1024;

/// The group of messages in a FIFO queue that have none.
const GROUP: &str = "backstop";

/// How long a message may be held before others see it.
const VISIBILITY: Duration = Duration::from_secs(30);

/// The longest time that a message can be kept out of sight, in seconds.
const LONGEST: u64 = 12 * 60 * 60;

/// The longest time that a call waits for a message, in seconds.
const LONGEST_WAIT: u64 = 20;

/// A queue of SQS.
#[derive(Debug)]
pub struct SqsBroker {
    place: SqsPlace,
    queue: String,
    visibility: u64,
}

impl SqsBroker {
    /// The broker of these settings.
    ///
    /// # Errors
    /// When a key or the region is missing.
    pub fn new(
        address: BrokerAddress,
        name: &str,
        settings: &BridgeSettings,
    ) -> Result<Self, BridgeSettingsError> {
        let encrypted = address.url().scheme() == "sqs+https";
        let (host, port) = address.host_and_port(if encrypted { 443 } else { 80 });
        let missing = |key: &'static str, variable: &str| BridgeSettingsError::Value {
            bridge: name.to_owned(),
            key,
            problem: format!("is missing, and the environment has no {variable}"),
        };
        let or_variable = |own: &Option<SecretText>, variable: &str| {
            own.clone()
                .or_else(|| std::env::var(variable).ok().filter(|text| !text.is_empty()).map(SecretText))
        };
        let (access, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let keys = AccessKeys {
            access: or_variable(&settings.access_key, access).ok_or_else(|| missing("access_key", access))?.0,
            secret: or_variable(&settings.secret_key, secret).ok_or_else(|| missing("secret_key", secret))?,
            // One of the environment belongs to the keys of the environment.
            token: match settings.access_key {
                Some(_) => settings.session_token.clone(),
                None => or_variable(&settings.session_token, "AWS_SESSION_TOKEN"),
            },
        };
        let region = settings.region.clone().or_else(|| region_of(&host));
        let region = region.or_else(|| std::env::var("AWS_REGION").ok());
        let region = region.ok_or_else(|| missing("region", "AWS_REGION"))?;
        let (address, authority) = (address.to_string(), settings.tls_ca.clone());
        let place = SqsPlace { host, port, encrypted, region, keys, address, authority };
        let visibility = settings.place().hold.unwrap_or(VISIBILITY).as_secs().clamp(1, LONGEST);
        Ok(Self { place, queue: settings.place().queue.clone(), visibility })
    }

    async fn session(&self) -> Result<SqsSession, BrokerError> {
        let connection = SqsConnection::open(self.place.clone()).await?;
        let mut session = SqsSession { connection, url: String::new(), visibility: self.visibility };
        session.url = session.url_of(&self.queue).await?;
        Ok(session)
    }
}

#[cfg(feature = "floor")]
impl SqsBroker {
    /// Makes its queue.
    pub(crate) async fn make_queue(&self) -> Result<(), BrokerError> {
        let mut connection = SqsConnection::open(self.place.clone()).await?;
        let input = json!({ "QueueName": self.queue });
        connection.call("CreateQueue", &input, Duration::ZERO).await.map(drop)
    }

    /// Removes it, with what is in it.
    pub(crate) async fn delete_queue(&self) -> Result<(), BrokerError> {
        let mut session = self.session().await?;
        let input = json!({ "QueueUrl": session.url });
        session.call("DeleteQueue", input).await.map(drop)
    }
}

/// The region in a host such as `sqs.eu-west-1.amazonaws.com`.
fn region_of(host: &str) -> Option<String> {
    let mut parts = host.strip_prefix("sqs.")?.split('.');
    let region = parts.next()?;
    (parts.next() == Some("amazonaws")).then(|| region.to_owned())
}

impl Broker for SqsBroker {
    fn address(&self) -> &str {
        &self.place.address
    }

    fn connect(&self) -> BrokerAnswer<'_, Box<dyn BrokerSession>> {
        Box::pin(async move { Ok(Box::new(self.session().await?) as Box<dyn BrokerSession>) })
    }
}

/// A connection to one queue.
struct SqsSession {
    connection: SqsConnection,
    url: String,
    visibility: u64,
}

impl SqsSession {
    async fn call(&mut self, action: &str, input: Value) -> Result<Value, BrokerError> {
        self.connection.call(action, &input, Duration::ZERO).await
    }

    async fn url_of(&mut self, queue: &str) -> Result<String, BrokerError> {
        let answer = self.call("GetQueueUrl", json!({ "QueueName": queue })).await?;
        let url = answer.get("QueueUrl").and_then(Value::as_str).map(str::to_owned);
        url.ok_or_else(|| self.connection.place.refused("it tells no address of the queue"))
    }

    async fn attribute(&mut self, name: &str) -> Result<Option<String>, BrokerError> {
        let input = json!({ "QueueUrl": self.url, "AttributeNames": [name] });
        let answer = self.call("GetQueueAttributes", input).await?;
        Ok(answer.pointer(&format!("/Attributes/{name}")).and_then(Value::as_str).map(str::to_owned))
    }

    async fn take(&mut self, most: usize, wait: Duration) -> Result<Vec<BrokerMessage>, BrokerError> {
        // Without a wait the call looks at some of the servers only, and a loop of such calls costs money.
        let seconds = wait.as_secs().clamp(1, LONGEST_WAIT);
        let input = json!({
            "QueueUrl": self.url,
            "MaxNumberOfMessages": most.clamp(1, TOGETHER),
            "WaitTimeSeconds": seconds,
            "VisibilityTimeout": self.visibility,
            "AttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        });
        let answer = self.connection.call("ReceiveMessage", &input, Duration::from_secs(seconds)).await?;
        let messages = answer.get("Messages").and_then(Value::as_array);
        Ok(messages.into_iter().flatten().filter_map(message).collect())
    }

    /// One call for every ten messages. A message that was held for too long belongs to others: that is no failure.
    async fn each(&mut self, action: &str, tags: &[DeliveryTag], more: &Value) -> Result<(), BrokerError> {
        for group in tags.chunks(TOGETHER) {
            let entry = |(index, tag): (usize, &DeliveryTag)| {
                let mut entry = json!({ "Id": index.to_string(), "ReceiptHandle": tag.as_str() });
                if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
                    entry.extend(more.clone());
                }
                entry
            };
            let entries: Vec<Value> = group.iter().enumerate().map(entry).collect();
            let answer = self.call(action, json!({ "QueueUrl": self.url, "Entries": entries })).await?;
            let failed = answer.get("Failed").and_then(Value::as_array);
            let theirs = |one: &&Value| one.get("SenderFault").and_then(Value::as_bool) == Some(false);
            if failed.into_iter().flatten().any(|one| theirs(&one)) {
                return Err(self.connection.place.unavailable(format!("{action} failed for some messages")));
            }
        }
        Ok(())
    }

    async fn hide(&mut self, tags: &[DeliveryTag], seconds: u64) -> Result<(), BrokerError> {
        let more = json!({ "VisibilityTimeout": seconds.min(LONGEST) });
        self.each("ChangeMessageVisibilityBatch", tags, &more).await
    }

    async fn bury(&mut self, message: &BrokerMessage) -> Result<(), BrokerError> {
        let tags = std::slice::from_ref(&message.tag);
        let policy: Option<Value> =
            self.attribute("RedrivePolicy").await?.and_then(|text| serde_json::from_str(&text).ok());
        let target =
            policy.as_ref().and_then(|policy| policy.get("deadLetterTargetArn")).and_then(Value::as_str);
        let Some(queue) = target.and_then(|target| target.rsplit(':').next()) else {
            return self.hide(tags, LONGEST).await;
        };
        let mut copy = message.copied();
        // In the dead-letter queue nothing may be taken for a repetition.
        copy.id.get_or_insert_with(|| message.id.text.clone());
        self.send(queue, &[copy]).await?;
        self.each("DeleteMessageBatch", tags, &json!({})).await
    }

    /// One call for as many messages as it takes.
    async fn send(&mut self, queue: &str, messages: &[NewMessage]) -> Result<(), BrokerError> {
        let url = self.url_of(queue).await?;
        let mut rest = messages;
        while !rest.is_empty() {
            let (together, later) = rest.split_at(published_together(rest, TOGETHER, TOGETHER_BYTES));
            let entries: Result<Vec<Value>, _> = together.iter().map(|new| entry(queue, new)).collect();
            let entries = entries.map_err(|problem| self.connection.place.refused(problem))?;
            self.send_together(&url, entries).await?;
            rest = later;
        }
        Ok(())
    }

    async fn send_together(&mut self, url: &str, mut entries: Vec<Value>) -> Result<(), BrokerError> {
        for (index, entry) in entries.iter_mut().enumerate() {
            entry["Id"] = json!(index.to_string());
        }
        let answer = self.call("SendMessageBatch", json!({ "QueueUrl": url, "Entries": entries })).await?;
        let failed = answer.get("Failed").and_then(Value::as_array).and_then(|failed| failed.first());
        let Some(failed) = failed else { return Ok(()) };
        let text = |name: &str| failed.get(name).and_then(Value::as_str).unwrap_or_default();
        let problem = format!("SendMessageBatch: {}: {}", text("Code"), text("Message"));
        let ours = failed.get("SenderFault").and_then(Value::as_bool) == Some(true);
        let place = &self.connection.place;
        Err(if ours { place.refused(problem) } else { place.unavailable(problem) })
    }

    async fn waiting(&mut self) -> Result<Option<u64>, BrokerError> {
        let found = self.attribute("ApproximateNumberOfMessages").await?;
        Ok(found.and_then(|number| number.parse().ok()))
    }
}

/// A message of a call that sends several.
fn entry(queue: &str, new: &NewMessage) -> Result<Value, &'static str> {
    let body = std::str::from_utf8(&new.body).map_err(|_| "a message of SQS is text, and this one is not")?;
    let native = new.native.get::<SqsProperties>();
    let attribute = |(name, value): &(String, String)| {
        (name.clone(), json!({ "DataType": "String", "StringValue": value }))
    };
    let mut attributes: serde_json::Map<String, Value> = new.headers.iter().map(attribute).collect();
    // Numbers and bytes stay what they were.
    attributes.extend(native.into_iter().flat_map(|native| native.attributes.clone()));
    let mut entry = json!({ "MessageBody": body, "MessageAttributes": attributes });
    if queue.ends_with(".fifo") {
        let group = new.group.as_deref().or(native.and_then(|native| native.group.as_deref()));
        entry["MessageGroupId"] = json!(group.unwrap_or(GROUP));
        // Without one the queue has to be told to take a digest of the body.
        if let Some(id) = &new.id {
            entry["MessageDeduplicationId"] = json!(deduplication_id(id));
        }
    }
    Ok(entry)
}

/// An id as SQS takes it: 128 visible characters at most, and a digest of any other.
fn deduplication_id(id: &str) -> String {
    let fits = !id.is_empty() && id.len() <= 128 && id.chars().all(|c| c.is_ascii_graphic());
    if fits { id.to_owned() } else { digest(id.as_bytes()) }
}

/// What SQS has with a message beside text.
#[derive(Debug, Default)]
struct SqsProperties {
    /// Its group in a FIFO queue.
    group: Option<String>,
    /// Attributes that are no text.
    attributes: serde_json::Map<String, Value>,
}

/// None for what has no body or nothing to settle it by.
fn message(received: &Value) -> Option<BrokerMessage> {
    let text = |name: &str| received.get(name).and_then(Value::as_str);
    let attribute = |name: &str| received.get("Attributes")?.get(name)?.as_str();
    let others = received.get("MessageAttributes").and_then(Value::as_object);
    let headers = others.into_iter().flatten().filter_map(|(name, value)| {
        Some((name.clone(), value.get("StringValue").and_then(Value::as_str)?.to_owned()))
    });
    let is_text =
        |value: &Value| value.get("DataType").and_then(Value::as_str).is_none_or(|kind| kind == "String");
    let typed = others.into_iter().flatten().filter(|(_, value)| !is_text(value));
    let native = SqsProperties {
        group: attribute("MessageGroupId").map(str::to_owned),
        attributes: typed.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    let id = match attribute("MessageDeduplicationId") {
        Some(id) => MessageId::producer(id),
        None => MessageId::broker(text("MessageId")?),
    };
    Some(BrokerMessage {
        body: text("Body").unwrap_or_default().as_bytes().to_vec(),
        headers: headers.collect(),
        deliveries: attribute("ApproximateReceiveCount").and_then(|count| count.parse().ok()),
        native: BrokerProperties::new(native),
        ..BrokerMessage::new(id, DeliveryTag::new(text("ReceiptHandle")?))
    })
}

impl BrokerSession for SqsSession {
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>> {
        Box::pin(self.take(most, wait))
    }

    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()> {
        Box::pin(async move { self.each("DeleteMessageBatch", tags, &json!({})).await })
    }

    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()> {
        Box::pin(self.hide(tags, delay.as_secs()))
    }

    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, _: &'a str) -> BrokerAnswer<'a, ()> {
        Box::pin(self.bury(message))
    }

    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.send(queue, messages))
    }

    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>> {
        Box::pin(self.waiting())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_read_from_hosts_of_aws_alone() {
        assert_eq!(region_of("sqs.eu-west-1.amazonaws.com").as_deref(), Some("eu-west-1"));
        for host in ["127.0.0.1", "sqs.example.com", "queue.amazonaws.com", "sqs."] {
            assert_eq!(region_of(host), None, "{host}");
        }
    }

    #[test]
    fn messages_for_fifo_queues_have_a_group_and_an_id_that_fits() {
        // B2, B6
        let new = NewMessage::new("{}").with_id("job:1").in_group("job").with_header("kind", "x");
        let plain = entry("paid", &new).unwrap();
        assert_eq!((plain.get("MessageGroupId"), plain.get("MessageDeduplicationId")), (None, None));
        assert_eq!(plain["MessageAttributes"]["kind"]["StringValue"], "x");
        let fifo = entry("paid.fifo", &new).unwrap();
        assert_eq!(
            (&fifo["MessageGroupId"], &fifo["MessageDeduplicationId"]),
            (&json!("job"), &json!("job:1"))
        );
        assert_eq!(entry("paid.fifo", &NewMessage::new("{}")).unwrap()["MessageGroupId"], GROUP);
        assert!(entry("paid", &NewMessage::new(b"\xff".to_vec())).is_err());
        for id in ["", "a b", "\u{e9}", &"x".repeat(129)] {
            assert_eq!(deduplication_id(id).len(), 64, "{id}");
        }
        // What came out of such a queue keeps its group and its bytes when it is passed on.
        let received = json!({
            "MessageId": "m", "ReceiptHandle": "r", "Body": "{}", "Attributes": { "MessageGroupId": "g" },
            "MessageAttributes": { "raw": { "DataType": "Binary", "BinaryValue": "eA==" } },
        });
        let again = entry("dead.fifo", &message(&received).unwrap().copied()).unwrap();
        assert_eq!(again["MessageGroupId"], "g");
        assert_eq!(again["MessageAttributes"]["raw"]["BinaryValue"], "eA==");
    }

    #[test]
    fn messages_are_read_and_others_are_left() {
        let received = json!({
            "MessageId": "m", "ReceiptHandle": "r", "Body": "{}", "Attributes": { "ApproximateReceiveCount": "3" },
            "MessageAttributes": { "kind": { "StringValue": "x" }, "raw": { "BinaryValue": "eA==" } },
        });
        let found = message(&received).unwrap();
        assert_eq!((&found.id, found.deliveries), (&MessageId::broker("m"), Some(3)));
        assert_eq!(found.headers, [("kind".to_owned(), "x".to_owned())]);
        assert_eq!(message(&json!({ "MessageId": "m", "Body": "{}" })), None);
    }
}
