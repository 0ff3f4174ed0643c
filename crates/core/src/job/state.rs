//! The seven states of a job (L1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::refusal::Refusal;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum State {
    /// It may be claimed once its time has come.
    Pending,
    /// A worker holds it.
    Running,
    /// It succeeded. Final.
    Succeeded,
    /// It ended badly: a dead letter. Left only by a retry, a re-drive or a pause.
    Failed,
    /// A person holds it back.
    Paused,
    /// A person, or its own handler, canceled it. Final.
    Canceled,
    /// Something other than time or a free worker is missing: a dependency, a signal, or code.
    Waiting,
}

impl State {
    /// Every state, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Paused,
        Self::Canceled,
        Self::Waiting,
    ];

    /// Refuses to remove a job in this state for good (D5): one that has not ended, or that ended otherwise than asked.
    ///
    /// # Errors
    /// [`Refusal::WrongState`].
    pub fn may_be_purged(self, job: JobId, only: Option<Self>) -> Result<(), Refusal> {
        if self.is_terminal() && only.is_none_or(|only| only == self) {
            return Ok(());
        }
        Err(Refusal::WrongState { job, state: self, verb: "purged" })
    }

    /// True when no run will follow unless a person asks for one.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Canceled)
    }

    /// True while the job holds its business key (L11).
    #[must_use]
    pub const fn is_live(self) -> bool {
        !self.is_terminal()
    }

    /// True when a job in this state counts towards the depth of its queue (H12).
    #[must_use]
    pub const fn adds_depth(self) -> bool {
        matches!(self, Self::Pending | Self::Waiting)
    }

    /// True when the head of a line in this state holds up the others until a person does something about it (L21).
    #[must_use]
    pub const fn blocks_line(self) -> bool {
        matches!(self, Self::Failed | Self::Paused)
    }

    /// The word used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::Canceled => "canceled",
            Self::Waiting => "waiting",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a job status: use pending, running, succeeded, failed, paused, canceled or waiting")]
pub struct UnknownState(String);

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| UnknownState(text.chars().take(40).collect()))
    }
}
