//! Item rejects (W9): items that a run could not handle, and that do not stop it.
//!
//! Owns what is told of one, how they are written in batches, when there are too many, and how they are counted by what
//! they have in common. A reject is no failure: nothing here has a cause, a budget or an incident.

mod group;
mod item_counts;
mod limit;
mod tally;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::hexadecimal;
use crate::failure::Fingerprint;
use crate::id::JobId;
use crate::tenant;
use crate::time::Timestamp;

pub use group::RejectGroup;
pub use item_counts::ItemCounts;
pub use limit::{InvalidRejectPercent, RejectLimit, RejectPercent};
pub use tally::{RejectCounts, RejectTally};
pub use view::RejectView;

/// Rejects that are written together at most.
pub const MOST_TOGETHER: usize = 100;

/// Bytes of kept items that are written together, unless a single one has more.
pub const MOST_BYTES_TOGETHER: usize = 256 * 1024;

/// Batches of one job at most: a million rejects. More are not items that went wrong; the run is.
pub const MOST_BATCHES: u32 = 10_000;

/// Bytes of a digest that are kept.
const DIGEST_BYTES: usize = 8;

/// What was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum RejectScope {
    /// One item.
    #[default]
    Item,
    /// Several items that went wrong together, told by one of them.
    Stream,
}

/// One reject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reject {
    /// What it has in common with others: kind, class and text of the error, as for failures.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub fingerprint: Fingerprint,
    /// What tells the item from others: a digest of it, or of the key that its handler gave.
    pub item_fingerprint: String,
    /// One item or several.
    #[serde(default)]
    pub scope: RejectScope,
    /// The durable step in which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The class of the error.
    pub error_type: String,
    /// The sanitized text of the error.
    pub error: String,
    /// How many items it stands for.
    pub count: u64,
    /// How often the run tried the item again.
    #[serde(default)]
    pub retries: u32,
    /// How often it would have tried.
    #[serde(default)]
    pub retry_limit: u32,
    /// True when the run does not try the item again.
    pub r#final: bool,
    /// The item as JSON text, when it is to be kept; sealed where payloads are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub item: Option<Arc<str>>,
}

impl Reject {
    /// What makes it the same reject in another run of the job: the item, and where it was rejected.
    #[must_use]
    pub fn identity(&self) -> u64 {
        let scope = match self.scope {
            RejectScope::Item => "item",
            RejectScope::Stream => "stream",
        };
        let step = self.step.as_deref().unwrap_or_default();
        u64::from_be_bytes(digest(&[scope, step, &self.item_fingerprint]))
    }

    /// About how many bytes it has when it is stored.
    #[must_use]
    pub fn bytes(&self) -> usize {
        256 + self.error.len() + self.item.as_ref().map_or(0, |item| item.len())
    }
}

/// Rejects of one run that are written together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectBatch {
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub job: JobId,
    /// The queue of the job.
    pub queue: Arc<str>,
    /// The kind of the job.
    pub kind: Arc<str>,
    /// The run, as the ledger counts.
    pub run: u32,
    /// The attempt, as its budget counts.
    pub attempt: u32,
    /// How often the job had been driven again.
    pub generation: u32,
    /// Items that the run has rejected so far, these among them.
    pub rejected: u64,
    /// Items that the run says it has seen so far.
    pub seen: u64,
    /// The rejects. None of them when all are stored already: then only the counts are news.
    pub rejects: Vec<Reject>,
    /// What tells rejects apart that this run made too and that are not kept here: an earlier run has stored them, or
    /// they went to another sink. By it a call of a remote worker that is repeated counts them once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_elsewhere: Vec<u64>,
    /// How many batches of the job there were when its rejects were told apart from those; nothing is written when
    /// there are others by now. None where nobody else writes: in the process of the run.
    #[serde(skip)]
    pub behind: Option<u32>,
}

impl RejectBatch {
    /// What tells this batch from the others of its job: the same one again, after an answer that was lost, is known.
    #[must_use]
    pub fn id(&self) -> String {
        let (run, generation) = (self.run.to_string(), self.generation.to_string());
        let mut parts = vec![run.as_str(), &generation];
        let identities = self.identities().map(|identity| identity.to_string());
        let identities: Vec<String> = identities.collect();
        parts.extend(identities.iter().map(String::as_str));
        hexadecimal(&digest(&parts))
    }

    /// What tells its rejects apart, those that are kept elsewhere too.
    pub fn identities(&self) -> impl Iterator<Item = u64> {
        self.rejects.iter().map(Reject::identity).chain(self.kept_elsewhere.iter().copied())
    }

    /// The key of the document that keeps it: under its tenant, then under its job.
    #[must_use]
    pub fn key(&self, number: u32) -> String {
        format!("{}{number:06}", Self::under(&self.queue, self.job))
    }

    /// How the keys of a job's batches begin.
    #[must_use]
    pub fn under(queue: &str, job: JobId) -> String {
        Self::under_tenant(tenant::shown(queue), job)
    }

    /// The same by the tenant of the queue, as it is shown.
    #[must_use]
    pub fn under_tenant(tenant: &str, job: JobId) -> String {
        format!("{tenant}/{job}/")
    }

    /// Items of each group.
    #[must_use]
    pub fn by_group(&self) -> BTreeMap<&Fingerprint, u64> {
        let mut groups = BTreeMap::new();
        for reject in &self.rejects {
            let count: &mut u64 = groups.entry(&reject.fingerprint).or_default();
            *count = count.saturating_add(reject.count);
        }
        groups
    }
}

/// A digest of an item, or of the key that stands for it. Nobody reads the item out of it.
#[must_use]
pub fn item_fingerprint(item: &str) -> String {
    hexadecimal(&digest(&[item]))
}

fn digest(parts: &[&str]) -> [u8; DIGEST_BYTES] {
    let mut digest = Sha256::new();
    for part in parts {
        // The lengths keep ("ab", "c") and ("a", "bc") apart.
        digest.update(part.len().to_be_bytes());
        digest.update(part.as_bytes());
    }
    let whole = digest.finalize();
    let mut kept = [0; DIGEST_BYTES];
    kept.iter_mut().zip(whole).for_each(|(kept, byte)| *kept = byte);
    kept
}
