//! What the engine and a remote worker tell each other: who works, what is asked for, what is handed out, how it ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Failure;
use backstop_core::job::JobView;
use backstop_core::{Lease, Timestamp, WorkerId};
use backstop_store::KnownKind;
use serde_json::Value;

/// Who works.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemoteWorker {
    /// Whose it is: names of different realms are different workers. Empty for those of no tenant.
    pub realm: String,
    /// Its name, for people.
    pub name: String,
    /// Which of the processes that ever had this name it is, if it says so: then its death can be told (C4).
    pub instance: Option<String>,
}

impl RemoteWorker {
    pub(super) fn id(&self) -> WorkerId {
        match &self.instance {
            None => WorkerId::named(&self.realm, &self.name),
            // No name has a line break.
            Some(instance) => WorkerId::named(&self.realm, &format!("{}\n{instance}", self.name)),
        }
    }
}

/// A request for work.
#[derive(Debug, Clone)]
pub struct WorkRequest {
    /// Who asks.
    pub worker: RemoteWorker,
    /// The queues to take from, in this order.
    pub queues: Vec<Arc<str>>,
    /// What the worker can run.
    pub kinds: Arc<[KnownKind]>,
    /// Jobs to take at most, over all queues.
    pub limit: usize,
    /// How long to wait for work when there is none.
    pub wait: Duration,
    /// How long the worker may be silent about what it takes.
    pub lease: Duration,
    /// The version of its code.
    pub code_version: Option<Arc<str>>,
}

/// The right to write about one run, with what every node must know to honour it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease itself.
    pub lease: Lease,
    /// The job's queue.
    pub queue: Arc<str>,
    /// When it was taken.
    pub claimed_at: Timestamp,
    /// How long each heartbeat keeps it.
    pub term: Duration,
    /// How many jobs were taken together.
    pub batch: u32,
    /// The version of the code that runs it.
    pub code_version: Option<Arc<str>>,
    /// How the circuit of what it needs let it through (H3); none when it needs nothing.
    pub circuit: Option<CircuitPass>,
}

/// A run that a circuit let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitPass {
    /// The generation that its result belongs to.
    pub generation: u64,
    /// It tries whether the dependency is back.
    pub probe: bool,
}

/// A job that was handed to a remote worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Handed {
    /// The job.
    pub view: JobView,
    /// The right to write about it.
    pub grant: Grant,
    /// Until when it is held without a heartbeat.
    pub expires_at: Timestamp,
    /// What the steps before it returned, by their names (W1).
    pub inputs: BTreeMap<String, Value>,
    /// Results of its steps that are stored, by name, in the order of their calls (W7).
    pub steps: Vec<(String, Value)>,
    /// What its waits came to, by the key of the signal; null after the time was up (W10).
    pub signals: BTreeMap<String, Value>,
}

/// How a remote worker says that a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// It went well.
    Succeeded {
        /// What it came to.
        result: Option<Value>,
    },
    /// It failed.
    Failed(Failure),
    /// It asks to run again later, at no cost.
    Snoozed {
        /// How much later.
        delay: Duration,
    },
    /// The handler calls the job off.
    Canceled {
        /// Why.
        reason: String,
    },
    /// A failure that is the job's result: kept, never retried, no incident (F16).
    ReportedFailure {
        /// What it came to.
        result: Value,
    },
    /// A dependency asks to wait: it runs again later, at no cost.
    RateLimited {
        /// How much later.
        delay: Duration,
    },
    /// The job waits for a signal, at no cost (W10).
    Waiting {
        /// The key of the signal.
        signal: String,
        /// How long at most; none for as long as any job may be put off.
        timeout: Option<Duration>,
        /// The order of the call among its steps, from 0; none puts it behind all that are stored.
        index: Option<u32>,
    },
    /// The worker stops and hands the job back, at no cost (L18).
    Interrupted,
}
