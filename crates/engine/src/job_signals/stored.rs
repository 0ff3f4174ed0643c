//! Signals and waits as documents.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Operation, Record, SignalAnswer, StepFact, StepWrite};
use backstop_core::{Fence, JobId, Timestamp, digest};
use backstop_store::{Document, Drawer, Edit, Error as StoreError, Expect, WorkStore};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::parts::EngineParts;
use crate::sealing;

/// How often somebody looks whether a job waits still: it may have been canceled.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Which signal: those of different tenants have nothing to do with each other (E13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignalName {
    pub(crate) tenant: Option<String>,
    pub(crate) key: String,
}

impl SignalName {
    pub(crate) fn new(tenant: Option<&str>, key: &str) -> Self {
        Self { tenant: tenant.map(ToOwned::to_owned), key: key.to_owned() }
    }

    /// How the names of all documents about it begin. What people choose is of any length, so it is not in there.
    pub(crate) fn prefix(&self) -> String {
        format!("{}{}/", tenant_prefix(self.tenant.as_deref()), digest::short(&self.key))
    }

    /// The name of the signal with this id.
    pub(crate) fn signal(&self, id: &str) -> String {
        format!("{}{}", self.prefix(), digest::short(id))
    }

    /// The name of the wait of this job.
    pub(crate) fn wait(&self, job: JobId) -> String {
        format!("{}{job}", self.prefix())
    }
}

/// How the names of all documents of a tenant begin.
pub(crate) fn tenant_prefix(tenant: Option<&str>) -> String {
    format!("{}/", tenant.unwrap_or_default())
}

/// A signal that is kept, or on its way to more jobs than fit into one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredSignal {
    pub(crate) key: String,
    pub(crate) id: String,
    /// True when the sender chose the id: then it counts after the delivery too.
    pub(crate) named: bool,
    /// The only job that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) only: Option<JobId>,
    pub(crate) payload: Value,
    pub(crate) sent_at: Timestamp,
    pub(crate) keep_until: Timestamp,
    /// When somebody has to look at it again.
    pub(crate) look_at: Timestamp,
    /// Jobs that have it.
    pub(crate) delivered: u64,
}

impl StoredSignal {
    /// True when somebody has looked for jobs that wait, and there were none.
    pub(crate) fn is_settled(&self) -> bool {
        self.delivered == 0 && self.look_at == self.keep_until
    }

    /// True when this job may take it.
    pub(crate) fn is_for(&self, job: JobId, now: Timestamp) -> bool {
        self.delivered == 0 && self.keep_until > now && self.only.is_none_or(|only| only == job)
    }
}

/// A signal that was delivered, for as long as its id counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeliveredSignal {
    pub(crate) delivered: u64,
    pub(crate) until: Timestamp,
}

/// A job that waits, or is about to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredWait {
    pub(crate) key: String,
    pub(crate) job: JobId,
    /// The hold under which it began to wait.
    pub(crate) fence: Fence,
    pub(crate) step: String,
    pub(crate) index: Option<u32>,
    pub(crate) until: Timestamp,
    /// When somebody looks whether it waits still; at its end unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) look_at: Option<Timestamp>,
    /// The kind of the job, when what it is given is sealed (E12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sealed: Option<Arc<str>>,
}

impl StoredWait {
    /// What hands it `answer`.
    pub(crate) fn answered(
        &self,
        parts: &EngineParts,
        answer: &SignalAnswer,
    ) -> Result<(JobId, Operation), StoreError> {
        let mut text = answer.to_text();
        if let Some(kind) = &self.sealed {
            text = sealing::kept_signal(&parts.config, self.job, kind, text).map_err(|problem| {
                let problem = format!("the payload of a signal cannot be sealed: {problem}");
                StoreError::Unavailable { location: parts.store.info().location, problem, source: None }
            })?;
        }
        let step = StepWrite { index: self.index, name: self.step.clone(), fact: StepFact::Done(text) };
        let timed_out = *answer == SignalAnswer::TimedOut;
        let signal = self.key.clone();
        Ok((self.job, Operation::Signal { fence: self.fence, signal, timed_out, step }))
    }

    /// True while its job would take what it waits for.
    pub(crate) fn is_current(&self, record: &Record) -> bool {
        record.awaits(self.fence, &self.step)
    }

    /// The same, looked at when its time is up, or before that when it waits for long.
    pub(crate) fn looked_at_after(mut self, now: Timestamp) -> Self {
        self.look_at = Some(now.after(LOOK_AGAIN).min(self.until));
        self
    }

    /// Adds the look at it, under the name of its document.
    pub(crate) fn put_look(&self, name: &str) -> Edit {
        self.look(name).put(self.look_at.unwrap_or(self.until))
    }

    /// Takes the look at it away.
    pub(crate) fn remove_look(&self, name: &str) -> Edit {
        self.look(name).removed(self.look_at.unwrap_or(self.until))
    }

    fn look(&self, name: &str) -> SignalLook {
        SignalLook::Wait { name: name.to_owned(), wait: self.clone() }
    }
}

/// What somebody has to look at when its moment has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SignalLook {
    /// A signal: is there somebody who waits, or is its time up?
    Signal(String),
    /// The id of a delivered signal: its time is up.
    Id(String),
    /// A wait: is its time up, or has its job been canceled?
    Wait {
        /// The name of its document.
        name: String,
        /// As it was begun: the same job may have begun another.
        wait: StoredWait,
    },
}

impl SignalLook {
    /// The name of its document: in the order of time.
    fn place(&self, at: Timestamp) -> String {
        let (sort, name) = match self {
            Self::Signal(name) => ("signal", name),
            Self::Id(name) => ("id", name),
            Self::Wait { name, .. } => ("wait", name),
        };
        format!("{:019}/{sort}/{name}", at.as_micros().max(0))
    }

    pub(crate) fn put(&self, at: Timestamp) -> Edit {
        write(Drawer::SignalTimes, self.place(at), Expect::Any, self)
    }

    pub(crate) fn removed(&self, at: Timestamp) -> Edit {
        remove(Drawer::SignalTimes, self.place(at), Expect::Any)
    }

    /// The moment of a look with this name, as micros.
    pub(crate) fn moment(place: &str) -> Option<i64> {
        place.split('/').next()?.parse().ok()
    }
}

/// How many signals a tenant has that are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptCount {
    revision: Option<i64>,
    pub(crate) kept: u64,
}

impl KeptCount {
    pub(crate) fn of(document: Option<&Document>) -> Self {
        let kept = document.and_then(|document| document.body.parse().ok()).unwrap_or(0);
        Self { revision: document.map(|document| document.revision), kept }
    }

    /// The change that counts one more or one less.
    pub(crate) fn changed(self, tenant: Option<&str>, more: bool) -> Edit {
        let kept = if more { self.kept.saturating_add(1) } else { self.kept.saturating_sub(1) };
        let expect = self.revision.map_or(Expect::Absent, Expect::Revision);
        let body = (kept > 0).then(|| kept.to_string().into());
        Edit { drawer: Drawer::SignalCounts, key: tenant_prefix(tenant), expect, body }
    }
}

pub(crate) fn write(drawer: Drawer, key: String, expect: Expect, what: &impl Serialize) -> Edit {
    // Texts, numbers and values of JSON have no way to fail.
    let body = Some(serde_json::to_string(what).unwrap_or_default().into());
    Edit { drawer, key, expect, body }
}

pub(crate) const fn remove(drawer: Drawer, key: String, expect: Expect) -> Edit {
    Edit { drawer, key, expect, body: None }
}

/// What a document says; none, and a line in the log, when a later program wrote it.
pub(crate) fn parsed<T: DeserializeOwned>(document: &Document) -> Option<T> {
    serde_json::from_str(&document.body)
        .map_err(|error| tracing::error!(document = document.key, %error, "cannot read what is stored of a signal"))
        .ok()
}

/// A stored signal with its revision, and how many its tenant has.
pub(crate) async fn read(
    store: &dyn WorkStore,
    name: &str,
    tenant: Option<&str>,
) -> Result<(Option<(i64, StoredSignal)>, Option<DeliveredSignal>, KeptCount), StoreError> {
    let names = vec![
        (Drawer::Signals, name.to_owned()),
        (Drawer::SignalIds, name.to_owned()),
        (Drawer::SignalCounts, tenant_prefix(tenant)),
    ];
    let mut found = store.named_documents(names).await?.into_iter();
    let signal = found.next().flatten().and_then(|one| Some((one.revision, parsed(&one)?)));
    let delivered = found.next().flatten().as_ref().and_then(parsed);
    Ok((signal, delivered, KeptCount::of(found.next().flatten().as_ref())))
}

/// The tenant whose document has this name.
pub(crate) fn tenant_of(name: &str) -> Option<&str> {
    name.split('/').next().filter(|tenant| !tenant.is_empty())
}

/// What remembers the id of a signal that was delivered, if its sender chose it.
pub(crate) fn remembered(place: &str, signal: &StoredSignal, delivered: u64) -> Vec<Edit> {
    if !signal.named {
        return Vec::new();
    }
    let until = signal.keep_until;
    vec![
        write(Drawer::SignalIds, place.to_owned(), Expect::Absent, &DeliveredSignal { delivered, until }),
        SignalLook::Id(place.to_owned()).put(until),
    ]
}
