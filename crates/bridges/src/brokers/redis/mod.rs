//! Redis streams, read by a consumer group.
//!
//! A message that was read stays with its consumer until it is acknowledged. A consumer that comes back under the same
//! name reads its own first; those of a consumer that is gone are claimed after a while. Abandoned messages go to a
//! stream of their own (B6). Acknowledged entries stay in the stream, which other groups may read: whoever writes it
//! decides how long it gets.

mod lists;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, Pipeline, RedisError, TlsCertificates, Value};
use tokio::time::Instant;

use crate::address::BrokerAddress;
use crate::broker::{
    Broker, BrokerAnswer, BrokerError, BrokerPublisher, BrokerSession, PATIENCE, read_authority,
};
use crate::message::{BrokerMessage, DeliveryTag, MessageId, NewMessage};
use crate::settings::BridgeSettings;
pub use lists::RedisLists;

/// How long a consumer may be silent about a message before another takes it.
const CLAIM_AFTER: Duration = Duration::from_secs(60);

/// Copies a message to the stream of dead ones, then settles it. Both or none: unlike a transaction, a script ends with
/// the first order that fails, such as one on a key that is no stream.
const BURY: &str = r"
redis.call('XADD', KEYS[2], '*', unpack(ARGV, 3))
return redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])";

/// Fields of a message that a script can hand on.
const MOST_SCRIPT_FIELDS: usize = 2_000;

/// A Redis server, and the stream of a bridge.
#[derive(Debug)]
pub struct RedisStreams {
    address: BrokerAddress,
    shown: String,
    stream: StreamNames,
    claim_after: Duration,
    authority: Option<PathBuf>,
}

/// What the commands of a session name.
#[derive(Debug, Clone)]
struct StreamNames {
    stream: String,
    group: String,
    consumer: String,
    dead: String,
    body: String,
}

impl RedisStreams {
    /// The broker of these settings. `node` tells this consumer from others of the group.
    #[must_use]
    pub fn new(address: BrokerAddress, name: &str, settings: &BridgeSettings, node: &str) -> Self {
        let source = settings.place();
        let stream = StreamNames {
            stream: source.queue.clone(),
            group: settings.consumer(name).to_owned(),
            consumer: node.to_owned(),
            dead: source.dead_letters(),
            body: source.body_field.clone(),
        };
        let claim_after = source.hold.unwrap_or(CLAIM_AFTER);
        let authority = settings.tls_ca.clone();
        Self { shown: address.to_string(), address, stream, claim_after, authority }
    }

    /// A connection that has joined no group.
    async fn link(&self) -> Result<StreamSession, BrokerError> {
        Ok(StreamSession {
            link: RedisLink::open(&self.address, self.authority.as_deref()).await?,
            names: self.stream.clone(),
            claim_after: self.claim_after,
            own_first: true,
            claim_next: Instant::now(),
            delayed: BTreeMap::new(),
        })
    }

    async fn session(&self) -> Result<StreamSession, BrokerError> {
        let mut session = self.link().await?;
        session.join().await?;
        Ok(session)
    }
}

impl Broker for RedisStreams {
    fn address(&self) -> &str {
        &self.shown
    }

    fn connect(&self) -> BrokerAnswer<'_, Box<dyn BrokerSession>> {
        Box::pin(async move { Ok(Box::new(self.session().await?) as Box<dyn BrokerSession>) })
    }

    fn publisher(&self) -> BrokerAnswer<'_, Box<dyn BrokerPublisher>> {
        Box::pin(async move { Ok(Box::new(self.link().await?) as Box<dyn BrokerPublisher>) })
    }
}

impl BrokerPublisher for StreamSession {
    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.add(queue, messages))
    }
}

fn failed(address: &str, error: &RedisError) -> BrokerError {
    let (address, problem) = (address.to_owned(), error.to_string());
    // What the server answers in words it will answer again; anything else is the connection.
    if error.kind() == ErrorKind::AuthenticationFailed {
        return BrokerError::Refused { address, problem };
    }
    let waits = error.is_io_error() || error.is_connection_dropped() || error.is_timeout();
    match error.code() {
        Some("LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY") | None => {
            BrokerError::Unavailable { address, problem }
        }
        Some(_) if waits => BrokerError::Unavailable { address, problem },
        Some(_) => BrokerError::Refused { address, problem },
    }
}

/// A connection. It is not shared: a read that waits holds up nobody else.
pub(crate) struct RedisLink {
    connection: MultiplexedConnection,
    address: String,
}

impl RedisLink {
    pub(crate) async fn open(address: &BrokerAddress, authority: Option<&Path>) -> Result<Self, BrokerError> {
        let (url, address) = (address.url().as_str(), address.to_string());
        let client = match read_authority(&address, authority)? {
            Some(pem) => {
                let root_cert = Some(pem.into_bytes());
                Client::build_with_tls(url, TlsCertificates { client_tls: None, root_cert })
            }
            None => Client::open(url),
        };
        let client = client.map_err(|error| failed(&address, &error))?;
        // Reads wait on the server by design: each call has its own limit instead.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(None);
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        let connection = connected.map_err(|error| failed(&address, &error))?;
        Ok(Self { connection, address })
    }

    pub(crate) async fn ask(&mut self, command: &Cmd, wait: Duration) -> Result<Value, BrokerError> {
        let asked = tokio::time::timeout(wait + PATIENCE, command.query_async(&mut self.connection)).await;
        self.heard(asked)
    }

    pub(crate) async fn ask_all(&mut self, commands: &Pipeline) -> Result<Value, BrokerError> {
        let asked = tokio::time::timeout(PATIENCE, commands.query_async(&mut self.connection)).await;
        self.heard(asked)
    }

    fn heard(
        &self,
        asked: Result<Result<Value, RedisError>, tokio::time::error::Elapsed>,
    ) -> Result<Value, BrokerError> {
        match asked {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(failed(&self.address, &error)),
            Err(_) => Err(BrokerError::Unavailable {
                address: self.address.clone(),
                problem: "no answer in time".to_owned(),
            }),
        }
    }
}

/// A connection of one consumer.
struct StreamSession {
    link: RedisLink,
    names: StreamNames,
    claim_after: Duration,
    /// True until everything was read that this consumer holds since before.
    own_first: bool,
    /// When messages of dead consumers are looked for again.
    claim_next: Instant,
    /// Messages that were given back, and when they may be delivered again.
    delayed: BTreeMap<String, Instant>,
}

impl StreamSession {
    /// Makes the group if there is none; it begins with the first message of the stream. A stream that does not exist
    /// is an error: made here, it would hide a name with a mistake.
    async fn join(&mut self) -> Result<(), BrokerError> {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(&self.names.stream).arg(&self.names.group).arg("0");
        match self.link.ask(&command, Duration::ZERO).await {
            Err(BrokerError::Refused { problem, .. }) if problem.contains("BUSYGROUP") => Ok(()),
            Err(BrokerError::Refused { problem, .. }) if problem.contains("requires the key to exist") => {
                let (queue, address) = (self.names.stream.clone(), self.link.address.clone());
                Err(BrokerError::NoSuchQueue { queue, address })
            }
            other => other.map(drop),
        }
    }

    async fn read(&mut self, most: usize, wait: Duration) -> Result<Vec<BrokerMessage>, BrokerError> {
        if self.own_first || self.delayed.values().any(|due| *due <= Instant::now()) {
            let own = self.own(most).await?;
            if !own.is_empty() {
                return Ok(own);
            }
            self.own_first = false;
        }
        if self.claim_next <= Instant::now() {
            let claimed = self.claim(most).await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
            self.claim_next = Instant::now() + self.claim_after / 2;
        }
        let mut command = self.read_command(most);
        // 0 would wait for ever.
        command.arg("BLOCK").arg(wait.as_millis().max(1).to_string());
        command.arg("STREAMS").arg(&self.names.stream).arg(">");
        let entries = streamed(self.link.ask(&command, wait).await?);
        Ok(entries.into_iter().map(|entry| self.message(entry, Some(1))).collect())
    }

    fn read_command(&self, most: usize) -> Cmd {
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(&self.names.group).arg(&self.names.consumer).arg("COUNT").arg(most);
        command
    }

    /// Messages that this consumer holds already, from before a reconnect or given back, as far as they are due.
    async fn own(&mut self, most: usize) -> Result<Vec<BrokerMessage>, BrokerError> {
        let mut command = self.read_command(most + self.delayed.len());
        command.arg("STREAMS").arg(&self.names.stream).arg("0");
        let entries = streamed(self.link.ask(&command, Duration::ZERO).await?);
        let now = Instant::now();
        let delayed = &self.delayed;
        let due = entries.into_iter().filter(|entry| delayed.get(&entry.id).is_none_or(|due| *due <= now));
        let due: Vec<StreamEntry> = due.take(most).collect();
        self.redelivered(due).await
    }

    /// Takes over messages that others have held for too long.
    async fn claim(&mut self, most: usize) -> Result<Vec<BrokerMessage>, BrokerError> {
        let mut command = redis::cmd("XAUTOCLAIM");
        command.arg(&self.names.stream).arg(&self.names.group).arg(&self.names.consumer);
        command.arg(self.claim_after.as_millis().to_string()).arg("0").arg("COUNT").arg(most);
        let Value::Array(mut parts) = self.link.ask(&command, Duration::ZERO).await? else {
            return Ok(Vec::new());
        };
        if parts.len() < 2 {
            return Ok(Vec::new());
        }
        self.redelivered(entries_of(parts.swap_remove(1))).await
    }

    /// What was delivered before. Entries that were deleted from the stream meanwhile are settled, for nothing is left
    /// of them; of the others it is asked how often they were delivered.
    async fn redelivered(&mut self, entries: Vec<StreamEntry>) -> Result<Vec<BrokerMessage>, BrokerError> {
        let (there, gone): (Vec<StreamEntry>, Vec<StreamEntry>) =
            entries.into_iter().partition(|entry| !entry.fields.is_empty());
        if !gone.is_empty() {
            tracing::warn!(
                stream = self.names.stream,
                entries = gone.len(),
                "entries were deleted before they were read"
            );
            let tags: Vec<DeliveryTag> = gone.into_iter().map(|entry| DeliveryTag::new(entry.id)).collect();
            self.settle(&tags).await?;
        }
        if there.is_empty() {
            return Ok(Vec::new());
        }
        let mut counts = redis::pipe();
        for entry in &there {
            let StreamNames { stream, group, .. } = &self.names;
            counts.cmd("XPENDING").arg(stream).arg(group).arg(&entry.id).arg(&entry.id).arg(1);
        }
        let counts = match self.link.ask_all(&counts).await? {
            Value::Array(counts) => counts,
            _ => Vec::new(),
        };
        let counts = counts.iter().map(deliveries).chain(std::iter::repeat(None));
        Ok(there.into_iter().zip(counts).map(|(entry, count)| self.message(entry, count)).collect())
    }

    fn message(&self, entry: StreamEntry, deliveries: Option<u32>) -> BrokerMessage {
        let (mut body, mut headers) = (Vec::new(), Vec::new());
        for (name, value) in entry.fields {
            if name == self.names.body.as_bytes() {
                body = value;
            } else {
                headers.push((text(&name), text(&value)));
            }
        }
        let tag = DeliveryTag::new(entry.id.as_str());
        BrokerMessage { body, headers, deliveries, ..BrokerMessage::new(MessageId::broker(entry.id), tag) }
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let mut command = redis::cmd("XACK");
        command.arg(&self.names.stream).arg(&self.names.group);
        for tag in tags {
            command.arg(tag.as_str());
            self.delayed.remove(tag.as_str());
        }
        self.link.ask(&command, Duration::ZERO).await.map(drop)
    }

    /// Redis knows no such thing: the message stays with this consumer, which reads it again when it is due. Should the
    /// consumer be gone by then, others claim it.
    fn put_off(&mut self, tags: &[DeliveryTag], delay: Duration) {
        let due = Instant::now() + delay;
        self.delayed.extend(tags.iter().map(|tag| (tag.as_str().to_owned(), due)));
    }

    async fn bury(&mut self, message: &BrokerMessage, reason: &str) -> Result<(), BrokerError> {
        let StreamNames { stream, group, dead, body, .. } = &self.names;
        let id = message.tag.as_str();
        let own = [("backstop-stream", stream.as_str()), ("backstop-id", id), ("backstop-reason", reason)];
        let theirs = message.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = own.into_iter().chain(theirs).collect();
        if fields.len() > MOST_SCRIPT_FIELDS {
            // More than a script takes. In between it may be in two places, and never in none.
            let mut add = redis::cmd("XADD");
            add.arg(dead).arg("*").arg(body).arg(&message.body).arg(&fields);
            self.link.ask(&add, Duration::ZERO).await?;
            return self.settle(std::slice::from_ref(&message.tag)).await;
        }
        let mut script = redis::cmd("EVAL");
        script.arg(BURY).arg(2).arg(stream).arg(dead).arg(group).arg(id);
        script.arg(body).arg(&message.body).arg(&fields);
        self.link.ask(&script, Duration::ZERO).await.map(drop)
    }

    async fn add(&mut self, stream: &str, messages: &[NewMessage]) -> Result<(), BrokerError> {
        let mut all = redis::pipe();
        for new in messages {
            let add = all.cmd("XADD").arg(stream).arg("*").arg(&self.names.body).arg(&new.body);
            if let Some(id) = &new.id {
                add.arg("id").arg(id);
            }
            for (name, value) in &new.headers {
                add.arg(name).arg(value);
            }
        }
        if messages.is_empty() { Ok(()) } else { self.link.ask_all(&all).await.map(drop) }
    }

    /// How many entries no consumer of the group has read.
    async fn lag(&mut self) -> Result<Option<u64>, BrokerError> {
        let mut command = redis::cmd("XINFO");
        command.arg("GROUPS").arg(&self.names.stream);
        let Value::Array(groups) = self.link.ask(&command, Duration::ZERO).await? else { return Ok(None) };
        let is_ours = |group: &&Value| {
            field(group, "name").is_some_and(|name| bytes(name) == self.names.group.as_bytes())
        };
        let ours = groups.iter().find(is_ours);
        Ok(ours.and_then(|group| match field(group, "lag") {
            Some(Value::Int(lag)) => u64::try_from(*lag).ok(),
            _ => None,
        }))
    }
}

impl BrokerSession for StreamSession {
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>> {
        Box::pin(self.read(most, wait))
    }

    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.settle(tags))
    }

    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()> {
        Box::pin(async move {
            self.put_off(tags, delay);
            Ok(())
        })
    }

    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, reason: &'a str) -> BrokerAnswer<'a, ()> {
        Box::pin(self.bury(message, reason))
    }

    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.add(queue, messages))
    }

    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>> {
        Box::pin(self.lag())
    }
}

/// One entry of a stream. Names of fields are bytes: a producer that writes others than text must not stop the bridge.
#[derive(Debug, PartialEq)]
struct StreamEntry {
    id: String,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The entries of an answer to `XREADGROUP` that names one stream.
fn streamed(answer: Value) -> Vec<StreamEntry> {
    let Value::Array(mut streams) = answer else { return Vec::new() };
    match streams.pop() {
        Some(Value::Array(mut stream)) => stream.pop().map(entries_of).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// The ids of those entries.
#[cfg(feature = "floor")]
pub(crate) fn ids_of(answer: Value) -> Vec<String> {
    streamed(answer).into_iter().map(|entry| entry.id).collect()
}

fn entries_of(list: Value) -> Vec<StreamEntry> {
    let Value::Array(list) = list else { return Vec::new() };
    list.into_iter().filter_map(entry).collect()
}

/// An entry; one that was deleted meanwhile has no fields.
fn entry(value: Value) -> Option<StreamEntry> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let id = text(bytes(&parts.next()?));
    let fields = match parts.next() {
        Some(Value::Array(list)) => list
            .chunks(2)
            .filter(|pair| pair.len() == 2)
            .map(|pair| (bytes(&pair[0]).to_vec(), bytes(&pair[1]).to_vec()))
            .collect(),
        _ => Vec::new(),
    };
    Some(StreamEntry { id, fields })
}

/// How often an entry was delivered, out of an answer to `XPENDING`: id, consumer, idle time, count.
fn deliveries(answer: &Value) -> Option<u32> {
    let Value::Array(entries) = answer else { return None };
    let Some(Value::Array(parts)) = entries.first() else { return None };
    match parts.get(3) {
        Some(Value::Int(count)) => u32::try_from(*count).ok(),
        _ => None,
    }
}

/// A value out of a list of names and values.
fn field<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(list) = list else { return None };
    list.chunks(2).find(|pair| bytes(&pair[0]) == name.as_bytes()).and_then(|pair| pair.get(1))
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        Value::SimpleString(text) => text.as_bytes(),
        _ => &[],
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &[u8]) -> Value {
        Value::BulkString(text.to_vec())
    }

    #[test]
    fn entries_are_read_whatever_their_fields_are() {
        let fields = Value::Array(vec![bulk(b"body"), bulk(b"{}"), bulk(b"\xff"), bulk(b"\0"), bulk(b"odd")]);
        let full = Value::Array(vec![bulk(b"1-0"), fields]);
        let deleted = Value::Array(vec![bulk(b"2-0"), Value::Nil]);
        let stream = Value::Array(vec![bulk(b"orders"), Value::Array(vec![full, deleted, Value::Nil])]);
        let found = streamed(Value::Array(vec![stream]));
        assert_eq!(found.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["1-0", "2-0"]);
        assert_eq!(found[0].fields, [(b"body".to_vec(), b"{}".to_vec()), (b"\xff".to_vec(), b"\0".to_vec())]);
        assert!(found[1].fields.is_empty());
        assert_eq!(streamed(Value::Nil), []);
    }

    #[test]
    fn counts_and_fields_are_found() {
        let pending =
            Value::Array(vec![Value::Array(vec![bulk(b"1-0"), bulk(b"me"), Value::Int(5), Value::Int(3)])]);
        assert_eq!(deliveries(&pending), Some(3));
        assert_eq!(deliveries(&Value::Array(vec![])), None);
        let group = Value::Array(vec![bulk(b"name"), bulk(b"g"), bulk(b"lag"), Value::Int(7)]);
        assert_eq!(field(&group, "lag"), Some(&Value::Int(7)));
        assert_eq!(field(&group, "none"), None);
    }
}
