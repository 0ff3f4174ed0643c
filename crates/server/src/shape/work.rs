//! What remote workers send and are answered (E7).

use std::collections::BTreeMap;

use backstop::Timestamp;
use backstop_core::job::{EffectPolicy, StepMark};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::ErrorDetail;

/// A request for work.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct ClaimRequest {
    /// Who asks: a name for people, one for each process.
    pub worker: String,
    /// Which of the processes that ever had this name it is: a text that each makes up when it starts. Then its death
    /// can be told with `/work/died`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The queues to take from, in this order.
    #[schema(min_items = 1, max_items = 100)]
    pub queues: Vec<String>,
    /// What the worker can run.
    #[schema(min_items = 1, max_items = 1000)]
    pub kinds: Vec<ClaimKind>,
    /// Jobs to take at most, over all queues; 1 by default.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 500, default = 1)]
    pub limit: u32,
    /// How long to wait for work when there is none, 60,000 at most; 0 by default.
    #[serde(default)]
    pub wait_ms: u64,
    /// How long the worker may be silent about what it takes; 30,000 by default.
    #[serde(default = "half_a_minute")]
    #[schema(minimum = 1000, maximum = 3_600_000, default = 30_000)]
    pub lease_ms: u64,
    /// The version of its code, kept with every run and asked for by re-drives that need a fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_version: Option<String>,
}

const fn one() -> u32 {
    1
}

const fn half_a_minute() -> u64 {
    30_000
}

/// A kind of job that a worker can run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Kind)]
pub enum ClaimKind {
    /// By its name: payloads of version 1.
    Name(String),
    /// Up to a version of its payload.
    Versioned(VersionedKind),
}

/// A kind up to a version of its payload.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionedKind {
    /// The kind.
    pub kind: String,
    /// The highest version that the worker reads.
    #[schema(minimum = 1)]
    pub version: u32,
}

/// The jobs that were handed out; none when the wait is over.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Claimed)]
pub struct ClaimAnswer {
    /// Each with its lease.
    pub jobs: Vec<RemoteJob>,
}

/// A job as it reads everywhere, with the right to write about its run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = ClaimedJob)]
pub struct RemoteJob {
    /// The job.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub job: Map<String, Value>,
    /// How long the run may take; keeping to it is the worker's business.
    pub timeout_ms: Option<u64>,
    /// Results of its steps that are stored, by name, in the order of their calls.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub steps: StepResults,
    /// What is stored of its steps, effects and waits for signals, in the order of their calls, without results: what
    /// the run calls has to fit, see `index` of `/work/step`.
    #[serde(default)]
    pub step_history: Vec<StepMark>,
    /// What the steps before it returned, by their names; for a step of a workflow only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub inputs: BTreeMap<String, Value>,
    /// What its waits for signals came to, by key: what was sent (an empty object when that was nothing), or null after
    /// the time was up.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub signals: StepResults,
    /// The right to write about it.
    pub lease: LeaseToken,
}

/// Results by name, in an order that is kept on the way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepResults(pub Vec<(String, Value)>);

impl Serialize for StepResults {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, result)| (name, result)))
    }
}

impl<'de> Deserialize<'de> for StepResults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Map::deserialize(deserializer)?.into_iter().collect()))
    }
}

/// The right to write about one run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseToken {
    /// Shown with everything that is said of the run.
    pub token: String,
    /// The number of the hold; a later hold has a greater one.
    pub fence: i64,
    /// Until when the job is held without a heartbeat.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}

/// A heartbeat.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Heartbeat)]
pub struct HeartbeatRequest<'a> {
    /// Who is alive.
    pub worker: String,
    /// Which process of this name, as its claims said.
    #[serde(default)]
    pub instance: Option<String>,
    /// The tokens of the leases to keep. They are read one by one: what is none is lost.
    #[serde(borrow)]
    #[schema(value_type = Vec<String>, max_items = 1000)]
    pub leases: Vec<&'a RawValue>,
}

/// The end of a process in which a worker ran, by whoever started it (C4).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadWorker {
    /// The name of the worker.
    pub worker: String,
    /// Which process of this name, as its claims said.
    pub instance: String,
    /// The signal that killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 64)]
    pub signal: Option<i32>,
    /// The code that it exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 255)]
    pub code: Option<i32>,
    /// The most memory that it had at any moment, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
    /// True when the kernel says that it died because it wanted more memory than it could have.
    #[serde(default)]
    #[schema(default = false)]
    pub out_of_memory: bool,
    /// The last thing that it said; the first 1,000 characters are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
}

/// What a death has ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = EndedRuns)]
pub struct DeadWorkerAnswer {
    /// How many runs ended; each is a crash with what was told.
    pub runs: u64,
}

/// What a heartbeat has kept.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Kept)]
pub struct HeartbeatAnswer {
    /// The tokens whose leases are still held.
    pub held: Vec<String>,
    /// Those whose are not: their runs should stop.
    pub lost: Vec<LostToken>,
    /// Until when all that is held is safe; none when nothing is.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
}

/// A lease that is no longer held.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Lost)]
pub struct LostToken {
    /// Its token.
    pub lease: String,
    /// Why.
    pub reason: LostTokenReason,
}

/// Why a lease is no longer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LostReason)]
pub enum LostTokenReason {
    /// Somebody canceled the job.
    Canceled,
    /// The run has ended, or the lease ran out.
    StaleLease,
}

/// Ends of runs.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Finish)]
pub struct FinishRequest<'a> {
    /// One for each run. They are read one by one: a bad one never fails the others.
    #[serde(borrow)]
    #[schema(value_type = Vec<FinishedRun>, max_items = 1000)]
    pub results: Vec<&'a RawValue>,
}

/// The end of one run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Finished)]
pub struct FinishedRun {
    /// The token of its lease.
    pub lease: String,
    /// How it ended.
    pub outcome: RunOutcome,
}

/// How a run ended.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = Outcome)]
pub enum RunOutcome {
    /// It went well.
    Succeeded {
        /// What it came to.
        #[serde(default)]
        #[schema(value_type = Option<Object>)]
        result: Option<Value>,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// It failed.
    Failed {
        /// What kind of failure it was.
        class: FailureClass,
        /// What happened, in words.
        message: String,
        /// The type of the error, which groups failures.
        #[serde(default)]
        error_type: Option<String>,
        /// When to try again, if the failure says so itself.
        #[serde(default)]
        retry_in_ms: Option<u64>,
        /// The dependency that was unavailable.
        #[serde(default)]
        dependency: Option<String>,
        /// What it counts as for the circuit of the dependency that the job needs; as its class does unless it is said.
        #[serde(default)]
        circuit: Option<CircuitMark>,
        /// The order of the step or the effect at which it failed, from 0; behind all that the run called when it was
        /// in none of them. The dead letter names it; unless it is said, that is the first one without a result.
        #[serde(default)]
        step: Option<u32>,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// It asks to run again later, at no cost.
    Snoozed {
        /// How much later.
        delay_ms: u64,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// The handler cancels the job.
    Canceled {
        /// Why.
        reason: String,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// It failed, and that is its result: kept, never retried, no incident.
    ReportedFailure {
        /// What it came to.
        #[schema(value_type = Object)]
        result: Value,
        /// The order of the step at which it failed, as of a failure.
        #[serde(default)]
        step: Option<u32>,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// A dependency asks to wait: it runs again later, at no cost.
    RateLimited {
        /// How much later.
        retry_in_ms: u64,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// The job waits for a signal, at no cost. When it is claimed again, `signals` has what came.
    Waiting {
        /// The key of the signal.
        signal: String,
        /// How long at most; as long as any job may be put off unless it is said.
        #[serde(default)]
        timeout_ms: Option<u64>,
        /// The order of the call in the run, from 0, counted with steps and effects.
        #[serde(default)]
        index: Option<u32>,
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
    /// The worker stops and hands the job back, at no cost.
    Interrupted {
        /// What it logged.
        #[serde(default)]
        logs: Option<LogText>,
    },
}

/// What kind of failure a run met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// An error that a retry may fix.
    Error,
    /// An error that no retry can fix.
    Permanent,
    /// The input can never be handled.
    Invalid,
    /// A dependency was unavailable: nobody is to blame.
    Transient,
    /// The run took longer than it may.
    Timeout,
    /// The handler broke.
    Panic,
}

/// What a failure counts as for the circuit of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CircuitMark {
    /// The dependency failed.
    Counts,
    /// It was called, and something else went wrong.
    Neutral,
    /// As if it had not been called.
    Ignored,
}

/// What a run logged.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Logs)]
pub enum LogText {
    /// As one text.
    Text(String),
    /// Line by line.
    Lines(Vec<String>),
}

/// The answers to ends of runs.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FinishAnswers {
    /// One for each, in the same order.
    pub results: Vec<FinishAnswer>,
}

/// The answer to the end of one run.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FinishAnswer {
    /// True when it is stored.
    pub ok: bool,
    /// Where the job is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorDetail>,
}

/// How far a run is.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunProgress {
    /// The token of its lease.
    pub lease: String,
    /// From 0 to 100.
    #[schema(maximum = 100)]
    pub percent: u8,
    /// In words.
    #[serde(default)]
    pub note: Option<String>,
}

/// Lines to keep with a run that is under way.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Log)]
pub struct LogRequest {
    /// The token of its lease.
    pub lease: String,
    /// The lines, in order.
    #[schema(max_items = 1000)]
    pub lines: Vec<String>,
}

/// What a step or an effect of a run came to.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = StepDone)]
pub struct StepRequest {
    /// The token of its lease.
    pub lease: String,
    /// The name of the step; no other step of the job has it.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// What it came to: any JSON, null among it. Only with `not_done` it is left out.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub result: Option<Value>,
    /// True says that an effect that was begun is known not to have happened.
    #[serde(default)]
    #[schema(default = false)]
    pub not_done: bool,
    /// The order of its call in the run, from 0, counted with effects and waits for signals. When it is given, it must
    /// fit `step_history`; without it the step is stored behind all that are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Null is a value here, and what is left out is none.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// An effect that a run is about to call.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EffectBegun)]
pub struct EffectRequest {
    /// The token of its lease.
    pub lease: String,
    /// The name of the effect; no other step of the job has it.
    #[schema(min_length = 1, max_length = 128)]
    pub name: String,
    /// What the other side knows it by; the same in every run.
    #[schema(min_length = 1)]
    pub key: String,
    /// What is done when it may have happened.
    pub policy: EffectPolicy,
    /// True says that the other side was asked, because the answer was `verify`, and has not seen it: that the run is
    /// about to call it is stored, and the answer is `run`. Only under the policy `verify`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub not_seen: bool,
    /// The order of its call in the run, as of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// What a run does about an effect.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
#[schema(as = EffectNext)]
pub enum EffectAnswer {
    /// It calls it, and stores what it came to.
    Run,
    /// It may have happened: the run asks the other side. What that knows of it is the outcome, and is stored; when it
    /// has not seen it, the run says so with `not_seen`, calls it and stores that.
    Verify,
    /// It succeeded before.
    Done {
        /// What it came to.
        #[schema(value_type = Value)]
        result: Value,
    },
}

/// That something was noted.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(as = Noted)]
pub struct LogAnswer {
    /// Always true: refusals have a shape of their own.
    pub ok: bool,
}
