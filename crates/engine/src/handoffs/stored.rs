//! What the store keeps of hand-offs, beside what waits for them.

use backstop_core::Timestamp;
use backstop_core::handoff::HandOffRefusal;
use backstop_store::{Amend, Amended, Edit, Error as StoreError, WorkStore};
use serde::{Deserialize, Serialize};

/// Where a hand-off publishes to. No token is ever among it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandOffTarget {
    pub(crate) to: String,
    pub(crate) kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<String>,
    #[serde(default)]
    pub(crate) signed: bool,
    #[serde(default)]
    pub(crate) fingerprint: String,
}

/// Why a hand-off stands still until a person lets it go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffStop {
    /// Since when.
    pub at: Timestamp,
    /// What the receiver said.
    #[serde(flatten)]
    pub refused: HandOffRefusal,
}

/// What people and the receiver's refusals say of a hand-off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandOffNote {
    /// Why it stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<HandOffStop>,
    /// How often a person let it go on: whoever publishes tries at once when it grows.
    #[serde(default)]
    pub(crate) retries: u64,
    /// Who did so last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retried_by: Option<String>,
}

/// What kind of trouble a hand-off waits out by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandOffCause {
    /// The receiver takes nothing now.
    Pressure,
    /// The receiver cannot be reached, or failed.
    Unreachable,
}

/// A wait for the next try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandOffWait {
    /// Why.
    pub trouble: HandOffCause,
    /// Since when it has lasted.
    pub since: Timestamp,
    /// When it is tried again.
    pub until: Timestamp,
    /// Tries since then that failed.
    pub tries: u32,
}

/// What a hand-off has counted, ever, in all processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HandOffTally {
    /// Jobs that the receiver has made.
    pub admitted: u64,
    /// Jobs whose keys the receiver had seen before.
    pub duplicates: u64,
    /// Jobs that lacked a field of the key, and had the incoming id as theirs.
    pub keyless: u64,
    /// Requests that the receiver refused because it takes nothing now.
    pub pressure: u64,
    /// Requests that the receiver refused for good.
    pub refused: u64,
    /// Requests that were not answered, or by somebody who failed.
    pub unreachable: u64,
    /// Milliseconds from the end of each job to its admission, added up.
    pub latency_ms: u64,
    /// The same of the last request, its oldest job.
    pub last_latency_ms: Option<u64>,
    /// When a job was last admitted or known already.
    pub last_at: Option<Timestamp>,
    /// Why it waits, while it does.
    pub wait: Option<HandOffWait>,
}

/// Changes documents; false when one is not as expected.
pub(super) async fn amend(store: &dyn WorkStore, edits: Vec<Edit>) -> Result<bool, StoreError> {
    Ok(matches!(store.amend(Amend { edits, ..Amend::default() }).await?, Amended::Done { .. }))
}
