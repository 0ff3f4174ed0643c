//! Bridges as they are shown (B1, B2, B4). No address has credentials in it.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop::Timestamp;
use backstop::bridges::{
    BridgeCheck, BridgeProblem, BridgeProcess, BridgeState, BridgeTest, BridgeView, InvalidMessage,
    SinkReport, SourceReport,
};
use backstop::sinks::{SinkTopic, SinkView};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::body::PageLimit;

/// A bridge, from what all processes tell of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Bridge)]
pub struct BridgeJson {
    /// Its name.
    pub name: String,
    /// How it is: `running`, `paused`, `starting`, `held`, `disconnected`, `not_running` or `failed`; the worst of the
    /// processes that run it.
    #[schema(value_type = String)]
    pub state: BridgeState,
    /// When a process that runs it was last heard of.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    /// The address of its broker, without credentials.
    pub broker: String,
    /// Messages that became jobs, ever.
    pub r#in: u64,
    /// Messages that were published, ever.
    pub out: u64,
    /// Messages that wait: in the outbox, and at the broker where it tells.
    pub backlog: u64,
    /// How long the oldest message has waited in the outbox, in milliseconds.
    pub lag_ms: u64,
    /// Messages that were jobs already, ever.
    pub duplicates: u64,
    /// Messages in its invalid channel.
    pub invalid: u64,
    /// What is wrong with it, in one sentence.
    #[serde(default)]
    pub last_error: Option<String>,
    /// The same in a stable word.
    #[serde(default)]
    pub error_code: Option<String>,
    /// Who paused it, if somebody did.
    #[serde(default)]
    pub paused_by: Option<String>,
    /// When that was.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub paused_at: Option<Timestamp>,
    /// Where it takes messages from, if it does.
    #[serde(default)]
    pub source: Option<BridgeSourceJson>,
    /// Where it sends messages to, if it does.
    #[serde(default)]
    pub sink: Option<BridgeSinkJson>,
    /// The processes that run it, or did a moment ago.
    pub processes: Vec<BridgeProcessJson>,
}

/// Where a bridge takes messages from, and what it makes of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BridgeSource)]
pub struct BridgeSourceJson {
    /// How it is.
    #[schema(value_type = String)]
    pub state: BridgeState,
    /// The queue of the broker.
    pub queue: String,
    /// The kind of the jobs.
    pub kind: String,
    /// Their queue.
    pub to_queue: String,
    /// Connections that take messages at the same time in each process, as its settings say.
    #[serde(default)]
    pub concurrency: u32,
    /// Connections that take messages now, in all processes together.
    #[serde(default)]
    pub consuming: u32,
    /// Messages that wait at the broker, where it tells.
    #[serde(default)]
    pub backlog: Option<u64>,
    /// Messages that were received, ever, each delivery counted.
    pub received: u64,
    /// Messages that went to the invalid channel, ever.
    pub invalid: u64,
    /// Messages that were too large for it, and that the broker keeps, ever.
    pub abandoned: u64,
    /// Messages whose signature was missing or wrong, and that the broker keeps, ever.
    #[serde(default)]
    pub rejected: u64,
    /// Messages that were published to other queues, as they are or answered, ever.
    #[serde(default)]
    pub passed_on: u64,
    /// Messages that nobody wanted any more, because their job elsewhere was over, ever.
    #[serde(default)]
    pub discarded: u64,
    /// Messages that were given back to the broker, ever.
    #[serde(default)]
    pub given_back: u64,
}

/// Where a bridge sends messages to, and what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BridgeSink)]
pub struct BridgeSinkJson {
    /// How it is.
    #[schema(value_type = String)]
    pub state: BridgeState,
    /// The queue of the broker.
    pub queue: String,
    /// What it sends: `results`, `dead_letters`, `rejects`, `events`.
    #[schema(value_type = Vec<String>)]
    pub of: BTreeSet<SinkTopic>,
    /// Messages that wait in the outbox.
    pub backlog: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Messages that were refused because too much waited, ever.
    pub refused: u64,
    /// Since when too much waits, if it does.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub full_since: Option<Timestamp>,
    /// Messages that were published again, ever, because they could not be removed.
    pub repeated: u64,
    /// The process that publishes, if one does.
    #[serde(default)]
    pub publisher: Option<String>,
}

/// A bridge in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BridgeProcess)]
pub struct BridgeProcessJson {
    /// What people call the process.
    pub node: String,
    /// How the bridge is there.
    #[schema(value_type = String)]
    pub state: BridgeState,
    /// When it began to run it.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When it was last heard of.
    #[schema(value_type = String, format = DateTime)]
    pub seen_at: Timestamp,
    /// Connections of its source there that take messages now.
    #[serde(default)]
    pub consuming: u32,
    /// What is wrong there.
    #[serde(default)]
    pub last_error: Option<String>,
}

impl BridgeJson {
    /// Connections of its source that take messages now, and how many there are to be in the processes that run it;
    /// none without a source, and where no process tells.
    #[must_use]
    pub fn consumers(&self) -> Option<(u64, u64)> {
        let source = self.source.as_ref().filter(|source| source.concurrency > 0)?;
        let runs =
            |one: &&BridgeProcessJson| !matches!(one.state, BridgeState::NotRunning | BridgeState::Failed);
        let processes = u64::try_from(self.processes.iter().filter(runs).count()).unwrap_or(u64::MAX);
        Some((source.consuming.into(), processes.saturating_mul(source.concurrency.into())))
    }
}

impl From<BridgeView> for BridgeJson {
    fn from(view: BridgeView) -> Self {
        let backlog = view.outbox_backlog().saturating_add(view.source_backlog().unwrap_or_default());
        let (out, lag_ms) = (view.published(), millis(view.lag()));
        let consuming = view.consuming();
        let (code, message) = split(view.problem);
        let outbox = view.outbox;
        let (by, at) = view.paused.map(|pause| (pause.by, pause.at)).unzip();
        let counts = view.counts;
        Self {
            name: view.name,
            state: view.state,
            seen_at: view.seen_at,
            broker: view.broker,
            r#in: counts.admitted,
            out,
            backlog,
            lag_ms,
            duplicates: counts.duplicates,
            invalid: view.invalid_kept,
            last_error: message,
            error_code: code,
            paused_by: by,
            paused_at: at,
            source: view.source.map(|source| {
                let SourceReport { queue, kind, to_queue, concurrency, state, backlog, .. } = source;
                BridgeSourceJson {
                    state,
                    queue,
                    kind,
                    to_queue,
                    concurrency,
                    consuming,
                    backlog,
                    received: counts.received,
                    invalid: counts.invalid,
                    abandoned: counts.abandoned,
                    rejected: counts.rejected,
                    passed_on: counts.passed_on,
                    discarded: counts.discarded,
                    given_back: counts.given_back,
                }
            }),
            sink: view.sink.map(|sink| sink_json(sink, outbox.as_ref(), counts.repeated)),
            processes: view.processes.into_iter().map(BridgeProcessJson::from).collect(),
        }
    }
}

fn sink_json(sink: SinkReport, outbox: Option<&SinkView>, repeated: u64) -> BridgeSinkJson {
    BridgeSinkJson {
        state: sink.state,
        queue: sink.queue,
        of: sink.of,
        backlog: outbox.map_or(0, |outbox| outbox.backlog.messages),
        backlog_bytes: outbox.map_or(0, |outbox| outbox.backlog.bytes),
        refused: outbox.map_or(0, |outbox| outbox.refused),
        full_since: outbox.and_then(|outbox| outbox.full_since),
        repeated,
        publisher: outbox.and_then(|outbox| outbox.publisher.clone()),
    }
}

impl From<BridgeProcess> for BridgeProcessJson {
    fn from(process: BridgeProcess) -> Self {
        Self {
            node: process.node,
            state: process.state,
            since: process.since,
            seen_at: process.seen_at,
            consuming: process.consuming,
            last_error: process.problem.map(|problem| problem.message),
        }
    }
}

/// How a bridge did in a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BridgeTest)]
pub struct BridgeTestJson {
    /// True when the broker was reached, took the credentials and has the queues.
    pub ok: bool,
    /// The process that tested.
    pub node: String,
    /// Where messages are taken from, if it has a source.
    #[serde(default)]
    pub source: Option<BridgeCheckJson>,
    /// Where messages are sent to, if it has a sink.
    #[serde(default)]
    pub sink: Option<BridgeCheckJson>,
    /// Why nothing could be tested, if nothing could.
    #[serde(default)]
    pub error: Option<String>,
}

/// How one direction of a bridge did in a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BridgeCheck)]
pub struct BridgeCheckJson {
    /// True when nothing is wrong.
    pub ok: bool,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What is wrong, in one sentence.
    #[serde(default)]
    pub error: Option<String>,
    /// The same in a stable word.
    #[serde(default)]
    pub error_code: Option<String>,
}

impl From<BridgeTest> for BridgeTestJson {
    fn from(test: BridgeTest) -> Self {
        Self {
            ok: test.is_ok(),
            node: test.node,
            source: test.source.map(BridgeCheckJson::from),
            sink: test.sink.map(BridgeCheckJson::from),
            error: test.problem.map(|problem| problem.message),
        }
    }
}

impl From<BridgeCheck> for BridgeCheckJson {
    fn from(check: BridgeCheck) -> Self {
        let (ok, took_ms) = (check.problem.is_none(), check.took_ms);
        let (error_code, error) = split(check.problem);
        Self { ok, took_ms, error, error_code }
    }
}

/// Which invalid messages are listed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default, deny_unknown_fields)]
pub struct InvalidQuery {
    /// Bodies and headers too; needs the scope `logs`.
    pub reveal: bool,
    /// At most this many.
    #[param(value_type = Option<PageLimit>)]
    pub limit: PageLimit,
    /// Go on after this one: `next_cursor` of the page before.
    #[param(max_length = 300)]
    pub cursor: Option<String>,
}

/// A message that could not become a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = InvalidMessage)]
pub struct InvalidJson {
    /// What it goes by in its channel.
    pub key: String,
    /// When it was written.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The id of the message.
    pub id: String,
    /// Why it cannot be a job.
    pub reason: String,
    /// Bytes of its body.
    pub bytes: u64,
    /// SHA-256 of its body.
    pub sha256: String,
    /// True when it was too large to be kept here: its broker has it among its dead letters.
    pub abandoned: bool,
    /// Its body in base64, where it was asked for; the beginning of it when `abandoned` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Its headers, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Vec<String>>>)]
    pub headers: Option<Vec<(String, String)>>,
}

impl InvalidJson {
    /// With body and headers, or without.
    #[must_use]
    pub fn of(message: InvalidMessage, reveal: bool) -> Self {
        Self {
            key: message.key,
            at: message.at,
            id: message.id,
            reason: message.reason,
            bytes: message.bytes,
            sha256: message.sha256,
            abandoned: message.abandoned,
            body: reveal.then_some(message.body),
            headers: reveal.then_some(message.headers),
        }
    }
}

/// Messages that are removed from an invalid channel.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InvalidPurge {
    /// Their keys.
    #[schema(min_items = 1, max_items = 500)]
    pub keys: Vec<String>,
}

/// How many messages were removed.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct InvalidPurged {
    /// Those that were there.
    pub removed: u64,
}

/// A bridge or a hand-off that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Deleted)]
pub struct DeletedJson {
    /// What it was called.
    pub name: String,
    /// Messages or jobs that waited for it and are never sent.
    pub dropped: u64,
}

fn split(problem: Option<BridgeProblem>) -> (Option<String>, Option<String>) {
    problem.map(|problem| (problem.code, problem.message)).unzip()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
