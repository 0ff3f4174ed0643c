//! RabbitMQ, by AMQP 0-9-1.
//!
//! A message without the property `message_id` has a digest of its body as its id, for the broker gives none: equal
//! bodies are one message then. Abandoned messages are published to a queue of their own, with confirm, and then
//! acknowledged (B6): a reject would drop them where the queue has no dead-letter exchange, and nobody can see from
//! here whether it has one.
//!
//! The client's own recovery is not used: after an error the session is thrown away, and the loop of the source
//! connects again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, ExchangeDeclareOptions, QueueDeclareOptions,
};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, DefaultConnectionBuilder,
    ErrorKind, ExchangeKind,
};
use tokio::time::{Instant, timeout};

use crate::address::BrokerAddress;
use crate::broker::{Broker, BrokerAnswer, BrokerError, BrokerSession, PATIENCE, read_authority};
use crate::message::{BrokerMessage, BrokerProperties, DeliveryTag, MessageId, NewMessage};
use crate::profile::{CafProfile, CafQueueKind, MessageProfile};
use crate::settings::BridgeSettings;

/// The number that AMQP has for something that is not there.
const NOT_FOUND: u16 = 404;

/// The mode in which messages survive the end of the broker.
const PERSISTENT: u8 = 2;

/// A RabbitMQ server, and the queue of a bridge.
#[derive(Debug)]
pub struct RabbitmqBroker {
    address: BrokerAddress,
    shown: String,
    consumer: String,
    /// Where messages come from; empty when it only publishes and has no queue.
    queue: String,
    /// The exchange that messages for no queue go to, and their routing key.
    exchange: Option<(String, String)>,
    dead: String,
    /// Queues that the profile needs, and that are made when they do not exist.
    needed: Vec<String>,
    /// What they are made with.
    arguments: FieldTable,
    authority: Option<PathBuf>,
}

impl RabbitmqBroker {
    /// The broker of these settings.
    #[must_use]
    pub fn new(address: BrokerAddress, name: &str, settings: &BridgeSettings) -> Self {
        let caf = match settings.message_profile(name) {
            Ok(MessageProfile::Caf(caf)) => Some(caf),
            _ => None,
        };
        Self {
            shown: address.to_string(),
            address,
            consumer: settings.consumer(name).to_owned(),
            queue: settings.place().queue.clone(),
            exchange: settings.sink.as_ref().and_then(|sink| {
                Some((sink.exchange.clone()?, sink.routing_key.clone().unwrap_or_default()))
            }),
            dead: settings.place().dead_letters(),
            needed: caf.as_ref().map(|caf| caf.own_queues()).unwrap_or_default(),
            arguments: caf.map(|caf| arguments(&caf)).unwrap_or_default(),
            authority: settings.tls_ca.clone(),
        }
    }

    async fn session(&self) -> Result<QueueSession, BrokerError> {
        let name = LongString::from(format!("backstop bridge {}", self.consumer));
        let properties = ConnectionProperties::default().with_connection_name(name);
        let cert_chain = read_authority(&self.shown, self.authority.as_deref())?;
        let connecting = async {
            let builder = DefaultConnectionBuilder::new()?.with_uri_str(self.address.url().to_string());
            let builder = builder.with_properties(properties);
            builder.with_tls_config(OwnedTLSConfig { identity: None, cert_chain }).connect().await
        };
        let connection = within(&self.shown, connecting).await?;
        let channel = within(&self.shown, connection.create_channel()).await?;
        let session = QueueSession {
            _connection: connection,
            channel,
            publishing: None,
            consumer: None,
            address: self.shown.clone(),
            tag: self.consumer.clone(),
            queue: self.queue.clone(),
            exchange: self.exchange.clone(),
            dead: self.dead.clone(),
            has_dead: false,
            held: BTreeSet::new(),
            delayed: BTreeMap::new(),
        };
        match &session.exchange {
            Some((exchange, _)) if session.queue.is_empty() => session.look_for_exchange(exchange).await?,
            _ if session.queue.is_empty() => {}
            _ => session.waiting().await.map(drop)?,
        }
        for queue in &self.needed {
            session.make(queue, &self.arguments).await?;
        }
        Ok(session)
    }
}

impl Broker for RabbitmqBroker {
    fn address(&self) -> &str {
        &self.shown
    }

    fn connect(&self) -> BrokerAnswer<'_, Box<dyn BrokerSession>> {
        Box::pin(async move { Ok(Box::new(self.session().await?) as Box<dyn BrokerSession>) })
    }
}

/// The arguments with which workers of the framework declare their queues: those of a queue that exists must be the
/// same.
fn arguments(caf: &CafProfile) -> FieldTable {
    let (kind, most) = (caf.queue_type(), caf.max_priority());
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.as_str().into()));
    if kind == CafQueueKind::Classic && most > 0 {
        arguments.insert("x-max-priority".into(), AMQPValue::LongInt(most.into()));
    }
    arguments
}

/// Waits for an answer, but not for ever.
async fn within<T>(address: &str, asked: impl Future<Output = lapin::Result<T>>) -> Result<T, BrokerError> {
    match timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| failed(address, &error)),
        Err(_) => Err(BrokerError::Unavailable {
            address: address.to_owned(),
            problem: "no answer in time".to_owned(),
        }),
    }
}

fn failed(address: &str, error: &lapin::Error) -> BrokerError {
    let (address, problem) = (address.to_owned(), error.to_string());
    match error.kind() {
        ErrorKind::ProtocolError(_) => BrokerError::Refused { address, problem },
        _ => BrokerError::Unavailable { address, problem },
    }
}

/// True when what was not found is known to the broker all the same, by what it says: after a crash of the broker a
/// durable queue is "not found" for as long as its process is not up again.
fn is_not_up_yet(said: &str) -> bool {
    // Not just these words: a name may hold them, and it is quoted.
    ["' is down or inaccessible", "' has crashed and failed to restart", "' process is stopped by supervisor"]
        .iter()
        .any(|ending| said.ends_with(ending))
}

/// A connection with a channel to receive, and one to publish when that is asked for.
struct QueueSession {
    // Dropped last of all that use it, it closes them.
    _connection: Connection,
    channel: Channel,
    publishing: Option<Channel>,
    consumer: Option<Consumer>,
    address: String,
    tag: String,
    queue: String,
    exchange: Option<(String, String)>,
    dead: String,
    /// True when the queue of abandoned messages was there once.
    has_dead: bool,
    /// Deliveries that were received here and not settled yet.
    held: BTreeSet<u64>,
    /// Messages that were given back, and when they really go back: the broker knows no delay.
    delayed: BTreeMap<u64, Instant>,
}

impl QueueSession {
    fn unavailable(&self, problem: &str) -> BrokerError {
        BrokerError::Unavailable { address: self.address.clone(), problem: problem.to_owned() }
    }

    /// How many messages are ready; an error when there is no such queue.
    async fn waiting(&self) -> Result<u64, BrokerError> {
        self.ready(&self.channel, &self.queue).await
    }

    /// The same of any queue. A channel that asks for one that does not exist ends with the answer.
    async fn ready(&self, channel: &Channel, queue: &str) -> Result<u64, BrokerError> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(queue.into(), passive, FieldTable::default());
        match timeout(PATIENCE, declared).await {
            Ok(Ok(queue)) => Ok(u64::from(queue.message_count())),
            Ok(Err(error)) => Err(self.missing(queue, &error)),
            Err(_) => Err(self.unavailable("no answer in time")),
        }
    }

    /// An error when there is no such exchange.
    async fn look_for_exchange(&self, exchange: &str) -> Result<(), BrokerError> {
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let kind = ExchangeKind::default();
        let declared = self.channel.exchange_declare(exchange.into(), kind, passive, FieldTable::default());
        match timeout(PATIENCE, declared).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.missing(exchange, &error)),
            Err(_) => Err(self.unavailable("no answer in time")),
        }
    }

    /// What it means that something was not found, or another error.
    fn missing(&self, name: &str, error: &lapin::Error) -> BrokerError {
        match error.kind() {
            ErrorKind::ProtocolError(refusal) if refusal.get_id() == NOT_FOUND => {
                if is_not_up_yet(refusal.get_message().as_str()) {
                    return self.unavailable(&error.to_string());
                }
                let (queue, address) = (name.to_owned(), self.address.clone());
                BrokerError::NoSuchQueue { queue, address }
            }
            _ => failed(&self.address, error),
        }
    }

    /// Makes a queue unless it is there, whatever it is like.
    async fn make(&self, queue: &str, arguments: &FieldTable) -> Result<(), BrokerError> {
        let look = within(&self.address, self._connection.create_channel()).await?;
        match self.ready(&look, queue).await {
            Err(BrokerError::NoSuchQueue { .. }) => {}
            other => return other.map(drop),
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare(queue.into(), durable, arguments.clone());
        within(&self.address, declared).await.map(drop)
    }

    /// Begins to consume, with no more messages underway than are asked for.
    async fn begin(&mut self, most: usize) -> Result<(), BrokerError> {
        let prefetch = u16::try_from(most).unwrap_or(u16::MAX);
        within(&self.address, self.channel.basic_qos(prefetch, BasicQosOptions::default())).await?;
        let consuming = self.channel.basic_consume(
            self.queue.as_str().into(),
            self.tag.as_str().into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        self.consumer = Some(within(&self.address, consuming).await?);
        Ok(())
    }

    async fn consume(&mut self, most: usize, wait: Duration) -> Result<Vec<BrokerMessage>, BrokerError> {
        if self.consumer.is_none() {
            self.begin(most).await?;
        }
        let until = Instant::now() + wait;
        let mut messages = Vec::new();
        while messages.is_empty() && Instant::now() < until {
            let due = self.give_back_due().await?;
            let Some(consumer) = &mut self.consumer else { break };
            let limit = due.map_or(until, |due| due.min(until));
            let Ok(first) = tokio::time::timeout_at(limit, consumer.next()).await else { continue };
            let mut next = Some(first);
            while let Some(delivery) = next {
                match delivery {
                    Some(Ok(delivery)) => {
                        self.held.insert(delivery.delivery_tag);
                        messages.push(message(delivery));
                    }
                    Some(Err(error)) => return Err(failed(&self.address, &error)),
                    None => return Err(self.unavailable("the consumer has ended; was the queue deleted?")),
                }
                next = if messages.len() < most { consumer.next().now_or_never() } else { None };
            }
        }
        Ok(messages)
    }

    /// Gives back what has waited long enough; answers when the next is due.
    async fn give_back_due(&mut self) -> Result<Option<Instant>, BrokerError> {
        let now = Instant::now();
        let due: Vec<u64> =
            self.delayed.iter().filter(|(_, due)| **due <= now).map(|(tag, _)| *tag).collect();
        for tag in due {
            self.delayed.remove(&tag);
            self.requeue(tag).await?;
        }
        Ok(self.delayed.values().min().copied())
    }

    async fn requeue(&mut self, tag: u64) -> Result<(), BrokerError> {
        self.held.remove(&tag);
        let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        within(&self.address, self.channel.basic_nack(tag, options)).await
    }

    fn number(&self, tag: &DeliveryTag) -> Result<u64, BrokerError> {
        tag.as_str().parse().map_err(|_| self.unavailable("the delivery is of another session"))
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let numbers: BTreeSet<u64> =
            tags.iter().map(|tag| self.number(tag)).collect::<Result<_, BrokerError>>()?;
        for (number, multiple) in acks(&self.held, &numbers) {
            within(&self.address, self.channel.basic_ack(number, BasicAckOptions { multiple })).await?;
        }
        self.held.retain(|number| !numbers.contains(number));
        Ok(())
    }

    async fn put_off(&mut self, tags: &[DeliveryTag], delay: Duration) -> Result<(), BrokerError> {
        for tag in tags {
            let number = self.number(tag)?;
            if delay.is_zero() {
                self.requeue(number).await?;
            } else {
                self.delayed.insert(number, Instant::now() + delay);
            }
        }
        Ok(())
    }

    async fn bury(&mut self, message: &BrokerMessage, reason: &str) -> Result<(), BrokerError> {
        let dead = self.dead.clone();
        if !self.has_dead {
            self.make(&dead, &FieldTable::default()).await?;
            self.has_dead = true;
        }
        let mut copy = message.copied();
        if let Some(properties) = message.native.get::<BasicProperties>() {
            // Nothing expires among the dead; the broker's own dead-lettering takes the time away too.
            copy.native = BrokerProperties::new(lasting(properties));
            let after = properties.expiration().as_ref().map(ToString::to_string);
            copy.headers.extend(after.map(|after| ("backstop-expiration".to_owned(), after)));
        }
        let copy = copy.with_header("backstop-queue", &self.queue).with_header("backstop-reason", reason);
        self.send(&dead, &[copy]).await?;
        self.settle(std::slice::from_ref(&message.tag)).await
    }

    /// The channel with confirms: a refusal there does not end the one that receives.
    async fn publishing(&mut self) -> Result<Channel, BrokerError> {
        if let Some(channel) = &self.publishing {
            return Ok(channel.clone());
        }
        let channel = within(&self.address, self._connection.create_channel()).await?;
        within(&self.address, channel.confirm_select(ConfirmSelectOptions::default())).await?;
        self.publishing = Some(channel.clone());
        Ok(channel)
    }

    async fn send(&mut self, queue: &str, messages: &[NewMessage]) -> Result<(), BrokerError> {
        let channel = self.publishing().await?;
        let (exchange, key) = match &self.exchange {
            Some((exchange, key)) if queue.is_empty() => (exchange.as_str(), key.as_str()),
            _ => ("", queue),
        };
        // A message that no queue takes comes back, in place of being dropped.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut confirms = Vec::with_capacity(messages.len());
        for new in messages {
            let publishing =
                channel.basic_publish(exchange.into(), key.into(), options, &new.body, properties(new));
            confirms.push(within(&self.address, publishing).await?);
        }
        for confirm in confirms {
            let confirmed = within(&self.address, confirm).await?;
            let is_ack = confirmed.is_ack();
            if confirmed.take_message().is_some() {
                let place = if exchange.is_empty() { key } else { exchange };
                let (queue, address) = (place.to_owned(), self.address.clone());
                return Err(BrokerError::NoSuchQueue { queue, address });
            }
            if !is_ack {
                return Err(self.unavailable("it could not take a message"));
            }
        }
        Ok(())
    }
}

/// The acknowledgements of these deliveries: one for all of them where nothing before the last of them is left open,
/// otherwise one each. True is for a delivery and all before it.
fn acks(held: &BTreeSet<u64>, settled: &BTreeSet<u64>) -> Vec<(u64, bool)> {
    match settled.last() {
        Some(last) if settled.len() > 1 && held.range(..=*last).all(|number| settled.contains(number)) => {
            vec![(*last, true)]
        }
        _ => settled.iter().map(|number| (*number, false)).collect(),
    }
}

/// What goes along with a message for as long as it is kept. A user in it would be its sender's, and refused.
fn lasting(native: &BasicProperties) -> BasicProperties {
    let mut kept = BasicProperties::default();
    macro_rules! keep {
        ($($get:ident $with:ident),*) => {
            $(if let Some(value) = native.$get().clone() {
                kept = kept.$with(value);
            })*
        };
    }
    keep!(
        content_type with_content_type,
        content_encoding with_content_encoding,
        headers with_headers,
        correlation_id with_correlation_id,
        reply_to with_reply_to,
        timestamp with_timestamp,
        kind with_type,
        app_id with_app_id
    );
    kept
}

/// The properties of a message: those that it came with, and what is said of it now.
fn properties(new: &NewMessage) -> BasicProperties {
    let native = new.native.get::<BasicProperties>();
    let known = native.and_then(|native| native.headers().as_ref()).map(FieldTable::inner);
    let mut headers = FieldTable::default();
    for (name, value) in &new.headers {
        // A number stays a number while nobody changes it.
        let typed = known.and_then(|known| known.get(name.as_str())).filter(|known| shown(known) == *value);
        let value = typed.cloned().unwrap_or_else(|| AMQPValue::LongString(value.as_str().into()));
        headers.insert(name.as_str().into(), value);
    }
    let mut properties = native.map(lasting).unwrap_or_default();
    if let Some(after) = native.and_then(|native| native.expiration().clone()) {
        properties = properties.with_expiration(after);
    }
    properties = properties.with_delivery_mode(PERSISTENT).with_headers(headers);
    if let Some(priority) = new.priority {
        properties = properties.with_priority(priority);
    }
    match &new.id {
        Some(id) => properties.with_message_id(id.as_str().into()),
        None => properties,
    }
}

fn message(delivery: Delivery) -> BrokerMessage {
    let Delivery { delivery_tag, redelivered, properties, data, .. } = delivery;
    let given = properties.message_id().as_ref().map(ToString::to_string).filter(|id| !id.is_empty());
    let fields = properties.headers().as_ref().map(FieldTable::inner);
    let headers: Vec<(String, String)> =
        fields.into_iter().flatten().map(|(name, value)| (name.to_string(), shown(value))).collect();
    // Quorum queues count earlier deliveries; classic ones only say whether there was one.
    let counted =
        headers.iter().find(|(name, _)| name == "x-delivery-count").map(|(_, count)| count.parse().ok());
    let first = (!redelivered).then_some(1);
    let id = given.map_or_else(|| MessageId::of_body(&data), MessageId::producer);
    BrokerMessage {
        body: data,
        priority: *properties.priority(),
        deliveries: counted.flatten().map_or(first, |count: u32| Some(count.saturating_add(1))),
        headers,
        native: BrokerProperties::new(properties),
        ..BrokerMessage::new(id, DeliveryTag::new(delivery_tag.to_string()))
    }
}

/// A header as text.
fn shown(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        other => format!("{other:?}"),
    }
}

impl BrokerSession for QueueSession {
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>> {
        Box::pin(self.consume(most, wait))
    }

    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.settle(tags))
    }

    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()> {
        Box::pin(self.put_off(tags, delay))
    }

    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, reason: &'a str) -> BrokerAnswer<'a, ()> {
        Box::pin(self.bury(message, reason))
    }

    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.send(queue, messages))
    }

    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>> {
        Box::pin(async move { self.waiting().await.map(Some) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_acknowledged_together_unless_one_between_them_is_still_open() {
        // B1: an acknowledgement for several is one for everything before it, too.
        let set = |numbers: &[u64]| numbers.iter().copied().collect::<BTreeSet<_>>();
        for (held, settled, expected) in [
            (&[1, 2, 3][..], &[1, 2, 3][..], vec![(3, true)]),
            (&[1, 2, 3], &[1, 2], vec![(2, true)]),
            (&[1, 2, 3], &[1, 3], vec![(1, false), (3, false)]),
            (&[1, 2, 3], &[2, 3], vec![(2, false), (3, false)]),
            (&[5, 7], &[5, 7], vec![(7, true)]),
            (&[1, 2], &[1], vec![(1, false)]),
            (&[1, 2], &[], vec![]),
        ] {
            assert_eq!(acks(&set(held), &set(settled)), expected, "{settled:?} of {held:?}");
        }
    }

    #[test]
    fn a_queue_that_is_not_up_yet_is_not_missing() {
        // B1, B5: the words of RabbitMQ for a durable queue after its own crash, and for one that nobody declared.
        let early = [
            "NOT_FOUND - home node 'a@b' of durable queue 'orders' in vhost '/' is down or inaccessible",
            "NOT_FOUND - queue 'orders' in vhost '/' has crashed and failed to restart",
            "NOT_FOUND - queue 'orders' in vhost '/' process is stopped by supervisor",
        ];
        for said in early {
            assert!(is_not_up_yet(said), "{said}");
        }
        assert!(!is_not_up_yet("NOT_FOUND - no queue 'orders' in vhost '/'"));
    }
}
