//! What a profile is told: `caf` and `daycry` of a bridge.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::address::BrokerKind;
use crate::secret::SecretText;

/// How messages are read and answered: `profile` of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BridgeProfile {
    /// The body is the payload, and the message id the idempotency key.
    #[default]
    Plain,
    /// Messages are those of the CAF Worker Framework, in and out.
    Caf,
    /// Messages are the signed envelopes of daycry/jobs.
    Daycry,
}

/// What queues of RabbitMQ are: `caf.queue_type` of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CafQueueKind {
    /// Replicated ones that count deliveries, as the framework makes them unless told otherwise.
    #[default]
    Quorum,
    /// The others, which know priorities.
    Classic,
}

impl CafQueueKind {
    /// The word of the wire.
    #[allow(dead_code, reason = "RabbitMQ needs it, and can be left out")]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// What the profile `caf` is told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CafSettings {
    /// Crashes and redeliveries that are forgiven; `CAF_WORKER_RETRY_LIMIT` of the environment unless said, or 10.
    pub retry_limit: Option<u32>,
    /// Where a message goes that was delivered before, with one more in `x-caf-worker-retry`; it is handled where it
    /// is unless said.
    pub retry_queue: Option<String>,
    /// Where poisoned tasks are copied to; `NAME-reject` of the worker unless said.
    pub reject_queue: Option<String>,
    /// Where tasks of paused jobs go; they run unless said.
    pub paused_queue: Option<String>,
    /// Where tasks are answered that could not be handled at all (`INVALID_TASK`); the queue of the sink unless said.
    pub invalid_queue: Option<String>,
    /// False handles tasks that are for another queue, in place of passing them on;
    /// `CAF_WORKER_ENABLE_DIVERTED_TASK_CHECKING` of the environment unless said, or true.
    pub check_diverted: Option<bool>,
    /// What the queues are that the bridge makes itself: those for retries, rejects, paused and invalid tasks. Workers
    /// of the framework that use them declare them too, and must say the same (`CAF_RABBITMQ_QUEUE_TYPE`).
    pub queue_type: CafQueueKind,
    /// The largest priority of the queue; priorities count for nothing while it is 0.
    pub max_priority: u8,
    /// The name of the worker in responses and reports; that of the bridge unless said.
    pub worker_name: Option<String>,
    /// The version of the worker in responses; `UNKNOWN` unless said.
    pub worker_version: Option<String>,
    /// Hosts that may be asked for the status of a job; none unless said, and then every job counts as active.
    pub status_hosts: BTreeSet<String>,
    /// True sends no report for a task that goes on to another queue, as does
    /// `CAF_WORKER_DISABLE_ZERO_PROGRESS_REPORTING` of the environment.
    pub disable_zero_progress: bool,
}

/// What the profile `daycry` is told. Its keys are never shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct DaycrySettings {
    /// Keys of which one must have signed an envelope; `JOBS_SIGNING_KEY` of the environment unless said.
    pub(crate) signing_keys: Vec<SecretText>,
    /// True takes envelopes that nobody signed, when there is no key.
    pub unsigned: bool,
    /// Redis: true reads the lists that `RedisBackend` writes (`jobs:QUEUE-waiting`), and not a stream.
    pub lists: bool,
    /// The kinds of jobs by the names of handlers. Other handlers are refused; all jobs have the kind of the source
    /// unless said.
    pub handlers: BTreeMap<String, String>,
}

impl DaycrySettings {
    /// Envelopes must be signed by one of these keys.
    pub fn signed_by(keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let signing_keys = keys.into_iter().map(|key| SecretText(key.into())).collect();
        Self { signing_keys, ..Self::default() }
    }
}

/// What a profile is made of: the parts of a bridge's settings that it needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProfileParts<'a> {
    pub(crate) name: &'a str,
    pub(crate) profile: BridgeProfile,
    pub(crate) broker: BrokerKind,
    /// Where messages come from; none without a source.
    pub(crate) from: Option<&'a str>,
    /// Where messages go; none without a sink.
    pub(crate) to: Option<&'a str>,
    /// True unless the sink sends anything but results.
    pub(crate) only_results: bool,
    pub(crate) caf: Option<&'a CafSettings>,
    pub(crate) daycry: Option<&'a DaycrySettings>,
}

/// A setting of a profile that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProfileFault {
    pub(crate) key: &'static str,
    pub(crate) problem: String,
}

impl ProfileFault {
    pub(crate) fn new(key: &'static str, problem: impl Into<String>) -> Self {
        Self { key, problem: problem.into() }
    }
}

impl ProfileParts<'_> {
    /// Checks what the settings of profiles and the rest of a bridge say of each other.
    pub(super) fn check(&self) -> Result<(), ProfileFault> {
        let is_caf = self.profile == BridgeProfile::Caf;
        let fault = |key, problem: &str| Err(ProfileFault::new(key, problem));
        if self.caf.is_some() && !is_caf {
            return fault("caf", "is for profile = \"caf\"");
        }
        if self.daycry.is_some() && self.profile != BridgeProfile::Daycry {
            return fault("daycry", "is for profile = \"daycry\"");
        }
        if self.daycry.is_some_and(|daycry| daycry.lists) && self.broker != BrokerKind::Redis {
            return fault("daycry.lists", "is for Redis");
        }
        if is_caf && self.broker != BrokerKind::Rabbitmq {
            return fault(
                "profile",
                "is \"caf\", which is for RabbitMQ: use an amqp address, or another profile",
            );
        }
        if is_caf && !self.only_results {
            return fault(
                "sink.of",
                "may only be [\"results\"] with profile \"caf\": it has no other messages",
            );
        }
        Ok(())
    }
}
