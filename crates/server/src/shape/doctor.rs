//! What `doctor` finds, as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was looked at.
    pub subject: String,
    /// What was found.
    pub message: String,
    /// What to do, when there is something to do.
    pub hint: Option<String>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Warning,
    /// An acknowledged job could be lost, or work cannot go on.
    Bad,
}

impl From<backstop::store::Finding> for Finding {
    fn from(found: backstop::store::Finding) -> Self {
        let level = match found.level {
            backstop::store::Level::Good => Level::Good,
            backstop::store::Level::Warning => Level::Warning,
            backstop::store::Level::Bad => Level::Bad,
        };
        Self { level, subject: found.subject, message: found.message, hint: found.hint }
    }
}
