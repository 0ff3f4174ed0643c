//! The rights that a token can carry.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One right. A token has any number of them; `admin` is not a superset, so that a token says all it may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Store jobs.
    Submit,
    /// Look at jobs, queues, incidents, plans, workers and figures.
    Read,
    /// Read what runs have logged or printed, and payloads and results in the clear.
    Logs,
    /// Cancel, pause, retry, re-drive, and say what is known of incidents.
    Operate,
    /// Tokens, rules, purges, the audit log.
    Admin,
    /// Take jobs and report how they ended.
    Work,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 6] = [Self::Submit, Self::Read, Self::Logs, Self::Operate, Self::Admin, Self::Work];

    /// Its name, as tokens carry it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Read => "read",
            Self::Logs => "logs",
            Self::Operate => "operate",
            Self::Admin => "admin",
            Self::Work => "work",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a scope; there are submit, read, logs, operate, admin and work")]
pub struct UnknownScope(String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| UnknownScope(text.chars().take(40).collect()))
    }
}
