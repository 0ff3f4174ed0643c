//! When a step follows another one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a node ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeEnd {
    /// It succeeded.
    Succeeded,
    /// It is a dead letter.
    Failed,
    /// A person called it off, or something before it.
    Canceled,
    /// Its branch was not taken.
    NotTaken,
    /// Something that it needs has failed.
    DependencyFailed,
}

impl NodeEnd {
    /// The word used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::NotTaken => "not_taken",
            Self::DependencyFailed => "dependency_failed",
        }
    }
}

/// What the end of the node before must be like.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkflowCondition))]
pub enum Condition {
    /// It succeeded.
    #[default]
    Success,
    /// It failed for good.
    Failure,
    /// It has ended, by whatever; only what is called off takes everything behind it along.
    Always,
    /// It succeeded, and its result says so.
    Result(ResultTest),
    /// It succeeded, and a predicate of this name says so. A worker that knows the name is asked.
    Predicate(String),
}

/// A value in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResultTest {
    /// Where in the result, as a JSON pointer; empty for the whole of it.
    pub pointer: String,
    /// What must be there.
    pub equals: Value,
}

impl ResultTest {
    fn holds(&self, result: Option<&Value>) -> bool {
        result.and_then(|result| result.pointer(&self.pointer)) == Some(&self.equals)
    }
}

impl Condition {
    /// True when a node that ended like this meets it.
    #[must_use]
    pub fn holds(&self, end: NodeEnd, result: Option<&Value>) -> bool {
        match self {
            Self::Success => end == NodeEnd::Succeeded,
            Self::Failure => end == NodeEnd::Failed,
            Self::Always => end != NodeEnd::Canceled,
            Self::Result(test) => end == NodeEnd::Succeeded && test.holds(result),
            // The graph has a node of its own that asks: see `shape`.
            Self::Predicate(_) => false,
        }
    }

    /// True when nothing but a success can meet it.
    #[must_use]
    pub const fn needs_success(&self) -> bool {
        matches!(self, Self::Success | Self::Result(_) | Self::Predicate(_))
    }
}
