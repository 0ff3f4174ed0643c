//! `[bridges.NAME]` of the configuration: what a bridge is told, and whether it can be meant.

mod error;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use backstop::rejects::RejectSettings;
use backstop::sinks::{SUBSCRIPTION_PREFIX, Sink, SinkLimits, SinkTopic};
use serde::Deserialize;

use crate::address::{BrokerAddress, BrokerKind};
use crate::profile::{BridgeProfile, CafSettings, DaycrySettings, MessageProfile, ProfileParts};
use crate::route::JobRoute;
use crate::secret::SecretText;
use crate::span;

pub use error::BridgeSettingsError;

/// Messages that a source takes at once at most. More would make a batch slower, and not the whole faster.
const MOST_PREFETCH: usize = 1_000;

/// Connections of one source at most: each is one more at the broker, and one more that writes to the store.
const MOST_CONCURRENCY: usize = 64;

/// Characters of the name of a bridge: it stands before every id of a message, in an idempotency key.
const NAME_CHARS: usize = 64;

/// One bridge. Its address and its keys are never shown.
///
/// ```
/// use backstop_bridges::BridgeSettings;
///
/// let settings: BridgeSettings = toml::from_str(r#"
///     broker = "redis://:hunter2@127.0.0.1:6379"
///     source = { queue = "orders", kind = "charge", prefetch = 50 }
/// "#)?;
/// settings.check("orders", |kind| kind == "charge")?;
/// assert!(!format!("{settings:?}").contains("hunter2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BridgeSettings {
    pub(crate) broker: SecretText,
    /// How messages are read and answered.
    #[serde(default)]
    pub profile: BridgeProfile,
    /// What the profile `caf` is told.
    #[serde(default)]
    pub caf: Option<CafSettings>,
    /// What the profile `daycry` is told.
    #[serde(default)]
    pub daycry: Option<DaycrySettings>,
    /// True when a connection to another machine may go unencrypted.
    #[serde(default)]
    pub plaintext: bool,
    /// A PEM file with the authority that signed the broker's certificate; those that the machine trusts unless said.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// Takes messages and submits jobs.
    #[serde(default)]
    pub source: Option<SourceSettings>,
    /// Sends what happens to jobs.
    #[serde(default)]
    pub sink: Option<SinkSettings>,
    /// Where SQS is; read from its address unless said.
    #[serde(default)]
    pub region: Option<String>,
    #[serde(default)]
    pub(crate) access_key: Option<SecretText>,
    #[serde(default)]
    pub(crate) secret_key: Option<SecretText>,
    #[serde(default)]
    pub(crate) session_token: Option<SecretText>,
}

/// What a bridge takes, and what it makes of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SourceSettings {
    /// The queue of the broker: a stream for Redis and NATS, a tube for beanstalkd.
    pub queue: String,
    /// The kind of the jobs.
    pub kind: String,
    /// Their queue.
    #[serde(default = "default_queue")]
    pub to_queue: String,
    /// Where the id of a message is: `header:NAME`, a JSON pointer into its body, or `body` for a digest of it. Where
    /// its broker has it, unless said.
    #[serde(default)]
    pub id: Option<String>,
    /// Messages that one connection holds at once at most.
    #[serde(default = "default_prefetch")]
    pub prefetch: usize,
    /// Connections that take messages at the same time, in each process. Jobs are stored in the order of their messages
    /// with one, and in no order with more.
    #[serde(default = "default_concurrency")]
    pub concurrency: usize,
    /// The group of Redis and the consumer of NATS that keep how far the bridge is; the name of the bridge unless said.
    #[serde(default)]
    pub consumer: Option<String>,
    /// How long a message may be held before its broker gives it to somebody else: the messages of a dead consumer of
    /// Redis, the visibility of SQS, the wait of NATS. The others notice when a connection is gone.
    #[serde(default, deserialize_with = "span::option")]
    pub hold: Option<Duration>,
    /// The field of a Redis stream that has the body.
    #[serde(default = "default_body_field")]
    pub body_field: String,
    /// Where abandoned messages go, for Redis and RabbitMQ: a stream, or a queue; `QUEUE.dead` unless said.
    #[serde(default)]
    pub dead_letters: Option<String>,
}

/// What a bridge sends, and where.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SinkSettings {
    /// The queue of the broker: a stream for Redis, a subject for NATS, a tube for beanstalkd. Without one the profile
    /// `caf` sends reports and copies of poisoned tasks, and no responses.
    #[serde(default, alias = "subject", alias = "stream")]
    pub queue: String,
    /// RabbitMQ: an exchange, in place of a queue.
    #[serde(default)]
    pub exchange: Option<String>,
    /// The routing key there; an empty one unless said.
    #[serde(default)]
    pub routing_key: Option<String>,
    /// What it sends: `results`, `dead_letters`, `rejects`, `events`.
    pub of: BTreeSet<SinkTopic>,
    /// The kinds of the jobs it sends it of; of all unless said.
    #[serde(default)]
    pub kinds: BTreeSet<String>,
    /// Rows that may wait for it: one for each commit, or more for a large one.
    #[serde(default)]
    pub most_rows: Option<u64>,
    /// Bytes that may wait for it.
    #[serde(default)]
    pub most_bytes: Option<u64>,
    /// The field of a Redis stream that has the body.
    #[serde(default = "default_body_field")]
    pub body_field: String,
}

fn default_queue() -> String {
    "default".to_owned()
}

fn default_body_field() -> String {
    "body".to_owned()
}

const fn default_prefetch() -> usize {
    100
}

const fn default_concurrency() -> usize {
    1
}

impl BridgeSettings {
    /// A bridge of this broker with this source.
    pub fn new(broker: impl Into<String>, source: SourceSettings) -> Self {
        Self {
            broker: SecretText(broker.into()),
            profile: BridgeProfile::Plain,
            caf: None,
            daycry: None,
            plaintext: false,
            tls_ca: None,
            source: Some(source),
            sink: None,
            region: None,
            access_key: None,
            secret_key: None,
            session_token: None,
        }
    }

    /// A bridge of this broker with this sink, and no source.
    pub fn of_sink(broker: impl Into<String>, sink: SinkSettings) -> Self {
        let place = SourceSettings::new(sink.queue.clone(), "");
        Self { source: None, sink: Some(sink), ..Self::new(broker, place) }
    }

    /// Where it takes messages from; for a sink alone, where it would if it did.
    pub(crate) fn place(&self) -> SourceSettings {
        let of_sink = |sink: &SinkSettings| SourceSettings {
            body_field: sink.body_field.clone(),
            ..SourceSettings::new(sink.queue.clone(), "")
        };
        let source = self.source.clone().or_else(|| self.sink.as_ref().map(of_sink));
        source.unwrap_or_else(|| SourceSettings::new("", ""))
    }

    /// The same bridge with a sink when its profile has something to send that does not go to a queue of the settings.
    pub(crate) fn with_own_sink(&self) -> Self {
        let mut settings = self.clone();
        if let (BridgeProfile::Caf, Some(source), None) = (self.profile, &self.source, &self.sink) {
            let mut sink = SinkSettings::new("", [SinkTopic::Results]);
            sink.kinds.insert(source.kind.clone());
            settings.sink = Some(sink);
        }
        settings
    }

    /// The same bridge with its sink alone.
    pub(crate) fn sink_alone(&self) -> Self {
        Self { source: None, ..self.clone() }
    }

    /// Reads and answers messages as the CAF Worker Framework does.
    #[must_use]
    pub fn as_caf(mut self, caf: CafSettings) -> Self {
        (self.profile, self.caf) = (BridgeProfile::Caf, Some(caf));
        self
    }

    /// Reads messages as daycry/jobs does.
    #[must_use]
    pub fn as_daycry(mut self, daycry: DaycrySettings) -> Self {
        (self.profile, self.daycry) = (BridgeProfile::Daycry, Some(daycry));
        self
    }

    /// Sends what happens to jobs, too.
    #[must_use]
    pub fn with_sink(mut self, sink: SinkSettings) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Trusts the authority in this PEM file: see [`BridgeSettings::tls_ca`].
    #[must_use]
    pub fn trusting(mut self, authority: impl Into<PathBuf>) -> Self {
        self.tls_ca = Some(authority.into());
        self
    }

    /// The keys that SQS is asked with; those of the environment unless said.
    #[must_use]
    pub fn keys(mut self, access: impl Into<String>, secret: impl Into<String>) -> Self {
        self.access_key = Some(SecretText(access.into()));
        self.secret_key = Some(SecretText(secret.into()));
        self
    }

    /// Checks everything that needs no connection.
    ///
    /// # Errors
    /// The first thing that cannot be meant.
    pub fn check(&self, name: &str, knows: impl Fn(&str) -> bool) -> Result<(), BridgeSettingsError> {
        let ok = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(ok) {
            return Err(BridgeSettingsError::Name(name.to_owned()));
        }
        let address = self.address(name)?;
        if self.tls_ca.is_some() && !address.is_encrypted() {
            return Err(value(
                name,
                "tls_ca",
                format!("is for encrypted addresses, and {address} is not one"),
            ));
        }
        self.message_profile(name)?;
        if let Some(sink) = &self.sink {
            sink.check(name, (address.kind(), self.profile))?;
        }
        match &self.source {
            Some(source) => self.check_source(name, source, knows),
            None if self.sink.is_some() => Ok(()),
            None => Err(value(name, "source", "is missing, and `sink` is too: give at least one of them")),
        }
    }

    /// Refuses a sink that takes rejects where none are stored: it would never publish any (B2, W9).
    ///
    /// # Errors
    /// [`BridgeSettingsError::RejectsNotStored`], which says what to change.
    pub fn check_rejects(&self, name: &str, rejects: &RejectSettings) -> Result<(), BridgeSettingsError> {
        let takes = self.sink.as_ref().is_some_and(|sink| sink.of.contains(&SinkTopic::Rejects));
        if !takes || rejects.sink.is_none() {
            return Ok(());
        }
        let (bridge, reject_sink) = (name.to_owned(), rejects.sink_name().to_owned());
        Err(BridgeSettingsError::RejectsNotStored { bridge, reject_sink })
    }

    fn check_source(
        &self,
        name: &str,
        source: &SourceSettings,
        knows: impl Fn(&str) -> bool,
    ) -> Result<(), BridgeSettingsError> {
        let value = |key, problem: &str| value(name, key, problem);
        for (key, text) in
            [("queue", &source.queue), ("to_queue", &source.to_queue), ("body_field", &source.body_field)]
        {
            if text.is_empty() {
                return Err(value(key, "is empty"));
            }
        }
        if source.prefetch == 0 || source.prefetch > MOST_PREFETCH {
            let problem = format!("is {}: give between 1 and {MOST_PREFETCH}", source.prefetch);
            return Err(value("prefetch", &problem));
        }
        if source.concurrency == 0 || source.concurrency > MOST_CONCURRENCY {
            let problem = format!("is {}: give between 1 and {MOST_CONCURRENCY}", source.concurrency);
            return Err(value("concurrency", &problem));
        }
        if source.hold.is_some_and(|hold| hold.is_zero()) {
            return Err(value("hold", "is 0: everything would be delivered twice"));
        }
        self.route(name)?;
        let handlers = self.daycry.iter().flat_map(|daycry| daycry.handlers.values());
        match handlers.chain([&source.kind]).find(|kind| !knows(kind)) {
            Some(kind) => {
                Err(BridgeSettingsError::UnknownKind { bridge: name.to_owned(), kind: kind.clone() })
            }
            None => Ok(()),
        }
    }

    /// The address of its broker.
    ///
    /// # Errors
    /// When it names no broker, or would send credentials in the clear.
    pub fn address(&self, name: &str) -> Result<BrokerAddress, BridgeSettingsError> {
        BrokerAddress::parse(&self.broker.0, self.plaintext)
            .map_err(|problem| BridgeSettingsError::Address { bridge: name.to_owned(), problem })
    }

    /// How its messages are read and answered.
    pub(crate) fn message_profile(&self, name: &str) -> Result<MessageProfile, BridgeSettingsError> {
        let sink = self.sink.as_ref();
        let parts = ProfileParts {
            name,
            profile: self.profile,
            broker: self.address(name)?.kind(),
            from: self.source.as_ref().map(|source| source.queue.as_str()),
            to: sink.map(|sink| sink.queue.as_str()).filter(|queue| !queue.is_empty()),
            only_results: sink.is_none_or(|sink| sink.of.iter().all(|topic| *topic == SinkTopic::Results)),
            caf: self.caf.as_ref(),
            daycry: self.daycry.as_ref(),
        };
        MessageProfile::new(&parts).map_err(|fault| value(name, fault.key, fault.problem))
    }

    /// What its messages become.
    ///
    /// # Errors
    /// When no id can be where it says.
    pub fn route(&self, name: &str) -> Result<JobRoute, BridgeSettingsError> {
        let source = self.place();
        let route = JobRoute::new(name, source.kind.as_str(), source.to_queue.as_str());
        let Some(place) = &source.id else { return Ok(route) };
        let refused = |problem| BridgeSettingsError::Value { bridge: name.to_owned(), key: "id", problem };
        route.id_from(place).map_err(refused)
    }

    /// Under which name the broker keeps how far the bridge is.
    #[must_use]
    pub fn consumer<'a>(&'a self, name: &'a str) -> &'a str {
        let source = self.source.as_ref();
        source.and_then(|source| source.consumer.as_deref()).unwrap_or(name)
    }
}

/// A value that cannot be meant.
fn value(bridge: &str, key: &'static str, problem: impl Into<String>) -> BridgeSettingsError {
    BridgeSettingsError::Value { bridge: bridge.to_owned(), key, problem: problem.into() }
}

impl SinkSettings {
    /// Sends this to a queue.
    pub fn new(queue: impl Into<String>, of: impl IntoIterator<Item = SinkTopic>) -> Self {
        Self {
            queue: queue.into(),
            exchange: None,
            routing_key: None,
            of: of.into_iter().collect(),
            kinds: BTreeSet::new(),
            most_rows: None,
            most_bytes: None,
            body_field: default_body_field(),
        }
    }

    /// Sends this to an exchange of RabbitMQ, with this routing key.
    pub fn to_exchange(
        exchange: impl Into<String>,
        routing_key: impl Into<String>,
        of: impl IntoIterator<Item = SinkTopic>,
    ) -> Self {
        let (exchange, key) = (Some(exchange.into()), Some(routing_key.into()));
        Self { exchange, routing_key: key, ..Self::new("", of) }
    }

    /// Where it sends to, as people are shown it.
    pub(crate) fn place(&self) -> String {
        match (&self.exchange, self.routing_key.as_deref().unwrap_or_default()) {
            (Some(exchange), "") => format!("exchange {exchange}"),
            (Some(exchange), key) => format!("exchange {exchange} with {key}"),
            (None, _) if self.queue.is_empty() => "no queue".to_owned(),
            (None, _) => self.queue.clone(),
        }
    }

    /// The sink as every process of the store knows it.
    pub(crate) fn sink(&self, name: &str) -> Sink {
        let kinds = self.kinds.iter().map(|kind| kind.as_str().into()).collect();
        Sink { kinds, ..Sink::new(name, self.of.iter().copied()) }
    }

    /// How much may wait for it.
    pub(crate) fn limits(&self) -> SinkLimits {
        let usual = SinkLimits::default();
        SinkLimits {
            documents: self.most_rows.unwrap_or(usual.documents),
            bytes: self.most_bytes.unwrap_or(usual.bytes),
        }
    }

    fn check(&self, name: &str, of: (BrokerKind, BridgeProfile)) -> Result<(), BridgeSettingsError> {
        let is_caf = of.1 == BridgeProfile::Caf;
        if name.starts_with(SUBSCRIPTION_PREFIX) {
            let problem =
                "is of a bridge whose name begins with `events.`: such names are those of subscriptions";
            return Err(value(name, "sink", problem));
        }
        if self.body_field.is_empty() {
            return Err(value(name, "sink.body_field", "is empty"));
        }
        match &self.exchange {
            Some(_) if of.0 != BrokerKind::Rabbitmq => {
                return Err(value(name, "sink.exchange", "is for RabbitMQ: use `queue`"));
            }
            Some(_) if is_caf => {
                return Err(value(
                    name,
                    "sink.exchange",
                    "is not for profile \"caf\": its messages go to queues",
                ));
            }
            Some(_) if !self.queue.is_empty() => {
                return Err(value(name, "sink.exchange", "is there beside `queue`: name one of them"));
            }
            Some(exchange) if exchange.is_empty() => return Err(value(name, "sink.exchange", "is empty")),
            None if self.routing_key.is_some() => {
                return Err(value(name, "sink.routing_key", "is there without `exchange`"));
            }
            None if self.queue.is_empty() && !is_caf => return Err(value(name, "sink.queue", "is empty")),
            _ => {}
        }
        if self.of.is_empty() {
            let problem = "is empty: name at least one of results, dead_letters, rejects, events";
            return Err(value(name, "sink.of", problem));
        }
        if self.of.contains(&SinkTopic::HandOffs) {
            let problem = "has hand_offs: what is handed off has a table [handoff.NAME]";
            return Err(value(name, "sink.of", problem));
        }
        if self.most_rows == Some(0) || self.most_bytes == Some(0) {
            let problem = "is 0: nothing would ever be kept for the sink";
            let key = if self.most_rows == Some(0) { "sink.most_rows" } else { "sink.most_bytes" };
            return Err(value(name, key, problem));
        }
        Ok(())
    }
}

impl SourceSettings {
    /// Takes messages of this queue and makes jobs of this kind.
    pub fn new(queue: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            queue: queue.into(),
            kind: kind.into(),
            to_queue: default_queue(),
            id: None,
            prefetch: default_prefetch(),
            concurrency: default_concurrency(),
            consumer: None,
            hold: None,
            body_field: default_body_field(),
            dead_letters: None,
        }
    }

    /// Holds so many messages at once at most, on each connection.
    #[must_use]
    pub const fn prefetch(mut self, messages: usize) -> Self {
        self.prefetch = messages;
        self
    }

    /// Takes messages by so many connections: see [`SourceSettings::concurrency`].
    #[must_use]
    pub const fn concurrency(mut self, connections: usize) -> Self {
        self.concurrency = connections;
        self
    }

    /// Submits to this queue.
    #[must_use]
    pub fn to_queue(mut self, queue: impl Into<String>) -> Self {
        self.to_queue = queue.into();
        self
    }

    /// Finds ids of messages there: see [`SourceSettings::id`].
    #[must_use]
    pub fn id(mut self, place: impl Into<String>) -> Self {
        self.id = Some(place.into());
        self
    }

    /// Lets messages go to others after so long: see [`SourceSettings::hold`].
    #[must_use]
    pub const fn hold(mut self, span: Duration) -> Self {
        self.hold = Some(span);
        self
    }

    /// Where abandoned messages go.
    #[must_use]
    #[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
    pub(crate) fn dead_letters(&self) -> String {
        self.dead_letters.clone().unwrap_or_else(|| format!("{}.dead", self.queue))
    }
}

/// The name of a consumer of NATS, which is a part of subjects and has no dots.
pub(crate) fn durable(name: &str) -> String {
    name.replace('.', "_")
}

/// Checks all bridges of a program, each alone and all together.
#[must_use]
pub fn check_all(
    bridges: &BTreeMap<String, BridgeSettings>,
    knows: impl Fn(&str) -> bool,
) -> Vec<BridgeSettingsError> {
    let mut faults: Vec<BridgeSettingsError> =
        bridges.iter().filter_map(|(name, bridge)| bridge.check(name, &knows).err()).collect();
    let mut seen: BTreeMap<(String, &str, String), &str> = BTreeMap::new();
    for (name, bridge) in bridges {
        let Ok(address) = bridge.address(name) else { continue };
        let Some(source) = &bridge.source else { continue };
        let (queue, consumer) = (source.queue.as_str(), bridge.consumer(name));
        // As the broker has it: two names may be one there.
        let consumer = match address.kind() {
            BrokerKind::Nats => durable(consumer),
            _ => consumer.to_owned(),
        };
        if let Some(first) = seen.insert((address.to_string(), queue, consumer.clone()), name) {
            faults.push(BridgeSettingsError::SameConsumer {
                first: first.to_owned(),
                second: name.clone(),
                queue: queue.to_owned(),
                consumer,
            });
        }
    }
    faults
}
