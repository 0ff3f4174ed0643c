//! What `doctor` finds, as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Finding)]
pub struct DoctorFinding {
    /// How bad it is.
    pub level: DoctorLevel,
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
#[schema(as = Level)]
pub enum DoctorLevel {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Warning,
    /// An acknowledged job could be lost, or work cannot go on.
    Bad,
}

impl From<backstop_store::Finding> for DoctorFinding {
    fn from(found: backstop_store::Finding) -> Self {
        let level = match found.level {
            backstop_store::Level::Good => DoctorLevel::Good,
            backstop_store::Level::Warning => DoctorLevel::Warning,
            backstop_store::Level::Bad => DoctorLevel::Bad,
        };
        Self { level, subject: found.subject, message: found.message, hint: found.hint }
    }
}
