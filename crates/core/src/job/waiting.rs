//! What a waiting job waits for, other than its time and a free worker.

use serde::{Deserialize, Serialize};

use super::{JobDetail, JobView, Record, Spec, State};
use crate::id::JobId;
use crate::time::Timestamp;

/// What kind of thing is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum WaitReason {
    /// The jobs before it with the same ordering key (L21).
    OrderingKey,
    /// The end of a run: as many as a limit allows run at once (H5).
    Concurrency,
    /// Its turn in a rate: as many as a limit allows have started (H5).
    Rate,
    /// The run of another job with its `single_instance` (H6).
    SingleInstance,
    /// Permits of a pool that others hold (H5).
    Permits,
    /// The circuit of its dependency, which is open (H3).
    Circuit,
    /// What its kind needs, which every worker that could run it finds unavailable (H1).
    Dependency,
    /// The steps before it in its workflow (W1).
    Workflow,
    /// A signal (W10).
    Signal,
    /// A worker whose code knows it (H10).
    Code,
}

/// What a waiting job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitDetail {
    /// What kind of thing is missing.
    pub reason: WaitReason,
    /// Which one: the ordering key, the limit, the name, the pool, the dependency, the workflow, the signal, or
    /// the kind that nobody knows.
    pub key: String,
    /// The job that has what this one waits for; only where one job is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<JobId>,
    /// When it is certain to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// How many others are before it, the holder among them; only where one job is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
}

/// Where a job stands among those with its ordering key (L21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePlace {
    /// The job whose turn it is, and where it is; none while the line moves on.
    pub head: Option<(JobId, State)>,
    /// How many are before it, the head among them.
    pub before: u64,
}

impl Record {
    /// True while it waits for its turn among those with its ordering key. One that waits for a signal has its turn.
    #[must_use]
    pub fn waits_for_turn(&self, spec: &Spec) -> bool {
        self.state == State::Waiting && spec.ordering_key.is_some() && self.signal_wait().is_none()
    }
}

impl JobView {
    /// What it waits for; none unless it is [waiting](State::Waiting).
    #[must_use]
    pub fn waiting_for(&self) -> Option<WaitDetail> {
        let spec = &self.job.spec;
        if let Some(wait) = self.record.signal_wait().filter(|_| self.record.state == State::Waiting) {
            let (reason, key, until) = (WaitReason::Signal, wait.signal.clone(), Some(wait.until));
            return Some(WaitDetail { reason, key, holder: None, until, position: None });
        }
        let (reason, key) = match (&spec.ordering_key, self.record.state) {
            (Some(key), State::Waiting) => (WaitReason::OrderingKey, key.to_string()),
            (None, State::Waiting) if spec.part_of().is_some() => {
                (WaitReason::Workflow, spec.part_of().map(|part| part.id.to_string()).unwrap_or_default())
            }
            _ if self.waits_for_code => (WaitReason::Code, spec.kind.to_string()),
            (_, State::Pending) => return self.held_by.clone(),
            _ => return None,
        };
        Some(WaitDetail { reason, key, holder: None, until: None, position: None })
    }
}

impl JobDetail {
    /// The same, with who has what it waits for.
    #[must_use]
    pub fn waiting_for(&self) -> Option<WaitDetail> {
        let waiting = self.view.waiting_for()?;
        let Some(line) = self.line.filter(|_| waiting.reason == WaitReason::OrderingKey) else {
            return Some(waiting);
        };
        Some(WaitDetail { holder: line.head.map(|(id, _)| id), position: Some(line.before), ..waiting })
    }
}
