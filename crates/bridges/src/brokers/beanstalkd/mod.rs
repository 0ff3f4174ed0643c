//! beanstalkd: a tube of jobs, reserved by a connection and released when the connection is gone.
//!
//! Abandoned messages are buried: they stay in their tube until somebody kicks or deletes them (B6).

mod client;

use std::time::Duration;

use crate::address::BrokerAddress;
use crate::broker::{Broker, BrokerAnswer, BrokerError, BrokerSession};
use crate::message::{BrokerMessage, DeliveryTag, MessageId, NewMessage, digest, published_together};
use crate::settings::BridgeSettings;
use client::{BeanstalkdAnswer, BeanstalkdConnection};

/// The port of its protocol.
const PORT: u16 = 11_300;

/// The priority that messages are published and given back with: the middle of what there is.
const PRIORITY: u32 = 1 << 31;

/// How long a receiver may hold what is published here, in seconds. Sources that need longer lose the message to
/// another receiver, which finds that it is a job already.
const TIME_TO_RUN: u32 = 60;

/// Messages, and bytes of them, that are sent before their answers are read.
const TOGETHER: usize = 200;
const TOGETHER_BYTES: usize = 256 * 1024;

/// A beanstalkd server, and the tube of a bridge.
#[derive(Debug)]
pub struct BeanstalkdBroker {
    address: BrokerAddress,
    shown: String,
    tube: String,
}

impl BeanstalkdBroker {
    /// The broker of these settings.
    #[must_use]
    pub fn new(address: BrokerAddress, settings: &BridgeSettings) -> Self {
        Self { shown: address.to_string(), address, tube: settings.place().queue.clone() }
    }
}

impl Broker for BeanstalkdBroker {
    fn address(&self) -> &str {
        &self.shown
    }

    fn connect(&self) -> BrokerAnswer<'_, Box<dyn BrokerSession>> {
        Box::pin(async move {
            let (host, port) = self.address.host_and_port(PORT);
            let mut session = TubeSession {
                connection: BeanstalkdConnection::open(&host, port, &self.shown).await?,
                tube: self.tube.clone(),
                used: "default".to_owned(),
            };
            session.watch().await?;
            Ok(Box::new(session) as Box<dyn BrokerSession>)
        })
    }
}

/// A connection that watches one tube.
#[derive(Debug)]
struct TubeSession {
    connection: BeanstalkdConnection,
    tube: String,
    /// The tube that it publishes to.
    used: String,
}

impl TubeSession {
    async fn watch(&mut self) -> Result<(), BrokerError> {
        let tube = self.tube.clone();
        self.one(&format!("watch {tube}\r\n"), "WATCHING").await?;
        if tube != "default" {
            self.one("ignore default\r\n", "WATCHING").await?;
        }
        Ok(())
    }

    /// One order whose answer begins with this word.
    async fn one(&mut self, order: &str, expected: &str) -> Result<BeanstalkdAnswer, BrokerError> {
        self.connection.send(order.as_bytes()).await?;
        self.answer(expected).await
    }

    async fn answer(&mut self, expected: &str) -> Result<BeanstalkdAnswer, BrokerError> {
        let reply = self.connection.reply().await?;
        if reply.is(expected) { Ok(reply) } else { Err(self.connection.refused(&reply.line)) }
    }

    /// One order for each tag, sent together. What is not there any more has been given to somebody else.
    async fn each(
        &mut self,
        tags: &[DeliveryTag],
        order: impl Fn(&str) -> String,
        expected: &str,
    ) -> Result<(), BrokerError> {
        let orders: String = tags.iter().map(|tag| order(tag.as_str())).collect();
        self.connection.send(orders.as_bytes()).await?;
        for _ in tags {
            let reply = self.connection.reply().await?;
            if !reply.is(expected) && !reply.is("NOT_FOUND") && !reply.is("BURIED") {
                return Err(self.connection.refused(&reply.line));
            }
        }
        Ok(())
    }

    async fn reserve(&mut self, most: usize, wait: Duration) -> Result<Vec<BrokerMessage>, BrokerError> {
        let seconds = wait.as_secs().max(1);
        self.connection.send(format!("reserve-with-timeout {seconds}\r\n").as_bytes()).await?;
        let Some(first) = self.reserved(Duration::from_secs(seconds)).await? else { return Ok(Vec::new()) };
        // The rest is asked for at once; the server answers as many as there are.
        let more = most.saturating_sub(1);
        self.connection.send("reserve-with-timeout 0\r\n".repeat(more).as_bytes()).await?;
        let mut messages = vec![first];
        for _ in 0..more {
            messages.extend(self.reserved(Duration::ZERO).await?);
        }
        Ok(messages)
    }

    /// Reads the answer to a reservation.
    async fn reserved(&mut self, wait: Duration) -> Result<Option<BrokerMessage>, BrokerError> {
        let reply = self.connection.reply_within(wait).await?;
        let words: Vec<&str> = reply.line.split(' ').collect();
        match words.as_slice() {
            ["RESERVED", id, _] => Ok(Some(message(id, reply.body))),
            ["TIMED_OUT" | "DEADLINE_SOON"] => Ok(None),
            _ => Err(self.connection.refused(&reply.line)),
        }
    }

    async fn put(&mut self, tube: &str, messages: &[NewMessage]) -> Result<(), BrokerError> {
        if self.used != tube {
            self.one(&format!("use {tube}\r\n"), "USING").await?;
            tube.clone_into(&mut self.used);
        }
        let mut rest = messages;
        while !rest.is_empty() {
            // Sent together, then answered: waiting for each answer would cost a way there and back.
            let (together, later) = rest.split_at(published_together(rest, TOGETHER, TOGETHER_BYTES));
            let mut orders = Vec::new();
            for new in together {
                let length = new.body.len();
                orders.extend_from_slice(format!("put {PRIORITY} 0 {TIME_TO_RUN} {length}\r\n").as_bytes());
                orders.extend_from_slice(&new.body);
                orders.extend_from_slice(b"\r\n");
            }
            self.connection.send(&orders).await?;
            for _ in together {
                self.answer("INSERTED").await?;
            }
            rest = later;
        }
        Ok(())
    }

    async fn waiting(&mut self) -> Result<Option<u64>, BrokerError> {
        let order = format!("stats-tube {}\r\n", self.tube);
        self.connection.send(order.as_bytes()).await?;
        let reply = self.connection.reply().await?;
        if reply.is("NOT_FOUND") {
            return Ok(Some(0));
        }
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        let found = text.lines().find_map(|line| line.strip_prefix("current-jobs-ready: "));
        Ok(found.and_then(|number| number.trim().parse().ok()))
    }
}

/// A server that lost its data counts its jobs from 1 again. With the body in the id, a new job that has the number of
/// an old one is not taken for it.
fn message(id: &str, body: Vec<u8>) -> BrokerMessage {
    let own = MessageId::broker(format!("{id}-{}", &digest(&body)[..16]));
    BrokerMessage { body, ..BrokerMessage::new(own, DeliveryTag::new(id)) }
}

impl BrokerSession for TubeSession {
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>> {
        Box::pin(self.reserve(most, wait))
    }

    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.each(tags, |id| format!("delete {id}\r\n"), "DELETED"))
    }

    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()> {
        // A delay shorter than a second is none here.
        let seconds = delay.as_secs();
        Box::pin(self.each(tags, move |id| format!("release {id} {PRIORITY} {seconds}\r\n"), "RELEASED"))
    }

    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, _: &'a str) -> BrokerAnswer<'a, ()> {
        let tags = std::slice::from_ref(&message.tag);
        Box::pin(self.each(tags, |id| format!("bury {id} {PRIORITY}\r\n"), "BURIED"))
    }

    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.put(queue, messages))
    }

    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>> {
        Box::pin(self.waiting())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_has_the_number_of_another_is_told_from_it_by_its_body() {
        let (one, again, other) =
            (message("7", b"a".to_vec()), message("7", b"a".to_vec()), message("7", b"b".to_vec()));
        assert_eq!(one.id, again.id);
        assert_ne!(one.id, other.id);
        assert_eq!(one.tag.as_str(), "7");
    }
}
