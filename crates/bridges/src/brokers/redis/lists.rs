//! The lists of daycry/jobs on Redis, as its RedisBackend keeps them: `jobs:QUEUE-waiting`, `-delayed`, `-processing`
//! and `-processing-meta`.
//!
//! Its producers and its own workers may go on beside a bridge. What a bridge takes lies among what is being processed,
//! with the time, until it is settled; what lies there for too long goes back, whoever left it. Abandoned messages go
//! to a stream (B6), where daycry/jobs drops them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::{RedisLink, bytes};
use crate::address::BrokerAddress;
use crate::broker::{Broker, BrokerAnswer, BrokerError, BrokerSession};
use crate::message::{BrokerMessage, DeliveryTag, MessageId, NewMessage};
use crate::settings::BridgeSettings;

/// How long a message may be processed before it goes back, as daycry/jobs has it.
const HOLD: Duration = Duration::from_secs(300);

/// Moves what is due to the waiting ones, then takes up to so many and notes when.
const TAKE: &str = r"
for _, item in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[1], 'LIMIT', 0, 1000)) do
    redis.call('ZREM', KEYS[2], item)
    redis.call('LPUSH', KEYS[1], item)
end
local taken = {}
for i = 1, tonumber(ARGV[2]) do
    local item = redis.call('RPOPLPUSH', KEYS[1], KEYS[3])
    if not item then break end
    redis.call('HSET', KEYS[4], item, ARGV[3])
    taken[i] = item
end
return taken";

/// Gives back what has been processed for too long. An entry without a note was taken by somebody who died at once: its
/// time begins now.
const GIVE_BACK_LOST: &str = r#"
local lost = 0
for _, item in ipairs(redis.call('LRANGE', KEYS[2], 0, 999)) do
    local note = redis.call('HGET', KEYS[3], item)
    local since = note and tonumber(string.match(note, '"ts":(%d+)') or '0')
    if not note then
        redis.call('HSET', KEYS[3], item, ARGV[2])
    elseif since < tonumber(ARGV[1]) then
        redis.call('LREM', KEYS[2], 1, item)
        redis.call('HDEL', KEYS[3], item)
        redis.call('RPUSH', KEYS[1], item)
        lost = lost + 1
    end
end
return lost"#;

/// Takes a message from among those that are processed, once it is somewhere else. A script, for a transaction goes on
/// after an order that fails, such as one on a key of another type.
const MOVE: &str = r"
if ARGV[2] == 'back' then
    redis.call('RPUSH', KEYS[3], ARGV[1])
elseif ARGV[2] == 'later' then
    redis.call('ZADD', KEYS[3], ARGV[3], ARGV[1])
else
    redis.call('XADD', KEYS[3], '*', 'body', ARGV[1], unpack(ARGV, 3))
end
redis.call('LREM', KEYS[1], 1, ARGV[1])
return redis.call('HDEL', KEYS[2], ARGV[1])";

/// A Redis server, and the queue of daycry/jobs on it.
#[derive(Debug)]
pub struct RedisLists {
    address: BrokerAddress,
    shown: String,
    queue: String,
    dead: String,
    owner: String,
    hold: Duration,
    authority: Option<PathBuf>,
}

impl RedisLists {
    /// The broker of these settings. `node` tells this process from others.
    #[must_use]
    pub fn new(address: BrokerAddress, settings: &BridgeSettings, node: &str) -> Self {
        let source = settings.place();
        Self {
            shown: address.to_string(),
            address,
            queue: source.queue.clone(),
            dead: source.dead_letters(),
            owner: node.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect(),
            hold: source.hold.unwrap_or(HOLD),
            authority: settings.tls_ca.clone(),
        }
    }
}

impl Broker for RedisLists {
    fn address(&self) -> &str {
        &self.shown
    }

    fn connect(&self) -> BrokerAnswer<'_, Box<dyn BrokerSession>> {
        Box::pin(async move {
            let link = RedisLink::open(&self.address, self.authority.as_deref()).await?;
            Ok(Box::new(ListSession {
                link,
                queue: self.queue.clone(),
                dead: self.dead.clone(),
                owner: self.owner.clone(),
                hold: self.hold,
                held: HashMap::new(),
                taken: 0,
                look_next: Instant::now(),
            }) as Box<dyn BrokerSession>)
        })
    }
}

/// A connection of one consumer.
struct ListSession {
    link: RedisLink,
    queue: String,
    dead: String,
    owner: String,
    hold: Duration,
    /// Messages that are not settled, by their tags: Redis knows them by their bytes.
    held: HashMap<DeliveryTag, Vec<u8>>,
    taken: u64,
    /// When messages are looked for again that somebody left.
    look_next: Instant,
}

/// Seconds since 1970, as PHP counts them.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl ListSession {
    fn key(&self, part: &str) -> String {
        key(&self.queue, part)
    }

    /// A script over these parts of the queue.
    fn script(&self, text: &str, parts: &[&str]) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(text).arg(parts.len());
        for part in parts {
            command.arg(self.key(part));
        }
        command
    }

    /// When it was taken, and by whom, as their workers write it.
    fn note(&self) -> String {
        format!("{{\"ts\":{},\"owner\":\"{}\"}}", seconds(), self.owner)
    }

    async fn give_back_lost(&mut self) -> Result<(), BrokerError> {
        let since = seconds().saturating_sub(self.hold.as_secs());
        let mut script = self.script(GIVE_BACK_LOST, &["waiting", "processing", "processing-meta"]);
        script.arg(since).arg(self.note());
        self.link.ask(&script, Duration::ZERO).await.map(drop)
    }

    async fn take(&mut self, most: usize, wait: Duration) -> Result<Vec<BrokerMessage>, BrokerError> {
        if self.look_next <= Instant::now() {
            self.give_back_lost().await?;
            self.look_next = Instant::now() + (self.hold / 2).min(Duration::from_secs(30));
        }
        let found = self.taken(most).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        // Waits for the first without taking it: a connection that dies then leaves nothing without a note.
        let until = Instant::now() + wait;
        let mut length = redis::cmd("LLEN");
        length.arg(self.key("waiting"));
        let look = (wait / 10).max(Duration::from_millis(10));
        while Instant::now() < until {
            tokio::time::sleep_until((Instant::now() + look).min(until)).await;
            if !matches!(self.link.ask(&length, Duration::ZERO).await?, Value::Int(0)) {
                break;
            }
        }
        self.taken(most).await
    }

    /// What is there at this moment.
    async fn taken(&mut self, most: usize) -> Result<Vec<BrokerMessage>, BrokerError> {
        let mut script = self.script(TAKE, &["waiting", "delayed", "processing", "processing-meta"]);
        script.arg(seconds()).arg(most).arg(self.note());
        let Value::Array(found) = self.link.ask(&script, Duration::ZERO).await? else {
            return Ok(Vec::new());
        };
        let message = |item: Value| {
            let body = bytes(&item).to_vec();
            self.taken += 1;
            let tag = DeliveryTag::new(self.taken.to_string());
            self.held.insert(tag.clone(), body.clone());
            BrokerMessage { body: body.clone(), ..BrokerMessage::new(MessageId::of_body(&body), tag) }
        };
        Ok(found.into_iter().map(message).collect())
    }

    async fn settle(&mut self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let mut all = redis::pipe();
        all.atomic();
        let (processing, notes) = (self.key("processing"), self.key("processing-meta"));
        for body in tags.iter().filter_map(|tag| self.held.get(tag)) {
            all.cmd("LREM").arg(&processing).arg(1).arg(body.as_slice());
            all.cmd("HDEL").arg(&notes).arg(body.as_slice());
        }
        self.link.ask_all(&all).await?;
        for tag in tags {
            self.held.remove(tag);
        }
        Ok(())
    }

    /// Moves messages from among those that are processed to this key; see [`MOVE`].
    async fn move_to(
        &mut self,
        tags: &[DeliveryTag],
        key: &str,
        how: &str,
        more: &[&str],
    ) -> Result<(), BrokerError> {
        let mut all = redis::pipe();
        for body in tags.iter().filter_map(|tag| self.held.get(tag)) {
            let script = all.cmd("EVAL").arg(MOVE).arg(3);
            script.arg(self.key("processing")).arg(self.key("processing-meta")).arg(key);
            script.arg(body.as_slice()).arg(how).arg(more);
        }
        self.link.ask_all(&all).await?;
        for tag in tags {
            self.held.remove(tag);
        }
        Ok(())
    }

    async fn put_back(&mut self, tags: &[DeliveryTag], delay: Duration) -> Result<(), BrokerError> {
        if delay.is_zero() {
            return self.move_to(tags, &self.key("waiting"), "back", &[]).await;
        }
        // Whole seconds, of which the present one is partly over: never sooner than asked.
        let due = (seconds() + delay.as_secs() + 1).to_string();
        self.move_to(tags, &self.key("delayed"), "later", &[&due]).await
    }

    async fn bury(&mut self, message: &BrokerMessage, reason: &str) -> Result<(), BrokerError> {
        let (dead, queue) = (self.dead.clone(), self.queue.clone());
        let more = ["backstop-queue", &queue, "backstop-reason", reason];
        self.move_to(std::slice::from_ref(&message.tag), &dead, "dead", &more).await
    }

    async fn push(&mut self, queue: &str, messages: &[NewMessage]) -> Result<(), BrokerError> {
        let mut all = redis::pipe();
        for new in messages {
            all.cmd("LPUSH").arg(key(queue, "waiting")).arg(new.body.as_slice());
        }
        if messages.is_empty() { Ok(()) } else { self.link.ask_all(&all).await.map(drop) }
    }

    async fn waiting(&mut self) -> Result<Option<u64>, BrokerError> {
        let mut length = redis::cmd("LLEN");
        length.arg(self.key("waiting"));
        Ok(match self.link.ask(&length, Duration::ZERO).await? {
            Value::Int(count) => u64::try_from(count).ok(),
            _ => None,
        })
    }
}

fn key(queue: &str, part: &str) -> String {
    format!("jobs:{queue}-{part}")
}

impl BrokerSession for ListSession {
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>> {
        Box::pin(self.take(most, wait))
    }

    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.settle(tags))
    }

    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()> {
        Box::pin(self.put_back(tags, delay))
    }

    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, reason: &'a str) -> BrokerAnswer<'a, ()> {
        Box::pin(self.bury(message, reason))
    }

    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.push(queue, messages))
    }

    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>> {
        Box::pin(self.waiting())
    }
}
