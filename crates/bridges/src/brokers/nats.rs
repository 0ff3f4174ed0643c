//! NATS JetStream: a stream, read by a durable consumer that pulls.
//!
//! Abandoned messages are terminated: the server stops delivering them and publishes an advisory (B6). In a stream that
//! is kept by limits they stay where they are; a work-queue stream removes them, and the note in the invalid channel is
//! what is left. A message that is not acknowledged comes again after the consumer's wait, not when a connection ends.
//!
//! The client reconnects by itself; a session that was disconnected once is thrown away all the same, so that there is
//! one place that decides when to try again.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::consumer::{self, AckPolicy, Consumer, pull};
use async_nats::jetstream::context::{GetStreamByNameErrorKind, GetStreamErrorKind};
use async_nats::jetstream::{self, AckKind, Context, ErrorCode};
use async_nats::{Client, ConnectOptions, Event, HeaderMap};
use futures_util::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::address::BrokerAddress;
use crate::broker::{
    Broker, BrokerAnswer, BrokerError, BrokerPublisher, BrokerSession, PATIENCE, read_authority,
};
use crate::message::{BrokerMessage, DeliveryTag, MessageId, NewMessage};
use crate::settings::{BridgeSettings, durable};

/// The header in which producers give ids.
const ID_HEADER: &str = "Nats-Msg-Id";

/// How long a message may be held before it comes again.
const ACK_WAIT: Duration = Duration::from_secs(30);

/// A NATS server, and the stream of a bridge.
#[derive(Debug)]
pub struct NatsBroker {
    address: BrokerAddress,
    shown: String,
    stream: String,
    durable: String,
    /// How long a message may be held, if somebody said so.
    hold: Option<Duration>,
    authority: Option<PathBuf>,
}

impl NatsBroker {
    /// The broker of these settings.
    #[must_use]
    pub fn new(address: BrokerAddress, name: &str, settings: &BridgeSettings) -> Self {
        let durable = durable(settings.consumer(name));
        let source = settings.place();
        Self {
            shown: address.to_string(),
            address,
            stream: source.queue.clone(),
            durable,
            hold: source.hold,
            authority: settings.tls_ca.clone(),
        }
    }

    fn unavailable(&self, problem: impl ToString) -> BrokerError {
        BrokerError::Unavailable { address: self.shown.clone(), problem: problem.to_string() }
    }

    async fn link(&self) -> Result<NatsLink, BrokerError> {
        let gone = CancellationToken::new();
        let told = gone.clone();
        // The client reads the file by itself, and says less of one that it cannot use.
        read_authority(&self.shown, self.authority.as_deref())?;
        let mut options = ConnectOptions::new()
            .name(format!("backstop bridge {}", self.durable))
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    told.cancel();
                }
                std::future::ready(())
            });
        if let Some(file) = &self.authority {
            options = options.add_root_certificates(file.clone());
        }
        let client =
            options.connect(self.address.url().as_str()).await.map_err(|error| self.unavailable(error))?;
        let context = jetstream::new(client.clone());
        Ok(NatsLink { client, context, gone, address: self.shown.clone() })
    }

    async fn session(&self) -> Result<PullSession, BrokerError> {
        let link = self.link().await?;
        let stream = match link.context.get_stream(&self.stream).await {
            Ok(stream) => stream,
            Err(error) => return Err(self.no_stream(&error)),
        };
        let config = pull::Config {
            durable_name: Some(self.durable.clone()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.hold.unwrap_or(ACK_WAIT),
            ..pull::Config::default()
        };
        let made = stream.get_or_create_consumer(&self.durable, config).await;
        let mut consumer = made.map_err(|error| self.unavailable(error))?;
        let known = &consumer.cached_info().config;
        if let Some(hold) = self.hold.filter(|hold| known.ack_wait != *hold) {
            // It was made with another one. Nothing else of it is touched: somebody may have changed that by hand.
            let wanted = consumer::Config { ack_wait: hold, ..known.clone() };
            stream.create_consumer(wanted).await.map_err(|error| self.unavailable(error))?;
            let read = stream.get_consumer(&self.durable).await;
            consumer = read.map_err(|error| self.unavailable(error))?;
        }
        Ok(PullSession { link, consumer })
    }

    fn no_stream(&self, error: &jetstream::context::GetStreamError) -> BrokerError {
        match error.kind() {
            GetStreamErrorKind::JetStream(refusal) if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                BrokerError::NoSuchQueue { queue: self.stream.clone(), address: self.shown.clone() }
            }
            GetStreamErrorKind::Request => self.unavailable(error),
            _ => BrokerError::Refused { address: self.shown.clone(), problem: error.to_string() },
        }
    }
}

impl Broker for NatsBroker {
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

impl BrokerPublisher for NatsLink {
    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.send(queue, messages))
    }

    fn look_for<'a>(&'a mut self, queue: &'a str) -> BrokerAnswer<'a, ()> {
        Box::pin(self.stream_of(queue))
    }
}

/// A connection.
struct NatsLink {
    client: Client,
    context: Context,
    /// Cancelled when the connection was lost, once and for all.
    gone: CancellationToken,
    address: String,
}

/// A connection with a consumer.
struct PullSession {
    link: NatsLink,
    consumer: Consumer<pull::Config>,
}

impl NatsLink {
    fn unavailable(&self, problem: impl ToString) -> BrokerError {
        BrokerError::Unavailable { address: self.address.clone(), problem: problem.to_string() }
    }

    /// Waits for an answer while the connection lasts.
    async fn within<T, E: ToString>(
        &self,
        wait: Duration,
        asked: impl Future<Output = Result<T, E>>,
    ) -> Result<T, BrokerError> {
        tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(self.unavailable("the connection is lost")),
            answer = tokio::time::timeout(wait + PATIENCE, asked) => match answer {
                Ok(answer) => answer.map_err(|error| self.unavailable(error.to_string())),
                Err(_) => Err(self.unavailable("no answer in time")),
            },
        }
    }

    /// Looks for the stream that keeps what is published to a subject.
    async fn stream_of(&self, subject: &str) -> Result<(), BrokerError> {
        let found = self.within(Duration::ZERO, async {
            match self.context.stream_by_subject(subject).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == GetStreamByNameErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        });
        if found.await? {
            return Ok(());
        }
        Err(BrokerError::NoSuchQueue { queue: subject.to_owned(), address: self.address.clone() })
    }

    /// Settles messages by what is sent to the subject of each.
    async fn tell(&self, tags: &[DeliveryTag], kind: AckKind) -> Result<(), BrokerError> {
        let body: bytes::Bytes = kind.into();
        self.within(Duration::ZERO, async {
            for tag in tags {
                let sent = self.client.publish(tag.as_str().to_owned(), body.clone()).await;
                sent.map_err(|error| error.to_string())?;
            }
            self.client.flush().await.map_err(|error| error.to_string())
        })
        .await
    }

    async fn send(&self, subject: &str, messages: &[NewMessage]) -> Result<(), BrokerError> {
        let mut confirms = Vec::with_capacity(messages.len());
        for new in messages {
            let mut headers = HeaderMap::new();
            if let Some(id) = &new.id {
                headers.insert(ID_HEADER, id.as_str());
            }
            for (name, value) in &new.headers {
                headers.insert(name.as_str(), value.as_str());
            }
            let body = bytes::Bytes::copy_from_slice(&new.body);
            let sending = self.context.publish_with_headers(subject.to_owned(), headers, body);
            confirms.push(self.within(Duration::ZERO, sending).await?);
        }
        for confirm in confirms {
            self.within(Duration::ZERO, confirm.into_future()).await?;
        }
        Ok(())
    }
}

impl std::ops::Deref for PullSession {
    type Target = NatsLink;

    fn deref(&self) -> &NatsLink {
        &self.link
    }
}

impl PullSession {
    async fn pull(&self, most: usize, wait: Duration) -> Result<Vec<BrokerMessage>, BrokerError> {
        let ready = self.within(Duration::ZERO, self.fetched(most)).await?;
        if !ready.is_empty() {
            return Ok(ready);
        }
        // Nothing was there: the server is asked to wait for the first, and for no other.
        self.within(wait, async {
            let batch = self.consumer.batch().max_messages(1).expires(wait).messages().await;
            received(batch.map_err(|error| error.to_string())?).await
        })
        .await
    }

    /// What is there at this moment.
    async fn fetched(&self, most: usize) -> Result<Vec<BrokerMessage>, String> {
        let batch = self.consumer.fetch().max_messages(most).messages().await;
        received(batch.map_err(|error| error.to_string())?).await
    }

    async fn pending(&mut self) -> Result<Option<u64>, BrokerError> {
        let gone = self.gone.clone();
        let asked = self.consumer.info();
        let answer = tokio::select! {
            () = gone.cancelled() => Err("the connection is lost".to_owned()),
            answer = asked => answer.map(|info| info.num_pending).map_err(|error| error.to_string()),
        };
        answer.map(Some).map_err(|problem| self.unavailable(problem))
    }
}

/// All messages of an answer.
async fn received(mut batch: pull::Batch) -> Result<Vec<BrokerMessage>, String> {
    let mut messages = Vec::new();
    while let Some(next) = batch.next().await {
        messages.extend(message(next.map_err(|error| error.to_string())?));
    }
    Ok(messages)
}

/// None for what is no message of a stream.
fn message(received: jetstream::Message) -> Option<BrokerMessage> {
    let info = received.info().ok()?;
    // A stream that was made anew counts from 1 again: the time tells its messages from those of the old one.
    let numbered =
        format!("{}:{}:{}", info.stream, info.stream_sequence, info.published.unix_timestamp_nanos());
    let deliveries = u32::try_from(info.delivered).ok();
    let tag = DeliveryTag::new(received.reply.as_ref()?.as_str());
    let fields = received.headers.iter().flat_map(HeaderMap::iter);
    let headers: Vec<(String, String)> = fields
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    let given = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(ID_HEADER));
    let id = given.map_or_else(|| MessageId::broker(numbered), |(_, id)| MessageId::producer(id));
    Some(BrokerMessage {
        body: received.payload.to_vec(),
        headers,
        deliveries,
        ..BrokerMessage::new(id, tag)
    })
}

impl BrokerSession for PullSession {
    fn receive(&mut self, most: usize, wait: Duration) -> BrokerAnswer<'_, Vec<BrokerMessage>> {
        Box::pin(self.pull(most, wait))
    }

    fn ack<'a>(&'a mut self, tags: &'a [DeliveryTag]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.tell(tags, AckKind::Ack))
    }

    fn nack<'a>(&'a mut self, tags: &'a [DeliveryTag], delay: Duration) -> BrokerAnswer<'a, ()> {
        Box::pin(self.tell(tags, AckKind::Nak((!delay.is_zero()).then_some(delay))))
    }

    fn abandon<'a>(&'a mut self, message: &'a BrokerMessage, _: &'a str) -> BrokerAnswer<'a, ()> {
        Box::pin(self.tell(std::slice::from_ref(&message.tag), AckKind::Term))
    }

    fn publish<'a>(&'a mut self, queue: &'a str, messages: &'a [NewMessage]) -> BrokerAnswer<'a, ()> {
        Box::pin(self.send(queue, messages))
    }

    fn depth(&mut self) -> BrokerAnswer<'_, Option<u64>> {
        Box::pin(self.pending())
    }
}
