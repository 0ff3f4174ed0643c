//! That a job is a part of a workflow or a batch (W1-W6).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::WorkflowId;

/// The workflow or batch that a job is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// Which workflow or batch.
    pub id: WorkflowId,
    /// The name of its node; none for a job of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The number of its node.
    #[serde(default)]
    pub number: u32,
    /// True when it follows others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub follows: bool,
    /// True when what it follows has ended: it stands for a job that was called off (W4).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
    /// The node whose result is its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_from: Option<Arc<str>>,
}

/// The same as a job's record knows it, so that whoever ends the job need not read what was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowMark {
    /// Which workflow or batch.
    pub id: WorkflowId,
    /// The number of its node.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PartOf {
    /// True when it waits for others before it may run.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.follows && !self.renewed
    }

    /// What the record of such a job is marked with.
    #[must_use]
    pub const fn mark(&self) -> WorkflowMark {
        WorkflowMark { id: self.id, number: self.number }
    }
}

/// The same as interfaces show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkflowPart {
    /// Which workflow or batch.
    pub id: WorkflowId,
    /// The name of its step; none for a job of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

impl From<&PartOf> for WorkflowPart {
    fn from(part: &PartOf) -> Self {
        Self { id: part.id, node: part.node.as_deref().map(str::to_owned) }
    }
}
