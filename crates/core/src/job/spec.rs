//! A job as it is submitted, and the part of it that never changes afterwards.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{FiredBy, PartOf, Policy, Priority, Provenance, SharingNeeds, Signature};
use crate::depth::DepthLimit;
use crate::id::JobId;
use crate::time::Timestamp;

/// The facts of a job that never change once it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spec {
    /// Its identity, made by the submitter.
    pub id: JobId,
    /// Which code runs it.
    pub kind: Arc<str>,
    /// Version of the payload's shape; a worker takes versions up to its own (H10).
    pub version: u32,
    /// Where it waits.
    pub queue: Arc<str>,
    /// How urgent it is.
    pub priority: Priority,
    /// The input, as JSON text.
    pub payload: Arc<str>,
    /// Budgets and times.
    pub policy: Policy,
    /// Never start later than this (L19).
    pub expires_at: Option<Timestamp>,
    /// Unique for ever (L10).
    pub idempotency_key: Option<String>,
    /// Unique among live jobs (L11).
    pub business_key: Option<String>,
    /// Jobs with the same one run one at a time, in the order of their submits (L21).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering_key: Option<Arc<str>>,
    /// What it shares with others while it runs (H5, H6); never an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs: Option<Box<SharingNeeds>>,
    /// What it needs that may be away, in place of what its kind needs (H1, H3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<Arc<str>>,
    /// Ties the job to a request or a trace outside.
    pub correlation_id: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Settings beside the payload, as a JSON object in text; none is the empty object.
    pub params: Option<Arc<str>>,
    /// The job to submit when this one has succeeded (F14).
    pub on_success: Option<Callback>,
    /// The job to submit when this one has failed for good (F14).
    pub on_failure: Option<Callback>,
    /// The job whose callback this is.
    pub callback_of: Option<JobId>,
    /// Who vouches for it, and which trace it belongs to.
    pub provenance: Option<Box<Provenance>>,
}

impl Spec {
    /// A job of `kind` on the queue `default`, with defaults everywhere else.
    pub fn new(id: JobId, kind: impl Into<Arc<str>>, payload: impl Into<Arc<str>>) -> Self {
        Self {
            id,
            kind: kind.into(),
            version: 1,
            queue: "default".into(),
            priority: Priority::default(),
            payload: payload.into(),
            policy: Policy::default(),
            expires_at: None,
            idempotency_key: None,
            business_key: None,
            ordering_key: None,
            needs: None,
            dependency: None,
            correlation_id: None,
            tags: Vec::new(),
            params: None,
            on_success: None,
            on_failure: None,
            callback_of: None,
            provenance: None,
        }
    }

    /// What every event says of the job.
    #[must_use]
    pub fn header(&self) -> Header {
        Header {
            id: self.id,
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            business_key: self.business_key.clone(),
            correlation_id: self.correlation_id.clone(),
            trace_parent: self.trace().cloned(),
        }
    }

    /// The trace it belongs to.
    #[must_use]
    pub fn trace(&self) -> Option<&Arc<str>> {
        self.provenance.as_ref().and_then(|provenance| provenance.trace.as_ref())
    }

    /// Who vouches for it.
    #[must_use]
    pub fn signature(&self) -> Option<&Signature> {
        self.provenance.as_ref().and_then(|provenance| provenance.signature.as_ref())
    }

    /// Which fire of which schedule it is (W11).
    #[must_use]
    pub fn schedule(&self) -> Option<&FiredBy> {
        self.provenance.as_ref().and_then(|provenance| provenance.schedule.as_ref())
    }

    /// The workflow or batch that it is a part of (W1-W6).
    #[must_use]
    pub fn part_of(&self) -> Option<&PartOf> {
        self.provenance.as_ref().and_then(|provenance| provenance.part_of.as_ref())
    }

    /// What its store could not read of it: such a job is never run (C7).
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        self.provenance.as_ref().and_then(|provenance| provenance.damage.as_deref())
    }

    /// The provenance, to write something into it.
    pub fn provenance_mut(&mut self) -> &mut Provenance {
        self.provenance.get_or_insert_default()
    }

    /// The tenant whose job this is; none when its queue has none (E13).
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        crate::tenant::of_queue(&self.queue)
    }

    /// The kind as failures know it: a tenant's is apart from everybody else's, so that they never share an incident.
    #[must_use]
    pub fn incident_kind(&self) -> Cow<'_, str> {
        crate::tenant::incident_kind(&self.queue, &self.kind)
    }

    /// When this job may no longer start, if it becomes due at `run_at` (L19).
    #[must_use]
    pub fn start_by(&self, run_at: Timestamp) -> Option<Timestamp> {
        let patience = self.policy.max_wait.map(|wait| run_at.after(wait));
        self.expires_at.into_iter().chain(patience).min()
    }

    /// Until when it may be kept from running, if that began at `since` (H7).
    #[must_use]
    pub fn deferred_until(&self, since: Timestamp) -> Option<Timestamp> {
        self.policy.max_deferral.map(|most| since.after(most))
    }
}

/// A job on its way into a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewJob {
    /// What will be kept.
    pub spec: Spec,
    /// When it may first run.
    pub start: Start,
    /// What to do when the business key is taken (L11).
    pub on_conflict: OnConflict,
    /// The unstarted job to cancel in the same transaction (L22).
    pub supersedes: Option<JobId>,
    /// It is refused where so many wait already (H12).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depth_limits: Vec<DepthLimit>,
}

impl NewJob {
    /// Submits `spec` to run at once.
    #[must_use]
    pub const fn new(spec: Spec) -> Self {
        let (start, on_conflict) = (Start::Now, OnConflict::Reject);
        Self { spec, start, on_conflict, supersedes: None, depth_limits: Vec::new() }
    }
}

/// When a job may first run. Delays are counted by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// As soon as it is stored.
    #[default]
    Now,
    /// This long after it is stored.
    After(Duration),
    /// At this moment; one that has passed counts as waited since then (L3).
    At(Timestamp),
}

impl Start {
    /// The moment this means for a store whose clock shows `now`.
    #[must_use]
    pub fn run_at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now.after(delay),
            Self::At(moment) => moment,
        }
    }
}

/// What to do when another live job holds the business key (L11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum OnConflict {
    /// Refuse, naming the holder.
    #[default]
    Reject,
    /// Keep the holder and answer with its id.
    Skip,
    /// Cancel the holder, if it has not started, and store this one, in one transaction.
    Replace,
}

/// A job to submit when another one has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// Which code runs it.
    pub kind: Arc<str>,
    /// Version of its payload's shape.
    #[serde(default = "first_version")]
    pub version: u32,
    /// Where it waits.
    pub queue: Arc<str>,
    /// Its input, as JSON text.
    pub payload: Arc<str>,
}

const fn first_version() -> u32 {
    1
}

/// A stored job: what was submitted, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredJob {
    /// What was submitted.
    pub spec: Spec,
    /// When the store took it.
    pub created_at: Timestamp,
}

/// What identifies a job in events, logs and messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its id.
    #[serde(rename = "job_id")]
    pub id: JobId,
    /// Its kind.
    pub kind: Arc<str>,
    /// Its queue.
    pub queue: Arc<str>,
    /// Its business key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Its correlation id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The trace it belongs to, as a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<Arc<str>>,
}

impl Header {
    /// The tenant whose job this is, as it is shown (E13).
    #[must_use]
    pub fn tenant(&self) -> &str {
        crate::tenant::shown(&self.queue)
    }
}
