//! How a workflow or a batch ended, as the job that follows it is told (W1, W3, F14).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Graph, NodeEnd, NodeState, Workflow, WorkflowCounts, WorkflowProgress, WorkflowStatus};
use crate::id::{JobId, WorkflowId};
use crate::job::{JobDetail, ParentError, Spec};
use crate::sealing;

/// The name under which it stands in the params of that job.
const WORKFLOW: &str = "workflow";

/// How a workflow or a batch ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkflowEnd {
    /// Its id.
    pub id: WorkflowId,
    /// What people call it.
    pub name: String,
    /// The key it was submitted under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How it ended.
    pub status: WorkflowStatus,
    /// Its steps or jobs, by how they ended.
    pub counts: EndCounts,
    /// Its first dead step, or one of the dead jobs of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<DeadPart>,
}

/// Steps or jobs by how they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EndCounts {
    /// All.
    pub total: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed for good.
    pub failed: u64,
    /// Those that were called off, by people or because they could not run.
    pub canceled: u64,
}

impl From<WorkflowCounts> for EndCounts {
    fn from(counts: WorkflowCounts) -> Self {
        let WorkflowCounts { total, succeeded, failed, canceled, .. } = counts;
        Self { total, succeeded, failed, canceled }
    }
}

/// A dead job of a workflow or a batch. Its texts were sanitized when they were stored (F11).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadPart {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// The name of its step; none in a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// How many attempts it had.
    pub attempts: u32,
    /// Why it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The error of its last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ParentError>,
    /// Its params, unless they were sealed or too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

impl WorkflowEnd {
    /// That of a workflow all of which has ended.
    #[must_use]
    pub fn of(workflow: &Workflow, failed: Option<DeadPart>) -> Self {
        Self {
            id: workflow.id,
            name: workflow.name.to_string(),
            key: workflow.key.clone(),
            status: workflow.status,
            counts: workflow.counts().into(),
            failed,
        }
    }

    /// The params of the job that follows, in at most `room` bytes: the params of the dead part go first.
    #[must_use]
    pub fn params(mut self, room: usize) -> String {
        let told = |end: &Self| json!({ WORKFLOW: end }).to_string();
        let text = told(&self);
        if let Some(failed) = self.failed.as_mut().filter(|_| text.len() > room) {
            failed.params = None;
            return told(&self);
        }
        text
    }

    /// What a job is told of the workflow or batch whose end it follows; none for every other job.
    #[must_use]
    pub fn read(spec: &Spec) -> Option<Self> {
        let owner = spec.callback_of?;
        let mut params: Value = serde_json::from_str(spec.params.as_deref()?).ok()?;
        let end: Self = serde_json::from_value(params.get_mut(WORKFLOW)?.take()).ok()?;
        (end.id.as_uuid() == owner.as_uuid()).then_some(end)
    }
}

impl DeadPart {
    /// What is told of a dead job.
    #[must_use]
    pub fn of(step: Option<&str>, detail: &JobDetail) -> Self {
        let (spec, record) = (&detail.view.job.spec, &detail.view.record);
        let error = detail.view.last_failure.as_ref();
        let params = spec.params.as_deref().filter(|text| !sealing::is_sealed(text));
        Self {
            job: spec.id,
            kind: spec.kind.to_string(),
            step: step.map(str::to_owned),
            attempts: record.attempt,
            reason: record.reason.map(|reason| reason.as_str().to_owned()),
            error: error.map(|failure| ParentError {
                error_type: failure.error_type.clone(),
                message: failure.message.clone(),
            }),
            params: params.and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}

impl WorkflowProgress {
    /// The nodes with which a graph ended: those that succeeded and behind which none did.
    #[must_use]
    pub fn last_ones(&self, graph: &Graph) -> Vec<u32> {
        let nodes = || (0u32..).zip(graph.nodes()).filter(|(_, node)| node.predicate.is_none());
        let succeeded = |number: u32| self.state(number) == NodeState::Ended(NodeEnd::Succeeded);
        let mut is_last: Vec<bool> = nodes().map(|(number, _)| succeeded(number)).collect();
        for (_, node) in nodes().filter(|(number, _)| succeeded(*number)) {
            for before in &node.inputs {
                if let Some(is_last) = is_last.get_mut(*before as usize) {
                    *is_last = false;
                }
            }
        }
        (0u32..).zip(is_last).filter_map(|(number, is_last)| is_last.then_some(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use crate::workflow::{BatchProgress, WorkflowBody};

    fn end(params: usize) -> WorkflowEnd {
        let batch = WorkflowBody::Batch(BatchProgress::default());
        let workflow =
            Workflow::new(WorkflowId::from_u128(7), "order".into(), batch, Timestamp::from_micros(0));
        let failed = DeadPart {
            job: JobId::from_u128(8),
            kind: "charge".into(),
            step: Some("charge".into()),
            attempts: 3,
            reason: Some("retry_exhausted".into()),
            error: Some(ParentError { error_type: "CardError".into(), message: "declined".into() }),
            params: Some(json!("x".repeat(params))),
        };
        WorkflowEnd::of(&workflow, Some(failed))
    }

    fn told(owner: u128, params: String) -> Spec {
        let mut spec = Spec::new(JobId::from_u128(9), "sorry", "{}");
        spec.callback_of = Some(JobId::from_u128(owner));
        spec.params = Some(params.into());
        spec
    }

    #[test]
    fn what_is_told_reads_back() {
        // F14
        assert_eq!(WorkflowEnd::read(&told(7, end(10).params(16_384))), Some(end(10)));
        let cut = WorkflowEnd::read(&told(7, end(2_000).params(1_000))).expect("it has the rest");
        assert_eq!(cut.failed.as_ref().expect("one is dead").params, None);
        assert_eq!(cut.failed.map(|failed| (failed.attempts, failed.error.is_some())), Some((3, true)));
    }

    #[test]
    fn only_what_follows_a_workflow_is_told_of_it() {
        let text = end(1).params(16_384);
        assert_eq!(WorkflowEnd::read(&told(8, text.clone())), None, "of another one");
        let mut job = told(7, text);
        job.callback_of = None;
        assert_eq!(WorkflowEnd::read(&job), None, "anybody can write such params");
        assert_eq!(WorkflowEnd::read(&told(7, r#"{"workflow":{"id":1}}"#.into())), None);
    }
}
